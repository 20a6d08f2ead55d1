"""Sudoku-OOD: learn on easy Sudokus, solve hard ones.

    cellwise data fetch sudoku-seventeen --from DIR          # docs/data.md says where from
    cellwise data fetch sudoku-extreme-pool --from DIR       # to leave out what it has in common
    cellwise data make sudoku-hard-made                      # 1,800 test boards
    cellwise data make sudoku-hard-made --split eval --seed 1 --count 20
    cellwise data make sudoku-easy-made                      # optional: the training boards, in a minute
    cellwise train sudoku-ood --out runs/sudoku-ood          # a GPU
    cellwise eval sudoku-ood --model runs/sudoku-ood/model   # expected: no numbers yet

Training uses the published easy boards if `cellwise data fetch sudoku-easy` has brought them, else 9,000
boards made here with as many clues (31 to 42). The test is made as the published one was, 100 boards for each
number of clues from 17 to 34, from 17-clue puzzles that nothing else uses; the published test is the case
`hard`. Between models and checkpoints one chooses by `validation`, boards like the test's from other puzzles.
"""

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np

from ..automaton.layout import Automaton, Layout, orthonormal_tokens
from ..errors import DataError
from ..kernels.spec import StepSpec
from ..model import Pace
from ..puzzles import store
from ..puzzles.board import Boards
from ..puzzles.catalog import fingerprint
from ..puzzles.sudoku_generator import generate_easy
from ..training.job import Check
from ..training.recipe import Recipe, Schedule
from .preset import Benchmark, Case, Preset

TRAIN_SEED, VALIDATION_SEED = 0, 1

AUTOMATON = Automaton(
    StepSpec(
        channels=128,
        perception="attention",
        heads=16,
        hidden=512,
        padding="wrap",
        frozen=32,
        unit=32,
    ),
    Layout(tokens=10, read=32, write=32, head="cosine", spread=0.15),
)

RELEASED = Recipe(
    steps=150_000,
    schedule=Schedule(first=1e-3, peak=1e-4, last=1e-4, warmup=3_000),
    batch=256,
    pool=1024,
    fresh=128,
    rollout=48,
    chunk=48,
    damage_fill=1.0,
    augment="sudoku",
    augment_per="batch",
    bands="tied",
)
"""What the released training code does."""

RECIPE = replace(
    RELEASED,
    steps=60_000,
    schedule=Schedule(first=0.0, peak=2e-3, last=0.0, warmup=500, shape="cosine"),
    augment_per="sample",
    bands="free",
)
"""Where to start: one cosine over the whole run and every symmetry for every board; see docs/ablations.md."""

TEST_CONTENT = "4752ee1804853dca48fab07a41623bda9c77f3ff7b85d4a3dc27ca75fe7e00ff"
"""The `catalog.fingerprint` of the 1,800 test boards."""

TRAIN_CONTENT = "e6d116426d7df6c6f9fff0ef4729cfd7b6cae0004d2b0652fb9fa4c881a23b42"
"""The same of the 9,000 training boards that are made here."""


def training_boards() -> tuple[Boards, dict[str, Any]]:
    """The published easy boards, or as many of the same kind."""
    try:
        return store.load("sudoku-easy", "train", training=True), {"data": "sudoku-easy train, as published"}
    except DataError:
        source = {"data": "9,000 generated Sudokus with 31 to 42 clues", "generator_seed": TRAIN_SEED}
        return _made(), source


def _made() -> Boards:
    """Nine thousand easy boards, made in a minute or taken from the store if they are there."""
    with contextlib.suppress(DataError):
        boards = store.load("sudoku-easy-made", "train", training=True)
        if fingerprint(boards) == TRAIN_CONTENT:
            return boards
    return generate_easy(9_000, TRAIN_SEED)


def checks() -> tuple[Check, ...]:
    """Easy boards that are not trained on, and hard ones if they are on this machine."""
    easy = Check("easy", generate_easy(100, VALIDATION_SEED), steps=48)
    try:
        return easy, Check("validation", store.load("sudoku-hard-made", "eval"), steps=256)
    except DataError:
        return (easy,)


def test_boards(limit: int) -> Boards:
    """So many of the test boards, equally many of each number of clues as far as that goes."""
    boards = store.load("sudoku-hard-made", "test")
    if fingerprint(boards) != TEST_CONTENT:
        raise DataError(
            "sudoku-hard-made test holds other boards than the benchmark's; remove it and run "
            "`cellwise data make sudoku-hard-made`."
        )
    return spread(boards, limit)


def spread(boards: Boards, limit: int) -> Boards:
    """`limit` boards at equal distances."""
    limit = min(limit, len(boards))
    return boards[np.arange(limit) * len(boards) // limit]


def givens(blanks: np.ndarray) -> np.ndarray:
    """The number of clues."""
    return 81 - blanks


SUDOKU_OOD = Preset(
    name="sudoku-ood",
    about="Sudoku, from easy boards to hard ones",
    puzzle="sudoku",
    automaton=AUTOMATON,
    tokens=orthonormal_tokens(10, 32, seed=0),
    recipe=RECIPE,
    boards=training_boards,
    checks=checks,
    pace=Pace(base=256, per_cell=0.0),
    size=(9, 9),
)
SUDOKU_OOD_RELEASED = replace(
    SUDOKU_OOD,
    name="sudoku-ood-released",
    about="The same with the recipe of the paper's released code",
    recipe=RELEASED,
)

BENCHMARK = Benchmark(
    name="sudoku-ood",
    about="Hard Sudokus, 47 to 64 blanks, a hundred of each",
    puzzle="sudoku",
    model="sudoku-ood",
    cases=(
        Case(
            name="made",
            steps=256,
            count=1_800,
            boards=test_boards,
            source="sudoku-hard-made test: from 17-clue puzzles, 100 for each of 47 to 64 blanks",
            grade=givens,
        ),
    ),
    more=(
        Case(
            name="validation",
            steps=256,
            count=360,
            boards=lambda n: spread(store.load("sudoku-hard-made", "eval"), n),
            source="sudoku-hard-made eval: from other 17-clue puzzles",
            grade=givens,
        ),
        Case(
            name="hard",
            steps=256,
            count=18_000,
            boards=lambda n: store.load("sudoku-hard", "test", limit=n),
            source="sudoku-hard test, as published",
            grade=givens,
        ),
    ),
)
