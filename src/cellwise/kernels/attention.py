"""Whole rollouts of rules with attention: few large products, nothing done twice, the gradient by hand.

Inside, a state is `[c, n]`: channels first, then the places of a board, then the boards, `n = places · b`. So
every product has weights on the left and all cells of all boards on the right, sums over the channels of a
unit run over whole rows, and the neighbours are weighed by one product for each channel that mixes the places
of its boards (`dense`) or as nine shifted rows (`shifts`). Weights are brought into the form that the loop
wants (`arranged`) once for a rollout. The bias of the hidden layer is one of its columns, for which what a
cell perceives ends with ones.

With bf16 products, factors and what the backward pass needs are kept in bfloat16; sums, the state between two
steps and all gradients of weights are float32.
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
from .noise import Noise, kicks_channels_first
from .precision import Precision
from .reference import State
from .spec import EPS, OFFSETS, StepSpec, Weights

Form = Literal["dense", "shifts"]
ONES: dict[Form, int] = {"dense": 8, "shifts": 1}
"""Rows that follow what a cell perceives, the first of ones; eight of them keep rows of bfloat16 aligned."""
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

    free: Bool[Array, "c n"]
    keys: UInt32[Array, " b"]
    first: Int32[Array, "..."]
    rates: Float32[Array, "b places"] | None


class Saved(NamedTuple):
    """What the backward pass needs of a step."""

    state: Float[Array, "c2 n"]
    projected: Float[Array, "e n"]
    perceived: Float[Array, "z n"]
    hidden: Float[Array, "hidden n"]
    change: Float[Array, "c n"]


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


def rows(grid: Array) -> Array:
    """`[b, h, w, c]` as `[c, n]`."""
    return grid.transpose(3, 1, 2, 0).reshape(grid.shape[3], -1)


def grid(rows: Array, size: tuple[int, int]) -> Array:
    """`[c, n]` as `[b, h, w, c]`."""
    return rows.reshape(len(rows), *size, -1).transpose(3, 1, 2, 0)


def arranged(call: Call, weights: Weights) -> Arrays:
    """The weights of a rule for `call`, differentiable."""
    spec, ones = call.spec, ONES[call.form]
    c, places = spec.channels, call.size[0] * call.size[1]
    value, hidden = weights["perceive.value"].reshape(c, c), [weights["update.w_in"], weights["update.b_in"]]
    gates = [[weights["update.w_gate"], weights["update.b_gate"]]] if spec.update == "swiglu" else []
    columns = [
        jnp.concatenate([w.T, b[:, None], jnp.zeros((len(b), ones - 1), jnp.float32)], axis=1)
        for w, b in [*gates, hidden]
    ]
    a = weights["perceive.attention"]
    a = jnp.broadcast_to(a, (*call.size, spec.heads, 9)).reshape(places, spec.heads, 9)
    if call.form == "shifts":
        weighing = a.transpose(2, 1, 0)
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
    channel = jnp.arange(call.spec.channels)[:, None]
    free = ~(rows(given[..., None]) & (channel < call.spec.frozen))
    rates = None if isinstance(rate, float | int) else rate.reshape(len(keys), -1)
    return Boards(free, keys, jnp.asarray(first, jnp.int32), rates)


def rollout(call: Call, weights: Weights, state: State, about: Boards, steps: Int32[Array, "..."]) -> State:
    """The state after `steps` steps, not differentiable."""
    arrays = _as_factors(call, arranged(call, weights))
    longest, ahead = jnp.max(steps), call.unroll if steps.ndim == 0 else 1
    live = jnp.tile(jnp.broadcast_to(steps, about.keys.shape), call.size[0] * call.size[1])[None]

    def one(i: Array, x: Array) -> Array:
        moved, _ = _step(call, arrays, about, x, i)
        return moved if steps.ndim == 0 else jnp.where(i < live, moved, x)

    def several(i: Array, x: Array) -> Array:
        for k in range(ahead):
            x = one(i * ahead + k, x)
        return x

    x = lax.fori_loop(jnp.int32(0), longest // ahead, several, rows(state))
    if ahead > 1:
        x = lax.fori_loop(longest // ahead * ahead, longest, one, x)
    return grid(x, call.size)


def trajectory(
    call: Call, weights: Weights, state: State, about: Boards
) -> tuple[Float32[Array, "steps k n"] | None, State]:
    """The judged channels after each of the call's steps, and the state after the last; differentiable."""
    answers, x = _trajectory(call, arranged(call, weights), rows(state), about)
    return answers, grid(x, call.size)


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


LEFT, BACK, OUTER = ((1,), (0,)), ((0,), (0,)), ((1,), (1,))


