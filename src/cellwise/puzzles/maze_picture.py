"""Mazes as pictures: dark walls, light ways, two coloured endpoints, every cell an equal square of pixels."""

import os

import numpy as np
from jaxtyping import Int16, Int64, UInt8

from ..errors import PuzzleError
from .maze import EMPTY, GOAL, START, WALL, Vocabulary, refuse_large, translate
from .maze_path import count_neighbours
from .pixels import read_pixels

_COLOURED = 96  # Least difference between the strongest and the weakest of red, green and blue.
_LIGHT = 128  # Least mean of the three.


def read_picture(
    path: str | os.PathLike[str], vocabulary: Vocabulary = Vocabulary.ALIKE
) -> UInt8[np.ndarray, "h w"]:
    """Reads a maze from a PNG, GIF, BMP, JPEG, PPM or WebP file at any whole-number zoom.

    Where the vocabulary tells the endpoints apart, the greener one is the start. A light margin all around is
    cut off. Whether the maze can be solved is for `check` to say.
    """
    name = os.fspath(path)
    pixels = read_pixels(path, "scale it down without smoothing, to one pixel a cell").astype(np.int16)
    coloured = np.ptp(pixels, axis=2) >= _COLOURED
    kinds = np.where(coloured, START, np.where(pixels.mean(axis=2) >= _LIGHT, EMPTY, WALL)).astype(np.uint8)
    kinds, pixels = _without_margin(kinds, pixels)
    side = int(np.gcd.reduce(np.concatenate([_edges(kinds), _edges(kinds.T)])))
    grid = kinds[::side, ::side].copy()
    ends = grid == START
    if ends.sum() > 2 and (count_neighbours(ends[None])[0] > 0)[ends].all():
        raise PuzzleError(
            f"The colours in {name} are larger than its finest detail of {side} x {side} pixels; draw walls, "
            "ways and the two endpoints as equal squares, and colour nothing else, no path either."
        )
    if ends.sum() != 2:
        raise PuzzleError(
            f"{name} shows {ends.sum():,} coloured cells of {side} x {side} pixels; "
            "colour exactly two cells, green for the start and red for the goal."
        )
    refuse_large(*grid.shape)
    red, green, _ = pixels[::side, ::side][ends].T
    grid[ends] = np.where(green - red == max(green - red), START, GOAL)
    return translate(grid, vocabulary)


def _without_margin(
    kinds: UInt8[np.ndarray, "h w"], pixels: Int16[np.ndarray, "h w 3"]
) -> tuple[UInt8[np.ndarray, "_ _"], Int16[np.ndarray, "_ _ 3"]]:
    """Both arrays without the light margin, if there is one on all four sides."""
    drawn = kinds != EMPTY
    border = np.concatenate([drawn[0], drawn[-1], drawn[:, 0], drawn[:, -1]])
    if border.any() or not drawn.any():
        return kinds, pixels
    rows, columns = np.flatnonzero(drawn.any(1)), np.flatnonzero(drawn.any(0))
    inside = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return kinds[inside], pixels[inside]


def _edges(kinds: UInt8[np.ndarray, "h w"]) -> Int64[np.ndarray, " edges"]:
    """The rows at which something changes, and the height."""
    return np.append(np.flatnonzero((kinds[1:] != kinds[:-1]).any(axis=1)) + 1, len(kinds))
