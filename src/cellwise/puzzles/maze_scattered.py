"""Mazes in the manner of Maze-Hard: walls scattered at random, and two ends that are far apart.

Every cell is a wall with the same chance, whatever its neighbours are; the ends are two free cells, and a
maze is kept if the shortest way between them is long enough. The published mazes look like this as far as
they let one tell (docs/data.md compares them). What is drawn is a function of (seed, side, block), and the
mazes of a series are those of its blocks that are kept, in their order.
"""

import numpy as np
from jaxtyping import UInt8

from ..errors import PuzzleError
from .board import Boards
from .maze import EMPTY, GOAL, PATH, START, WALL
from .maze_flood import LONGEST_SIDE, distance, draw, flood, reaches

HARD_SIDE, HARD_DISTANCE = 30, 109
"""Of the published mazes."""
WALLS = (0.3, 0.5)
"""The least and the largest share of walls; each maze has one of its own."""

_FAR_CELLS = 20
"""So many cells far from a goal become one maze; about as many as there are if there is any."""
_AT_ONCE = 4096
"""Attempts in a block; part of what a series is."""
_MOST_MISSES = 200
"""Blocks without a single maze after which nobody waits for one."""


def generate_scattered(count: int, seed: int, side: int = HARD_SIDE, least: int = HARD_DISTANCE) -> Boards:
    """The first `count` mazes of a series with at least `least` steps from start to goal, solved.

    A few share their walls and their goal and differ in their start.
    The answer is that of Maze-Hard's rule; difficulty is the number of its cells without the ends.
    """
    if not 3 <= side <= LONGEST_SIDE:
        raise PuzzleError(f"There are no scattered mazes of side {side}; choose 3 to {LONGEST_SIDE}.")
    if count < 0 or least < 1:
        raise PuzzleError(
            f"Cannot make {count:,} mazes of at least {least:,} steps; use at least 0 mazes and 1 step."
        )
    found = [np.zeros((0, side, side), np.uint8)]
    made = block = misses = 0
    while made < count:
        found.append(_kept(np.random.default_rng([seed, side, block]), side, least)[: count - made])
        made, block = made + len(found[-1]), block + 1
        misses = 0 if len(found[-1]) else misses + 1
        if misses == _MOST_MISSES:
            raise PuzzleError(
                f"Mazes of side {side} with ends {least:,} steps apart are too rare; ask for fewer steps."
            )
    target = np.concatenate(found)
    path = target == PATH
    return Boards(target, (target != EMPTY) & ~path, path.sum((1, 2), dtype=np.int32))


def _kept(rng: np.random.Generator, side: int, least: int) -> UInt8[np.ndarray, "n side side"]:
    """The solved mazes among a block of attempts, each of them walls and a goal.

    How many mazes become of an attempt is in the mean proportional to the number of cells that are far enough
    from its goal, as if two free cells were drawn until they happen to be far apart.
    """
    share = rng.uniform(*WALLS, (_AT_ONCE, 1, 1))
    free = rng.integers(0, 256, (_AT_ONCE, side, side), np.uint8) >= 256 * share
    goal = np.stack(np.divmod(rng.integers(0, side**2, _AT_ONCE), side), 1)
    chance = rng.random(_AT_ONCE)
    some = np.flatnonzero(free[np.arange(_AT_ONCE), goal[:, 0], goal[:, 1]])
    some = some[reaches(free[some], goal[some], least)]
    waves = flood(free[some], goal[some])
    numbers, start = [], []
    for number, attempt in enumerate(some):
        steps = (waves[least:, number, :, None] >> np.arange(side, dtype=np.uint64)) & np.uint64(1) != 0
        far = np.argwhere(steps.any(0))
        taken = int(len(far) / _FAR_CELLS + chance[attempt])
        start.append(rng.permutation(far)[:taken])
        numbers += [number] * len(start[-1])
    maze, starts = np.array(numbers, np.int64), np.concatenate([np.zeros((0, 2), np.int64), *start])
    waves, goal, free = waves[:, maze], goal[some[maze]], free[some[maze]]
    grids, each = np.where(free, np.uint8(EMPTY), np.uint8(WALL)), np.arange(len(maze))
    grids[each, starts[:, 0], starts[:, 1]] = START
    grids[each, goal[:, 0], goal[:, 1]] = GOAL
    draw(grids, waves, starts, distance(waves, starts))
    return grids
