"""Thinking about canvases and how wrong the answers are."""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float32, Int32, UInt8

from ..automaton import clock, layout
from ..automaton.layout import Automaton
from ..kernels import reference, rounded
from ..kernels.bits import Keys
from ..kernels.dispatch import Path, Reference
from ..kernels.spec import StepSpec, Weights
from ..puzzles.arc_canvas import PAD
from .recipe import PairRecipe
from .shelves import Laid


class Verdict(NamedTuple):
    """How a batch was answered: of each pair error and number of judged cells, and what was right."""

    error: Float32[Array, " b"]
    cells: Float32[Array, " b"]
    right: Float32[Array, " b"]
    solved: Float32[Array, " b"]


def path_for(spec: StepSpec, precision: str) -> Path:
    """How single steps are computed, which is what a clock needs; a CPU gains nothing by rounded factors."""
    gains = precision == "bf16" and jax.default_backend() != "cpu"
    return rounded.Rounded() if gains and rounded.refusal(spec) is None else Reference()


def learning(automaton: Automaton, recipe: PairRecipe) -> Automaton:
    """The automaton with the time that cells have while they learn."""
    if automaton.clock is None:
        return automaton
    return dataclasses.replace(automaton, clock=dataclasses.replace(automaton.clock, reading=recipe.clock))


def begin(
    automaton: Automaton,
    weights: Weights,
    question: UInt8[Array, "b s s"],
    context: Float32[Array, "b k"],
    keys: Keys,
) -> clock.Moment:
    """The cells before the first step; every token of a canvas is given."""
    given = jnp.ones(question.shape, bool)
    return clock.begin(layout.start(automaton, weights, question, given, keys, context))


def judge(
    automaton: Automaton,
    weights: Weights,
    laid: Laid,
    keys: Keys,
    first: Int32[Array, ""],
    *,
    recipe: PairRecipe,
    path: Path,
) -> Verdict:
    """Thinks until step `first`, then `recipe.learned` steps through which the gradient flows, and judges."""
    automaton = learning(automaton, recipe)
    spec = automaton.step
    context = weights["context.vectors"][laid.task]
    now = begin(automaton, weights, laid.question, context, keys)
    plan = path.plan(spec, jnp.ones(laid.question.shape, bool))
    how: Any = {"path": path, "rate": recipe.fire_rate}
    if recipe.learned < recipe.rollout:
        still = jax.lax.stop_gradient(weights)
        now = jax.lax.stop_gradient(clock.advance(automaton, still, now, plan, keys, 0, first, **how))
        now = now._replace(state=_told(automaton, now.state, context))

    step = partial(clock.tick, automaton, **how)
    # For the gradient a step is computed again, the cheap parts of it or all of it.
    kept = jax.checkpoint_policies.dots_saveable if recipe.remember == "products" else None
    tick = jax.checkpoint(step, policy=kept)

    def body(now: clock.Moment, i: Array) -> tuple[clock.Moment, Array]:
        now = tick(weights, now, plan, keys, first + i)
        return now, layout.answer_channels(automaton.layout, now.state)

    now, answers = jax.lax.scan(body, now, jnp.arange(recipe.learned, dtype=jnp.int32))
    return _verdict(automaton, weights, laid.target, answers[-recipe.judged :])


def _told(
    automaton: Automaton, state: Float32[Array, "b s s c"], context: Float32[Array, "b k"]
) -> Float32[Array, "b s s c"]:
    """The same state, whose context channels pass their gradient on to the context as if it stood there.

    Without this a context would never learn from a window that does not begin at the start.
    """
    blank = jnp.zeros((len(context), automaton.step.channels), jnp.float32)
    first = automaton.layout.read
    whole = blank.at[:, first : first + context.shape[1]].set(context)
    vector = reference.normalise(automaton.step, whole)[:, None, None, :]
    return state + (vector - jax.lax.stop_gradient(vector))


def _verdict(
    automaton: Automaton,
    weights: Weights,
    target: UInt8[Array, "b s s"],
    answers: Float32[Array, "judged b s s k"],
) -> Verdict:
    """What lies on padding is not judged."""
    chosen = dataclasses.replace(automaton.layout, write_first=0)
    fit = jax.nn.log_softmax(layout.logits(chosen, weights, answers), axis=-1)
    counted = (target != PAD).astype(jnp.float32)
    wanted = jnp.broadcast_to(target.astype(jnp.int32)[None, ..., None], (*fit.shape[:-1], 1))
    error = -jnp.take_along_axis(fit, wanted, axis=-1)[..., 0].mean(0) * counted
    right = (jnp.argmax(fit[-1], axis=-1).astype(jnp.uint8) == target).astype(jnp.float32) * counted
    cells = counted.sum((1, 2))
    return Verdict(
        error.sum((1, 2)), cells, right.sum((1, 2)), (right.sum((1, 2)) == cells).astype(jnp.float32)
    )


def loss(verdict: Verdict, recipe: PairRecipe) -> Float32[Array, ""]:
    """The mean error of all judged cells of a batch, or the mean of its pairs' mean errors."""
    if recipe.judge == "pairs":
        return jnp.mean(verdict.error / verdict.cells)
    return jnp.sum(verdict.error) / jnp.sum(verdict.cells)
