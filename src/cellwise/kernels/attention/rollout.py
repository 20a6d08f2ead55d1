"""Many steps of all boards: to think, and to learn from with a gradient written by hand."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Bool, Float32, Int32, UInt32

from ..bits import Rate, Step
from ..reference import State
from ..spec import StepSpec, Weights
from .form import (
    Arrays,
    Boards,
    Call,
    Form,
    arranged,
    as_factors,
    grid,
    matrix,
    of_cells,
    of_channels,
    some_of,
)
from .step import Moment, moment, step, step_backward

MOST_DENSE = 128
"""Cells of the largest boards whose places are mixed by one product."""
WRITTEN_OUT, WRITTEN_OUT_THINKING = 48, 8
"""The most steps of a loop that a GPU is given one after the other; more of them take long to compile."""

_OTHERS = {"kernels": "shared kernels", "sobel": "fixed slopes", "self-attention": "self-attention"}


def refusal(spec: StepSpec) -> str | None:
    """Why a rule cannot be run like this, or None."""
    if spec.perception != "attention":
        return f"it knows attention, not {_OTHERS[spec.perception]}"
    if spec.update == "bare":
        return "it knows updates with biases"
    if spec.unit is None:
        return "it knows only rules that keep units at length one"
    if spec.padding == "token":
        return "it knows boards that wrap or end in zeros, not those that end in a token"
    return None


def suitable(size: tuple[int, int], steps: int) -> tuple[Form, int]:
    """How neighbours are best weighed on this device, and how many steps of a loop written out.

    A GPU loses a third of a training step to the copies of a loop, so the steps are written out; without
    `steps`, for thinking, only a few of them, because nothing is kept.
    """
    if jax.default_backend() == "cpu":
        return "shifts", 1
    form: Form = "dense" if size[0] * size[1] <= MOST_DENSE else "shifts"
    return form, WRITTEN_OUT if steps else WRITTEN_OUT_THINKING


def boards(
    call: Call,
    given: Bool[Array, "b h w"],
    keys: UInt32[Array, " b"],
    first: Step,
    rate: Rate,
) -> Boards:
    """What a rollout needs to know of its boards."""
    channel = of_channels(call, jnp.arange(call.spec.channels))
    free = ~(of_cells(call, given.reshape(len(keys), -1)) & (channel < call.spec.frozen))
    rates = None if isinstance(rate, float | int) else rate.reshape(len(keys), -1)
    return Boards(free, keys, jnp.asarray(first, jnp.int32), rates)


def rollout(call: Call, weights: Weights, state: State, about: Boards, steps: Int32[Array, "..."]) -> State:
    """The state after `steps` steps, not differentiable."""
    arrays = as_factors(call, arranged(call, weights))
    longest, ahead = jnp.max(steps), call.unroll if steps.ndim == 0 else 1
    last = jnp.broadcast_to(steps.reshape(-1, 1), (len(about.keys), call.places))

    def one(i: Array, x: Array) -> Array:
        moved, _ = step(call, arrays, about, x, moment(call, about, i))
        return moved if steps.ndim == 0 else jnp.where(i < of_cells(call, last), moved, x)

    def several(i: Array, x: Array) -> Array:
        for k in range(ahead):
            x = one(i * ahead + k, x)
        return x

    x = lax.fori_loop(jnp.int32(0), longest // ahead, several, matrix(call, state))
    if ahead > 1:
        x = lax.fori_loop(longest // ahead * ahead, longest, one, x)
    return grid(call, x)


def trajectory(
    call: Call, weights: Weights, state: State, about: Boards
) -> tuple[Float32[Array, "steps ..."] | None, State]:
    """The judged channels after each of the call's steps, and the state after the last; differentiable."""
    answers, x = _trajectory(call, arranged(call, weights), matrix(call, state), about)
    return answers, grid(call, x)


def _ahead(call: Call) -> int:
    """How many steps are written out one after the other: a divisor of all."""
    return max(n for n in range(1, call.steps + 1) if call.steps % n == 0 and (n == 1 or n <= call.unroll))


