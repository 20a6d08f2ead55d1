import numpy as np
import pytest

from cellwise.errors import ConfigError, DataError
from cellwise.puzzles import sudoku
from cellwise.puzzles.board import Boards
from cellwise.puzzles.sudoku_generator import _dig, generate_easy, generate_hard
from cellwise.puzzles.sudoku_solver import count_solutions, random_solution, solve

SEVENTEEN = [
    ".......1.4.........2...........5.4.7..8...3....1.9....3..4..2...5.1........8.6...",
    "..............3.85..1.2.......5.7.....4...1...9.......5......73..2.1........4...9",
]


@pytest.fixture(scope="module")
def base():
    inputs = np.stack([sudoku.parse(text) for text in SEVENTEEN])
    return Boards(np.stack([solve(grid) for grid in inputs]), inputs > 0, np.full(2, 64, np.int32))


def assert_sound(boards):
    assert sudoku.is_solution(boards.inputs, boards.target).all()
    assert all(count_solutions(grid) == 1 for grid in boards.inputs)
    assert (boards.difficulty == 81 - boards.given.sum(axis=(1, 2))).all()


def assert_same(left, right):
    for name in ("target", "given", "difficulty"):
        assert np.array_equal(getattr(left, name), getattr(right, name))


def test_easy_boards_have_one_solution_and_the_promised_givens():
    boards = generate_easy(120, seed=3)
    assert_sound(boards)
    givens = 81 - boards.difficulty
    assert givens.min() == 31 and givens.max() == 42
    assert len(np.unique(givens)) == 12
    assert len(np.unique(boards.target.reshape(120, 81), axis=0)) == 120
    assert boards.given.any(axis=0).all() and not boards.given.all(axis=0).any()


def test_easy_boards_with_the_extreme_ranges():
    assert_sound(sparse := generate_easy(3, seed=0, givens=(24, 24)))
    assert (sparse.difficulty == 57).all()
    assert generate_easy(2, seed=0, givens=(81, 81)).given.all()
    assert len(generate_easy(0, seed=0)) == 0


def test_a_board_depends_on_its_seed_and_index_alone():
    assert_same(generate_easy(6, seed=9)[:2], generate_easy(2, seed=9))
    assert (generate_easy(2, seed=9).target != generate_easy(2, seed=10).target).any()


def test_a_hard_board_depends_on_its_seed_and_index_alone(base):
    assert_same(generate_hard(base, 6, 9, 55)[:2], generate_hard(base, 2, 9, 55))
    assert (generate_hard(base, 2, 9, 55).target != generate_hard(base, 2, 10, 55).target).any()


@pytest.mark.parametrize("wanted", [24, 30, 45])
def test_digging_in_blocks_equals_digging_one_at_a_time(wanted):
    for seed in range(4):
        target = random_solution(np.random.default_rng(seed))
        puzzle = target.copy()
        for cell in np.random.default_rng(seed + 100).permutation(81):
            if np.count_nonzero(puzzle) > wanted:
                puzzle.flat[cell] = 0
                if count_solutions(puzzle) > 1:
                    puzzle.flat[cell] = target.flat[cell]
        given = _dig(target, wanted, np.random.default_rng(seed + 100))
        assert (given == (puzzle > 0)).all()


@pytest.mark.parametrize("empties", [47, 56, 64])
def test_hard_boards_are_base_puzzles_with_correct_clues_added(base, empties):
    boards = generate_hard(base, 40, seed=1, empties=empties)
    assert_sound(boards)
    assert (boards.difficulty == empties).all()
    assert len(np.unique(boards.target.reshape(40, 81), axis=0)) == 40


def test_hard_boards_with_no_clue_added_are_images_of_the_base_puzzles(base):
    def digit_counts(inputs):
        return tuple(sorted(np.bincount(inputs.ravel(), minlength=10)[1:].tolist()))

    boards = generate_hard(base, 30, seed=2, empties=64)
    kinds = {digit_counts(grid) for grid in base.inputs}
    assert len(kinds) == 2
    assert {digit_counts(grid) for grid in boards.inputs} == kinds


def test_added_clues_are_spread_over_the_grid(base):
    given = generate_hard(base[:1], 300, seed=4, empties=50).given
    share = given.mean(axis=0)
    assert abs(share - 31 / 81).max() < 0.12


@pytest.mark.parametrize("givens", [(23, 30), (40, 31), (31, 82)])
def test_an_impossible_range_of_givens_is_refused(givens):
    with pytest.raises(ConfigError) as error:
        generate_easy(1, seed=0, givens=givens)
    low, high = givens
    assert str(error.value) == (
        f"An easy Sudoku cannot have {low} to {high} givens; "
        "choose a range within 24 to 81, the lower number first."
    )


@pytest.mark.parametrize("empties", [-1, 65])
def test_an_impossible_number_of_empty_cells_is_refused(base, empties):
    with pytest.raises(ConfigError) as error:
        generate_hard(base, 1, seed=0, empties=empties)
    assert str(error.value) == (
        f"A hard Sudoku made from these puzzles cannot have {empties} empty cells; "
        "choose a number from 0 to 64."
    )


def test_an_empty_base_is_refused(base):
    with pytest.raises(DataError) as error:
        generate_hard(base[:0], 1, seed=0, empties=50)
    assert str(error.value) == (
        "There is no base puzzle to make hard Sudokus from; hand over at least one board."
    )


@pytest.mark.parametrize(("count", "seed"), [(-1, 0), (1, -5)])
def test_negative_numbers_are_refused(base, count, seed):
    for make in (lambda: generate_easy(count, seed), lambda: generate_hard(base, count, seed, 50)):
        with pytest.raises(ConfigError) as error:
            make()
        assert str(error.value) == (
            f"Cannot make {count} Sudokus with seed {seed}; use numbers of at least 0."
        )
