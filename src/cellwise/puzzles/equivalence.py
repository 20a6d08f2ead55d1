"""Which boards are the same up to symmetry, so that a test can leave out what a model was trained on.

`fingerprints` gives equivalent boards the same number. For mazes it is the least hash of the eight positions,
so that other mazes have other numbers but for the odds of 64 bits. For Sudokus it comes from refining colours
of cells by those of their lines, bands, boxes and digits; it never misses an equivalence, and boards that are
none get other numbers as far as is known (all of the 39,158 known puzzles with 17 clues do).
`are_equivalent` decides by trying all symmetries.
"""

import itertools
from functools import cache

import numpy as np
from jaxtyping import Bool, Int64, UInt8, UInt64

from .board import Boards
from .dihedral import dihedral

_ROUNDS = 5
_BLOCK = 4096
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def fingerprints(boards: Boards, sudoku: bool) -> UInt64[np.ndarray, " n"]:
    """A number for each board, the same for boards that are equivalent."""
    one = _sudoku if sudoku else _square
    parts = [one(boards[slice(i, i + _BLOCK)]) for i in range(0, len(boards), _BLOCK)]
    return np.concatenate(parts) if parts else np.zeros(0, np.uint64)


def are_equivalent(board: Boards, other: Boards, sudoku: bool) -> bool:
    """Whether some symmetry turns the only puzzle of `board`, with its answer, into that of `other`."""
    if board.target.shape != other.target.shape and board.target.shape != other.target.swapaxes(1, 2).shape:
        return False
    if sudoku:
        return _least_sudoku(board) == _least_sudoku(other)
    return any(np.array_equal(dihedral(board.inputs, k), other.inputs) for k in range(8))


def _mixed(words: UInt64[np.ndarray, "*n"]) -> UInt64[np.ndarray, "*n"]:
    """A bijection of 64-bit words that leaves nothing of their order (the finaliser of splitmix64)."""
    words = words + _GOLDEN
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _square(boards: Boards) -> UInt64[np.ndarray, " n"]:
    """The least hash of the eight positions of each puzzle; a hash knows the shape of its board."""
    hashes = []
    for k in range(8):
        turned = dihedral(boards.inputs, k)
        n, h, w = turned.shape
        place = _mixed(np.arange(h * w, dtype=np.uint64) + np.uint64(w << 32))
        hashes.append((_mixed(turned.reshape(n, -1).astype(np.uint64)) * (place | np.uint64(1))).sum(1))
    return _mixed(np.min(hashes, axis=0))


def _sudoku(boards: Boards) -> UInt64[np.ndarray, " n"]:
    """Colours of the cells of solved grids, refined by their surroundings, and then added up."""
    n = len(boards)
    digit = boards.target.reshape(n, 81).astype(np.int64) - 1
    colour = _mixed(boards.given.reshape(n, 81).astype(np.uint64))
    row, column = np.divmod(np.arange(81), 9)
    houses = [row, column, row // 3 * 3 + column // 3]
    for _ in range(_ROUNDS):
        rows, columns, boxes = (_sums(colour, np.broadcast_to(house, (n, 81))) for house in houses)
        # A line takes part in its band, and rows and columns may be exchanged.
        lines = [side + _mixed(_bands(side)) for side in (_mixed(rows), _mixed(columns))]
        digits = _mixed(_sums(colour, digit) + np.uint64(3))
        across = _mixed(lines[0])[:, row] + _mixed(lines[1])[:, column]
        box = _mixed(boxes + np.uint64(5))[:, houses[2]]
        colour = _mixed(colour * _GOLDEN + across + box * np.uint64(3) + np.take_along_axis(digits, digit, 1))
    return _mixed(colour.sum(1))


def _sums(colour: UInt64[np.ndarray, "n 81"], house: Int64[np.ndarray, "n 81"]) -> UInt64[np.ndarray, "n 9"]:
    """The sum of the mixed colours in each of nine houses."""
    sums = np.zeros((len(colour), 9), np.uint64)
    rows = np.arange(len(colour))[:, None]
    np.add.at(sums, (np.broadcast_to(rows, house.shape), house), _mixed(colour))
    return sums


def _bands(lines: UInt64[np.ndarray, "n 9"]) -> UInt64[np.ndarray, "n 9"]:
    """For each line the sum over the three of its band."""
    return np.repeat(_mixed(lines).reshape(-1, 3, 3).sum(2), 3, axis=1)


@cache
def _line_orders() -> Int64[np.ndarray, "1296 9"]:
    """Every order of nine lines that keeps the three bands together."""
    threes = list(itertools.permutations(range(3)))
    return np.array(
        [
            [3 * band + line for band, order in zip(bands, inner, strict=True) for line in order]
            for bands in threes
            for inner in itertools.product(threes, repeat=3)
        ]
    )


def _least_sudoku(board: Boards) -> bytes:
    """The least of all images of a solved puzzle: digits in the order of the first row, then clues."""
    best = b"\xff"
    target, given = board.target[0], board.given[0]
    for grid, clues in ((target, given), (target.T, given.T)):
        columns = _line_orders()
        images = np.moveaxis(grid[:, columns], 1, 0).astype(np.int64)  # 1296 orders of the columns
        shown = np.moveaxis(clues[:, columns], 1, 0)
        for first in range(9):
            names = np.argsort(images[:, first], axis=1) + 1  # the digit in column c becomes c + 1
            renamed = np.take_along_axis(names[:, None], images - 1, 2)
            best = min(best, _least_rows(renamed, shown, first))
    return best


def _least_rows(grids: Int64[np.ndarray, "m 9 9"], clues: Bool[np.ndarray, "m 9 9"], first: int) -> bytes:
    """The least of the given images with row `first` on top and the others as low as their bands allow."""
    top = first // 3
    heads = grids[:, :, 0].copy()
    heads[:, first] = 0
    inside = np.argsort(heads.reshape(-1, 3, 3), axis=2)
    least = heads.reshape(-1, 3, 3).min(2)
    assert (least.argmin(1) == top).all()
    bands = np.argsort(least, axis=1)
    order = (3 * bands[:, :, None] + np.take_along_axis(inside, bands[:, :, None], 1)).reshape(-1, 9)
    sorted_grids = np.take_along_axis(grids, order[:, :, None], 1).astype(np.uint8)
    sorted_clues = np.take_along_axis(clues, order[:, :, None], 1)
    images: UInt8[np.ndarray, "m 162"] = np.concatenate(
        [sorted_grids.reshape(-1, 81), sorted_clues.reshape(-1, 81).astype(np.uint8)], axis=1
    )
    return min(image.tobytes() for image in images)
