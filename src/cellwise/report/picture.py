"""Mazes and Sudokus as pictures of few, flat colours."""

import os
from functools import lru_cache

import numpy as np
from jaxtyping import Float32, Float64, UInt8
from PIL import Image, ImageDraw, ImageFont

from ..errors import ConfigError
from ..files import written_atomically
from .palette import LIGHT, Palette, blend, digit_colours, maze_colours

MAX_SCALE = 256
"""The most pixels a cell may be wide."""

_SIDE = 480  # Pixels that a picture is about wide when nobody says how large its cells should be.
_EDGE_SHADES = 4  # Degrees of coverage along the edge of a digit.


def picture(
    grid: UInt8[np.ndarray, "h w"],
    confidence: Float32[np.ndarray, "h w"] | None = None,
    clues: UInt8[np.ndarray, "9 9"] | None = None,
    scale: int | None = None,
    palette: Palette = LIGHT,
) -> Image.Image:
    """A maze, or with `clues` the Sudoku that has them, with `scale` pixels to a cell.

    Cells fade where `confidence` is low. A maze without a path can be read back by
    `cellwise.puzzles.maze_picture`.
    """
    if scale is None:
        scale = max(1, min(MAX_SCALE, _SIDE // max(grid.shape)))
    if not 1 <= scale <= MAX_SCALE:
        raise ConfigError(
            f"A cell cannot be {scale} pixels wide; choose a scale from 1 to {MAX_SCALE} pixels."
        )
    if clues is None:
        cells = maze_colours(grid, confidence, palette)
        return Image.fromarray(cells.repeat(scale, axis=0).repeat(scale, axis=1))
    return Image.fromarray(_sudoku(grid, digit_colours(grid, clues, confidence, palette), scale, palette))


def save_picture(image: Image.Image, path: str | os.PathLike[str]) -> None:
    """Writes a picture as PNG, all or nothing."""
    with written_atomically(path) as temporary:
        image.save(temporary, format="PNG", optimize=True)


def _sudoku(
    grid: UInt8[np.ndarray, "9 9"], inks: UInt8[np.ndarray, "9 9 3"], scale: int, palette: Palette
) -> UInt8[np.ndarray, "side side 3"]:
    """The digits in their colours, thin lines between cells and thick ones around the boxes."""
    thick = max(1, scale // 16)
    side = 9 * scale + thick
    pixels = np.full((side, side, 3), palette.ground, np.uint8)
    for row, column in np.argwhere(grid > 0):
        top, left = row * scale + thick, column * scale + thick
        cell = pixels[top : top + scale - thick, left : left + scale - thick]
        ink = np.broadcast_to(inks[row, column], cell.shape)
        cell[:] = blend(palette.ground, ink, _digit(int(grid[row, column]), scale - thick))
    for line in range(10):
        width = thick if line % 3 == 0 else max(1, thick // 3)
        band = slice(line * scale, line * scale + width)
        pixels[band] = pixels[:, band] = palette.rule
    return pixels


@lru_cache(maxsize=64)
def _digit(digit: int, side: int) -> Float64[np.ndarray, "side side"]:
    """How much of every pixel of a square the digit covers."""
    mask = Image.new("L", (side, side))
    if side:
        font = ImageFont.load_default(max(1.0, 0.7 * side))
        ImageDraw.Draw(mask).text((side / 2, side / 2), str(digit), fill=255, font=font, anchor="mm")
    steps = _EDGE_SHADES - 1
    return np.rint(np.asarray(mask, np.float64) / 255 * steps) / steps
