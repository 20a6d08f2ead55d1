import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwise.errors import ConfigError
from cellwise.puzzles import sudoku
from cellwise.puzzles.digits import Digits, prototypes
from cellwise.puzzles.equivalence import fingerprints
from cellwise.puzzles.sudoku_four import all_grids, count_solutions_four, generate_four, grids_of
from cellwise.puzzles.sudoku_generator import generate_easy
from cellwise.puzzles.visual_data import SEEDS, easy_boards
from cellwise.puzzles.visual_sudoku import VisualSet, audit, canvas_side, cut, place, read, render


def glyphs(side=7, per_class=3, classes=9):
    """Digits that are far apart: class d has ink in its own pixels, and every copy another tone."""
    labels = np.repeat(np.arange(classes + 1), per_class).astype(np.uint8)
    images = np.zeros((len(labels), side, side), np.float32)
    for i, label in enumerate(labels.tolist()):
        images[i].flat[4 * label : 4 * label + 4] = 0.7 + 0.1 * (i % per_class)
    return Digits(images, labels)


# ---- boards of four by four cells ------------------------------------------------------------------------


def test_there_are_288_grids():
    """The number is known, and every grid obeys the rules, which are checked cell by cell here."""
    grids = all_grids()
    assert len({grid.tobytes() for grid in grids}) == 288
    for grid in grids:
        for line in [*grid, *grid.T, *(grid[r : r + 2, c : c + 2].ravel() for r in (0, 2) for c in (0, 2))]:
            assert sorted(line) == [1, 2, 3, 4]


def test_the_splits_share_no_grid_and_leave_none_out():
    parts = [{grid.tobytes() for grid in grids_of(split)} for split in ("train", "eval", "test")]
    assert [len(part) for part in parts] == [224, 32, 32]
    assert len(set.union(*parts)) == 288
    for split, own in zip(("train", "eval", "test"), parts, strict=True):
        assert {grid.tobytes() for grid in generate_four(50, 3, split).target} <= own


def test_a_small_board_has_one_solution_and_as_many_clues_as_asked():
    boards = generate_four(60, 5, givens=(4, 9))
    assert set((boards.given.sum((1, 2))).tolist()) == {4, 5, 6, 7, 8, 9}
    for puzzle, target in zip(boards.inputs, boards.target, strict=True):
        fitting = [grid for grid in all_grids() if (grid[puzzle > 0] == puzzle[puzzle > 0]).all()]
        assert len(fitting) == 1 == count_solutions_four(puzzle)
        np.testing.assert_array_equal(fitting[0], target)


def test_more_boards_begin_with_the_same_ones():
    few, many = generate_four(3, 1), generate_four(9, 1)
    np.testing.assert_array_equal(few.inputs, many.inputs[:3])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"givens": (3, 9)},
            "A Sudoku of 4 x 4 cells cannot have 3 to 9 clues; choose a range within 4 to 16.",
        ),
        ({"seed": -1}, "Cannot make 5 Sudokus with seed -1; use numbers of at least 0."),
    ],
)
def test_impossible_wishes_are_refused(arguments, said):
    with pytest.raises(ConfigError) as refusal:
        generate_four(**{"count": 5, "seed": 0, **arguments})
    assert str(refusal.value) == said


def test_made_boards_for_training_choosing_and_testing_differ_up_to_symmetry():
    own = [set(fingerprints(generate_easy(40, seed), sudoku=True).tolist()) for seed in SEEDS.values()]
    assert sum(map(len, own)) == len(set.union(*own)) == 120


def test_other_sizes_are_refused():
    with pytest.raises(ConfigError) as refusal:
        easy_boards(6, "train", 1)
    assert str(refusal.value) == "There are no Sudokus of 6 x 6 cells here; choose 4 or 9."


# ---- drawing and reading ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "digit", "side"),
    [(4, 7, 32), (4, 14, 64), (4, 28, 128), (9, 7, 64), (9, 14, 128), (9, 28, 256)],
)
def test_canvases_are_powers_of_two(cells, digit, side):
    assert canvas_side(cells, digit) == side
    tiles = np.random.default_rng(0).random((2, cells, cells, digit, digit), np.float32)
    image = place(tiles)
    assert image.shape == (2, side, side)
    np.testing.assert_array_equal(cut(image, cells, digit), tiles)
    # METHOD: cell (i, j) is rows s*i to s*i+s-1 and columns s*j to s*j+s-1, the margin right and below.
    i, j = cells - 1, 1
    np.testing.assert_array_equal(
        image[1, digit * i : digit * (i + 1), digit * j : digit * (j + 1)], tiles[1, i, j]
    )
    assert not image[:, cells * digit :].any() and not image[:, :, cells * digit :].any()


