"""A job so small that a whole run takes a moment, in this process or as a program of its own."""

import os
import sys
from pathlib import Path

import numpy as np

import cellwise
from cellwise.automaton.layout import Automaton, Layout
from cellwise.kernels.spec import StepSpec
from cellwise.puzzles.maze_generator import generate
from cellwise.training.job import Check, Job
from cellwise.training.recipe import Recipe, Schedule

RECIPE = Recipe(
    steps=12,
    schedule=Schedule(first=1e-3, peak=1e-3, last=0.0, warmup=2, shape="cosine"),
    batch=8,
    pool=16,
    fresh=4,
    rollout=8,
    chunk=8,
    augment="maze",
)
AUTOMATON = Automaton(
    StepSpec(channels=16, perception="kernels", heads=4, hidden=16, padding="wrap", frozen=16),
    Layout(tokens=4, read=16, write=2, head="distance", spread=0.15),
)
TOKENS = np.full((4, 16), -1, np.float32)
TOKENS[:, :2] = [[0, -1], [0, 1], [1, 0], [-1, 0]]
EVERY = {"log_every": 2, "save_every": 5, "check_every": 6}


def tiny_job(recipe: Recipe = RECIPE, seed: int = 3) -> Job:
    return Job(
        name="tiny",
        puzzle="maze",
        automaton=AUTOMATON,
        size=None,
        fixed={"layout.tokens": TOKENS},
        recipe=recipe,
        seed=seed,
        boards=generate(5, 32, 0),
        checks=(Check("size 5", generate(5, 4, 1), steps=8),),
        provenance={"data": "generated mazes of size 5"},
    )


def environment(folder: Path) -> dict[str, str]:
    """For programs of their own that import what the tests import; they compile together, once."""
    paths = [str(Path(cellwise.__file__).parents[1]), str(Path(__file__).parent)]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


def endless() -> None:
    """Trains in the folder named on the command line, saving all the time and slowly enough to be killed."""
    import time

    from cellwise.training import loop

    def slow(*args, **kwargs):
        time.sleep(0.02)
        return iterate(*args, **kwargs)

    iterate, loop.iterate = loop.iterate, slow
    folder = Path(sys.argv[1])
    loop.train(tiny_job(), folder, resume=folder.exists(), **EVERY | {"save_every": 1})


if __name__ == "__main__":
    endless()
