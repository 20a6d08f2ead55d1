"""Sudoku-Extreme: Sudokus that need deep search.

    cellwise data fetch sudoku-extreme-pool --from DIR       # docs/data.md says where from
    cellwise data fetch sudoku-extreme-dev --from DIR
    cellwise data fetch sudoku-extreme-balanced --from DIR
    cellwise train sudoku-extreme --out runs/extreme         # a GPU: hours
    cellwise eval sudoku-extreme --model runs/extreme/model  # expected: no numbers yet

A thousand boards of the pool are trained on, by `sudoku-extreme-20k` all that are not kept for validation.
The tests are 500 rows of the published training file (`dev`) and a hundred boards of each of the eleven
grades of difficulty (`balanced`); between models and checkpoints one chooses by `validation`. With the
published files at hand, `all` counts all published test boards and `even` ten thousand of each grade: never
compare the two.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from ..automaton.layout import Automaton, Layout, orthonormal_tokens
from ..kernels.spec import StepSpec
from ..model import Pace
from ..puzzles import store
from ..puzzles.archive import bin_of
from ..puzzles.board import Boards
from ..training.job import Check
from ..training.recipe import Recipe, Schedule
from .preset import Benchmark, Case, Preset

AUTOMATON = Automaton(
    StepSpec(
        channels=256,
        perception="attention",
        heads=16,
        hidden=1024,
        padding="wrap",
        frozen=32,
        unit=32,
    ),
    Layout(tokens=10, read=32, write=32, head="cosine", spread=0.15),
)

RELEASED = Recipe(
    steps=250_000,
    schedule=Schedule(first=1e-3, peak=1e-4, last=1e-4, warmup=5_000),
    batch=800,
    pool=3200,
    fresh=160,
    rollout=96,
    chunk=96,
    supervise="last",
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
"""Where to start: one cosine over the whole run and every symmetry for every board."""


def training_boards(split: str) -> tuple[Boards, dict[str, Any]]:
    """The boards of the pool that a split names."""
    boards = store.load("sudoku-extreme-pool", split, training=True)
    return boards, {"data": f"sudoku-extreme-pool {split}, {len(boards):,} boards"}


def released_boards() -> tuple[Boards, dict[str, Any]]:
    """The thousand published boards that the released code draws."""
    return store.load("sudoku-extreme", "train", training=True), {
        "data": "sudoku-extreme train, 1,000 boards"
    }


def checks() -> tuple[Check, ...]:
    """Boards of the pool that nobody trains on."""
    return (Check("validation", store.load("sudoku-extreme-pool", "eval", limit=200), steps=512),)


def released_checks() -> tuple[Check, ...]:
    """Boards of the published training file that are not trained on."""
    return (Check("eval", store.load("sudoku-extreme", "eval"), steps=1152),)


def _case(name: str, dataset: str, split: str, count: int) -> Case:
    boards = partial(_boards, dataset, split)
    source = f"{dataset} {split}"
    return Case(name=name, steps=2048, count=count, boards=boards, source=source, grade=bin_of)


def _boards(dataset: str, split: str, limit: int) -> Boards:
    return store.load(dataset, split, limit=limit)


SUDOKU_EXTREME = Preset(
    name="sudoku-extreme",
    about="The hardest Sudokus, from a thousand boards",
    puzzle="sudoku",
    automaton=AUTOMATON,
    tokens=orthonormal_tokens(10, 32, seed=0),
    recipe=RECIPE,
    boards=partial(training_boards, "train-1k"),
    checks=checks,
    pace=Pace(base=2048, per_cell=0.0),
    size=(9, 9),
)
SUDOKU_EXTREME_20K = replace(
    SUDOKU_EXTREME,
    name="sudoku-extreme-20k",
    about="The hardest Sudokus, from 19,500 boards",
    boards=partial(training_boards, "train"),
)
SUDOKU_EXTREME_RELEASED = replace(
    SUDOKU_EXTREME,
    name="sudoku-extreme-released",
    about="The published thousand boards with the recipe of the paper's released code",
    boards=released_boards,
    checks=released_checks,
    recipe=RELEASED,
)

BENCHMARK = Benchmark(
    name="sudoku-extreme",
    about="Sudokus that need deep search",
    puzzle="sudoku",
    model="sudoku-extreme",
    cases=(
        _case("dev", "sudoku-extreme-dev", "test", 500),
        _case("balanced", "sudoku-extreme-balanced", "test", 1100),
    ),
    more=(
        _case("validation", "sudoku-extreme-pool", "eval", 500),
        _case("all", "sudoku-extreme", "test", 422_786),
        _case("even", "sudoku-extreme", "test-even", 110_000),
    ),
)
