"""Many small mazes flooded at once, a row of cells being the bits of a number: Maze-Hard's answers, quickly.

A wave is the set of cells at one distance from the goal. Of all shortest paths the breadth-first rule of
Maze-Hard (`maze_path.shortest_path`) finds the first in the dictionary of their directions, whose alphabet is
down, left, right, up, because the queue holds the cells of a wave in the order of their paths. So the path is
walked from the start, each time to the first neighbour that lies in the next wave.
"""

import numpy as np
from jaxtyping import Bool, Int64, UInt8, UInt64

from ..errors import PuzzleError
from .maze import EMPTY, PATH, endpoints, free_cells, unsolved
from .maze_path import unreachable

LONGEST_SIDE = 64
"""As many cells as a number has bits."""

_AT_ONCE = 4096
_DIRECTIONS = ((1, 0), (0, -1), (0, 1), (-1, 0))
"""Down, left, right, up."""

Ends = Int64[np.ndarray, "n 2"]
"""Row and column of a cell in each maze."""
Rows = UInt64[np.ndarray, "n h"]
"""Cells of each maze, a number for a row and a bit for a column."""
Waves = UInt64[np.ndarray, "t n h"]
"""The cells at distance `t` from the goal."""


def label_all(grids: UInt8[np.ndarray, "n h w"]) -> UInt8[np.ndarray, "n h w"]:
    """The mazes with the answers of Maze-Hard drawn in, as `maze_path.label_maze_hard` does it one by one."""
    if max(grids.shape[1:]) > LONGEST_SIDE:
        raise PuzzleError(f"Mazes of more than {LONGEST_SIDE} cells a side are labelled one by one.")
    solved = unsolved(grids)
    for first in range(0, len(grids), _AT_ONCE):
        some = solved[first : first + _AT_ONCE]
        start, goal = np.array([endpoints(grid) for grid in some]).reshape(-1, 2, 2).transpose(1, 0, 2)
        waves = flood(free_cells(some), goal)
        away = distance(waves, start)
        for board in np.flatnonzero(away < 0)[:1]:
            raise unreachable(*endpoints(some[board]))
        draw(some, waves, start, away)
    return solved


def flood(free: Bool[np.ndarray, "n h w"], goal: Ends) -> Waves:
    """All waves of every maze, as many as the one with the longest way has."""
    open_rows, wave = _begin(free, goal)
    waves = []
    while wave.any():
        waves.append(wave)
        open_rows = open_rows & ~wave
        wave = _spread(wave) & open_rows
    return np.stack(waves) if waves else wave[None]


def reaches(free: Bool[np.ndarray, "n h w"], goal: Ends, steps: int) -> Int64[np.ndarray, " m"]:
    """The mazes with a cell that is so many steps from the goal."""
    open_rows, wave = _begin(free, goal)
    alive = np.arange(len(free))
    for step in range(steps):
        open_rows &= ~wave
        wave = _spread(wave) & open_rows
        if step % 8 == 7 or step == steps - 1:
            on = wave.any(1)
            alive, wave, open_rows = alive[on], wave[on], open_rows[on]
    return alive


def _begin(free: Bool[np.ndarray, "n h w"], goal: Ends) -> tuple[Rows, Rows]:
    """What is free and the goal as rows of bits."""
    bits = np.uint64(1) << np.arange(free.shape[2], dtype=np.uint64)
    open_rows = np.where(free, bits, np.uint64(0)).sum(2, dtype=np.uint64)
    wave = np.zeros(open_rows.shape, np.uint64)
    wave[np.arange(len(goal)), goal[:, 0]] = bits[goal[:, 1]]
    return open_rows, wave


def _spread(wave: Rows) -> Rows:
    """The neighbours of all cells of a wave."""
    spread = (wave << np.uint64(1)) | (wave >> np.uint64(1))
    spread[:, 1:] |= wave[:, :-1]
    spread[:, :-1] |= wave[:, 1:]
    return spread


def distance(waves: Waves, start: Ends) -> Int64[np.ndarray, " n"]:
    """The number of steps from the start of each maze to its goal, -1 where there is no way."""
    rows = np.take_along_axis(waves, start[None, :, :1], axis=2)[:, :, 0]
    there = (rows >> start[None, :, 1].astype(np.uint64)) & np.uint64(1) != 0
    return np.where(there.any(0), there.argmax(0), -1)


def draw(grids: UInt8[np.ndarray, "n h w"], waves: Waves, start: Ends, away: Int64[np.ndarray, " n"]) -> None:
    """Draws the answer into every maze; `away` are the distances of their starts."""
    _, height, width = grids.shape
    maze, here = np.arange(len(grids)), start.copy()
    for step in range(1, int(away.max(initial=0)) + 1):
        # Who has arrived stays; all others take the first direction that leads into the next wave.
        wanted = np.maximum(away - step, 0)
        moving = step <= away
        chosen = here.copy()
        for direction in reversed(_DIRECTIONS):
            row, column = (here + direction).T
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            bit = np.where(inside, column, 0).astype(np.uint64)
            rows = waves[wanted, maze, np.where(inside, row, 0)]
            leads = inside & ((rows >> bit) & np.uint64(1) != 0) & moving
            chosen = np.where(leads[:, None], here + direction, chosen)
        here = chosen
        at = maze, here[:, 0], here[:, 1]
        grids[at] = np.where(grids[at] == EMPTY, np.uint8(PATH), grids[at])
