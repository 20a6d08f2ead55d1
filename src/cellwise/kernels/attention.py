"""Whole rollouts of rules with attention: few large products, nothing done twice, the gradient by hand.

Inside, a state is a matrix of channels and of all cells of all boards, in one of two forms:

- `dense`, `[c, n]`, cells numbered by place and then by board: weights stand on the left of every product,
  sums over the channels of a unit run over whole rows, and the neighbours are weighed by one product for each
  channel, which mixes the places of its boards. For GPUs, where nine shifted sums cost more.
- `shifts`, `[n, c]`, cells numbered by board and then by place: the neighbours are weighed as nine shifted
  grids. For CPUs, which multiply faster this way round, and for boards that are too large to mix.

Weights are brought into the form that the loop wants (`arranged`) once for a rollout. The bias of the hidden
layer is one of its columns, for which what a cell perceives ends with a one. With bf16 products, factors and
what the backward pass needs are kept in bfloat16; sums, the state between two steps and all gradients of
weights are float32.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jaxtyping import Bool, Float, Float32, Int32, UInt32

from . import bits
from .bits import Rate, Step
from .noise import Noise, kicks, kicks_channels_first
from .precision import Precision
from .reference import State
from .spec import EPS, OFFSETS, StepSpec, Weights

Form = Literal["dense", "shifts"]
ONES: dict[Form, int] = {"dense": 8, "shifts": 1}
"""Numbers after those that a cell perceives, the first a one; eight keep rows of bfloat16 aligned."""
MOST_DENSE = 128
"""Cells of the largest boards whose places are mixed by one product."""


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


class Saved(NamedTuple):
    """What the backward pass needs of a step, as factors of products."""

    state: Float[Array, "..."]
    projected: Float[Array, "..."]
    perceived: Float[Array, "..."]
    hidden: Float[Array, "..."]
    change: Float[Array, "..."]


def refusal(spec: StepSpec) -> str | None:
    """Why a rule cannot be run like this, or None."""
    if spec.perception != "attention":
        return f"it knows attention, not {spec.perception}"
    if spec.unit is None:
        return "it knows only rules that keep units at length one"
    if spec.padding == "token":
        return "it knows boards that wrap or end in zeros, not those that end in a token"
    return None


def suitable(size: tuple[int, int], steps: int) -> tuple[Form, int]:
    """How neighbours are best weighed on this device, and how many steps of a loop written out.

    A GPU loses a third of a training step to the copies of a loop, so all of its steps are written out.
    """
    if jax.default_backend() == "cpu":
        return "shifts", 1
    return "dense" if size[0] * size[1] <= MOST_DENSE else "shifts", max(steps, 8)


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


def _of_cells(call: Call, cells: Array) -> Array:
    """A number for each cell `[b, places]`, to stand beside a matrix."""
    return cells.T.reshape(1, -1) if call.axis == 0 else cells.reshape(-1, 1)


def _of_channels(call: Call, channels: Array) -> Array:
    """A number for each channel, to stand beside a matrix."""
    return channels[:, None] if call.axis == 0 else channels[None]


def _some(call: Call, matrix: Array, first: int, last: int) -> Array:
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


def boards(
    call: Call,
    given: Bool[Array, "b h w"],
    keys: UInt32[Array, " b"],
    first: Step,
    rate: Rate,
) -> Boards:
    """What a rollout needs to know of its boards."""
    channel = _of_channels(call, jnp.arange(call.spec.channels))
    free = ~(_of_cells(call, given.reshape(len(keys), -1)) & (channel < call.spec.frozen))
    rates = None if isinstance(rate, float | int) else rate.reshape(len(keys), -1)
    return Boards(free, keys, jnp.asarray(first, jnp.int32), rates)


def rollout(call: Call, weights: Weights, state: State, about: Boards, steps: Int32[Array, "..."]) -> State:
    """The state after `steps` steps, not differentiable."""
    arrays = _as_factors(call, arranged(call, weights))
    longest, ahead = jnp.max(steps), call.unroll if steps.ndim == 0 else 1
    last = jnp.broadcast_to(steps.reshape(-1, 1), (len(about.keys), call.places))

    def one(i: Array, x: Array) -> Array:
        moved, _ = _step(call, arrays, about, x, i)
        return moved if steps.ndim == 0 else jnp.where(i < _of_cells(call, last), moved, x)

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


def _as_factors(call: Call, arrays: Arrays) -> Arrays:
    """The arrays as factors of products; what is added or only multiplied with numbers stays float32."""
    weighing = arrays.weighing if call.form == "shifts" else arrays.weighing.astype(call.factors)
    products = {name: getattr(arrays, name).astype(call.factors) for name in ("value", "into", "out")}
    return arrays._replace(weighing=weighing, **products)


def _product(
    call: Call, a: Array, b: Array, contract: Any, batch: Any = ((), ()), sums: bool = False
) -> Array:
    """A product with the call's precision, summed up in float32 and kept as factor unless `sums`."""
    how = {"float32": lax.Precision.HIGHEST, "tf32": lax.Precision.DEFAULT, "bf16": lax.Precision.DEFAULT}
    kind = jnp.float32 if sums else call.factors
    return lax.dot_general(
        a, b, (contract, batch), precision=how[call.precision], preferred_element_type=kind
    )


