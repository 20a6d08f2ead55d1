"""Sudoku-OOD: learn on easy Sudokus, solve hard ones.

    cellwise train sudoku-ood --out runs/sudoku-ood  # a GPU: hours with the released recipe
    cellwise eval sudoku-ood --model runs/sudoku-ood/model

Training uses the published easy boards if `cellwise data fetch sudoku-easy` has brought them, else boards
made here with as many clues (31 to 42). The test is the published hard set, 17 to 34 clues.
"""

from typing import Any

from ..automaton.layout import Automaton, Layout, orthonormal_tokens
from ..errors import DataError
from ..kernels.spec import StepSpec
from ..model import Pace
from ..puzzles import store
from ..puzzles.board import Boards
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

RECIPE = Recipe(
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


def training_boards() -> tuple[Boards, dict[str, Any]]:
    """The published easy boards, or as many of the same kind."""
    try:
        return store.load("sudoku-easy", "train"), {"data": "sudoku-easy train, as published"}
    except DataError:
        source = {"data": "9,000 generated Sudokus with 31 to 42 clues", "generator_seed": TRAIN_SEED}
        return generate_easy(9_000, TRAIN_SEED), source


def checks() -> tuple[Check, ...]:
    """Easy boards that were not trained on."""
    return (Check("easy", generate_easy(100, VALIDATION_SEED), steps=48),)


SUDOKU_OOD = Preset(
    name="sudoku-ood",
    about="Sudoku, from easy boards to hard ones; the recipe of the paper's released code",
    puzzle="sudoku",
    automaton=AUTOMATON,
    tokens=orthonormal_tokens(10, 32, seed=0),
    recipe=RECIPE,
    boards=training_boards,
    checks=checks,
    pace=Pace(base=256, per_cell=0.0),
    size=(9, 9),
)

BENCHMARK = Benchmark(
    name="sudoku-ood",
    about="Hard Sudokus, 47 to 64 blanks, a thousand of each",
    puzzle="sudoku",
    model="sudoku-ood",
    cases=(
        Case(
            name="hard",
            steps=256,
            count=18_000,
            boards=lambda n: store.load("sudoku-hard", "test", limit=n),
            source="sudoku-hard test",
        ),
    ),
)
