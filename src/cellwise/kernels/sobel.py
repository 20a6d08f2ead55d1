"""Rules that see slopes: every cell of a torus, with products of whole matrices and a gradient by hand.

A product in bfloat16, if asked for, has rounded factors; slopes, sums, states and the gradients of weights
are float32. The slopes are sums of shifted grids, which a compiler fuses with the rounding into one pass that
writes the factor of the first product.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32

from . import precision
from .reference import State
from .spec import StepSpec, Weights

Form = Literal["pad", "roll"]
"""How neighbours are reached: by slices of a grid that is written once with its border around it, or by
turning the grid, which writes nothing if the compiler fuses it all."""


def refusal(spec: StepSpec) -> str | None:
    """Why a rule cannot be run like this, or None."""
    if spec.perception != "sobel" or spec.update != "bare":
        return f"it knows fixed slopes with a bare update, not {spec.perception} with {spec.update}"
    if spec.padding != "wrap":
        return "it knows boards that wrap"
    if spec.frozen or spec.unit is not None:
        return "it knows rules in which nothing is frozen or kept at length one"
    return None


def step(
    spec: StepSpec, weights: Weights, state: State, fire: Bool[Array, "b h w"], form: Form = "pad"
) -> State:
    """The state after one step, differentiable in weights and state."""
    del spec  # All that a rule of this kind can choose is in the shapes.
    factors = jnp.bfloat16 if precision.current() == "bf16" else jnp.float32
    return _step(factors, form, weights["update.w_in"], weights["update.w_out"], state, fire)


def seen(state: State, form: Form = "pad") -> Float32[Array, "b h w z"]:
    """What every cell perceives: each channel, its slope to the right, and its slope down."""
    right, down = _slopes(state, state, form)
    return jnp.concatenate([state, right, down], axis=-1)


def _slopes(x: Array, y: Array, form: Form) -> tuple[Array, Array]:
    """The slope of `x` to the right and that of `y` down: a difference along, of a blur across."""
    if form == "roll":
        across, along = (
            jnp.roll(grid, 1, axis) + 2.0 * grid + jnp.roll(grid, -1, axis) for grid, axis in ((x, 1), (y, 2))
        )
        return (
            (jnp.roll(across, -1, 2) - jnp.roll(across, 1, 2)) * 0.125,
            (jnp.roll(along, -1, 1) - jnp.roll(along, 1, 1)) * 0.125,
        )
    near_x = _neighbours(x)
    near_y = near_x if x is y else _neighbours(y)
    right = near_x(-1, 1) + 2.0 * near_x(0, 1) + near_x(1, 1)
    left = near_x(-1, -1) + 2.0 * near_x(0, -1) + near_x(1, -1)
    below = near_y(1, -1) + 2.0 * near_y(1, 0) + near_y(1, 1)
    above = near_y(-1, -1) + 2.0 * near_y(-1, 0) + near_y(-1, 1)
    return (right - left) * 0.125, (below - above) * 0.125


def _neighbours(x: Array) -> Callable[[int, int], Array]:
    """The grid as seen from one cell further up or down, and left or right."""
    h, w = x.shape[1:3]
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="wrap")
    return lambda dy, dx: padded[:, 1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w]


def _product(x: Array, matrix: Array, axis: int = 0) -> Float32[Array, "... k"]:
    """`x` times a matrix along the matrix's axis `axis`, summed in float32."""
    return _dot(x, matrix, (x.ndim - 1,), (axis,))


def _summed(x: Array, y: Array) -> Float32[Array, "k l"]:
    """The sum over all cells of the outer products of two vectors of each."""
    cells = tuple(range(x.ndim - 1))
    return _dot(x, y, cells, cells)


def _dot(x: Array, y: Array, of_x: tuple[int, ...], of_y: tuple[int, ...]) -> Float32[Array, "..."]:
    # Rounded factors have no more to give; others are multiplied as precisely as is asked for.
    exactly = jax.lax.Precision.DEFAULT if x.dtype == jnp.bfloat16 else None
    axes = ((of_x, of_y), ((), ()))
    return jax.lax.dot_general(x, y, axes, precision=exactly, preferred_element_type=jnp.float32)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _step(factors: type, form: Form, w_in: Array, w_out: Array, state: Array, fire: Array) -> Array:
    return _forward(factors, form, w_in, w_out, state, fire)[0]


def _forward(
    factors: type, form: Form, w_in: Array, w_out: Array, state: Array, fire: Array
) -> tuple[Array, tuple]:
    # Weights are rounded here and not once for all steps, so that gradients of steps are added in float32.
    hidden = jax.nn.relu(_product(seen(state, form).astype(factors), w_in.astype(factors))).astype(factors)
    change = _product(hidden, w_out.astype(factors), 1)
    after = state + jnp.where(fire[..., None], change, 0.0)
    return after, (w_in, w_out, state, fire, hidden)


def _backward(factors: type, form: Form, kept: tuple, g: Array) -> tuple[Array, Array, Array, None]:
    w_in, w_out, state, fire, hidden = kept
    of_change = jnp.where(fire[..., None], g, 0.0).astype(factors)
    of_hidden = jnp.where(hidden > 0, _product(of_change, w_out.astype(factors)), 0.0).astype(factors)
    itself, right, down = jnp.split(_product(of_hidden, w_in.astype(factors), 1), 3, axis=-1)
    # Both filters change their sign when they are turned around, so the transposed is the negative.
    of_right, of_down = _slopes(right, down, form)
    of_state = g + itself - of_right - of_down
    z = seen(state, form).astype(factors)  # Computed again, because it is three times the state.
    return _summed(z, of_hidden), _summed(of_change, hidden), of_state, None


_step.defvjp(_forward, _backward)
