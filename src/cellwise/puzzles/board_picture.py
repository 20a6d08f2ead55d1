"""A drawn Sudoku board out of a picture file: clean, upright and aligned, grey, with grid lines or without.

Nothing is recognised here; that is for the cells. The board is found, cut into its places, and every digit is
brought to the size and position that MNIST's digits have. Whatever is not surely such a board is refused.
"""

import os
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt8
from PIL import Image

from ..errors import PuzzleError
from .digits import shrink
from .pixels import read_pixels
from .visual_sudoku import NOISE, cut, place

_LEAST_SIDE = 7  # Pixels of a place of the board.
_TINT = 60  # Difference between the strongest and the weakest of red, green and blue that is still grey.
_TINTED = 0.002  # Share of pixels that may have more; a JPEG has some.
_CONTRAST = 64  # Least difference in brightness between ground and ink.
_EVEN = 40  # Pixels as close as this to the commonest brightness are ground,
_GROUND = 0.5  # and at least this share of a picture is.
_FAINT, _CLEAR, _INK = 0.2, 0.3, 0.5  # From here on something may be drawn, is drawn, is in the midst of ink.
_LINE = 0.9  # A row or column with so much drawn in it is a line.
_OFF = 0.15  # How far from where it should be, in places of the board, a line may lie.
_SPECK = 0.004  # Drawings on less of their place than this are dirt.
_FILLED = 0.5  # Digits leave more than this of their place free.
_BOX, _SIDE = 20, 28  # MNIST: a digit fills a box of 20 pixels and its centre of mass is in the middle of 28.

Ink = Float32[np.ndarray, "h w"]
Gaps = Int64[np.ndarray, "k 2"]


@dataclass(frozen=True)
class DrawnBoard:
    """What stands in every place of a board, 0 for the ground and 1 for ink; all zeros for a blank."""

    tiles: Float32[np.ndarray, "k k s s"]

    @property
    def clues(self) -> Bool[np.ndarray, "k k"]:
        """Where something is drawn."""
        return np.asarray(self.tiles.any((2, 3)))

    def canvas(self, rng: np.random.Generator) -> Float32[np.ndarray, "side side"]:
        """The board as an automaton wants it: blanks are noise."""
        noise = rng.uniform(-NOISE, NOISE, self.tiles.shape).astype(np.float32)
        return place(np.where(self.clues[..., None, None], self.tiles, noise)[None])[0]


