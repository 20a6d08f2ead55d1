"""The definition: one step of an automaton, written to be read. Every faster path is tested against it.

    z  = what the cell perceives of its 3×3 neighbourhood
    d  = update(z), for the cells that fire and the entries that are not frozen
    x' = x + d, and where there are units: d loses its part along x, and x + d is brought to length one

State is `[b, h, w, c]`. All products run at the precision that `jax.default_matmul_precision` sets.
"""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32

from .spec import EPS, OFFSETS, SOBEL, StepSpec, Weights, beyond_edge

State = Float32[Array, "b h w c"]


def step(
    spec: StepSpec, weights: Weights, state: State, given: Bool[Array, "b h w"], fire: Bool[Array, "b h w"]
) -> State:
    """The state after one step; frozen entries are constants, also to differentiation."""
    frozen = frozen_entries(spec, given)
    state = jnp.where(frozen, jax.lax.stop_gradient(state), state)
    change = update(spec, weights, perceive(spec, weights, state))
    change = jnp.where(fire[..., None] & ~frozen, change, 0.0)
    return advance(spec, state, change)


def frozen_entries(spec: StepSpec, given: Bool[Array, "b h w"]) -> Bool[Array, "b h w c"]:
    """The entries of the state that never change."""
    return given[..., None] & (jnp.arange(spec.channels) < spec.frozen)[None, None, None]


def advance(spec: StepSpec, state: Float32[Array, "... c"], change: Float32[Array, "... c"]) -> Array:
    """Adds the change and, where the rule has units, keeps every unit on its sphere."""
    if spec.unit is None:
        return state + change
    if spec.tangent:
        x, d = split_units(spec, state), split_units(spec, change)
        change = join_units(spec, change, d - jnp.sum(d * x, axis=-1, keepdims=True) * x)
    return normalise(spec, state + change)


def normalise(spec: StepSpec, state: Float32[Array, "... c"]) -> Float32[Array, "... c"]:
    """Brings every unit to length one; a unit of zeros stays zero."""
    if spec.unit is None:
        return state
    x = split_units(spec, state)
    square = jnp.sum(x * x, axis=-1, keepdims=True)
    if spec.eps_inside:
        return join_units(spec, state, x / jnp.sqrt(square + EPS))
    is_zero = square == 0.0  # sqrt has no gradient there
    length = jnp.where(is_zero, 0.0, jnp.sqrt(jnp.where(is_zero, 1.0, square)))
    return join_units(spec, state, x / (length + EPS))


def split_units(spec: StepSpec, state: Float32[Array, "... c"]) -> Float32[Array, "... u k"]:
    """The normalised channels as units."""
    return state[..., spec.first_unit :].reshape(*state.shape[:-1], -1, spec.unit or 1)


def join_units(
    spec: StepSpec, state: Float32[Array, "... c"], units: Float32[Array, "... u k"]
) -> Float32[Array, "... c"]:
    """`state` with its units replaced."""
    flat = units.reshape(*state.shape[:-1], -1)
    return jnp.concatenate([state[..., : spec.first_unit], flat], axis=-1) if spec.first_unit else flat


def pad(spec: StepSpec, grid: Float32[Array, "b h w k"], beyond: Float32[Array, " k"]) -> Array:
    """The grid with one more cell on every side."""
    edge = ((0, 0), (1, 1), (1, 1), (0, 0))
    if spec.padding == "wrap":
        return jnp.pad(grid, edge, mode="wrap")
    inside = jnp.pad(jnp.ones((1, *grid.shape[1:3], 1), bool), edge)
    return jnp.where(inside, jnp.pad(grid, edge), beyond[None, None, None, :])


def neighbours(padded: Float32[Array, "b rows columns k"]) -> list[Array]:
    """The nine shifted views of a padded grid, in raster order."""
    h, w = padded.shape[1] - 2, padded.shape[2] - 2
    return [padded[:, 1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w] for dy, dx in OFFSETS]


def perceive(spec: StepSpec, weights: Weights, state: State) -> Float32[Array, "b h w z"]:
    """What every cell perceives, head-major: `z[m·k + d]` is number `d` of head `m`."""
    b, h, w, c = state.shape
    beyond = beyond_edge(spec, weights)
    if spec.perception == "kernels":
        kernels, around = weights["perceive.kernels"], neighbours(pad(spec, state, beyond))
        heads = [sum(kernels[m, n] * around[n] for n in range(9)) for m in range(spec.heads)]
        return jnp.concatenate([jnp.asarray(head) for head in heads], axis=-1)
    if spec.perception == "sobel":
        around = neighbours(pad(spec, state, beyond))
        slopes = [sum(k * x for k, x in zip(kernel, around, strict=True) if k) for kernel in SOBEL]
        return jnp.concatenate([jnp.asarray(slope) for slope in slopes], axis=-1)
    if spec.perception == "self-attention":
        return attend(spec, weights, state)
    # The projection is linear, so it is applied once to each cell and not once to each neighbour.
    value = weights["perceive.value"].reshape(c, c)
    projected = state @ value.T
    around = [n.reshape(b, h, w, spec.heads, -1) for n in neighbours(pad(spec, projected, value @ beyond))]
    attention = weights["perceive.attention"]
    if attention.ndim == 2:
        attention = jnp.broadcast_to(attention, (h, w, *attention.shape))
    z = sum(attention[None, :, :, :, n, None] * around[n] for n in range(9))
    return jnp.asarray(z).reshape(b, h, w, c)


def attend(spec: StepSpec, weights: Weights, state: State) -> Float32[Array, "b h w z"]:
    """What every cell perceives if each head weighs neighbours by their keys and the cell's own query."""
    b, h, w, c = state.shape
    state = state + weights["perceive.places"][None]
    query, key, value = (weights[f"perceive.{name}"].reshape(c, c) for name in ("query", "key", "value"))
    beyond = beyond_edge(spec, weights)

    def around(matrix: Array) -> list[Array]:
        projected = pad(spec, state @ matrix.T, matrix @ beyond)
        return [near.reshape(b, h, w, spec.heads, -1) for near in neighbours(projected)]

    asked = (state @ query.T).reshape(b, h, w, spec.heads, -1) / (c // spec.heads) ** 0.5
    fit = jnp.stack([jnp.sum(asked * near, axis=-1) for near in around(key)])
    shares = jax.nn.softmax(fit, axis=0)
    z = sum(share[..., None] * near for share, near in zip(shares, around(value), strict=True))
    return jnp.asarray(z).reshape(b, h, w, c)


def update(spec: StepSpec, weights: Weights, z: Float32[Array, "... z"]) -> Float32[Array, "... c"]:
    """The change that a cell proposes for itself."""
    if spec.update == "bare":
        return jax.nn.relu(z @ weights["update.w_in"]) @ weights["update.w_out"].T
    b_in, b_out = _last_axis(weights["update.b_in"], z), _last_axis(weights["update.b_out"], z)
    hidden = z @ weights["update.w_in"] + b_in
    if spec.update == "swiglu":
        gate = z @ weights["update.w_gate"] + _last_axis(weights["update.b_gate"], z)
        hidden = jax.nn.swish(gate) * hidden
    else:
        hidden = jax.nn.relu(hidden)
    return hidden @ weights["update.w_out"].T + b_out


def _last_axis(bias: Float32[Array, " k"], like: Array) -> Array:
    return bias.reshape((1,) * (like.ndim - 1) + bias.shape)
