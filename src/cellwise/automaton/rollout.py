"""Many steps: the loop around the kernels."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float32, Int32

from ..kernels import attention, resident, streamed
from ..kernels.bits import Keys, Step
from ..kernels.dispatch import Attention, Noise, Path, Rate, Resident, Streamed
from ..kernels.reference import State
from ..kernels.spec import StepSpec, Weights
from .firing import Adaptive

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
    rate: Rate | Adaptive,
    noise: Noise | None,
) -> State:
    """One step and the noise after it; `step` counts from the start of the trajectory."""
    if isinstance(rate, Adaptive):
        rate = rate.rates(weights, state)
    state = path.step(spec, weights, state, plan, keys, step, rate)
    if noise is None or noise.silent:
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
    rate: Rate | Adaptive,
    noise: Noise | None = None,
) -> State:
    """The state after steps `first … first + steps - 1`, not differentiable; `steps` may be traced."""
    first, steps = jnp.asarray(first, jnp.int32), jnp.asarray(steps, jnp.int32)
    noise = None if noise is None or noise.silent else noise
    if not isinstance(rate, Adaptive):
        whole = _in_one(spec, weights, state, plan, keys, first, steps, path=path, rate=rate, noise=noise)
        if whole is not None:
            return whole

    def body(i: Array, state: State) -> State:
        moved = one_step(spec, weights, state, plan, keys, first + i, path=path, rate=rate, noise=noise)
        return moved if steps.ndim == 0 else jnp.where((i < steps)[:, None, None, None], moved, state)

    return jax.lax.fori_loop(jnp.int32(0), jnp.max(steps), body, state)


def _in_one(
    spec: StepSpec,
    weights: Weights,
    state: State,
    plan: Any,
    keys: Keys,
    first: Array,
    steps: Array,
    *,
    path: Path,
    rate: Rate,
    noise: Noise | None,
) -> State | None:
    """The same where a path takes all steps together, or None where it takes them one by one."""
    if isinstance(path, Resident) and path.takes(rate):
        call = path.call(spec, rate, noise)
        return resident.rollout(call, weights, state, plan, keys, first, steps)
    if isinstance(path, Streamed):
        if path.takes(rate):
            streaming = path.call(spec, state.shape, rate, noise)
            return streamed.rollout(streaming, weights, state, plan, keys, first, steps)
        path = path.otherwise
    if isinstance(path, Attention):
        call = path.call(spec, state.shape, rate, noise)
        return attention.rollout(call, weights, state, attention.boards(call, plan, keys, first, rate), steps)
    return None


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
    noise = None if noise is None or noise.silent else noise
    if isinstance(path, Resident) and path.learns(spec, plan, rate):
        call = path.call(spec, rate, noise, keep=steps)
        return _learn_in_one(call, weights, state, plan, keys, first, target, channel=channel, judged=judged)
    last = channel + target.shape[-1]
    answers = (channel, last) if judged == "all" else None
    if isinstance(path, Streamed):
        if path.takes(rate):
            streaming = path.call(spec, state.shape, rate, noise, steps, answers)
            seen, state = streamed.trajectory(streaming, weights, state, plan, keys, first)
            if seen is None:
                return jnp.mean(jnp.square(state[..., channel:last] - target))[None], state
            return jnp.mean(jnp.square(seen - streamed.rows(target)[:, None]), axis=(0, 2, 3)), state
        path = path.otherwise
    if isinstance(path, Attention):
        call = path.call(spec, state.shape, rate, noise, steps, answers)
        about = attention.boards(call, plan, keys, first, rate)
        seen, state = attention.trajectory(call, weights, state, about)
        if seen is None:
            return jnp.mean(jnp.square(state[..., channel:last] - target))[None], state
        return jnp.mean(jnp.square(seen - attention.matrix(call, target)[None]), axis=(1, 2)), state

    def body(state: State, i: Array) -> tuple[State, Array]:
        state = one_step(spec, weights, state, plan, keys, first + i, path=path, rate=rate, noise=noise)
        error = state[..., channel : channel + target.shape[-1]] - target
        return state, jnp.mean(error * error)

    state, errors = jax.lax.scan(body, state, jnp.arange(steps, dtype=jnp.int32))
    return (errors if judged == "all" else errors[-1:]), state


def _learn_in_one(
    call: resident.Call,
    weights: Weights,
    state: State,
    plan: resident.Plan,
    keys: Keys,
    first: Array,
    target: Float32[Array, "b h w k"],
    *,
    channel: int,
    judged: Literal["all", "last"],
) -> tuple[Float32[Array, " judged"], State]:
    """`learn` where one launch takes all steps: the free cells are judged as rows, the frozen ones once."""
    answers = slice(channel, channel + target.shape[-1])
    still = jnp.square(jax.lax.stop_gradient(state)[..., answers] - target)
    live = resident.alive(plan)
    offset = jnp.sum(still) - jnp.sum(jnp.where(live[..., None], resident.free_rows(still, plan), 0.0))
    rows, state = resident.trajectory(call, weights, state, plan, keys, first)
    rows = rows if judged == "all" else rows[:, -1:]
    wanted = resident.free_rows(target, plan)[:, None]
    errors = jnp.where(live[:, None, :, None], jnp.square(rows[..., answers] - wanted), 0.0)
    return (jnp.sum(errors, axis=(0, 2, 3)) + offset) / target.size, state
