"""Film strips: which moments they have, and what is drawn of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from cellwise.cli import main as front
from cellwise.puzzles.maze import EMPTY, PATH
from cellwise.report.palette import LIGHT
from cellwise.report.strip import choose, draw_moments, restless, save_strip
from solving import CLUES, MAZE


@given(st.integers(1, 200), st.integers(2, 9), st.integers(0, 199))
def test_moments_begin_at_the_start_and_end_with_all_change(count: int, most: int, last: int):
    last = min(last, count - 1)
    grid = np.zeros((count, 2, 2), np.uint8)
    grid[last:] = 1
    chosen = choose(np.arange(count, dtype=np.int32) * 3, grid, most)
    assert chosen[0] == 0 and chosen[-1] == (last or count - 1)
    assert (np.diff(chosen) > 0).all() and len(chosen) <= most + 1


def test_what_is_counted():
    mazes = np.array([[[PATH, EMPTY]], [[PATH, PATH]]], np.uint8)
    assert restless(mazes, sudokus=False).tolist() == [1, 2]
    board = CLUES.copy()
    board[0, 2] = board[0, 0]
    assert restless(np.stack([CLUES, board]), sudokus=True).tolist() == [0, 2]


def test_a_moment_shows_the_maze_and_how_sure_it_is():
    figure = Figure()
    sure = np.ones((2, *MAZE.shape), np.float32)
    sure[1] = 0.5
    draw_moments(figure, np.array([0, 1_234], np.int32), np.stack([MAZE, MAZE]), sure)
    said, _, below, doubt = figure.axes
    np.testing.assert_array_equal(said.images[0].get_array()[MAZE == 2], [LIGHT.wall] * (MAZE == 2).sum())
    assert [figure.axes[i].get_title() for i in (0, 1)] == ["step 0", "step 1,234"]
    assert below.images[0].get_array().min() == 1 and doubt.images[0].get_array().max() == 0.5


def test_a_moment_of_a_sudoku_has_its_digits():
    figure = Figure()
    board = CLUES.copy()
    board[0, 2] = board[0, 0]
    draw_moments(figure, np.array([7], np.int32), board[None], np.ones((1, 9, 9), np.float32), CLUES)
    digits = figure.axes[0].texts
    assert [text.get_text() for text in digits] == [str(digit) for digit in board[board > 0]]
    assert [text.get_style() for text in digits].count("italic") == 1
    assert [text.get_weight() for text in digits].count("bold") == (CLUES > 0).sum()


def test_a_strip_is_written_for_a_thought(tmp_path, capsys):
    path = tmp_path / "thought.svg"
    assert front.main(["solve", "maze", "--size", "5", "--save", str(path)]) == 0
    assert capsys.readouterr().err.endswith(f"Saved {path}.\n")
    assert path.read_text().startswith("<?xml") and path.read_text().count("<image") >= 4


def test_a_strip_is_the_same_whenever_it_is_written(tmp_path):
    grid = np.stack([MAZE, np.where(MAZE == EMPTY, PATH, MAZE).astype(np.uint8)])
    for name in ("one.svg", "other.svg"):
        steps, sure = np.array([0, 4], np.int32), np.full(grid.shape, 0.7, np.float32)
        save_strip(tmp_path / name, steps, grid, sure)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()