def _shifted(call: Call, y: Float[Array, "c n"], sign: int = 1) -> list[Array]:
    """What lies in each of the nine directions of every cell, or with -1 in the opposite ones."""
    h, w = call.size
    edge = ((0, 0), (1, 1), (1, 1), (0, 0))
    y = y.reshape(len(y), h, w, -1)
    padded = jnp.pad(y, edge, mode="wrap") if call.spec.padding == "wrap" else jnp.pad(y, edge)
    return [
        padded[:, 1 + sign * dy : 1 + sign * dy + h, 1 + sign * dx : 1 + sign * dx + w] for dy, dx in OFFSETS
    ]


def _weighed(call: Call, weighing: Float32[Array, "9 m places"], y: Array, sign: int = 1) -> Array:
    """The nine shifted rows, each times its weights, added up; with -1 the transposed of this."""
    h, w = call.size
    if sign < 0:  # The weight of a cell for me is at that cell.
        at = _shifted(call, weighing.transpose(1, 0, 2).reshape(-1, h * w), -1)
        at = [a.reshape(-1, 9, h * w)[:, n] for n, a in enumerate(at)]
    else:
        at = list(weighing)
    near = [n.reshape(call.spec.heads, -1, h * w, y.shape[1] // (h * w)) for n in _shifted(call, y, sign)]
    total = sum(a[:, None, :, None] * n for a, n in zip(at, near, strict=True))
    return jnp.asarray(total).reshape(y.shape)


def _perceived(call: Call, arrays: Arrays, projected: Array) -> Array:
    """What cells perceive, followed by the rows of ones."""
    if call.form == "dense":
        places = call.size[0] * call.size[1]
        y = projected.reshape(len(projected), places, -1)
        return _product(call, arrays.weighing, y, ((2,), (1,)), ((0,), (0,))).reshape(projected.shape)
    z = _weighed(call, arrays.weighing, projected).astype(call.factors)
    return jnp.concatenate([z, jnp.ones((1, z.shape[1]), z.dtype)])


def _activated(call: Call, before: Array) -> Array:
    """The hidden layer, as a factor."""
    if call.spec.update == "mlp":
        return jax.nn.relu(before)
    gate, linear = jnp.split(before.astype(jnp.float32), 2)
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
    projected = _product(call, arrays.value, state, LEFT)
    perceived = _perceived(call, arrays, projected)
    hidden = _product(call, arrays.into, perceived, LEFT)
    hidden = jax.nn.relu(hidden) if spec.update == "mlp" else hidden
    active = hidden if spec.update == "mlp" else _activated(call, hidden)
    change = _product(call, arrays.out, active, LEFT).astype(jnp.float32) + arrays.bias[:, None]
    change = jnp.where(_fire(call, about, step)[None] & about.free, change, 0.0)
    moved = _moved(spec, x, change)
    if call.noise is not None:
        cells = jnp.arange(call.size[0] * call.size[1], dtype=jnp.int32)[None]
        kick = kicks_channels_first(call.noise, spec.channels, cells, about.keys, step)
        moved = moved + jnp.where(about.free, kick.reshape(moved.shape), 0.0)
    return moved, Saved(state, projected, perceived, hidden, change.astype(call.factors))


def _fire(call: Call, about: Boards, step: Array) -> Bool[Array, " n"]:
    """Which cells fire."""
    cells = jnp.arange(call.size[0] * call.size[1], dtype=jnp.int32)[None]
    words = bits.at_cells(bits.at_step(about.keys, bits.FIRE, step), cells)
    rate = about.rates if call.rate is None else call.rate
    assert rate is not None
    return bits.chance(words, rate).T.reshape(-1)


class _Sums(NamedTuple):
    """Of every unit: how the change lies to the state, and what a new unit is divided by.

    The unit becomes `((1 - along) · x + d) · scale`.
    """

    squares: Array
    dots: Array
    along: Array
    length: Array
    scale: Array


def _units(spec: StepSpec, x: Float[Array, "c n"]) -> Float[Array, "u k n"]:
    return x[spec.first_unit :].reshape(-1, spec.unit or 1, x.shape[1])


def _sums(spec: StepSpec, x: Float32[Array, "u k n"], d: Float32[Array, "u k n"]) -> _Sums:
    """All that projection and renormalisation need, from one pass over the numbers."""
    squares, dots, own = (jnp.sum(product, axis=1, keepdims=True) for product in (x * x, d * x, d * d))
    along = dots if spec.tangent else jnp.zeros_like(dots)
    kept = 1 - along
    square = jnp.maximum(kept * kept * squares + 2 * kept * dots + own, 0.0)
    length = jnp.sqrt(square + EPS if spec.eps_inside else square)
    return _Sums(squares, dots, along, length, 1 / (length if spec.eps_inside else length + EPS))


def _moved(spec: StepSpec, x: Float32[Array, "c n"], change: Float32[Array, "c n"]) -> Float32[Array, "c n"]:
    """The state with a change, every unit at length one."""
    a, d = _units(spec, x), _units(spec, change)
    of = _sums(spec, a, d)
    units = (((1 - of.along) * a + d) * of.scale).reshape(-1, x.shape[1])
    return (
        jnp.concatenate([x[: spec.first_unit] + change[: spec.first_unit], units])
        if spec.first_unit
        else units
    )


def _moved_backward(spec: StepSpec, x: Array, change: Array, g: Array) -> tuple[Array, Array]:
    """The gradients of state and change from the gradient `g` of the moved state."""
    a, d, e = _units(spec, x), _units(spec, change), _units(spec, g)
    of = _sums(spec, a, d)
    state, kick = (jnp.sum(e * other, axis=1, keepdims=True) for other in (a, d))
    kept = 1 - of.along
    onto = (kept * state + kick) * of.scale * of.scale / jnp.where(of.length > 0, of.length, 1.0)
    onto = jnp.where(of.length > 0, onto, 0.0)
    of_moved = of.scale * e - onto * (kept * a + d)
    of_state, of_change = of_moved, of_moved
    if spec.tangent:
        inward = of.scale * state - onto * (kept * of.squares + of.dots)
        of_state, of_change = kept * of_moved - inward * d, of_moved - inward * a
    both = (part.reshape(-1, x.shape[1]) for part in (of_state, of_change))
    if not spec.first_unit:
        first, second = both
        return first, second
    first, second = (jnp.concatenate([g[: spec.first_unit], part]) for part in both)
    return first, second


def _step_backward(
    call: Call, arrays: Arrays, about: Boards, saved: Saved, g: Float32[Array, "c n"], i: Array
) -> tuple[Array, Arrays]:
    """The gradients of the state before a step and of the arrays, from that of the state after it."""
    spec, c = call.spec, call.spec.channels
    x, change = (part.astype(jnp.float32) for part in (saved.state[:c], saved.change))
    of_state, of_change = _moved_backward(spec, x, change, g)
    of_change = jnp.where(_fire(call, about, about.first + i)[None] & about.free, of_change, 0.0)
    of_bias, of_change = of_change.sum(1), of_change.astype(call.factors)
    active = _activated(call, saved.hidden) if spec.update == "swiglu" else saved.hidden
    of_active = _product(call, arrays.out, of_change, BACK)
    if spec.update == "mlp":
        of_hidden = jnp.where(active > 0, of_active, jnp.zeros((), of_active.dtype))
    else:
        of_hidden = jax.vjp(lambda h: _activated(call, h), saved.hidden)[1](of_active)[0]
    of_perceived = _product(call, arrays.into, of_hidden, BACK)
    if call.form == "dense":
        places = call.size[0] * call.size[1]
        z, y = (part.reshape(len(part), places, -1) for part in (of_perceived, saved.projected))
        of_projected = _product(call, arrays.weighing, z, ((1,), (1,)), ((0,), (0,))).reshape(
            of_perceived.shape
        )
        of_weighing = _product(call, z, y, ((2,), (2,)), ((0,), (0,)), sums=True)
    else:
        of_perceived = of_perceived[:c].astype(jnp.float32)
        of_projected = _weighed(call, arrays.weighing, of_perceived, -1).astype(call.factors)
        heads = (spec.heads, -1, call.size[0] * call.size[1], len(about.keys))
        z = of_perceived.reshape(heads)
        near = (n.reshape(heads) for n in _shifted(call, saved.projected.astype(jnp.float32)))
        of_weighing = jnp.stack([jnp.sum(z * n, axis=(1, 3)) for n in near])
    of_state = of_state + _product(call, arrays.value, of_projected, BACK)[:c].astype(jnp.float32)
    found = Arrays(
        value=_product(call, of_projected, saved.state, OUTER, sums=True),
        weighing=of_weighing,
        into=_product(call, of_hidden, saved.perceived, OUTER, sums=True),
        out=_product(call, of_change, active, OUTER, sums=True),
        bias=of_bias,
    )
    return jnp.where(about.free, of_state, 0.0), found


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
        return x, (saved, x[slice(*call.answers)] if call.answers else None)

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
            g = g + jnp.pad(judged, ((first, len(g) - last), (0, 0)))
        g, found = _step_backward(call, factors, about, saved, g, i)
        return (g, jax.tree.map(jnp.add, total, found)), None

    zero = jax.tree.map(lambda a: jnp.zeros(a.shape, jnp.float32), factors)
    (g, total), _ = _in_groups(
        body, (of_end, zero), call, tuple(zip(saved, judged, strict=True)), reverse=True
    )
    return total, g, None


_trajectory = jax.custom_vjp(_trajectory_value, nondiff_argnums=(0,))
_trajectory.defvjp(_trajectory_forward, _trajectory_backward)
