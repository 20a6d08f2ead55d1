"""One step of all cells, and its gradient."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Bool, Float, Float32, UInt32

from .. import bits
from ..noise import KickKeys, kick_keys, kicks_channels_first, kicks_of
from ..spec import OFFSETS
from .form import (
    ONES,
    Arrays,
    Boards,
    Call,
    of_cells,
    of_channels,
    product,
    some_of,
    summed,
    times,
    times_transposed,
)
from .units import moved, moved_backward


class Moment(NamedTuple):
    """The keys of what happens by chance at a step."""

    fire: UInt32[Array, "*steps b"]
    kick: KickKeys | None


class Saved(NamedTuple):
    """What the backward pass needs of a step, as factors of products."""

    state: Float[Array, "..."]
    projected: Float[Array, "..."]
    perceived: Float[Array, "..."]
    hidden: Float[Array, "..."]
    change: Float[Array, "..."]


def _shifted(call: Call, grid: Array, sign: int = 1) -> list[Array]:
    """What lies in each of the nine directions of every cell, or with -1 in the opposite ones."""
    h, w = call.size
    edge = ((0, 0), (1, 1), (1, 1), (0, 0))
    padded = jnp.pad(grid, edge, mode="wrap") if call.spec.padding == "wrap" else jnp.pad(grid, edge)
    return [
        padded[:, 1 + sign * dy : 1 + sign * dy + h, 1 + sign * dx : 1 + sign * dx + w] for dy, dx in OFFSETS
    ]


def _heads(call: Call, matrix: Array) -> Float[Array, "b h w heads d"]:
    return matrix.reshape(-1, *call.size, call.spec.heads, call.spec.channels // call.spec.heads)


def _weighed(call: Call, weighing: Float32[Array, "9 places heads"], x: Float[Array, "n c"]) -> Array:
    """The nine shifted grids, each times its weights, added up."""
    near = [n.astype(jnp.float32) for n in _shifted(call, x.reshape(-1, *call.size, call.spec.channels))]
    weights = weighing.reshape(9, 1, *call.size, call.spec.heads, 1)
    seen = (weights[n] * _heads(call, near[n]).astype(jnp.float32) for n in range(9))
    return jnp.asarray(sum(seen)).reshape(x.shape)


def _turned(call: Call, weighing: Float32[Array, "9 places heads"]) -> Float32[Array, "9 places heads"]:
    """The weights of the transposed of `_weighed`: what my neighbours see of me I see of them."""
    grids = weighing.reshape(9, *call.size, call.spec.heads)
    back = [_shifted(call, grids[n : n + 1], -1)[n] for n in range(9)]
    return jnp.concatenate(back[::-1]).reshape(weighing.shape)


def _perceived(call: Call, arrays: Arrays, projected: Array) -> Array:
    """What cells perceive, followed by a one."""
    if call.form == "dense":
        y = projected.reshape(len(projected), call.places, -1)
        return product(call, arrays.weighing, y, ((2,), (1,)), ((0,), (0,))).reshape(projected.shape)
    z = _weighed(call, arrays.weighing, projected).astype(call.factors)
    return jnp.concatenate([z, jnp.ones((len(z), 1), z.dtype)], axis=1)


def _activated(call: Call, before: Array) -> Array:
    """The hidden layer, as a factor."""
    if call.spec.update == "mlp":
        return jax.nn.relu(before)
    gate, linear = jnp.split(before.astype(jnp.float32), 2, axis=call.axis)
    return (jax.nn.swish(gate) * linear).astype(call.factors)


def moment(call: Call, about: Boards, i: Array) -> Moment:
    """The keys of the step with this number; made once, not in each of the many words made of them."""
    step = about.first + i
    kick = None if call.noise is None else kick_keys(about.keys, step)
    return lax.optimization_barrier(Moment(bits.at_step(about.keys, bits.FIRE, step), kick))


def step(
    call: Call, arrays: Arrays, about: Boards, x: Float32[Array, "..."], at: Moment
) -> tuple[Array, Saved]:
    """One step and the noise after it."""
    spec = call.spec
    state = x.astype(call.factors)
    if call.form == "dense":
        one = (jnp.arange(ONES["dense"]) == 0).astype(call.factors)[:, None]
        state = jnp.concatenate([state, jnp.broadcast_to(one, (len(one), x.shape[1]))])
    projected = times(call, arrays.value, state)
    perceived = _perceived(call, arrays, projected)
    hidden = times(call, arrays.into, perceived)
    hidden = jax.nn.relu(hidden) if spec.update == "mlp" else hidden
    active = hidden if spec.update == "mlp" else _activated(call, hidden)
    change = times(call, arrays.out, active).astype(jnp.float32) + of_channels(call, arrays.bias)
    change = jnp.where(_fire(call, about, at) & about.free, change, 0.0)
    after = moved(call, x, change)
    if call.noise is not None and at.kick is not None:
        cells = jnp.arange(call.places, dtype=jnp.int32)[None]
        kicks = kicks_channels_first if call.axis == 0 else kicks_of
        kick = kicks(call.noise, spec.channels, cells, at.kick)
        after = after + jnp.where(about.free, kick.reshape(after.shape), 0.0)
    return after, Saved(state, projected, perceived, hidden, change.astype(call.factors))


def _fire(call: Call, about: Boards, at: Moment) -> Bool[Array, "..."]:
    """Which cells fire."""
    cells = jnp.arange(call.places, dtype=jnp.int32)[None]
    words = bits.at_cells(at.fire, cells)
    rate = about.rates if call.rate is None else call.rate
    assert rate is not None
    return of_cells(call, bits.chance(words, rate))


def step_backward(
    call: Call, arrays: Arrays, about: Boards, saved: Saved, g: Array, at: Moment
) -> tuple[Array, Arrays]:
    """The gradients of the state before a step and of the arrays, from that of the state after it."""
    spec, c = call.spec, call.spec.channels
    x, change = some_of(call, saved.state, 0, c).astype(jnp.float32), saved.change.astype(jnp.float32)
    of_state, of_change = moved_backward(call, x, change, g)
    of_change = jnp.where(_fire(call, about, at) & about.free, of_change, 0.0)
    of_bias, of_change = of_change.sum(1 - call.axis), of_change.astype(call.factors)
    active = _activated(call, saved.hidden) if spec.update == "swiglu" else saved.hidden
    of_active = times_transposed(call, arrays.out, of_change)
    if spec.update == "mlp":
        of_hidden = jnp.where(active > 0, of_active, jnp.zeros((), of_active.dtype))
    else:
        of_hidden = jax.vjp(lambda h: _activated(call, h), saved.hidden)[1](of_active)[0]
    of_perceived = times_transposed(call, arrays.into, of_hidden)
    of_projected, of_weighing = _perceived_backward(call, arrays, saved.projected, of_perceived)
    through_value = some_of(call, times_transposed(call, arrays.value, of_projected), 0, c)
    found = Arrays(
        value=summed(call, of_projected, saved.state),
        weighing=of_weighing,
        into=summed(call, of_hidden, saved.perceived),
        out=summed(call, of_change, active),
        bias=of_bias,
    )
    return jnp.where(about.free, of_state + through_value.astype(jnp.float32), 0.0), found


def _perceived_backward(call: Call, arrays: Arrays, projected: Array, g: Array) -> tuple[Array, Array]:
    """The gradients of what is projected and of the weighing, from that of what is perceived."""
    if call.form == "dense":
        z, y = (part.reshape(len(part), call.places, -1) for part in (g, projected))
        back = product(call, arrays.weighing, z, ((1,), (1,)), ((0,), (0,))).reshape(g.shape)
        return back, product(call, z, y, ((2,), (2,)), ((0,), (0,)), sums=True)
    z = some_of(call, g, 0, call.spec.channels).astype(jnp.float32)
    back = _weighed(call, _turned(call, arrays.weighing), z).astype(call.factors)
    near = _shifted(call, projected.astype(jnp.float32).reshape(-1, *call.size, call.spec.channels))
    slopes = [jnp.sum(_heads(call, z) * _heads(call, n), axis=(0, 4)) for n in near]
    return back, jnp.stack(slopes).reshape(arrays.weighing.shape)