def _times(call: Call, weights: Float[Array, "m k"], x: Array) -> Array:
    """Each cell's `k` numbers as `m`."""
    return _product(call, *((weights, x, ((1,), (0,))) if call.axis == 0 else (x, weights, ((1,), (1,)))))


def _times_transposed(call: Call, weights: Float[Array, "m k"], x: Array) -> Array:
    """Each cell's `m` numbers as `k`."""
    return _product(call, *((weights, x, ((0,), (0,))) if call.axis == 0 else (x, weights, ((1,), (0,)))))


def _summed(call: Call, g: Array, x: Array) -> Float32[Array, "m k"]:
    """The products of each cell's `m` and `k` numbers, added up over all cells."""
    if call.axis == 0:
        return _product(call, g, x, ((1,), (1,)), sums=True)
    if g.shape[1] <= x.shape[1]:  # XLA's CPU back end takes twice as long with the wide one on the left.
        return _product(call, g, x, ((0,), (0,)), sums=True)
    return _product(call, x, g, ((0,), (0,)), sums=True).T


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
        return _product(call, arrays.weighing, y, ((2,), (1,)), ((0,), (0,))).reshape(projected.shape)
    z = _weighed(call, arrays.weighing, projected).astype(call.factors)
    return jnp.concatenate([z, jnp.ones((len(z), 1), z.dtype)], axis=1)


def _activated(call: Call, before: Array) -> Array:
    """The hidden layer, as a factor."""
    if call.spec.update == "mlp":
        return jax.nn.relu(before)
    gate, linear = jnp.split(before.astype(jnp.float32), 2, axis=call.axis)
    return (jax.nn.swish(gate) * linear).astype(call.factors)


def _step(
    call: Call, arrays: Arrays, about: Boards, x: Float32[Array, "c n"], i: Array
) -> tuple[Array, Saved]:
    """One step and the noise after it."""
    spec, step = call.spec, about.first + i
    state = x.astype(call.factors)
    if call.form == "dense":
        ones = np.zeros((ONES["dense"], 1), np.float32)
        ones[0] = 1
        state = jnp.concatenate([state, jnp.broadcast_to(jnp.asarray(ones, call.factors), (8, x.shape[1]))])
    projected = _times(call, arrays.value, state)
    perceived = _perceived(call, arrays, projected)
    hidden = _times(call, arrays.into, perceived)
    hidden = jax.nn.relu(hidden) if spec.update == "mlp" else hidden
    active = hidden if spec.update == "mlp" else _activated(call, hidden)
    change = _times(call, arrays.out, active).astype(jnp.float32) + _of_channels(call, arrays.bias)
    change = jnp.where(_fire(call, about, step) & about.free, change, 0.0)
    moved = _moved(call, x, change)
    if call.noise is not None:
        cells = jnp.arange(call.places, dtype=jnp.int32)[None]
        kick = (kicks_channels_first if call.axis == 0 else kicks)(
            call.noise, spec.channels, cells, about.keys, step
        )
        moved = moved + jnp.where(about.free, kick.reshape(moved.shape), 0.0)
    return moved, Saved(state, projected, perceived, hidden, change.astype(call.factors))


