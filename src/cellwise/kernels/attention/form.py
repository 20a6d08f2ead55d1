"""The two forms in which a rollout computes: how states lie in memory and what a product is then."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jaxtyping import Bool, Float, Float32, Int32, UInt32

from ..noise import Noise
from ..precision import Precision
from ..reference import State
from ..spec import OFFSETS, StepSpec, Weights

Form = Literal["dense", "shifts"]
ONES: dict[Form, int] = {"dense": 8, "shifts": 1}
"""Numbers after those that a cell perceives, the first a one; eight keep rows of bfloat16 aligned."""


@dataclass(frozen=True)
class Call:
    """All that a rollout is compiled for besides shapes."""

    spec: StepSpec
    form: Form
    precision: Precision
    size: tuple[int, int]
    rate: float | None
    """None if each cell has a rate of its own."""
    noise: Noise | None
    unroll: int
    steps: int = 0
    """When learning, how many steps."""
    answers: tuple[int, int] | None = None
    """When learning from every step, the channels that are judged."""

    @property
    def axis(self) -> int:
        """Along which axis the channels lie."""
        return 0 if self.form == "dense" else 1

    @property
    def places(self) -> int:
        """How many cells a board has."""
        return self.size[0] * self.size[1]

    @property
    def factors(self) -> Any:
        """The type of factors of products."""
        return jnp.bfloat16 if self.precision == "bf16" else jnp.float32


class Arrays(NamedTuple):
    """The weights of a step as the loop wants them."""

    value: Float[Array, "e c2"]
    weighing: Float[Array, "..."]
    into: Float[Array, "hidden z"]
    out: Float[Array, "c hidden"]
    bias: Float[Array, " c"]


class Boards(NamedTuple):
    """What stays the same during a rollout: `free` says which entries may change."""

    free: Bool[Array, "..."]
    keys: UInt32[Array, " b"]
    first: Int32[Array, "..."]
    rates: Float32[Array, "b places"] | None


def matrix(call: Call, grid: Float32[Array, "b h w k"]) -> Float32[Array, "..."]:
    """A grid in the form of the call."""
    k = grid.shape[3]
    return grid.transpose(3, 1, 2, 0).reshape(k, -1) if call.axis == 0 else grid.reshape(-1, k)


def grid(call: Call, matrix: Float32[Array, "..."]) -> State:
    """The reverse of `matrix`."""
    k = matrix.shape[call.axis]
    if call.axis == 0:
        return matrix.reshape(k, *call.size, -1).transpose(3, 1, 2, 0)
    return matrix.reshape(-1, *call.size, k)


def of_cells(call: Call, cells: Array) -> Array:
    """A number for each cell `[b, places]`, to stand beside a matrix."""
    return cells.T.reshape(1, -1) if call.axis == 0 else cells.reshape(-1, 1)


def of_channels(call: Call, channels: Array) -> Array:
    """A number for each channel, to stand beside a matrix."""
    return channels[:, None] if call.axis == 0 else channels[None]


def some_of(call: Call, matrix: Array, first: int, last: int) -> Array:
    """The channels from `first` up to `last`."""
    return lax.slice_in_dim(matrix, first, last, axis=call.axis)


def arranged(call: Call, weights: Weights) -> Arrays:
    """The weights of a rule for `call`, differentiable."""
    spec, ones = call.spec, ONES[call.form]
    c, places = spec.channels, call.places
    value, hidden = weights["perceive.value"].reshape(c, c), [weights["update.w_in"], weights["update.b_in"]]
    gates = [[weights["update.w_gate"], weights["update.b_gate"]]] if spec.update == "swiglu" else []
    columns = [
        jnp.concatenate([w.T, b[:, None], jnp.zeros((len(b), ones - 1), jnp.float32)], axis=1)
        for w, b in [*gates, hidden]
    ]
    a = weights["perceive.attention"]
    a = jnp.broadcast_to(a, (*call.size, spec.heads, 9)).reshape(places, spec.heads, 9)
    if call.form == "shifts":
        weighing = a.transpose(2, 0, 1)
    else:
        value = jnp.pad(value, ((0, ones), (0, ones))) + np.diag(
            (np.arange(c + ones) >= c).astype(np.float32)
        )
        # Summed one by one because a product might be rounded.
        to = _neighbour_matrices(spec, call.size).astype(np.float32)
        mixing = sum(a[:, :, n].T[:, :, None] * to[None, n] for n in range(9))
        one = jnp.broadcast_to(jnp.eye(places, dtype=jnp.float32), (ones, places, places))
        weighing = jnp.concatenate([jnp.repeat(jnp.asarray(mixing), c // spec.heads, axis=0), one])
    return Arrays(value, weighing, jnp.concatenate(columns), weights["update.w_out"], weights["update.b_out"])


def _neighbour_matrices(spec: StepSpec, size: tuple[int, int]) -> Bool[np.ndarray, "9 places places"]:
    """For each of the nine directions, whether the neighbour of a place is another."""
    h, w = size
    y, x = np.divmod(np.arange(h * w), w)
    found = np.zeros((9, h * w, h * w), bool)
    for n, (dy, dx) in enumerate(OFFSETS):
        inside = (y + dy >= 0) & (y + dy < h) & (x + dx >= 0) & (x + dx < w) | (spec.padding == "wrap")
        at = (y + dy) % h * w + (x + dx) % w
        found[n, np.arange(h * w), at] = inside
    return found


def as_factors(call: Call, arrays: Arrays) -> Arrays:
    """The arrays as factors of products; what is added or only multiplied with numbers stays float32."""
    weighing = arrays.weighing if call.form == "shifts" else arrays.weighing.astype(call.factors)
    products = {name: getattr(arrays, name).astype(call.factors) for name in ("value", "into", "out")}
    return arrays._replace(weighing=weighing, **products)


def product(
    call: Call, a: Array, b: Array, contract: Any, batch: Any = ((), ()), sums: bool = False
) -> Array:
    """A product with the call's precision, summed up in float32 and kept as factor unless `sums`."""
    how = {"float32": lax.Precision.HIGHEST, "tf32": lax.Precision.DEFAULT, "bf16": lax.Precision.DEFAULT}
    kind = jnp.float32 if sums else call.factors
    return lax.dot_general(
        a, b, (contract, batch), precision=how[call.precision], preferred_element_type=kind
    )


def times(call: Call, weights: Float[Array, "m k"], x: Array) -> Array:
    """Each cell's `k` numbers as `m`."""
    return product(call, *((weights, x, ((1,), (0,))) if call.axis == 0 else (x, weights, ((1,), (1,)))))


def times_transposed(call: Call, weights: Float[Array, "m k"], x: Array) -> Array:
    """Each cell's `m` numbers as `k`."""
    return product(call, *((weights, x, ((0,), (0,))) if call.axis == 0 else (x, weights, ((1,), (0,)))))


def summed(call: Call, g: Array, x: Array) -> Float32[Array, "m k"]:
    """The products of each cell's `m` and `k` numbers, added up over all cells."""
    if call.axis == 0:
        return product(call, g, x, ((1,), (1,)), sums=True)
    if g.shape[1] <= x.shape[1]:  # XLA's CPU back end takes twice as long with the wide one on the left.
        return product(call, g, x, ((0,), (0,)), sums=True)
    return product(call, x, g, ((0,), (0,)), sums=True).T
