"""The colours of tokens and of doubt, the same in a terminal, a picture and a film.

They are those of Okabe and Ito or close to them, which people with any colour blindness can tell apart.
A cell that is not sure of itself fades towards `unsure`, in few enough shades that a whole film has fewer
colours than the 256 of a GIF.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, UInt8

from ..puzzles import sudoku

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""

SHADES = 8
"""How many degrees of confidence are told apart."""


@dataclass(frozen=True)
class Palette:
    """Colours for one kind of background.

    `ground` is what a Sudoku is drawn on and `rule` its lines; `clue`, `found` and `clash` are its digits: a
    given one, one that was found, and one that stands twice in a row, column or box.
    """

    empty: Colour
    path: Colour
    wall: Colour
    start: Colour
    goal: Colour
    unsure: Colour
    ground: Colour
    rule: Colour
    clue: Colour
    found: Colour
    clash: Colour


LIGHT = Palette(
    empty=(255, 255, 255),
    path=(0, 80, 170),
    wall=(28, 31, 36),
    start=(0, 158, 115),
    goal=(213, 94, 0),
    unsure=(188, 192, 199),
    ground=(255, 255, 255),
    rule=(28, 31, 36),
    clue=(0, 0, 0),
    found=(0, 80, 170),
    clash=(213, 94, 0),
)
DARK = Palette(
    empty=(16, 18, 24),
    path=(86, 180, 233),
    wall=(126, 132, 144),
    start=(240, 228, 66),
    goal=(213, 94, 0),
    unsure=(56, 62, 74),
    ground=(16, 18, 24),
    rule=(126, 132, 144),
    clue=(255, 255, 255),
    found=(86, 180, 233),
    clash=(213, 94, 0),
)


def sureness(confidence: Float32[np.ndarray, "*cells"] | None) -> Float64[np.ndarray, "*cells"]:
    """Confidence as one of `SHADES` shares from 0 to 1; without any, everything is sure."""
    if confidence is None:
        return np.ones(())
    return np.rint(np.clip(np.nan_to_num(confidence), 0.0, 1.0).astype(np.float64) * (SHADES - 1)) / (
        SHADES - 1
    )


def blend(
    below: Colour, above: UInt8[np.ndarray, "*cells 3"], share: Float64[np.ndarray, "*#cells"]
) -> UInt8[np.ndarray, "*cells 3"]:
    """The colours `above` laid over `below` with the given opacity."""
    base = np.array(below, np.float64)
    return np.rint(base + (above - base) * share[..., None]).astype(np.uint8)


def maze_colours(
    grid: UInt8[np.ndarray, "h w"], confidence: Float32[np.ndarray, "h w"] | None, palette: Palette
) -> UInt8[np.ndarray, "h w 3"]:
    """The colour of every cell of a maze."""
    tokens = np.array([palette.empty, palette.path, palette.wall, palette.start, palette.goal], np.uint8)
    return blend(palette.unsure, tokens[grid], sureness(confidence))


def digit_colours(
    grid: UInt8[np.ndarray, "9 9"],
    clues: UInt8[np.ndarray, "9 9"],
    confidence: Float32[np.ndarray, "9 9"] | None,
    palette: Palette,
) -> UInt8[np.ndarray, "9 9 3"]:
    """The colour of the digit in every cell of a Sudoku; clues neither fade nor clash."""
    inks = np.where(sudoku.conflicts(grid[None])[0][..., None], palette.clash, palette.found).astype(np.uint8)
    faded = blend(palette.unsure, inks, sureness(confidence))
    return np.where((clues > 0)[..., None], np.array(palette.clue, np.uint8), faded)
