import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwise.errors import PuzzleError
from cellwise.puzzles import sudoku
from cellwise.puzzles.sudoku_solver import random_solution

PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
SOLUTION = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"

PRETTY = """\
 5 3 . | . 7 . | . . .
 6 . . | 1 9 5 | . . .
 . 9 8 | . . . | . 6 .
-------+-------+-------
 8 . . | . 6 . | . . 3
 4 . . | 8 . 3 | . . 1
 7 . . | . 2 . | . . 6
-------+-------+-------
 . 6 . | . . . | 2 8 .
 . . . | 4 1 9 | . . 5
 . . . | . 8 . | . 7 9"""

BOXED = (
    "┌───────┬───────┬───────┐\n"
    + PRETTY.replace("|", "│").replace("-------+-------+-------", "├───────┼───────┼───────┤")
    + "\n└───────┴───────┴───────┘\n"
)


@pytest.mark.parametrize(
    "text",
    [
        PUZZLE,
        PUZZLE.replace(".", "0"),
        PUZZLE.replace(".", "_"),
        PUZZLE.replace(".", "*") + "\n",
        "\n".join(PUZZLE[start : start + 9] for start in range(0, 81, 9)),
        "\r\n".join(" ".join(PUZZLE[start : start + 9]) for start in range(0, 81, 9)),
        PRETTY,
        "\ufeff" + BOXED,
    ],
)
def test_every_written_form_is_read(text):
    grid = sudoku.parse(text)
    assert grid.dtype == np.uint8
    assert grid[0].tolist() == [5, 3, 0, 0, 7, 0, 0, 0, 0]
    assert grid[8].tolist() == [0, 0, 0, 0, 8, 0, 0, 7, 9]
    assert sudoku.to_text(grid) == PUZZLE


def test_the_drawn_grid():
    assert sudoku.pretty(sudoku.parse(PUZZLE)) == PRETTY


@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0, 1))
def test_what_is_written_reads_back(seed, share):
    rng = np.random.default_rng(seed)
    grid = random_solution(rng) * (rng.random((9, 9)) < share).astype(np.uint8)
    assert (sudoku.parse(sudoku.to_text(grid)) == grid).all()
    assert (sudoku.parse(sudoku.pretty(grid)) == grid).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The Sudoku has 0 cells; write exactly 81, with '.' for each empty one."),
        (PUZZLE[:-1], "The Sudoku has 80 cells; write exactly 81, with '.' for each empty one."),
        (PUZZLE + ".", "The Sudoku has 82 cells; write exactly 81, with '.' for each empty one."),
        (
            "53..7....\n6..19x...\n",
            "The Sudoku contains 'x' at line 2, character 6; "
            "write digits 1-9 and '.', '0', '_' or '*' for an empty cell.",
        ),
        (
            "²" + PUZZLE[1:],
            "The Sudoku contains '²' at line 1, character 1; "
            "write digits 1-9 and '.', '0', '_' or '*' for an empty cell.",
        ),
        (
            "." * 18 + "4..4" + "." * 59,
            "The Sudoku repeats the digit 4 in row 3; "
            "remove or correct one of the clues, for instance at row 3, column 4.",
        ),
        (
            "." * 8 + "2" + "." * 71 + "2",
            "The Sudoku repeats the digit 2 in column 9; "
            "remove or correct one of the clues, for instance at row 9, column 9.",
        ),
        (
            "." * 30 + "9" + "." * 10 + "9" + "." * 39,
            "The Sudoku repeats the digit 9 in the box of rows 4-6 and columns 4-6; "
            "remove or correct one of the clues, for instance at row 5, column 6.",
        ),
    ],
)
def test_unreadable_text_is_refused_in_one_sentence(text, message):
    with pytest.raises(PuzzleError) as error:
        sudoku.parse(text)
    assert str(error.value) == message


def grid_with(**changes):
    grid = sudoku.parse(PUZZLE)
    for name, digit in changes.items():
        grid[int(name[1]) - 1, int(name[3]) - 1] = digit
    return grid


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (np.zeros((9, 8), np.uint8), "The Sudoku has 9 x 8 cells; hand over a 9 x 9 grid."),
        (
            grid_with(r2c3=12),
            "The Sudoku holds 12 at row 2, column 3; use 1-9 for digits and 0 for an empty cell.",
        ),
        (
            grid_with(r1c9=3),
            "The Sudoku repeats the digit 3 in row 1; "
            "remove or correct one of the clues, for instance at row 1, column 9.",
        ),
        (grid_with(r1c3=1), "The Sudoku has no solution; check its clues for a typing mistake."),
        (
            grid_with(r1c1=0, r1c2=0, r2c1=0, r3c2=0),
            "The Sudoku has several solutions with its 26 clues; add clues until only one is left.",
        ),
    ],
)
def test_a_bad_puzzle_is_refused_in_one_sentence(grid, message):
    with pytest.raises(PuzzleError) as error:
        sudoku.check(grid)
    assert str(error.value) == message


def test_a_good_puzzle_passes_and_uniqueness_can_be_waived():
    sudoku.check(sudoku.parse(PUZZLE))
    sudoku.check(sudoku.parse(SOLUTION))
    sudoku.check(np.zeros((9, 9), np.uint8), unique=False)


def repeated(grid):
    """The definition of a conflict, spelled out cell by cell."""
    mask = np.zeros((9, 9), bool)
    for cell in np.ndindex(9, 9):
        for other in np.ndindex(9, 9):
            same_box = cell[0] // 3 == other[0] // 3 and cell[1] // 3 == other[1] // 3
            sees = cell[0] == other[0] or cell[1] == other[1] or same_box
            mask[cell] |= cell != other and sees and grid[cell] == grid[other] != 0
    return mask


def test_conflicts_and_validity_follow_the_definition():
    rng = np.random.default_rng(0)
    grids = np.stack([random_solution(rng) for _ in range(8)])
    grids[2:] *= rng.random((6, 9, 9)) < 0.6
    for grid, changes in zip(grids, [0, 1, 0, 1, 2, 4, 20, 81], strict=True):
        grid.flat[rng.choice(81, changes, replace=False)] = rng.integers(1, 10, changes)
    expected = np.stack([repeated(grid) for grid in grids])
    assert expected.any(axis=(1, 2)).tolist().count(False) >= 2
    assert (sudoku.conflicts(grids) == expected).all()
    assert [sudoku.is_valid(grid) for grid in grids] == (~expected.any(axis=(1, 2))).tolist()


def test_only_a_complete_correct_grid_that_keeps_the_clues_is_a_solution():
    puzzle, solution = sudoku.parse(PUZZLE), sudoku.parse(SOLUTION)
    hole, wrong, unrelated = solution.copy(), solution.copy(), solution % 9 + 1
    hole[0, 2] = 0
    wrong[[0, 0], [2, 3]] = wrong[[0, 0], [3, 2]]
    far_off = solution.copy()
    far_off[solution == 9] = 25
    grids = np.stack([solution, puzzle, hole, wrong, far_off, unrelated])
    verdicts = sudoku.is_solution(np.broadcast_to(puzzle, grids.shape), grids)
    assert verdicts.tolist() == [True, False, False, False, False, False]
    assert sudoku.is_solution(np.zeros_like(grids), grids).tolist() == [
        True,
        False,
        False,
        False,
        False,
        True,
    ]
    assert sudoku.is_solution(grids[:0], grids[:0]).shape == (0,)