def read_board(path: str | os.PathLike[str], cells: int, digit: int) -> DrawnBoard:
    """Reads a board of `cells x cells` places as digits of `digit` pixels.

    A board with a frame may have a margin around it; a board without one must fill the picture.
    """
    name = os.fspath(path)
    pixels = read_pixels(path, f"scale it down to about {cells * 56} pixels a side", eight_bits=True)
    if (np.ptp(pixels.astype(np.int16), axis=2) > _TINT).mean() > _TINTED:
        raise PuzzleError(f"{name} has colours; hand over a grey picture.")
    ink = _within_frame(_ink(pixels, name))
    height, width = ink.shape
    if abs(height - width) > max(2, max(height, width) // 50):
        raise PuzzleError(f"{name} shows {width} x {height} pixels and no square; crop it to the board.")
    rows, columns = _lines(ink), _lines(ink.T)
    down, across = _gaps(rows, height, cells, name), _gaps(columns, width, cells, name)
    ink = _without(_without(ink, rows).T, columns).T
    if _crossings(ink, down) + _crossings(ink.T, across) > cells:
        raise PuzzleError(
            f"{name} shows no {cells} x {cells} places with a digit or nothing in each, because something "
            "runs from one into the next; turn it upright, straighten it and crop it to the board."
        )
    least = int(min(np.diff(down).min(), np.diff(across).min()))
    if least < _LEAST_SIDE:
        raise PuzzleError(
            f"{name} has only {max(least, 0)} pixels for a digit; hand over at least {_LEAST_SIDE}."
        )
    if not len(rows) and not len(columns) and (height % cells or width % cells):
        raise PuzzleError(
            f"{name} has no lines, and {cells} places do not divide {width} x {height} pixels; crop it to "
            f"the board and scale it to a multiple of {cells}, such as {cells * _SIDE} x {cells * _SIDE}."
        )
    return DrawnBoard(_tiles(ink, down, across, digit, name))


def board_picture(
    image: Float32[np.ndarray, "side side"], clues: Bool[np.ndarray, "k k"], digit: int
) -> Image.Image:
    """The clues of a drawn board as a picture that `read_board` reads: dark digits, no lines, no noise."""
    cells = len(clues)
    ink = cut(image[None], cells, digit)[0] * clues[..., None, None]
    board = np.clip(ink, 0, 1).swapaxes(1, 2).reshape(cells * digit, cells * digit)
    zoom = max(1, round(_SIDE / digit))
    return Image.fromarray(np.rint(255 * (1 - board)).astype(np.uint8).repeat(zoom, 0).repeat(zoom, 1))


def _ink(pixels: UInt8[np.ndarray, "h w 3"], name: str) -> Ink:
    """How much ink is in every pixel, 0 to 1, whether it is dark on light or light on dark."""
    grey = pixels.mean(2)
    common = np.bincount(grey.astype(np.int64).ravel() // 8).argmax()
    ground = float(np.median(grey[grey.astype(np.int64) // 8 == common]))
    away = ground - grey if ground >= 128 else grey - ground
    if away.max() < _CONTRAST:
        raise PuzzleError(f"{name} is empty; hand over a board with digits that differ from their ground.")
    if (np.abs(away) <= _EVEN).mean() < _GROUND:
        raise PuzzleError(f"{name} is not evenly lit; hand over digits on a plain ground, without shadows.")
    return np.clip(away / away.max(), 0, 1).astype(np.float32)


def _within_frame(ink: Ink) -> Float32[np.ndarray, "_ _"]:
    """The inside of the margin if a frame is drawn, everything otherwise."""
    drawn = ink > _FAINT
    rows, columns = np.flatnonzero(drawn.any(1)), np.flatnonzero(drawn.any(0))
    board = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    ends = [_outermost(_lines(side), len(side)) for side in (board, board.T)]
    if None in ends:
        return ink
    (top, bottom), (left, right) = (end for end in ends if end is not None)
    return board[top:bottom, left:right]


def _outermost(lines: Int64[np.ndarray, "n 2"], length: int) -> tuple[int, int] | None:
    """Where the first line begins and the last one ends, if there is nothing but blur beyond them."""
    blur = max(2, length // 100)
    if len(lines) < 2 or lines[0, 0] > blur or lines[-1, 1] < length - blur:
        return None
    return int(lines[0, 0]), int(lines[-1, 1])


def _lines(ink: Float32[np.ndarray, "h w"]) -> Int64[np.ndarray, "n 2"]:
    """Where the lines along rows begin and end."""
    line = np.pad((ink > _FAINT).mean(1) >= _LINE, 1)
    return np.flatnonzero(line[1:] != line[:-1]).reshape(-1, 2)


def _gaps(lines: Int64[np.ndarray, "n 2"], length: int, cells: int, name: str) -> Gaps:
    """Where every place of the board begins and ends, between its lines or where they would be."""
    middles = lines.mean(1)
    framed = len(lines) > 1 and lines[0, 0] == 0 and lines[-1, 1] == length
    first, last = (middles[0], middles[-1]) if framed else (0.0, float(length))
    pitch = (last - first) / cells
    edges = np.rint(first + pitch * np.arange(cells + 1)).astype(np.int64)
    begins, ends = edges.copy(), edges.copy()
    for middle, (begin, end) in zip(middles, lines, strict=True):
        edge = round((middle - first) / pitch)
        if not 0 <= edge <= cells or abs((middle - first) / pitch - edge) > _OFF:
            raise PuzzleError(
                f"{name} has lines that do not divide it into {cells} x {cells} equal places; hand over such "
                "a board, or choose a model for boards of another size."
            )
        begins[edge], ends[edge] = begin, end
    return np.stack([ends[:-1], begins[1:]], axis=1)


def _without(ink: Float32[np.ndarray, "h w"], lines: Int64[np.ndarray, "n 2"]) -> Float32[np.ndarray, "h w"]:
    """The drawing without its lines along rows and the blur beside them."""
    ink = ink.copy()
    for begin, end in lines:
        ink[max(begin - 1, 0) : end + 1] = 0
    return ink


def _crossings(ink: Float32[np.ndarray, "h w"], gaps: Gaps) -> int:
    """How often ink is on both sides of an edge between two rows of places."""
    above, below = ink[gaps[:-1, 1] - 1], ink[np.minimum(gaps[1:, 0], len(ink) - 1)]
    return int(((above > _INK) & (below > _INK)).sum())


def _tiles(ink: Ink, down: Gaps, across: Gaps, digit: int, name: str) -> Float32[np.ndarray, "k k s s"]:
    tiles = np.zeros((len(down), len(across), digit, digit), np.float32)
    for i, (top, bottom) in enumerate(down):
        for j, (left, right) in enumerate(across):
            tile = ink[top:bottom, left:right]
            if (tile > _INK).mean() > _FILLED:
                raise PuzzleError(
                    f"{name} has a filled place at row {i + 1}, column {j + 1}; draw a digit or nothing."
                )
            if (tile > _FAINT).mean() > _SPECK and tile.max() > _CLEAR:
                tiles[i, j] = _as_in_mnist(tile, digit)
    if not tiles.any():
        raise PuzzleError(f"{name} shows no digits; hand over a board with some clues.")
    return tiles


def _as_in_mnist(tile: Ink, digit: int) -> Float32[np.ndarray, "s s"]:
    """The digit in the size and position that MNIST gives it; one that has them is only scaled."""
    height, width = tile.shape
    rows, columns = (np.flatnonzero((tile > _FAINT).any(axis)) for axis in (1, 0))
    longer = max((rows[-1] - rows[0] + 1) / height, (columns[-1] - columns[0] + 1) / width) * _SIDE
    middle = np.abs(_centre(tile) / np.array(tile.shape) - 0.5).max() * _SIDE
    pixel = _SIDE / min(height, width)  # Nothing is known more exactly than this.
    if abs(longer - _BOX) <= 2 + pixel and middle <= 1 + pixel:
        return np.clip(_scaled(tile, digit, digit), 0, 1)
    glyph = tile[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    sides = np.maximum(1, np.rint(np.array(glyph.shape) * _BOX / max(glyph.shape)).astype(int))
    glyph = _scaled(glyph, *sides.tolist())
    corner = np.clip(np.rint(_SIDE / 2 - _centre(glyph)).astype(int), 0, _SIDE - sides)
    whole = np.zeros((_SIDE, _SIDE), np.float32)
    whole[corner[0] : corner[0] + sides[0], corner[1] : corner[1] + sides[1]] = glyph
    return np.clip(shrink(whole[None], digit)[0], 0, 1)


def _centre(tile: Ink) -> np.ndarray:
    """The centre of mass, in pixels from the upper left corner."""
    mass = tile.sum()
    return np.array(
        [(tile.sum(1 - axis) * (np.arange(tile.shape[axis]) + 0.5)).sum() / mass for axis in (0, 1)]
    )


def _scaled(tile: Ink, height: int, width: int) -> Float32[np.ndarray, "_ _"]:
    """A drawing in another size: means of areas if it gets smaller, otherwise smooth."""
    if tile.shape == (height, width):
        return tile
    smaller = height <= tile.shape[0] and width <= tile.shape[1]
    how = Image.Resampling.BOX if smaller else Image.Resampling.BILINEAR
    return np.asarray(Image.fromarray(np.ascontiguousarray(tile)).resize((width, height), how), np.float32)
