"""Sudokus made to order: easy ones dug out of a random grid, hard ones grown from known puzzles.

Board i is a pure function of the seed, i and the other arguments but `count`, so asking for more
boards never changes the first ones. The difficulty of a board is its number of empty cells.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, UInt8

from ..errors import ConfigError, DataError
from .board import Boards
from .sudoku_solver import count_solutions, random_solution
from .sudoku_symmetry import Symmetry

# Digging in random order ends at about 24 clues; asking for fewer could take for ever.
_FEWEST_DUG_GIVENS = 24


def generate_easy(count: int, seed: int, givens: tuple[int, int] = (31, 42)) -> Boards:
    """Makes `count` boards with one solution each and a number of givens drawn evenly from the range."""
    low, high = givens
    if not _FEWEST_DUG_GIVENS <= low <= high <= 81:
        raise ConfigError(
            f"An easy Sudoku cannot have {low} to {high} givens; "
            f"choose a range within {_FEWEST_DUG_GIVENS} to 81, the lower number first."
        )

    def board(index: int) -> tuple[UInt8[np.ndarray, "9 9"], Bool[np.ndarray, "9 9"]]:
        rng = np.random.default_rng([seed, index])
        wanted = int(rng.integers(low, high + 1))
        while True:
            target = random_solution(rng)
            given = _dig(target, wanted, rng)
            if np.count_nonzero(given) == wanted:
                return target, given

    return _collect(count, seed, board)


def generate_hard(base: Boards, count: int, seed: int, empties: int) -> Boards:
    """Makes `count` boards with `empties` empty cells out of the puzzles of `base`.

    Every board is one of the base puzzles under a random symmetry with correct clues added in random
    places, which is how the recurrent relational network's test set was made out of 17-clue puzzles.
    """
    if not len(base):
        raise DataError("There is no base puzzle to make hard Sudokus from; hand over at least one board.")
    most = 81 - int(base.given.sum(axis=(1, 2)).max())
    if not 0 <= empties <= most:
        raise ConfigError(
            f"A hard Sudoku made from these puzzles cannot have {empties} empty cells; "
            f"choose a number from 0 to {most}."
        )

    def board(index: int) -> tuple[UInt8[np.ndarray, "9 9"], Bool[np.ndarray, "9 9"]]:
        rng = np.random.default_rng([seed, empties, index])
        chosen = rng.integers(len(base))
        symmetry = Symmetry.random(rng)
        given = symmetry.move(base.given[chosen])
        blank = np.flatnonzero(~given)
        given.flat[rng.choice(blank, len(blank) - empties, replace=False)] = True
        return symmetry.apply(base.target[chosen]), given

    return _collect(count, seed, board)


def _dig(target: UInt8[np.ndarray, "9 9"], wanted: int, rng: np.random.Generator) -> Bool[np.ndarray, "9 9"]:
    """Takes clues away in random order, skipping those that are needed, until `wanted` are left.

    Several clues at a time are tried, which gives the same puzzle as one at a time: while the solution
    is unique without all of them, it was unique after each. More than `wanted` are left when all the
    remaining ones are needed.
    """
    order = rng.permutation(81)
    puzzle = target.copy()
    left, start, block = 81, 0, 32
    while left > wanted and start < 81:
        block = min(block, left - wanted, 81 - start)
        tried = order[start : start + block]
        puzzle.flat[tried] = 0
        if count_solutions(puzzle) == 1:
            left -= block
            start += block
        elif block > 1:
            puzzle.flat[tried] = target.flat[tried]
            block //= 2
        else:
            puzzle.flat[tried] = target.flat[tried]
            start += 1
    return puzzle > 0


def _collect(
    count: int, seed: int, board: Callable[[int], tuple[UInt8[np.ndarray, "9 9"], Bool[np.ndarray, "9 9"]]]
) -> Boards:
    if count < 0 or seed < 0:
        raise ConfigError(f"Cannot make {count:,} Sudokus with seed {seed}; use numbers of at least 0.")
    target = np.zeros((count, 9, 9), np.uint8)
    given = np.zeros((count, 9, 9), bool)
    for index in range(count):
        target[index], given[index] = board(index)
    return Boards(target, given, 81 - given.sum(axis=(1, 2), dtype=np.int32))
