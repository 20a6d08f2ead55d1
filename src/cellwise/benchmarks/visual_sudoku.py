"""Visual Sudoku: read, solve and draw Sudokus in raw pixels.

    cellwise data fetch mnist                                       # 11 MB
    cellwise train visual-sudoku-tiny --out runs/tiny               # two CPU cores; digits of 4 pixels
    cellwise train visual-sudoku-4x4 --out runs/v4 --minutes 9      # a GPU; go on with --resume
    cellwise train visual-sudoku-9x9-small --out runs/v9s
    cellwise train visual-sudoku-9x9 --out runs/v9 --start-from runs/v9s/model
    cellwise train visual-sudoku-paper --out runs/paper             # the paper's rule and recipe

The boards of 4 x 4 are made here, those of 9 x 9 are the published easy ones or made like them; digits are
MNIST's test set, as in the paper, so that its training set is free to test with. Which boards and digits
serve for what is said in `puzzles/visual_data.py`. Nobody has trained these to the end yet; docs/visual.md
says what is known.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..automaton.layout import Automaton, Layout
from ..kernels.noise import Noise
from ..kernels.spec import StepSpec
from ..model import Pace
from ..puzzles import visual_data
from ..puzzles.digits import Digits
from ..puzzles.visual_sudoku import VisualSet, render
from ..training.recipe import Schedule
from ..visual.job import PictureCheck
from ..visual.recipe import PictureRecipe
from .preset import PicturePreset

VALIDATION, VALIDATION_LARGE = 128, 8
"""Boards that are solved from time to time; on the paper's canvas one takes more than a second."""


def automaton(cells: int, digit: int, channels: int, hidden: int) -> Automaton:
    """The paper's rule in any width, for boards of `cells` x `cells` digits of `digit` pixels."""
    return Automaton(
        StepSpec(channels, "sobel", 3, hidden, "wrap", frozen=0, update="bare"),
        Layout(tokens=cells + 1, read=digit**2, write=digit**2, head="picture", spread=0.1),
    )


PAPER = PictureRecipe(
    steps=93_000,
    schedule=Schedule(first=1e-4, peak=1e-4, last=1e-4, warmup=0),
    batch=4,
    pool=4,
    fresh=4,
    chunk=1024,
    judged=1024,
    target="draw",
    noise=Noise(0.0, 0.0, 0.0),
    damage=0.0,
    overflow=0.0,
    segment=32,
    beta2=0.95,
    precision="bf16",
)
"""The paper's, as far as it says: 1,024 steps from the beginning, all judged; its batch is not known."""

RECIPE = PictureRecipe(
    steps=20_000,
    schedule=Schedule(first=0.0, peak=2e-3, last=2e-5, warmup=300, shape="cosine"),
    batch=16,
    pool=128,
    fresh=4,
    chunk=64,
    judged=24,
    clip=0.01,
)
"""Short chunks and a pool, for one GPU. Nearly every gradient is longer than `clip`, so its length, which
goes from 0.02 to 30 and back, does not count."""


def _data(cells: int, digit: int) -> Callable[[], tuple[VisualSet, Digits, dict[str, Any]]]:
    def data() -> tuple[VisualSet, Digits, dict[str, Any]]:
        digits = visual_data.digits("train", digit)
        boards, source = visual_data.training(cells)
        return boards, digits, source

    return data


def _checks(cells: int, digit: int, steps: int) -> Callable[[], tuple[PictureCheck, ...]]:
    def checks() -> tuple[PictureCheck, ...]:
        count = VALIDATION if digit < 28 else VALIDATION_LARGE
        boards = VisualSet.of(visual_data.easy_boards(cells, "eval", count)[0])
        images = render(boards.puzzles, visual_data.digits("eval", digit), np.random.default_rng(0))
        return (PictureCheck("validation", boards, images, steps),)

    return checks


def preset(
    name: str, about: str, size: tuple[int, int], width: tuple[int, int], recipe: PictureRecipe, pace: int
) -> PicturePreset:
    """Boards of `size` (places, pixels of each) by a rule of `width` (channels, hidden layer)."""
    return PicturePreset(
        name=name,
        about=about,
        puzzle="visual-sudoku",
        automaton=automaton(*size, *width),
        recipe=recipe,
        data=_data(*size),
        checks=_checks(*size, pace),
        pace=Pace(base=pace, per_cell=0.0),
    )


NINE = replace(
    RECIPE,
    schedule=replace(RECIPE.schedule, peak=1e-3, last=1e-5),
    batch=8,
    pool=64,
    fresh=2,
    chunk=96,
    judged=32,
    augment="sudoku",
)

PRESETS = (
    preset(
        "visual-sudoku-tiny",
        "Pictures of 4 x 4 Sudokus with digits of 4 pixels, for a CPU",
        (4, 4),
        (32, 128),
        replace(RECIPE, steps=6_000, batch=8, pool=64, fresh=2, chunk=32, judged=12, precision="float32"),
        pace=128,
    ),
    preset(
        "visual-sudoku-4x4-small",
        "Pictures of 4 x 4 Sudokus, digits of 7 pixels on 32 x 32",
        (4, 7),
        (96, 384),
        replace(RECIPE, batch=32, pool=256, fresh=8, chunk=48, judged=16),
        pace=256,
    ),
    preset(
        "visual-sudoku-4x4-small-whole",
        "The same by the paper's recipe: whole thoughts, 256 steps of back-propagation",
        (4, 7),
        (96, 384),
        replace(PAPER, batch=32, pool=32, fresh=32, chunk=256, judged=256, steps=20_000),
        pace=256,
    ),
    preset(
        "visual-sudoku-4x4",
        "Pictures of 4 x 4 Sudokus, digits of 14 pixels on 64 x 64",
        (4, 14),
        (96, 384),
        RECIPE,
        pace=384,
    ),
    preset(
        "visual-sudoku-9x9-small",
        "Pictures of easy Sudokus, digits of 7 pixels on 64 x 64",
        (9, 7),
        (128, 512),
        replace(NINE, batch=16, pool=128, fresh=4, chunk=64, judged=24),
        pace=512,
    ),
    preset(
        "visual-sudoku-9x9",
        "Pictures of easy Sudokus, digits of 14 pixels on 128 x 128",
        (9, 14),
        (128, 512),
        NINE,
        pace=1024,
    ),
    preset(
        "visual-sudoku-256",
        "The paper's rule and pictures, 256 x 256, with short chunks and a pool",
        (9, 28),
        (256, 2048),
        replace(
            NINE,
            schedule=replace(NINE.schedule, peak=3e-4, last=3e-6),
            batch=4,
            pool=32,
            fresh=1,
            chunk=128,
            segment=16,
        ),
        pace=1024,
    ),
    preset(
        "visual-sudoku-paper",
        "The paper's rule, pictures and recipe: 1,024 steps of back-propagation",
        (9, 28),
        (256, 2048),
        PAPER,
        pace=1024,
    ),
)
