"""Drawn boards from which learning takes a moment: four places a side, digits of three pixels."""

import io
from dataclasses import replace

import numpy as np
from rich.console import Console

from cellwise.automaton.layout import Automaton, Layout
from cellwise.kernels.spec import StepSpec
from cellwise.puzzles.digits import Digits
from cellwise.puzzles.sudoku_four import generate_four
from cellwise.puzzles.visual_sudoku import VisualSet, render
from cellwise.training.recipe import Schedule
from cellwise.visual import train as visual
from cellwise.visual.job import PictureCheck, PictureJob
from cellwise.visual.recipe import PictureRecipe

SIDE = 3
STROKES = np.array([[0, 1, 0] * 3, [1, 1, 1, 0, 0, 0, 1, 1, 1], [1, 0, 1] * 3, [1, 1, 1, 1, 0, 1, 1, 1, 1]])
"""A picture for each of four digits."""

AUTOMATON = Automaton(
    StepSpec(12, "sobel", 3, 32, "wrap", frozen=0, update="bare"),
    Layout(tokens=5, read=SIDE**2, write=SIDE**2, head="picture", spread=0.1),
)
RECIPE = PictureRecipe(
    steps=8,
    schedule=Schedule(first=1e-3, peak=1e-3, last=0.0, warmup=2, shape="cosine"),
    batch=4,
    pool=8,
    fresh=2,
    chunk=4,
    judged=2,
    grown=1,
    damage=0.5,
    precision="float32",
)
EVERY = {"log_every": 2, "save_every": 3, "check_every": 4}


def digits(count: int = 20, seed: int = 0) -> Digits:
    """So many of each, no two alike."""
    rng = np.random.default_rng(seed)
    labels = np.tile(np.arange(1, 5, dtype=np.uint8), count)
    ink = STROKES[labels - 1] * rng.uniform(0.6, 1.0, (len(labels), 1))
    noisy = np.clip(ink + 0.1 * rng.standard_normal(ink.shape), 0, 1)
    return Digits(noisy.reshape(-1, SIDE, SIDE).astype(np.float32), labels)


def boards(count: int = 50, seed: int = 0) -> VisualSet:
    return VisualSet.of(generate_four(count, seed))


def check(some: VisualSet, steps: int = 6) -> PictureCheck:
    """Boards that are drawn with digits nobody learns from."""
    images = render(some.puzzles, digits(seed=1), np.random.default_rng(2))
    return PictureCheck("unseen", some, images, steps)


def tiny_picture_job(recipe: PictureRecipe = RECIPE, **changes) -> PictureJob:
    some = boards(6, seed=1)
    job = PictureJob(
        name="tiny",
        automaton=AUTOMATON,
        recipe=recipe,
        seed=3,
        boards=boards(),
        digits=digits(),
        checks=(check(some),),
        provenance={"data": "scribbles"},
    )
    return replace(job, **changes)


def run(folder, recipe: PictureRecipe = RECIPE, job: PictureJob | None = None, **options):
    """Trains; returns the model with what was printed."""
    console = Console(file=io.StringIO(), width=300)
    model = visual.train(job or tiny_picture_job(recipe), folder, console=console, **EVERY | options)
    return model, console.file.getvalue()  # type: ignore[attr-defined]
