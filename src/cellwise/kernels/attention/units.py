"""A change of the state that keeps every unit at length one, and its gradient."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from ..spec import EPS
from .form import Call, some_of


class _Sums(NamedTuple):
    """Of every unit: how the change lies to the state, and what a new unit is divided by.

    The unit becomes `((1 - along) · x + d) · scale`.
    """

    squares: Array
    dots: Array
    along: Array
    length: Array
    scale: Array


def _units(call: Call, x: Array) -> Array:
    """The units of a matrix, whose channels now lie along axis 1 or 2."""
    unit, first = call.spec.unit or 1, call.spec.first_unit
    if call.axis == 0:
        return x[first:].reshape(-1, unit, x.shape[1])
    return x[:, first:].reshape(len(x), -1, unit)


def _with_units(call: Call, rest: Array, units: Array) -> Array:
    """A matrix with the channels before the first unit from `rest`."""
    first = call.spec.first_unit
    units = units.reshape((-1, units.shape[2]) if call.axis == 0 else (len(units), -1))
    return jnp.concatenate([some_of(call, rest, 0, first), units], axis=call.axis) if first else units


def _over(call: Call, product: Array) -> Array:
    """The sum over the channels of each unit."""
    return jnp.sum(product, axis=call.axis + 1, keepdims=True)


def _sums(call: Call, x: Array, d: Array) -> _Sums:
    """All that projection and renormalisation need of units, from one pass over their numbers."""
    spec = call.spec
    squares, dots, own = _over(call, x * x), _over(call, d * x), _over(call, d * d)
    along = dots if spec.tangent else jnp.zeros_like(dots)
    kept = 1 - along
    square = jnp.maximum(kept * kept * squares + 2 * kept * dots + own, 0.0)
    length = jnp.sqrt(square + EPS if spec.eps_inside else square)
    return _Sums(squares, dots, along, length, 1 / (length if spec.eps_inside else length + EPS))


def moved(call: Call, x: Array, change: Array) -> Array:
    """The state with a change, every unit at length one."""
    a, d = _units(call, x), _units(call, change)
    of = _sums(call, a, d)
    return _with_units(call, x + change, ((1 - of.along) * a + d) * of.scale)


def moved_backward(call: Call, x: Array, change: Array, g: Array) -> tuple[Array, Array]:
    """The gradients of state and change from the gradient `g` of the moved state."""
    a, d, e = _units(call, x), _units(call, change), _units(call, g)
    of = _sums(call, a, d)
    on_state, on_change, kept = _over(call, e * a), _over(call, e * d), 1 - of.along
    onto = (kept * on_state + on_change) * of.scale * of.scale / jnp.where(of.length > 0, of.length, 1.0)
    onto = jnp.where(of.length > 0, onto, 0.0)
    of_moved = of.scale * e - onto * (kept * a + d)
    if not call.spec.tangent:
        both = _with_units(call, g, of_moved)
        return both, both
    inward = of.scale * on_state - onto * (kept * of.squares + of.dots)
    of_state, of_change = kept * of_moved - inward * d, of_moved - inward * a
    return _with_units(call, g, of_state), _with_units(call, g, of_change)