def _fire(call: Call, about: Boards, step: Array) -> Bool[Array, "..."]:
    """Which cells fire."""
    cells = jnp.arange(call.places, dtype=jnp.int32)[None]
    words = bits.at_cells(bits.at_step(about.keys, bits.FIRE, step), cells)
    rate = about.rates if call.rate is None else call.rate
    assert rate is not None
    return _of_cells(call, bits.chance(words, rate))


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
    return jnp.concatenate([_some(call, rest, 0, first), units], axis=call.axis) if first else units


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


def _moved(call: Call, x: Array, change: Array) -> Array:
    """The state with a change, every unit at length one."""
    a, d = _units(call, x), _units(call, change)
    of = _sums(call, a, d)
    return _with_units(call, x + change, ((1 - of.along) * a + d) * of.scale)


def _moved_backward(call: Call, x: Array, change: Array, g: Array) -> tuple[Array, Array]:
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


def _step_backward(
    call: Call, arrays: Arrays, about: Boards, saved: Saved, g: Array, i: Array
) -> tuple[Array, Arrays]:
    """The gradients of the state before a step and of the arrays, from that of the state after it."""
    spec, c = call.spec, call.spec.channels
    x, change = _some(call, saved.state, 0, c).astype(jnp.float32), saved.change.astype(jnp.float32)
    of_state, of_change = _moved_backward(call, x, change, g)
    of_change = jnp.where(_fire(call, about, about.first + i) & about.free, of_change, 0.0)
    of_bias, of_change = of_change.sum(1 - call.axis), of_change.astype(call.factors)
    active = _activated(call, saved.hidden) if spec.update == "swiglu" else saved.hidden
    of_active = _times_transposed(call, arrays.out, of_change)
    if spec.update == "mlp":
        of_hidden = jnp.where(active > 0, of_active, jnp.zeros((), of_active.dtype))
    else:
        of_hidden = jax.vjp(lambda h: _activated(call, h), saved.hidden)[1](of_active)[0]
    of_perceived = _times_transposed(call, arrays.into, of_hidden)
    of_projected, of_weighing = _perceived_backward(call, arrays, saved.projected, of_perceived)
    through_value = _some(call, _times_transposed(call, arrays.value, of_projected), 0, c)
    found = Arrays(
        value=_summed(call, of_projected, saved.state),
        weighing=of_weighing,
        into=_summed(call, of_hidden, saved.perceived),
        out=_summed(call, of_change, active),
        bias=of_bias,
    )
    return jnp.where(about.free, of_state + through_value.astype(jnp.float32), 0.0), found


def _perceived_backward(call: Call, arrays: Arrays, projected: Array, g: Array) -> tuple[Array, Array]:
    """The gradients of what is projected and of the weighing, from that of what is perceived."""
    if call.form == "dense":
        z, y = (part.reshape(len(part), call.places, -1) for part in (g, projected))
        back = _product(call, arrays.weighing, z, ((1,), (1,)), ((0,), (0,))).reshape(g.shape)
        return back, _product(call, z, y, ((2,), (2,)), ((0,), (0,)), sums=True)
    z = _some(call, g, 0, call.spec.channels).astype(jnp.float32)
    back = _weighed(call, _turned(call, arrays.weighing), z).astype(call.factors)
    near = _shifted(call, projected.astype(jnp.float32).reshape(-1, *call.size, call.spec.channels))
    slopes = [jnp.sum(_heads(call, z) * _heads(call, n), axis=(0, 4)) for n in near]
    return back, jnp.stack(slopes).reshape(arrays.weighing.shape)


