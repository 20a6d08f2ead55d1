"""One iteration of learning from pairs, as a pure function of the run's state and the shelves."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Float32, Int32, UInt32

from ..automaton.layout import Automaton
from ..kernels import bits
from ..kernels.dispatch import Path
from ..kernels.spec import Weights
from ..training.optimiser import learning_rate, optimiser
from .learn import Verdict, judge, loss
from .recipe import PairRecipe
from .shelves import Shelf, draw, shares

MEMORY = jnp.bfloat16
"""Of the gradient, which makes a run a copy of the weights smaller."""


class Run(NamedTuple):
    """All that a run consists of; with pairs, recipe and seed it determines the future exactly."""

    step: Int32[Array, ""]
    weights: Weights
    average: Weights
    optimiser: Any


class Report(NamedTuple):
    """What one iteration tells."""

    loss: Float32[Array, ""]
    cells: Float32[Array, ""]
    boards: Float32[Array, ""]
    gradient: Float32[Array, ""]
    learning_rate: Float32[Array, ""]


def first_run(recipe: PairRecipe, weights: Weights) -> Run:
    """A run before its first iteration."""
    # Copies, because a compiled iteration reuses the memory of its input.
    average = {name: jnp.array(weight) for name, weight in weights.items()}
    with jax.numpy_dtype_promotion("standard"):
        return Run(jnp.int32(0), weights, average, optimiser(recipe, MEMORY).init(weights))


@partial(jax.jit, static_argnames=("recipe", "automaton", "path"), donate_argnames=("run",))
def iterate(
    run: Run,
    fixed: Weights,
    shelves: tuple[Shelf, ...],
    seed: UInt32[Array, ""],
    *,
    recipe: PairRecipe,
    automaton: Automaton,
    path: Path,
) -> tuple[Run, Report]:
    """One iteration: draw a batch, think about it, learn."""
    counts = shares(shelves, recipe.batch, recipe.small)
    key = jax.random.fold_in(jax.random.key(seed), run.step.astype(jnp.uint32))
    window, *draws = jax.random.split(key, 1 + len(shelves))
    spare = recipe.rollout - recipe.learned
    first = jax.random.randint(window, (), 0, spare + 1) if recipe.window == "random" else jnp.int32(spare)
    slots = jnp.arange(recipe.batch, dtype=jnp.int32)
    keys = bits.trajectory_keys(seed, slots, jnp.broadcast_to(run.step, slots.shape))

    def errors(weights: Weights) -> tuple[Array, Verdict]:
        verdicts, begin = [], 0
        for shelf, draw_key, count in zip(shelves, draws, counts, strict=True):
            if not count:
                continue
            laid, some = draw(shelf, draw_key, count), keys[begin : begin + count]
            everything = weights | fixed
            verdicts.append(judge(automaton, everything, laid, some, first, recipe=recipe, path=path))
            begin += count
        verdict = Verdict(*(jnp.concatenate(parts) for parts in zip(*verdicts, strict=True)))
        return loss(verdict, recipe), verdict

    (error, verdict), gradient = jax.value_and_grad(errors, has_aux=True)(run.weights)
    with jax.numpy_dtype_promotion("standard"):  # optax mixes Python and array numbers
        updates, memory = optimiser(recipe, MEMORY).update(gradient, run.optimiser, run.weights)
        weights: Weights = optax.apply_updates(run.weights, updates)  # type: ignore[assignment]
        average: Weights = optax.incremental_update(weights, run.average, 1 - recipe.average)  # type: ignore[assignment]
    report = Report(
        loss=error,
        cells=jnp.sum(verdict.right) / jnp.sum(verdict.cells),
        boards=jnp.mean(verdict.solved),
        gradient=jnp.sqrt(sum((jnp.vdot(g, g) for g in gradient.values()), jnp.float32(0))),
        learning_rate=learning_rate(recipe.schedule, recipe.steps, run.step),
    )
    return Run(run.step + 1, weights, average, memory), report
