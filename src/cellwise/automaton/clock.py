"""Steps of cells that know the time: around each step of any path, what the clock adds and takes away."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int32

from ..kernels import bits, reference
from ..kernels.bits import Keys, Step
from ..kernels.dispatch import Path
from ..kernels.reference import State
from ..kernels.spec import Weights
from .layout import Automaton

Times = Int32[Array, "b h w"]


class Moment(NamedTuple):
    """The cells and how often each of them has fired."""

    state: State
    fired: Times


def begin(state: State) -> Moment:
    """The moment before the first step."""
    return Moment(state, jnp.zeros(state.shape[:3], jnp.int32))


def tick(
    automaton: Automaton,
    weights: Weights,
    now: Moment,
    plan: Any,
    keys: Keys,
    step: Step,
    *,
    path: Path,
    rate: float,
) -> Moment:
    """The moment after one step; without a clock it is the step of the path.

        y  = x + the vector of the time, in the last channels
        x' = the step of y where a cell fires, x where it does not (or y, if its vector is kept)

    and every unit is brought to length one either way.
    """
    spec, clock = automaton.step, automaton.clock
    if clock is None:
        return Moment(path.step(spec, weights, now.state, plan, keys, step, rate), now.fired)
    vectors = weights["clock.vectors"]
    if clock.reading == "local":
        told = lookup(vectors, jnp.minimum(now.fired, clock.ticks - 1))
    else:
        time = jnp.minimum(jnp.asarray(step, jnp.int32).reshape(-1), clock.ticks - 1)
        told = vectors[time][:, None, None, :]
    y = now.state.at[..., clock.first :].add(told)
    moved = path.step(spec, weights, y, plan, keys, step, rate)
    if clock.reading == "global-kept":
        return Moment(moved, now.fired)
    fire = firing(now.state, keys, step, rate)
    still = reference.normalise(spec, now.state)
    return Moment(jnp.where(fire[..., None], moved, still), now.fired + fire.astype(jnp.int32))


def advance(
    automaton: Automaton,
    weights: Weights,
    now: Moment,
    plan: Any,
    keys: Keys,
    first: Int32[Array, ""] | int,
    steps: Int32[Array, ""] | int,
    *,
    path: Path,
    rate: float,
) -> Moment:
    """The moment after steps `first … first + steps - 1`, not differentiable; both may be traced."""
    first, steps = jnp.asarray(first, jnp.int32), jnp.asarray(steps, jnp.int32)

    def body(i: Array, now: Moment) -> Moment:
        return tick(automaton, weights, now, plan, keys, first + i, path=path, rate=rate)

    return jax.lax.fori_loop(jnp.int32(0), steps, body, now)


def firing(state: State, keys: Keys, step: Step, rate: float) -> Bool[Array, "b h w"]:
    """Which cells fire: the very bits by which a path decides it."""
    b, h, w = state.shape[:3]
    cells = jnp.arange(h * w, dtype=jnp.int32)[None]
    return bits.chance(bits.at_cells(bits.at_step(keys, bits.FIRE, step), cells), rate).reshape(b, h, w)


@jax.custom_vjp
def lookup(vectors: Float32[Array, "t k"], times: Times) -> Float32[Array, "b h w k"]:
    """The vector of every cell's time; its gradient is a product, where a GPU would take turns at adding."""
    return vectors[times]


def _lookup_forward(vectors: Array, times: Array) -> tuple[Array, tuple[Array, Array]]:
    return vectors[times], (vectors, times)


def _lookup_backward(kept: tuple[Array, Array], gradient: Array) -> tuple[Array, None]:
    vectors, times = kept
    chosen = (times[..., None] == jnp.arange(len(vectors))[None, None, None]).astype(gradient.dtype)
    return jnp.einsum("bhwt,bhwk->tk", chosen, gradient), None


lookup.defvjp(_lookup_forward, _lookup_backward)
