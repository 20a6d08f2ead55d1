"""Filling dead ends, against a slow and simple way to do it."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cellwise.puzzles.maze import EMPTY, PATH, START, WALL
from cellwise.puzzles.maze_filling import count_loops, fill_dead_ends
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.maze_path import count_neighbours
from cellwise.puzzles.maze_text import parse


def slowly(grid):
    left = grid != WALL
    while True:
        tips = left & (count_neighbours(left[None])[0] <= 1) & (grid < START)
        if not tips.any():
            return left
        left = left & ~tips


@settings(deadline=None, max_examples=100)
@given(arrays.arrays(np.uint8, (2, 7, 9), elements=st.sampled_from([EMPTY, EMPTY, WALL, START])))
def test_filling_is_what_it_says(grids: np.ndarray):
    np.testing.assert_array_equal(fill_dead_ends(grids), np.stack([slowly(grid) for grid in grids]))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.sampled_from(["depth-first", "kruskal", "prim", "wilson"]))
def test_it_solves_mazes_without_loops(seed: int, tree: str):
    boards = generate((9, 13), 3, seed, tree=tree)
    np.testing.assert_array_equal(fill_dead_ends(boards.inputs), np.isin(boards.target, (PATH, START)))
    assert (count_loops(boards.inputs) == 0).all()


def test_loops_stay_and_are_counted():
    maze = parse(
        """
        #########
        #S..#...#
        #.#.#.#.#
        #.......#
        #.#####.#
        #G..#...#
        #########
        """.replace("        ", "")
    )
    left = fill_dead_ends(maze[None])[0]
    # The pocket below on the right leads nowhere, and so do two cells beside the goal.
    assert left.sum() == (maze != WALL).sum() - 4 - 2
    assert count_loops(maze[None]).tolist() == [2]


def test_braiding_adds_as_many_loops_as_doors():
    plain, braided = generate(21, 5, 3), generate(21, 5, 3, braid=1.0)
    doors = (braided.inputs != WALL).sum((1, 2)) - (plain.inputs != WALL).sum((1, 2))
    np.testing.assert_array_equal(count_loops(braided.inputs), doors)
