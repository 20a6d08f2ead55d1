"""Rules that see slopes: every cell of a torus, with products of whole matrices and a gradient by hand.

A product in bfloat16, if asked for, has rounded factors; slopes, sums, states and the gradients of weights
are float32. The slopes are sums of shifted grids, which a compiler fuses with the rounding into one pass that
writes the factor of the first product.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32

from . import precision
from .reference import State
from .spec import StepSpec, Weights


def refusal(spec: StepSpec) -> str | None:
    """Why a rule cannot be run like this, or None."""
    if spec.perception != "sobel" or spec.update != "bare":
        return f"it knows fixed slopes with a bare update, not {spec.perception} with {spec.update}"
    if spec.padding != "wrap":
        return "it knows boards that wrap"
    if spec.frozen or spec.unit is not None:
        return "it knows rules in which nothing is frozen or kept at length one"
    return None


def step(spec: StepSpec, weights: Weights, state: State, fire: Bool[Array, "b h w"]) -> State:
    """The state after one step, differentiable in weights and state."""
    del spec  # All that a rule of this kind can choose is in the shapes.
    factors = jnp.bfloat16 if precision.current() == "bf16" else jnp.float32
    return _step(factors, weights["update.w_in"], weights["update.w_out"], state, fire)


def seen(state: State) -> Float32[Array, "b h w z"]:
    """What every cell perceives: each channel, its slope to the right, and its slope down."""
    right, down = _slopes(state, state)
    return jnp.concatenate([state, right, down], axis=-1)


def _slopes(x: Array, y: Array) -> tuple[Array, Array]:
    """The slope of `x` along its columns and that of `y` along its rows; a blur and a difference each."""
    across, along = _blurred(x, 1), _blurred(y, 2)
    return _difference(across, 2), _difference(along, 1)


def _blurred(x: Array, axis: int) -> Array:
    return jnp.roll(x, 1, axis) + 2.0 * x + jnp.roll(x, -1, axis)


def _difference(x: Array, axis: int) -> Array:
    return (jnp.roll(x, -1, axis) - jnp.roll(x, 1, axis)) * 0.125


def _product(x: Array, matrix: Array, axis: int = 0) -> Float32[Array, "... k"]:
    """`x` times a matrix along the matrix's axis `axis`, summed in float32."""
    dimensions = (((x.ndim - 1,), (axis,)), ((), ()))
    return jax.lax.dot_general(x, matrix, dimensions, preferred_element_type=jnp.float32)


def _summed(x: Array, y: Array) -> Float32[Array, "k l"]:
    """The sum over all cells of the outer products of two vectors of each."""
    cells = tuple(range(x.ndim - 1))
    return jax.lax.dot_general(x, y, ((cells, cells), ((), ())), preferred_element_type=jnp.float32)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _step(factors: type, w_in: Array, w_out: Array, state: Array, fire: Array) -> Array:
    return _forward(factors, w_in, w_out, state, fire)[0]


def _forward(factors: type, w_in: Array, w_out: Array, state: Array, fire: Array) -> tuple[Array, tuple]:
    # Weights are rounded here and not once for all steps, so that gradients of steps are added in float32.
    hidden = jax.nn.relu(_product(seen(state).astype(factors), w_in.astype(factors))).astype(factors)
    change = _product(hidden, w_out.astype(factors), 1)
    after = state + jnp.where(fire[..., None], change, 0.0)
    return after, (w_in, w_out, state, fire, hidden)


def _backward(factors: type, kept: tuple, g: Array) -> tuple[Array, Array, Array, None]:
    w_in, w_out, state, fire, hidden = kept
    of_change = jnp.where(fire[..., None], g, 0.0).astype(factors)
    of_hidden = jnp.where(hidden > 0, _product(of_change, w_out.astype(factors)), 0.0).astype(factors)
    itself, right, down = jnp.split(_product(of_hidden, w_in.astype(factors), 1), 3, axis=-1)
    # Both filters change their sign when they are turned around, so the transposed is the negative.
    of_right, of_down = _slopes(right, down)
    of_state = g + itself - of_right - of_down
    z = seen(state).astype(factors)  # Computed again, because it is three times the state.
    return _summed(z, of_hidden), _summed(of_change, hidden), of_state, None


_step.defvjp(_forward, _backward)
