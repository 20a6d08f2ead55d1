"""Which boards and which digits visual Sudoku is trained on, chosen by and tested on; they share none."""

import contextlib
from typing import Any, Literal

import numpy as np

from ..errors import ConfigError, DataError
from . import store
from .board import Boards
from .digits import Digits
from .sudoku_four import generate_four
from .sudoku_generator import generate_easy
from .visual_sudoku import VisualSet

Split = Literal["train", "eval", "test"]

SEEDS: dict[str, int] = {"train": 0, "eval": 1, "test": 2}
"""The generator seeds of boards that are made here."""

ABOUT: dict[str, str] = {
    "train": "training digits (MNIST t10k, 10,000)",
    "eval": "digits for choosing (5,000 of MNIST train)",
    "test": "unseen digits (the other 55,000 of MNIST train)",
}
"""The digits of each split in words, for result files."""

FOUR_TRAINING = 20_000
NINE_TRAINING = 9_000


def digits(split: Split, side: int) -> Digits:
    """MNIST's digits for this use, `side` pixels wide; `puzzles/mnist.py` says which those are."""
    return store.load_digits("mnist", split, training=split == "train").resized(side)


def training(cells: int) -> tuple[VisualSet, dict[str, Any]]:
    """The boards to learn from, and where they come from: 4 x 4 ones, or easy 9 x 9 ones."""
    count = FOUR_TRAINING if cells == 4 else NINE_TRAINING
    boards, about = easy_boards(cells, "train", count)
    return VisualSet.of(boards), {"data": about, "digits": ABOUT["train"]}


def easy_boards(cells: int, split: Split, count: int) -> tuple[Boards, str]:
    """The first `count` boards of a split, and where they come from.

    The 9 x 9 boards are the published ones if they are on this machine, and otherwise made here with as many
    clues (31 to 42). All published boards that are not for training are for testing, so those for choosing
    are always made here.
    """
    published = {"train": "train", "test": "eval"}.get(split)
    if cells == 9 and published is not None:
        with contextlib.suppress(DataError):
            boards = store.load("sudoku-easy", published, limit=count, training=split == "train")
            return boards, f"sudoku-easy {published}"
    return made_boards(cells, split, count)


def made_boards(cells: int, split: Split, count: int) -> tuple[Boards, str]:
    """The same, made here in any case; the store may have made them before."""
    seed = SEEDS[split]
    if cells == 4:
        return generate_four(count, seed, split), f"generated 4 x 4 Sudokus with 4 to 9 clues, {split} grids"
    if cells != 9:
        raise ConfigError(f"There are no Sudokus of {cells} x {cells} cells here; choose 4 or 9.")
    about = f"generated Sudokus with 31 to 42 clues, generator seed {seed}"
    if split == "train":
        with contextlib.suppress(DataError):
            boards = store.load("sudoku-easy-made", "train", training=True)
            if len(boards) >= count and _begin_alike(boards, seed):
                return boards[:count], about
    return generate_easy(count, seed), about


def _begin_alike(boards: Boards, seed: int) -> bool:
    """Whether boards are those that this seed would make anyway, judged by the first of them."""
    first = generate_easy(4, seed)
    return np.array_equal(boards[:4].target, first.target) and np.array_equal(boards[:4].given, first.given)
