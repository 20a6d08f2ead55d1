"""Solving the drawn boards of a check while training goes on."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Int32, UInt8, UInt32

from ..automaton import picture, rollout
from ..automaton.layout import Automaton
from ..automaton.picture import Image
from ..kernels import bits, dispatch
from ..kernels.dispatch import Path
from ..kernels.precision import products
from ..kernels.spec import Weights
from .job import PictureCheck, PictureJob


def solve_check(job: PictureJob, check: PictureCheck, weights: Weights) -> tuple[float, float, float]:
    """The share of right places, of clues that were kept, and of boards that are right in every place.

    Boards start from the same noise each time, so that what changes between checks is the rule.
    """
    layout = job.automaton.layout
    with products(job.recipe.precision):
        grids = _think(
            weights,
            jnp.asarray(check.images),
            jnp.int32(check.steps),
            jnp.uint32(job.seed),
            automaton=job.automaton,
            path=dispatch.choose(job.automaton.step, picture.canvas(layout) ** 2, job.recipe.precision),
            rate=job.recipe.fire_rate,
        )
    right, clue = np.asarray(grids) == check.boards.solutions, check.boards.puzzles > 0
    return float(right.mean()), float(right[clue].mean()), float(right.all((1, 2)).mean())


@partial(jax.jit, static_argnames=("automaton", "path", "rate"))
def _think(
    weights: Weights,
    images: Image,
    steps: Int32[Array, ""],
    seed: UInt32[Array, ""],
    *,
    automaton: Automaton,
    path: Path,
    rate: float,
) -> UInt8[Array, "n k k"]:
    """What is read after so many steps."""
    numbers = jnp.arange(len(images), dtype=jnp.int32)
    keys = bits.trajectory_keys(seed, numbers, jnp.zeros_like(numbers))
    state = picture.start(automaton, images, keys)
    plan = path.plan(automaton.step, jnp.zeros(images.shape, bool))
    state = rollout.rollout(automaton.step, weights, state, plan, keys, 0, steps, path=path, rate=rate)
    return picture.read(automaton.layout, weights, picture.drawn(state))
