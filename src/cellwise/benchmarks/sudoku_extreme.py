"""Sudoku-Extreme: Sudokus that need deep search.

    cellwise data fetch sudoku-extreme
    cellwise train sudoku-extreme --out runs/extreme # a GPU: a day with the released recipe
    cellwise eval sudoku-extreme --model runs/extreme/model

A thousand boards are trained on. The test counts all published boards; `even` is the set with ten thousand
boards of each of the eleven grades of difficulty. The two must never be compared with each other.
"""

from functools import partial
from typing import Any

from ..automaton.layout import Automaton, Layout, orthonormal_tokens
from ..kernels.spec import StepSpec
from ..model import Pace
from ..puzzles import store
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

RECIPE = Recipe(
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


def training_boards() -> tuple[Boards, dict[str, Any]]:
    """The thousand boards that the released code draws."""
    return store.load("sudoku-extreme", "train", training=True), {
        "data": "sudoku-extreme train, 1,000 boards"
    }


def checks() -> tuple[Check, ...]:
    """Boards of the training file that are not trained on."""
    return (Check("eval", store.load("sudoku-extreme", "eval"), steps=1152),)


def _case(name: str, split: str, count: int) -> Case:
    boards = partial(_boards, split)
    return Case(name=name, steps=2048, count=count, boards=boards, source=f"sudoku-extreme {split}")


def _boards(split: str, limit: int) -> Boards:
    return store.load("sudoku-extreme", split, limit=limit)


SUDOKU_EXTREME = Preset(
    name="sudoku-extreme",
    about="The hardest Sudokus, from a thousand boards; the recipe of the paper's released code",
    puzzle="sudoku",
    automaton=AUTOMATON,
    tokens=orthonormal_tokens(10, 32, seed=0),
    recipe=RECIPE,
    boards=training_boards,
    checks=checks,
    pace=Pace(base=2048, per_cell=0.0),
    size=(9, 9),
)

BENCHMARK = Benchmark(
    name="sudoku-extreme",
    about="422,786 hard Sudokus, and 110,000 of them in equal parts by difficulty",
    puzzle="sudoku",
    model="sudoku-extreme",
    cases=(_case("all", "test", 422_786), _case("even", "test-even", 110_000)),
)
