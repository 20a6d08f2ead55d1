"""Sudokus in pixels: boards drawn with handwritten digits, and boards read out of a picture again.

A board of `k x k` cells with digits of `s x s` pixels stands in the upper left of a square canvas whose side
is a power of two; cell (i, j) covers the rows from `s * i` and the columns from `s * j`, and what is left at
the bottom and on the right is zero. Tokens: 0 is a blank cell, 1 to k are digits.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float32, UInt8

from .board import Boards
from .digits import Digits

NOISE = 0.1
"""A blank cell of a puzzle is drawn as uniform noise of at most this size."""


@dataclass(frozen=True)
class VisualSet:
    """`n` Sudokus of one size as tokens, 0 for a blank, with their solutions."""

    puzzles: UInt8[np.ndarray, "n k k"]
    solutions: UInt8[np.ndarray, "n k k"]

    @classmethod
    def of(cls, boards: Boards) -> "VisualSet":
        """The same Sudokus as some boards."""
        return cls(boards.inputs, boards.target)

    @property
    def cells(self) -> int:
        """Cells along a side, which is also how many digits there are."""
        return self.puzzles.shape[1]

    def __len__(self) -> int:
        return len(self.puzzles)

    def __getitem__(self, index: slice | np.ndarray) -> "VisualSet":
        return VisualSet(self.puzzles[index], self.solutions[index])


def canvas_side(cells: int, digit: int) -> int:
    """Pixels along a side of the canvas for so many cells of so many pixels."""
    return 1 << (cells * digit - 1).bit_length()


def render(
    tokens: UInt8[np.ndarray, "n k k"],
    digits: Digits,
    rng: np.random.Generator,
    blank: Literal["noise", "zero"] = "noise",
) -> Float32[np.ndarray, "n side side"]:
    """Draws every digit as a random picture of its class, independently in every cell of every board.

    The reference for drawing on a device: there the random numbers are others, but nothing else is.
    """
    return draw(tokens, digits.by_class(tokens.shape[1]), rng, blank)


def draw(
    tokens: UInt8[np.ndarray, "n k k"],
    table: Float32[np.ndarray, "v m s s"],
    rng: np.random.Generator,
    blank: Literal["noise", "zero"] = "noise",
) -> Float32[np.ndarray, "n side side"]:
    """`render` with the table that `Digits.by_class` makes, for whoever draws more than once."""
    tiles = table[tokens, rng.integers(table.shape[1], size=tokens.shape)]
    if blank == "noise":
        noise = rng.uniform(-NOISE, NOISE, tiles.shape).astype(np.float32)
        tiles = np.where(tokens[..., None, None] == 0, noise, tiles)
    return place(tiles)


def place(tiles: Float32[np.ndarray, "n k k s s"]) -> Float32[np.ndarray, "n side side"]:
    """The pictures of all cells as one canvas."""
    n, cells, _, digit, _ = tiles.shape
    used, side = cells * digit, canvas_side(cells, digit)
    canvas = np.zeros((n, side, side), np.float32)
    canvas[:, :used, :used] = tiles.swapaxes(2, 3).reshape(n, used, used)
    return canvas


def cut(
    image: Float32[np.ndarray, "n side side"], cells: int, digit: int
) -> Float32[np.ndarray, "n cells cells digit digit"]:
    """The picture of every cell of a canvas."""
    used = cells * digit
    return image[:, :used, :used].reshape(-1, cells, digit, cells, digit).swapaxes(2, 3)


def distances(
    image: Float32[np.ndarray, "n side side"], prototypes: Float32[np.ndarray, "v s s"]
) -> Float32[np.ndarray, "n k k v"]:
    """How far every cell is from every prototype, as the sum of squared differences."""
    cells, digit = len(prototypes) - 1, prototypes.shape[1]
    tiles = cut(image, cells, digit).reshape(-1, cells, cells, digit * digit)
    means = prototypes.reshape(cells + 1, digit * digit)
    return ((tiles**2).sum(-1)[..., None] - 2 * (tiles @ means.T)) + (means**2).sum(-1)


def read(
    image: Float32[np.ndarray, "n side side"], prototypes: Float32[np.ndarray, "v s s"]
) -> UInt8[np.ndarray, "n k k"]:
    """The token whose prototype is nearest to each cell, the smaller of two that are equally near."""
    return distances(image, prototypes).argmin(-1).astype(np.uint8)


@dataclass(frozen=True)
class Audit:
    """Which boards obey each rule: every digit once in all rows, columns and boxes, and every clue kept."""

    rows: Bool[np.ndarray, " n"]
    columns: Bool[np.ndarray, " n"]
    boxes: Bool[np.ndarray, " n"]
    clues: Bool[np.ndarray, " n"]

    @property
    def all(self) -> Bool[np.ndarray, " n"]:
        """Which boards obey all rules."""
        return self.rows & self.columns & self.boxes & self.clues


def audit(tokens: UInt8[np.ndarray, "n k k"], puzzle: UInt8[np.ndarray, "n k k"]) -> Audit:
    """What the rules of Sudoku say about each board, whatever its solution is."""
    n, cells, _ = tokens.shape
    box = round(cells**0.5)
    boxes = tokens.reshape(n, box, box, box, box).swapaxes(2, 3).reshape(n, cells, cells)
    every = np.arange(1, cells + 1, dtype=np.uint8)
    rows, columns, squares = (
        (np.sort(houses, axis=2) == every).all((1, 2)) for houses in (tokens, tokens.swapaxes(1, 2), boxes)
    )
    return Audit(rows, columns, squares, ((puzzle == 0) | (tokens == puzzle)).all((1, 2)))


def to_text(grid: UInt8[np.ndarray, "k k"]) -> str:
    """The digits row by row in one line, `.` for a blank."""
    return "".join(".123456789"[digit] for digit in grid.ravel().tolist())


def pretty(grid: UInt8[np.ndarray, "k k"]) -> str:
    """The board with lines around its boxes."""
    cells, text = len(grid), to_text(grid)
    box = round(cells**0.5)
    rule = "+".join(["-" * (2 * box + 1)] * box)
    lines = []
    for row in range(cells):
        digits = text[row * cells : (row + 1) * cells]
        lines.append("|".join(f" {' '.join(digits[i : i + box])} " for i in range(0, cells, box)).rstrip())
        if row % box == box - 1 and row < cells - 1:
            lines.append(rule)
    return "\n".join(lines)
