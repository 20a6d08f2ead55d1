"""Maze-OOD: learn on mazes of size 9, solve mazes of any size.

    cellwise train maze-ood --out runs/maze-ood      # seconds on an H200; see docs/maze.md
    cellwise eval maze-ood                           # expected: 100 % at 13 and 59, at least 99 % at 201
    cellwise eval maze-ood --case braided-59 dead-ends-59 --size 401

    cellwise train maze-laptop --out runs/laptop     # two CPU cores, at most ten minutes
    cellwise eval maze-ood --model runs/laptop/model --size 9

Training mazes are generated (seed 0), and so are validation (seed 1) and test mazes (seed 2): depth-first
spanning trees with two random endpoints, as in the published archives. A nominal size counts the cells
without the ring of walls, so "9" is 11×11 cells.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ..automaton.layout import Automaton, Layout
from ..kernels.spec import StepSpec
from ..model import Pace
from ..puzzles.board import Boards
from ..puzzles.maze_generator import generate
from ..training.job import Check
from ..training.recipe import Recipe, Schedule
from .preset import Benchmark, Case, Preset

TRAIN_SEED, VALIDATION_SEED, TEST_SEED = 0, 1, 2
TRAIN_MAZES = 50_000

AUTOMATON = Automaton(
    StepSpec(channels=16, perception="kernels", heads=4, hidden=128, padding="wrap", frozen=16),
    Layout(tokens=4, read=16, write=2, head="distance", spread=0.15),
)


def token_vectors() -> np.ndarray:
    """Empty, path, wall and endpoint: two telling components, the rest all -1."""
    vectors = np.full((4, 16), -1, np.float32)
    vectors[:, :2] = [[0, -1], [0, 1], [1, 0], [-1, 0]]
    return vectors


RELEASED = Recipe(
    steps=5_000,
    schedule=Schedule(first=4e-4, peak=4e-4, last=4e-4, warmup=100),
    batch=64,
    pool=256,
    fresh=16,
    rollout=100,
    chunk=100,
    augment="maze",
    augment_per="batch",
)
"""What the released training code does."""

RECIPE = replace(
    RELEASED,
    schedule=Schedule(first=0.0, peak=2e-3, last=0.0, warmup=100, shape="cosine"),
    noise=replace(RELEASED.noise, when=0.3),
    augment_per="sample",
)
"""What we ship: see docs/maze.md for how it was found."""


def training_mazes() -> tuple[Boards, dict[str, Any]]:
    """Fifty thousand generated mazes of size 9."""
    source = {"data": f"{TRAIN_MAZES:,} generated mazes of size 9", "generator_seed": TRAIN_SEED}
    return generate(9, TRAIN_MAZES, TRAIN_SEED), source


def checks() -> tuple[Check, ...]:
    """Validation mazes of the trained size and of a larger one."""
    return (
        Check("size 9", generate(9, 100, VALIDATION_SEED), steps=100),
        Check("size 25", generate(25, 16, VALIDATION_SEED), steps=500),
    )


def sized(size: int) -> Case:
    """The test mazes of a nominal size, with as many steps as the paper has where it says so."""
    return _case(f"size {size}", size, f"generated mazes of size {size}")


def _case(name: str, size: int | tuple[int, int], source: str, **kind: Any) -> Case:
    known = {13: (300, 1000), 59: (2_000, 1000), 201: (13_000, 100), 401: (52_000, 5)}
    height, width = (size, size) if isinstance(size, int) else size
    usual = 300 + (height + 2) * (width + 2) // 2, 1000 if max(height, width) < 100 else 100
    steps, count = known.get(height, usual) if height == width else usual
    return Case(
        name=name,
        steps=steps,
        count=count,
        boards=lambda n: generate(size, n, TEST_SEED, **kind),
        source=f"{source}, generator seed {TEST_SEED}",
    )


PACE = Pace(base=300, per_cell=0.5)

MAZE_OOD = Preset(
    name="maze-ood",
    about="Mazes of size 9, for mazes of any size; the recipe of the shipped model",
    puzzle="maze",
    automaton=AUTOMATON,
    tokens=token_vectors(),
    recipe=RECIPE,
    boards=training_mazes,
    checks=checks,
    pace=PACE,
)
MAZE_OOD_RELEASED = replace(
    MAZE_OOD,
    name="maze-ood-released",
    about="The same with the recipe of the paper's released code",
    recipe=RELEASED,
)
MAZE_LAPTOP = replace(
    MAZE_OOD,
    name="maze-laptop",
    about="The same in ten minutes on two CPU cores, enough for size 9 and somewhat beyond",
    recipe=replace(
        RECIPE,
        steps=3_600,
        batch=32,
        pool=128,
        fresh=8,
        noise=RELEASED.noise,
        rollout=64,
        chunk=64,
    ),
    checks=lambda: checks()[:1],
)

BENCHMARK = Benchmark(
    name="maze-ood",
    about="Mazes larger than those trained on: sizes 13, 59 and 201, others on demand",
    puzzle="maze",
    model="maze-ood",
    cases=(sized(13), sized(59), sized(201)),
    more=(
        _case("braided-59", 59, "braided mazes of size 59, one shortest path each", braid=1.0),
        _case("dead-ends-59", 59, "mazes of size 59 between two dead ends", endpoints="dead-ends"),
        _case("kruskal-59", 59, "mazes of size 59 by Kruskal's algorithm", tree="kruskal"),
        _case("prim-59", 59, "mazes of size 59 by Prim's algorithm", tree="prim"),
        _case("wilson-59", 59, "mazes of size 59, all trees equally likely", tree="wilson"),
        _case("wide-9x101", (9, 101), "generated mazes of 9 × 101"),
    ),
    sized=sized,
)
