"""What a maze is: its tokens, its two vocabularies and its ring of walls.

Maze-OOD knows one kind of endpoint (`ALIKE`), Maze-Hard tells start from goal (`DISTINCT`). Whatever does not
say otherwise serves both: an endpoint is any token of at least `START`.
"""

import enum

import numpy as np
from jaxtyping import Bool, UInt8

from ..errors import PuzzleError

EMPTY, PATH, WALL, START, GOAL = range(5)

MAX_SIDE = 2003
"""The longest side, in cells, of a maze that is accepted anywhere."""

Cell = tuple[int, int]
"""Row and column, counted from 0."""


class Vocabulary(enum.Enum):
    """How a maze names its two endpoints."""

    ALIKE = "alike"
    DISTINCT = "distinct"


def translate(grids: UInt8[np.ndarray, "*n h w"], vocabulary: Vocabulary) -> UInt8[np.ndarray, "*n h w"]:
    """The same mazes in another vocabulary; of two like endpoints the first in raster order is the start."""
    if vocabulary is Vocabulary.ALIKE:
        return np.minimum(grids, START)
    flat = grids.reshape(-1, grids.shape[-2] * grids.shape[-1]).copy()
    boards, cells = np.nonzero(flat >= START)
    first = np.diff(boards, prepend=-1) > 0
    last = np.diff(boards, append=len(flat)) > 0
    starts, goals = (boards[first], cells[first]), (boards[last], cells[last])
    alike = flat[starts] == flat[goals]
    flat[starts] = np.where(alike, START, flat[starts])
    flat[goals] = np.where(alike, GOAL, flat[goals])
    return flat.reshape(grids.shape)


def endpoints(grid: UInt8[np.ndarray, "h w"]) -> tuple[Cell, Cell]:
    """The start and the goal; of two like endpoints the first in raster order is the start."""
    found = [(int(row), int(column)) for row, column in np.argwhere(grid >= START)]
    if len(found) != 2:
        amount = {0: "no endpoints", 1: "only one endpoint"}.get(len(found), f"{len(found):,} endpoints")
        raise PuzzleError(f"The maze has {amount}; mark exactly one start and one goal.")
    start, goal = sorted(found, key=lambda cell: grid[cell])
    return start, goal


def unsolved(grids: UInt8[np.ndarray, "*n h w"]) -> UInt8[np.ndarray, "*n h w"]:
    """The mazes with every path cell emptied."""
    return np.where(grids == PATH, np.uint8(EMPTY), grids)


def has_ring(grids: UInt8[np.ndarray, "*n h w"]) -> bool:
    """Whether the border of every maze is all walls."""
    rows, columns = grids[..., [0, -1], :], grids[..., [0, -1]]
    return bool((rows == WALL).all() and (columns == WALL).all())


def with_ring(grids: UInt8[np.ndarray, "*n h w"]) -> UInt8[np.ndarray, "*n _ _"]:
    """The mazes with one more cell of wall on each side."""
    outside = [(0, 0)] * (grids.ndim - 2) + [(1, 1)] * 2
    return np.pad(grids, outside, constant_values=WALL)


def without_ring(grids: UInt8[np.ndarray, "*n h w"]) -> UInt8[np.ndarray, "*n _ _"]:
    """The mazes without their ring of walls, which has to be there."""
    if not has_ring(grids):
        raise PuzzleError("The maze has no ring of walls to take off; leave its border as it is.")
    return grids[..., 1:-1, 1:-1].copy()


def refuse_large(height: int, width: int) -> None:
    """Raises PuzzleError if a side is longer than `MAX_SIDE`; to be called before any costly work."""
    if max(height, width) > MAX_SIDE:
        raise PuzzleError(
            f"The maze has {height:,} x {width:,} cells; use one of at most {MAX_SIDE:,} cells a side."
        )


def free_cells(grids: UInt8[np.ndarray, "*n h w"]) -> Bool[np.ndarray, "*n h w"]:
    """Where one may walk."""
    return grids != WALL