def _in_groups(
    body: Callable[[Any, Any], tuple[Any, Any]], carry: Any, call: Call, xs: Any, reverse: bool
) -> Any:
    """`lax.scan` over groups of steps, or no loop at all if all steps are one group.

    `xs` and what is returned with the carry are a tuple with an entry for each step of a group, whose arrays
    have a leading axis for the groups if there are several.
    """
    ahead = _ahead(call)

    def group(carry: Any, xs: Any) -> tuple[Any, Any]:
        ys: list[Any] = [None] * ahead
        for k in range(ahead)[::-1] if reverse else range(ahead):
            carry, ys[k] = body(carry, xs[k])
        return carry, tuple(ys)

    return group(carry, xs) if ahead == call.steps else lax.scan(group, carry, xs, reverse=reverse)


def _by_step(call: Call, parts: tuple[Array, ...]) -> Array:
    """What `_in_groups` returned for the steps, one after the other."""
    if _ahead(call) == call.steps:
        return jnp.stack(parts)
    return jnp.stack(parts, axis=1).reshape(call.steps, *parts[0].shape[1:])


def _by_group(call: Call, steps: Any) -> tuple[Any, ...]:
    """The reverse of `_by_step`, of all arrays of a tree."""
    ahead = _ahead(call)
    if ahead == call.steps:
        return tuple(jax.tree.map(lambda x, k=k: x[k], steps) for k in range(ahead))
    return tuple(
        jax.tree.map(lambda x, k=k: x.reshape(-1, ahead, *x.shape[1:])[:, k], steps) for k in range(ahead)
    )


def _moments(call: Call, about: Boards) -> tuple[Moment, ...]:
    """The keys of all steps."""
    steps = jnp.arange(call.steps, dtype=jnp.int32)
    return _by_group(call, jax.vmap(lambda i: moment(call, about, i))(steps))


def _trajectory_value(call: Call, arrays: Arrays, x: Array, about: Boards) -> tuple[Array | None, Array]:
    return _trajectory_forward(call, arrays, x, about)[0]


def _trajectory_forward(call: Call, arrays: Arrays, x: Array, about: Boards) -> tuple[tuple, tuple]:
    factors = as_factors(call, arrays)

    def body(x: Array, at: Moment) -> tuple[Array, tuple]:
        x, saved = step(call, factors, about, x, at)
        return x, (saved, some_of(call, x, *call.answers) if call.answers else None)

    moments = _moments(call, about)
    x, kept = _in_groups(body, x, call, moments, reverse=False)
    answers = _by_step(call, tuple(answer for _, answer in kept)) if call.answers else None
    return (answers, x), (factors, about, moments, tuple(saved for saved, _ in kept))


def _trajectory_backward(call: Call, residuals: tuple, slopes: tuple) -> tuple:
    factors, about, moments, saved = residuals
    of_answers, of_end = slopes
    judged = _by_group(call, of_answers) if call.answers else (None,) * _ahead(call)
    first, last = call.answers or (0, 0)

    def body(carry: tuple, x: tuple) -> tuple[tuple, None]:
        (g, total), (at, saved, judged) = carry, x
        if judged is not None:
            around = [(0, 0), (0, 0)]
            around[call.axis] = (first, call.spec.channels - last)
            g = g + jnp.pad(judged, around)
        g, found = step_backward(call, factors, about, saved, g, at)
        return (g, jax.tree.map(jnp.add, total, found)), None

    zero = jax.tree.map(lambda a: jnp.zeros(a.shape, jnp.float32), factors)
    xs = tuple(zip(moments, saved, judged, strict=True))
    (g, total), _ = _in_groups(body, (of_end, zero), call, xs, reverse=True)
    return total, g, None


_trajectory = jax.custom_vjp(_trajectory_value, nondiff_argnums=(0,))
_trajectory.defvjp(_trajectory_forward, _trajectory_backward)
