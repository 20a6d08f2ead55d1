"""Sudokus of four by four cells: all 288 grids, and puzzles dug out of them.

The grids are divided once and for all into those for training, for choosing between models and for testing,
so no answer that is tested was ever a target. Up to symmetry there are only two grids, so nothing could keep
the splits apart in that sense.
"""

import functools
import itertools
from typing import Literal

import numpy as np
from jaxtyping import UInt8

from ..errors import ConfigError
from .board import Boards

Split = Literal["train", "eval", "test"]

_SHARES: dict[str, slice] = {"train": slice(224), "eval": slice(224, 256), "test": slice(256, None)}


@functools.cache
def all_grids() -> UInt8[np.ndarray, "288 4 4"]:
    """Every complete grid, in lexicographic order."""
    rows = list(itertools.permutations((1, 2, 3, 4)))
    found = []
    for quadruple in itertools.product(rows, repeat=2):
        first, second = quadruple
        if {*first[:2], *second[:2]} != {1, 2, 3, 4} or {*first[2:], *second[2:]} != {1, 2, 3, 4}:
            continue
        for third, fourth in itertools.product(rows, repeat=2):
            columns = zip(first, second, third, fourth, strict=True)
            if {*third[:2], *fourth[:2]} == {1, 2, 3, 4} and all(len({*one}) == 4 for one in columns):
                found.append((first, second, third, fourth))
    return np.array(found, np.uint8)


def grids_of(split: Split) -> UInt8[np.ndarray, "n 4 4"]:
    """The grids that only this split uses."""
    order = np.random.RandomState(0).permutation(len(all_grids()))
    return all_grids()[np.sort(order[_SHARES[split]])]


def generate_four(count: int, seed: int, split: Split = "train", givens: tuple[int, int] = (4, 9)) -> Boards:
    """Makes `count` boards with one solution each and a number of clues drawn evenly from the range.

    Board i is a function of the seed, the split and i. The difficulty is the number of blanks.
    """
    low, high = givens
    if not 4 <= low <= high <= 16:
        raise ConfigError(
            f"A Sudoku of 4 x 4 cells cannot have {low} to {high} clues; choose a range within 4 to 16."
        )
    if count < 0 or seed < 0:
        raise ConfigError(f"Cannot make {count:,} Sudokus with seed {seed}; use numbers of at least 0.")
    grids = grids_of(split)
    puzzles, targets = np.zeros((2, count, 4, 4), np.uint8)
    for index in range(count):
        rng = np.random.default_rng([seed, index])
        wanted = int(rng.integers(low, high + 1))
        while True:
            target = grids[rng.integers(len(grids))]
            puzzle = _dig(target, wanted, rng)
            if np.count_nonzero(puzzle) == wanted:
                break
        puzzles[index], targets[index] = puzzle, target
    given = puzzles > 0
    return Boards(targets, given, 16 - given.sum((1, 2), dtype=np.int32))


def count_solutions_four(puzzle: UInt8[np.ndarray, "4 4"]) -> int:
    """How many grids have these clues."""
    return int(((all_grids() == puzzle) | (puzzle == 0)).all((1, 2)).sum())


def _dig(target: UInt8[np.ndarray, "4 4"], wanted: int, rng: np.random.Generator) -> UInt8[np.ndarray, "4 4"]:
    """Takes clues away in random order, skipping those that are needed, until `wanted` are left."""
    grids, cells = all_grids().reshape(-1, 16), target.ravel()
    kept = np.ones(16, bool)
    for cell in rng.permutation(16):
        if kept.sum() <= wanted:
            break
        kept[cell] = False
        kept[cell] = ((grids == cells)[:, kept].all(1)).sum() > 1
    return np.where(kept, cells, 0).astype(np.uint8).reshape(4, 4)
