"""Visual Sudoku as it is measured: drawn boards that were never trained on, with digits that were not either.

    cellwise data fetch mnist
    cellwise data fetch sudoku-seventeen --from DIR          # for hard boards; docs/data.md says where from
    cellwise data fetch sudoku-extreme-pool --from DIR
    cellwise data make sudoku-hard-made
    cellwise eval visual-sudoku-4x4 --model runs/four/model
    cellwise eval visual-sudoku-9x9 --model runs/nine/model --case easy easy-seen

`easy`, `hard` and `unseen` are drawn with test digits; the cases that end in `seen` are the same boards drawn
with the digits of training, for the difference. Between models and checkpoints one chooses by `validation`,
whose boards and digits are used nowhere else. `trained` are boards and digits that were trained on.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..puzzles import visual_data
from ..puzzles.board import Boards
from ..puzzles.visual_data import Split
from . import sudoku_ood


@dataclass(frozen=True)
class PictureCase:
    """One row of a benchmark's table: which boards, drawn with which digits, and how long to think."""

    name: str
    steps: int
    count: int
    boards: Callable[[int], tuple[Boards, str]]
    """The first so many boards of the case and where they come from."""
    digits: Split
    about: str
    grade: Callable[[np.ndarray], np.ndarray] | None = None
    """From the difficulty of boards to the grades by which accuracy is told apart."""


@dataclass(frozen=True)
class PictureBenchmark:
    """Something drawn that can be measured: `cellwise eval NAME`."""

    name: str
    about: str
    cells: int
    model: str
    cases: tuple[PictureCase, ...]
    """What is measured unless told otherwise."""
    more: tuple[PictureCase, ...]
    """What is measured only if it is asked for."""


def _easy(cells: int, split: Split) -> Callable[[int], tuple[Boards, str]]:
    return lambda count: visual_data.easy_boards(cells, split, count)


def _hard(count: int) -> tuple[Boards, str]:
    return sudoku_ood.test_boards(count), "sudoku-hard-made test, 47 to 64 blanks"


FOUR = PictureBenchmark(
    name="visual-sudoku-4x4",
    about="Drawn 4 x 4 Sudokus with 4 to 9 clues",
    cells=4,
    model="visual-sudoku-4x4",
    cases=(
        PictureCase("unseen", 512, 1_000, _easy(4, "test"), "test", "unseen grids, unseen digits"),
        PictureCase("seen", 512, 1_000, _easy(4, "test"), "train", "unseen grids, digits of training"),
    ),
    more=(
        PictureCase(
            "validation", 512, 500, _easy(4, "eval"), "eval", "other unseen grids and digits, for choosing"
        ),
        PictureCase("trained", 512, 1_000, _easy(4, "train"), "train", "boards and digits of training"),
    ),
)

NINE = PictureBenchmark(
    name="visual-sudoku-9x9",
    about="Drawn 9 x 9 Sudokus, easy and hard ones",
    cells=9,
    model="visual-sudoku-9x9",
    cases=(
        PictureCase(
            "easy", 1_024, 1_000, _easy(9, "test"), "test", "unseen boards with 31 to 42 clues, unseen digits"
        ),
        PictureCase("hard", 3_072, 1_000, _hard, "test", "17 to 34 clues, unseen digits", sudoku_ood.givens),
    ),
    more=(
        PictureCase(
            "easy-seen", 1_024, 1_000, _easy(9, "test"), "train", "those of easy in digits of training"
        ),
        PictureCase(
            "hard-seen",
            3_072,
            1_000,
            _hard,
            "train",
            "those of hard in digits of training",
            sudoku_ood.givens,
        ),
        PictureCase(
            "validation", 1_024, 500, _easy(9, "eval"), "eval", "other unseen boards and digits, for choosing"
        ),
        PictureCase("trained", 1_024, 1_000, _easy(9, "train"), "train", "boards and digits of training"),
    ),
)

PICTURE_BENCHMARKS = {benchmark.name: benchmark for benchmark in (FOUR, NINE)}
"""What is measured in pixels, by name."""