def test_clues_are_digits_of_their_class_and_blanks_are_noise():
    digits, boards = glyphs(), generate_easy(3, 0)
    image = render(boards.inputs, digits, np.random.default_rng(0))
    tiles = cut(image, 9, 7)
    for board, row, column in np.ndindex(3, 9, 9):
        token, tile = boards.inputs[board, row, column], tiles[board, row, column]
        if token:
            assert any(np.array_equal(tile, own) for own in digits.images[digits.labels == token])
        else:
            assert 0.05 < tile.max() <= 0.1 and -0.1 <= tile.min() < -0.05
    blanks = render(boards.inputs, digits, np.random.default_rng(0), blank="zero")
    assert not cut(blanks, 9, 7)[boards.inputs == 0].any()
    np.testing.assert_array_equal(cut(blanks, 9, 7)[boards.inputs > 0], tiles[boards.inputs > 0])


def test_every_cell_draws_for_itself():
    digits = glyphs(per_class=3)
    ones = np.ones((40, 9, 9), np.uint8)
    tones = cut(render(ones, digits, np.random.default_rng(1)), 9, 7).max((3, 4))
    assert {round(float(tone), 1) for tone in np.unique(tones)} == {0.7, 0.8, 0.9}
    # Neighbours are alike in a third of all cases if they do not know of each other.
    for one, other in [(tones[:, 1:], tones[:, :-1]), (tones[1:], tones[:-1])]:
        assert 0.28 < (one == other).mean() < 0.39


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cells=st.sampled_from([4, 9]), side=st.sampled_from([7, 14]))
def test_what_is_drawn_is_read(seed, cells, side):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, cells + 1, (2, cells, cells)).astype(np.uint8)
    digits = glyphs(side, classes=cells)
    image = render(tokens, digits, rng)
    np.testing.assert_array_equal(read(image, prototypes(digits, cells)), tokens)


def test_reading_takes_the_nearest_prototype():
    rng = np.random.default_rng(0)
    image, means = rng.normal(size=(3, 32, 32)).astype(np.float32), rng.random((5, 7, 7), np.float32)
    tokens = read(image, means)
    for board, row, column in np.ndindex(3, 4, 4):
        tile = image[board, 7 * row : 7 * row + 7, 7 * column : 7 * column + 7].astype(np.float64)
        gaps = [((tile - mean) ** 2).sum() for mean in means]
        assert tokens[board, row, column] == int(np.argmin(gaps))


# ---- the rules -------------------------------------------------------------------------------------------


def test_solutions_obey_all_rules():
    for boards in (generate_easy(5, 0), generate_four(5, 0)):
        found = audit(boards.target, boards.inputs)
        assert found.all.all() and found.rows.all() and found.clues.all()


def test_each_rule_is_told_apart():
    boards = generate_four(1, 0)
    target, puzzle = boards.target[0], boards.inputs[0]

    def verdict(grid):
        found = audit(grid[None], puzzle[None])
        return [bool(rule[0]) for rule in (found.rows, found.columns, found.boxes, found.clues)]

    assert verdict(target) == [True] * 4
    relabelled = np.array([0, 2, 1, 3, 4], np.uint8)[target]
    assert verdict(relabelled) == [True, True, True, not np.any(np.isin(puzzle, [1, 2]))]
    rows = np.tile(np.array([1, 2, 3, 4], np.uint8), (4, 1))
    assert verdict(rows)[:3] == [True, False, False]
    assert verdict(rows.T)[:3] == [False, True, False]
    boxes = np.array([[1, 2, 1, 2], [3, 4, 3, 4]] * 2, np.uint8)
    assert verdict(boxes)[:3] == [False, False, True]
    latin = np.array([[1, 2, 3, 4], [2, 3, 4, 1], [3, 4, 1, 2], [4, 1, 2, 3]], np.uint8)
    assert verdict(latin)[:3] == [True, True, False]
    blank = target.copy()
    blank[0, 0] = 0
    assert verdict(blank)[:3] == [False, False, False]


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_the_audit_agrees_with_the_other_judge(data):
    boards = generate_easy(2, 1)
    grid = boards.target.copy()
    for _ in range(data.draw(st.integers(0, 2))):
        board, row, column = (data.draw(st.integers(0, high)) for high in (1, 8, 8))
        grid[board, row, column] = data.draw(st.integers(0, 9))
    np.testing.assert_array_equal(audit(grid, boards.inputs).all, sudoku.is_solution(boards.inputs, grid))


def test_a_set_is_made_of_boards():
    boards = generate_four(6, 0)
    whole = VisualSet.of(boards)
    assert len(whole) == 6 and whole.cells == 4
    np.testing.assert_array_equal(whole[2:4].puzzles, boards.inputs[2:4])
    np.testing.assert_array_equal(whole.solutions, boards.target)
