"""Tasks that cells learn in a moment, and an automaton just large enough for them."""

import dataclasses

import numpy as np

from cellwise.automaton.layout import Automaton, Clock, Layout, orthonormal_tokens
from cellwise.kernels.spec import StepSpec
from cellwise.puzzles.arc import Known, Pair, Task
from cellwise.puzzles.arc_pairs import pack
from cellwise.tasks.job import PairCheck, PairJob
from cellwise.tasks.recipe import PairRecipe
from cellwise.training.recipe import Schedule

RULES = {
    "paint-blue": lambda grid: np.where(grid > 0, 1, 0).astype(np.uint8),
    "paint-red": lambda grid: np.where(grid > 0, 2, 0).astype(np.uint8),
    "clear": lambda grid: np.zeros_like(grid),
}
"""What is done to a grid; without its context a cell cannot know which."""

AUTOMATON = Automaton(
    StepSpec(
        channels=64,
        perception="attention",
        heads=4,
        hidden=64,
        padding="zero",
        frozen=16,
        update="swiglu",
        unit=16,
        first_unit=16,
        tangent=False,
        eps_inside=True,
    ),
    Layout(12, 16, 16, "linear", 0.1, write_first=32, context=16, contexts=len(RULES)),
    Clock(ticks=6, first=48, reading="local"),
)
TOKENS = orthonormal_tokens(12, 16, 0)
RECIPE = PairRecipe(
    steps=60,
    schedule=Schedule(first=0.0, peak=1e-2, last=0.0, warmup=10, shape="cosine"),
    batch=16,
    canvases=(6, 32),
    rollout=6,
    learned=6,
    judged=2,
    average=0.8,
    precision="float32",
    remember="products",
)


def pair_of(rule, rng):
    grid = rng.integers(0, 4, rng.integers(2, 5, 2)).astype(np.uint8)
    return Pair(grid, RULES[rule](grid))


def tiny_pairs(count=40, seed=0):
    rng = np.random.default_rng(seed)
    return pack((rule, pair_of(rule, rng)) for rule in RULES for _ in range(count))


def tiny_known(name, seed=1, demos=3):
    """A task of these rules with its answer."""
    rng = np.random.default_rng(seed)
    pairs = [pair_of(name, rng) for _ in range(demos + 2)]
    asked = pairs[demos:]
    return Known(
        Task(name, tuple(pairs[:demos]), tuple(pair.input for pair in asked)),
        tuple(pair.output for pair in asked),
    )


def tiny_pair_job(recipe=RECIPE, seed=3, **changes):
    return PairJob(
        name="tiny",
        automaton=AUTOMATON,
        fixed={"layout.tokens": TOKENS},
        recipe=dataclasses.replace(recipe, **changes),
        seed=seed,
        pairs=tiny_pairs(),
        checks=(PairCheck("known", tuple(tiny_known(rule) for rule in RULES)),),
        provenance={"data": "painted grids"},
    )
