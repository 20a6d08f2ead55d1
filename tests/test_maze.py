import numpy as np
import pytest

from cellwise.errors import PuzzleError
from cellwise.puzzles.maze import (
    MAX_SIDE,
    Vocabulary,
    endpoints,
    has_ring,
    translate,
    unsolved,
    with_ring,
    without_ring,
)
from cellwise.puzzles.maze_check import check


def grid(*rows: str) -> np.ndarray:
    return np.array([[int(token) for token in row] for row in rows], np.uint8)


def test_endpoints_are_start_then_goal_or_raster_order():
    assert endpoints(grid("040", "030")) == ((1, 1), (0, 1))
    assert endpoints(grid("030", "030")) == ((0, 1), (1, 1))


def test_translate_splits_and_joins_endpoints():
    alike, distinct = Vocabulary.ALIKE, Vocabulary.DISTINCT
    mazes = np.stack([grid("0432"), grid("0332"), grid("0442"), grid("3124")])
    np.testing.assert_array_equal(
        translate(mazes, distinct), np.stack([grid("0432"), grid("0342"), grid("0342"), grid("3124")])
    )
    np.testing.assert_array_equal(
        translate(mazes, alike), np.stack([grid("0332"), grid("0332"), grid("0332"), grid("3123")])
    )
    np.testing.assert_array_equal(translate(grid("33", "00"), distinct), grid("34", "00"))


def test_translate_leaves_a_wrong_number_of_endpoints_for_check():
    np.testing.assert_array_equal(translate(grid("020"), Vocabulary.DISTINCT), grid("020"))
    assert (translate(grid("3033"), Vocabulary.DISTINCT) >= 3).sum() == 3


def test_ring_goes_on_and_off():
    mazes = np.stack([grid("304", "222"), grid("012", "343")])
    ringed = with_ring(mazes)
    assert ringed.shape == (2, 4, 5)
    assert has_ring(ringed) and has_ring(ringed[0])
    assert not has_ring(mazes)
    np.testing.assert_array_equal(without_ring(ringed), mazes)
    with pytest.raises(PuzzleError, match="no ring of walls to take off; leave its border as it is"):
        without_ring(mazes)


@pytest.mark.parametrize("hole", [(0, 2), (3, 2), (1, 0), (1, 4)])
def test_a_ring_with_one_hole_is_none(hole: tuple[int, int]):
    maze = with_ring(grid("304", "222"))
    maze[hole] = 0
    assert not has_ring(maze)


def test_check_returns_the_maze_to_solve():
    solved = grid("222", "314", "222")
    checked = check(solved.astype(np.int64), odd_sides=True)
    np.testing.assert_array_equal(checked, grid("222", "304", "222"))
    assert checked.dtype == np.uint8
    np.testing.assert_array_equal(unsolved(solved), checked)
    assert solved[1, 1] == 1


HUGE = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (10_001, 10_001), (0, 0))

REFUSALS = [
    (
        np.zeros((1, 3, 3), np.uint8),
        False,
        "The maze has 3 dimensions; hand over one grid of rows and columns.",
    ),
    (
        np.zeros((3, 3)),
        False,
        "The maze holds values of type float64; use whole numbers, such as NumPy's uint8.",
    ),
    (HUGE, False, "The maze has 10,001 x 10,001 cells; use one of at most 2,003 cells a side."),
    (
        np.zeros((5, MAX_SIDE + 1), np.uint8),
        False,
        "The maze has 5 x 2,004 cells; use one of at most 2,003 cells a side.",
    ),
    (
        grid("3004", "0000", "0000"),
        True,
        "The maze has 3 x 4 cells, but rooms and walls alternate in the mazes this model knows; "
        "use an odd number of rows and of columns.",
    ),
    (
        grid("300", "050"),
        False,
        "The maze holds the token 5 at row 2, column 2; "
        "use 0 for empty, 1 for path, 2 for wall, 3 for the start and 3 or 4 for the goal.",
    ),
    (
        np.array([[3, -1, 4]]),
        False,
        "The maze holds the token -1 at row 1, column 2; "
        "use 0 for empty, 1 for path, 2 for wall, 3 for the start and 3 or 4 for the goal.",
    ),
    (grid("000"), False, "The maze has no endpoints; mark exactly one start and one goal."),
    (
        np.zeros((0, 3), np.uint8),
        False,
        "The maze has no endpoints; mark exactly one start and one goal.",
    ),
    (grid("040"), False, "The maze has only one endpoint; mark exactly one start and one goal."),
    (grid("343"), False, "The maze has 3 endpoints; mark exactly one start and one goal."),
    (
        grid("02000", "32004"),
        False,
        "The goal at row 2, column 5 cannot be reached from the start at row 2, column 1; "
        "open a wall between them.",
    ),
]


@pytest.mark.parametrize(("maze", "odd_sides", "sentence"), REFUSALS)
def test_check_says_what_is_wrong_and_what_to_do(maze: np.ndarray, odd_sides: bool, sentence: str):
    with pytest.raises(PuzzleError) as refusal:
        check(maze, odd_sides)
    assert str(refusal.value) == sentence


def test_a_path_token_does_not_open_a_wall():
    with pytest.raises(PuzzleError, match="cannot be reached"):
        check(grid("3124"))
