"""Many steps: the loop around the kernels."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float32, Int32

from ..kernels.bits import Keys, Step
from ..kernels.dispatch import Noise, Path, Rate
from ..kernels.reference import State
from ..kernels.spec import StepSpec, Weights

Count = Int32[Array, ""] | Int32[Array, " b"] | int
"""A step or a number of steps, the same for all boards or one for each."""


def one_step(
    spec: StepSpec,
    weights: Weights,
    state: State,
    plan: Any,
    keys: Keys,
    step: Step,
    *,
    path: Path,
    rate: Rate,
    noise: Noise | None,
) -> State:
    """One step and the noise after it; `step` counts from the start of the trajectory."""
    state = path.step(spec, weights, state, plan, keys, step, rate)
    if noise is None or noise.when * noise.where * noise.size == 0:
        return state
    return path.kick(spec, state, plan, keys, step, noise)


def rollout(
    spec: StepSpec,
    weights: Weights,
    state: State,
    plan: Any,
    keys: Keys,
    first: Count,
    steps: Count,
    *,
    path: Path,
    rate: Rate,
    noise: Noise | None = None,
) -> State:
    """The state after steps `first … first + steps - 1`, not differentiable; `steps` may be traced."""
    first, steps = jnp.asarray(first, jnp.int32), jnp.asarray(steps, jnp.int32)

    def body(i: Array, state: State) -> State:
        moved = one_step(spec, weights, state, plan, keys, first + i, path=path, rate=rate, noise=noise)
        return moved if steps.ndim == 0 else jnp.where((i < steps)[:, None, None, None], moved, state)

    return jax.lax.fori_loop(jnp.int32(0), jnp.max(steps), body, state)


def learn(
    spec: StepSpec,
    weights: Weights,
    state: State,
    plan: Any,
    keys: Keys,
    first: Count,
    steps: int,
    target: Float32[Array, "b h w k"],
    *,
    channel: int,
    judged: Literal["all", "last"],
    path: Path,
    rate: Rate,
    noise: Noise | None = None,
) -> tuple[Float32[Array, " judged"], State]:
    """The state after some steps, and the mean squared errors after all of them or the last.

    Compared are the channels from `channel` on with `target`. Differentiable in the weights and the state.
    """
    first = jnp.asarray(first, jnp.int32)

    def body(state: State, i: Array) -> tuple[State, Array]:
        state = one_step(spec, weights, state, plan, keys, first + i, path=path, rate=rate, noise=noise)
        error = state[..., channel : channel + target.shape[-1]] - target
        return state, jnp.mean(error * error)

    state, errors = jax.lax.scan(body, state, jnp.arange(steps, dtype=jnp.int32))
    return (errors if judged == "all" else errors[-1:]), state
