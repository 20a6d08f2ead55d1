"""Grids on a canvas: one size for all of them, the grid somewhere on it and perhaps enlarged.

The input lies alone among padding. On the target a border runs along its right and its lower edge, so that
a prediction says by itself how large it is; how it is read uses nothing else.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8

from .arc import COLOURS, Grid, Pair, Task

BORDER, PAD = 10, 11
TOKENS = 12
MARGIN = 2
"""Cells of a side that no grid may use: one before it, and one for the border behind it."""

Canvas = UInt8[np.ndarray, "_ _"]


@dataclass(frozen=True)
class Placement:
    """Where a grid lies on a canvas of `side` cells: enlarged `scale` times, from `row` and `column` on."""

    side: int
    scale: int
    row: int
    column: int


def room(side: int) -> int:
    """The longest side of a grid that fits a canvas."""
    return side - MARGIN


def scales(side: int, longest: int) -> int:
    """How many times a grid can be enlarged at most if its longest side has so many cells."""
    return max(1, room(side) // longest)


def draw(rng: np.random.Generator, side: int, height: int, width: int) -> Placement:
    """A random placement for a pair whose grids have at most so many rows and columns."""
    scale = int(rng.integers(1, scales(side, max(height, width)) + 1))
    row, column = (int(rng.integers(1, last_offset(side, scale * n) + 1)) for n in (height, width))
    return Placement(side, scale, row, column)


def last_offset(side: int, cells: int) -> int:
    """The largest offset for so many cells in one direction; offsets begin at 1."""
    return max(1, room(side) - cells)


def question(grid: Grid, at: Placement) -> Canvas:
    """The canvas that the cells see; what does not fit is cut off."""
    canvas = np.full((at.side, at.side), PAD, np.uint8)
    _lay(canvas, _enlarge(grid, at.scale), at.row, at.column)
    return canvas


def target(grid: Grid, at: Placement) -> Canvas:
    """The canvas that the cells should answer; where it is padding, they may say anything."""
    canvas = np.full((at.side, at.side), PAD, np.uint8)
    framed = np.pad(_enlarge(grid, at.scale), ((0, 1), (0, 1)), constant_values=BORDER)
    _lay(canvas, framed, at.row, at.column)
    return canvas


def _enlarge(grid: Grid, scale: int) -> Grid:
    return np.repeat(np.repeat(grid, scale, axis=0), scale, axis=1)


def _lay(canvas: Canvas, grid: Grid, row: int, column: int) -> None:
    part = canvas[row : row + len(grid), column : column + grid.shape[1]]
    part[:] = grid[: part.shape[0], : part.shape[1]]


def crop(canvas: Canvas, at: Placement) -> Grid | None:
    """The grid that a canvas shows, or None if it shows none.

    Its size is told by the first border token in its first row and in its first column. There is no grid if
    one is missing, if a side is not a multiple of the scale, or if a cell is no colour. An enlarged cell has
    the colour of most of its parts, ties going to the lowest.
    """
    below, right = canvas[at.row :, at.column] == BORDER, canvas[at.row, at.column :] == BORDER
    if not below.any() or not right.any():
        return None
    height, width, scale = int(below.argmax()), int(right.argmax()), at.scale
    if not height or not width or height % scale or width % scale:
        return None
    shown = canvas[at.row : at.row + height, at.column : at.column + width]
    cells = shown.reshape(height // scale, scale, width // scale, scale).swapaxes(1, 2)
    counts = (cells.reshape(*cells.shape[:2], -1, 1) == np.arange(TOKENS)).sum(2)
    grid = counts.argmax(-1).astype(np.uint8)
    return grid if (grid < COLOURS).all() else None


def pair_bounds(pair: Pair) -> tuple[int, int]:
    """The most rows and columns of a pair's grids."""
    height, width = np.maximum(pair.input.shape, pair.output.shape)
    return int(height), int(width)


def answer_bounds(task: Task, grid: Grid) -> tuple[int, int]:
    """About how many rows and columns a question and its answer need, from what a solver may know.

    The most of: the question's own, those of the largest demonstrated output, and the question's times the
    ratio of output to input where all demonstrations have the same one. A larger answer will not fit.
    """
    rows, columns = (
        max(
            grid.shape[axis],
            max(demo.output.shape[axis] for demo in task.demos),
            _same_ratio(task, axis, grid.shape[axis]),
        )
        for axis in (0, 1)
    )
    return rows, columns


def _same_ratio(task: Task, axis: int, side: int) -> int:
    ratios = {(demo.output.shape[axis], demo.input.shape[axis]) for demo in task.demos}
    if len({output / given for output, given in ratios}) != 1:
        return 0
    output, given = next(iter(ratios))
    return min(math.ceil(side * output / given), 30)


def task_bounds(task: Task) -> tuple[int, int]:
    """The most rows and columns that any grid of a task is known or guessed to need."""
    needs = [pair_bounds(demo) for demo in task.demos]
    needs += [answer_bounds(task, grid) for grid in task.questions]
    return max(rows for rows, _ in needs), max(columns for _, columns in needs)


def smallest(sides: tuple[int, ...], height: int, width: int) -> int:
    """The smallest of some canvases that has room for a grid of this size, or the largest of them."""
    fitting = [side for side in sides if room(side) >= max(height, width)]
    return min(fitting) if fitting else max(sides)
