"""Solving the boards of a check while training goes on."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int32, UInt8, UInt32

from ..automaton import layout, rollout
from ..automaton.layout import Automaton
from ..kernels import bits, dispatch
from ..kernels.dispatch import Path
from ..kernels.precision import products
from ..kernels.spec import Weights
from ..puzzles.board import Boards
from .job import Check, Job


def most_free(boards: Boards) -> int:
    """The largest number of cells of a board that are not given."""
    return int((~boards.given).sum((1, 2)).max())


def solve_check(job: Job, check: Check, weights: Weights) -> tuple[float, float]:
    """The share of right cells and of boards that are right in every cell.

    Boards start from the same noise each time, so that what changes between checks is the rule.
    """
    with products(job.recipe.precision):
        cells, boards = _solve(
            weights,
            jnp.asarray(check.boards.target),
            jnp.asarray(check.boards.given),
            jnp.int32(check.steps),
            jnp.uint32(job.seed),
            automaton=job.automaton,
            path=dispatch.choose(job.automaton.step, most_free(check.boards), job.recipe.precision),
            rate=job.recipe.fire_rate,
        )
    return float(np.asarray(cells)), float(np.asarray(boards))


@partial(jax.jit, static_argnames=("automaton", "path", "rate"))
def _solve(
    weights: Weights,
    target: UInt8[Array, "n h w"],
    given: Bool[Array, "n h w"],
    steps: Int32[Array, ""],
    seed: UInt32[Array, ""],
    *,
    automaton: Automaton,
    path: Path,
    rate: float,
) -> tuple[Float32[Array, ""], Float32[Array, ""]]:
    numbers = jnp.arange(len(target), dtype=jnp.int32)
    keys = bits.trajectory_keys(seed, numbers, jnp.zeros_like(numbers))
    inputs = jnp.where(given, target, jnp.uint8(0))
    state = layout.start(automaton, weights, inputs, given, keys)
    plan = path.plan(automaton.step, given)
    state = rollout.rollout(automaton.step, weights, state, plan, keys, 0, steps, path=path, rate=rate)
    right = layout.read(automaton.layout, weights, state)[0] == target
    solved = jnp.all(right, axis=(1, 2))
    return jnp.mean(right.astype(jnp.float32)), jnp.mean(solved.astype(jnp.float32))
