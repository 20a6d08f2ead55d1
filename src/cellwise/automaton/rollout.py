"""Many steps: the loop around the kernels."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Int32

from ..kernels.bits import Keys, Step
from ..kernels.dispatch import Noise, Path, Rate
from ..kernels.reference import State
from ..kernels.spec import StepSpec, Weights


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
    first: Int32[Array, ""] | int,
    steps: Int32[Array, ""] | int,
    *,
    path: Path,
    rate: Rate,
    noise: Noise | None = None,
) -> State:
    """The state after steps `first … first + steps - 1`, not differentiable; `steps` may be traced."""

    def body(i: Array, state: State) -> State:
        return one_step(spec, weights, state, plan, keys, i, path=path, rate=rate, noise=noise)

    first = jnp.asarray(first, jnp.int32)
    return jax.lax.fori_loop(first, first + jnp.asarray(steps, jnp.int32), body, state)