def _ahead(call: Call) -> int:
    """How many steps are written out one after the other: a divisor of all."""
    return max(n for n in range(1, call.steps + 1) if call.steps % n == 0 and (n == 1 or n <= call.unroll))


def _in_groups(
    body: Callable[[Any, Any, Any], tuple[Any, Any]], carry: Any, call: Call, xs: Any, reverse: bool
) -> Any:
    """`lax.scan` over groups of steps, or no loop at all if all steps are one group.

    The body takes the number of a step and its `x`; `xs` and what is returned with the carry are a tuple with
    an entry for each step of a group, which holds an array for all groups if there are several.
    """
    ahead = _ahead(call)
    order = range(ahead)[::-1] if reverse else range(ahead)

    def group(carry: Any, at: tuple[Any, Any]) -> tuple[Any, Any]:
        begin, xs = at
        ys: list[Any] = [None] * ahead
        for k in order:
            carry, ys[k] = body(carry, begin + k, None if xs is None else xs[k])
        return carry, tuple(ys)

    groups = call.steps // ahead
    if groups == 1:
        return group(carry, (jnp.int32(0), xs))
    begins = jnp.arange(groups, dtype=jnp.int32) * ahead
    return lax.scan(group, carry, (begins, xs), reverse=reverse)


def _by_step(call: Call, parts: tuple[Array, ...]) -> Array:
    """What `_in_groups` returned for the steps, one after the other."""
    if _ahead(call) == call.steps:
        return jnp.stack(parts)
    return jnp.stack(parts, axis=1).reshape(call.steps, *parts[0].shape[1:])


def _by_group(call: Call, steps: Array) -> tuple[Array, ...]:
    """The reverse of `_by_step`."""
    ahead = _ahead(call)
    if ahead == call.steps:
        return tuple(steps)
    return tuple(steps.reshape(-1, ahead, *steps.shape[1:])[:, k] for k in range(ahead))


def _trajectory_value(call: Call, arrays: Arrays, x: Array, about: Boards) -> tuple[Array | None, Array]:
    return _trajectory_forward(call, arrays, x, about)[0]


def _trajectory_forward(call: Call, arrays: Arrays, x: Array, about: Boards) -> tuple[tuple, tuple]:
    factors = _as_factors(call, arrays)

    def body(x: Array, i: Array, _: None) -> tuple[Array, tuple]:
        x, saved = _step(call, factors, about, x, i)
        return x, (saved, _some(call, x, *call.answers) if call.answers else None)

    x, kept = _in_groups(body, x, call, None, reverse=False)
    answers = _by_step(call, tuple(answer for _, answer in kept)) if call.answers else None
    return (answers, x), (factors, about, tuple(saved for saved, _ in kept))


def _trajectory_backward(call: Call, residuals: tuple, slopes: tuple) -> tuple:
    factors, about, saved = residuals
    of_answers, of_end = slopes
    judged = _by_group(call, of_answers) if call.answers else (None,) * _ahead(call)
    first, last = call.answers or (0, 0)

    def body(carry: tuple, i: Array, at: tuple) -> tuple[tuple, None]:
        g, total = carry
        saved, judged = at
        if judged is not None:
            around = [(0, 0), (0, 0)]
            around[call.axis] = (first, call.spec.channels - last)
            g = g + jnp.pad(judged, around)
        g, found = _step_backward(call, factors, about, saved, g, i)
        return (g, jax.tree.map(jnp.add, total, found)), None

    zero = jax.tree.map(lambda a: jnp.zeros(a.shape, jnp.float32), factors)
    (g, total), _ = _in_groups(
        body, (of_end, zero), call, tuple(zip(saved, judged, strict=True)), reverse=True
    )
    return total, g, None


_trajectory = jax.custom_vjp(_trajectory_value, nondiff_argnums=(0,))
_trajectory.defvjp(_trajectory_forward, _trajectory_backward)
