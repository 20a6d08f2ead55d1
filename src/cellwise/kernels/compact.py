"""Cells that can never change cost nothing: the step computed for the free cells only.

In a maze every channel of a wall is frozen, so its update is thrown away; in a perfect maze that is more
than half of all cells. This path keeps the full state but perceives and updates only the free cells, whose
indices are worked out once for a rollout (`plan`). The number of free cells must be known when the program
is compiled: `capacity` is the most that any board of the batch has.

The backward pass is written by hand because XLA's CPU back end turns the gradients of gathers into serial
scatters and those of the shared kernels into scalar reductions; here everything is a gather or a product.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int32, Shaped

from .reference import State
from .spec import OFFSETS, StepSpec, Weights, beyond_edge

TILE = 512
"""Many cells are updated so many at a time on a CPU, because their hidden layer then stays in the cache."""
TILED_FROM = 4096
"""With fewer cells, tiles gain nothing."""


class Plan(NamedTuple):
    """Where the free cells are; rows number the cells of all boards of a batch, `b·h·w` of them.

    `around[i, n]` is the row of neighbour `n` of free cell `i`, or `b·h·w` beyond the edge. `sources[i, n]`
    is the number of the free cell whose neighbour `n` is free cell `i`, or `b·capacity` for none.
    `slot[row]` is the number of the free cell in that row, or `b·capacity` for a frozen one.
    """

    cells: Int32[Array, "b capacity"]
    alive: Bool[Array, "b capacity"]
    around: Int32[Array, "m 9"]
    sources: Int32[Array, "m 9"]
    slot: Int32[Array, " rows"]


def plan(spec: StepSpec, given: Bool[Array, "b h w"], capacity: int) -> Plan:
    """Finds the free cells of every board; boards with fewer than `capacity` are filled up with idle ones."""
    b, h, w = given.shape
    flat = given.reshape(b, h * w)
    order = jnp.argsort(flat, axis=1, stable=True)[:, :capacity].astype(jnp.int32)
    alive = ~jnp.take_along_axis(flat, order, axis=1)
    boards = jnp.arange(b, dtype=jnp.int32)[:, None]
    number = jnp.where(flat, capacity, jnp.cumsum(~flat, axis=1, dtype=jnp.int32) - 1)
    slot = jnp.where(number >= capacity, b * capacity, boards * capacity + number).reshape(-1)
    step = np.array(OFFSETS, np.int32)
    # By symmetry, the cell whose neighbour n is this one lies at the opposite offset.
    around = _rows(spec, order, boards, step, (h, w))
    behind = _rows(spec, order, boards, -step, (h, w))
    sources = jnp.append(slot, np.int32(b * capacity))[behind]
    return Plan(order, alive, around.reshape(-1, 9), sources.reshape(-1, 9), slot)


def _rows(
    spec: StepSpec, cells: Array, boards: Array, offsets: np.ndarray, size: tuple[int, int]
) -> Int32[Array, "b capacity 9"]:
    """The rows of the cells at `offsets` from `cells`; `b·h·w` beyond an edge that does not wrap."""
    h, w = size
    y = cells[:, :, None] // w + offsets[None, None, :, 0]
    x = cells[:, :, None] % w + offsets[None, None, :, 1]
    rows = boards[:, :, None] * (h * w) + (y % h) * w + x % w
    if spec.padding == "wrap":
        return rows
    return jnp.where((y >= 0) & (y < h) & (x >= 0) & (x < w), rows, boards.shape[0] * h * w)


def step(
    spec: StepSpec, weights: Weights, state: State, plan: Plan, fire: Bool[Array, "b capacity"]
) -> State:
    """The state after one step; `fire` says which of the free cells fire."""
    rows = state.reshape(-1, spec.channels)
    mask = (fire & plan.alive).reshape(-1, 1).astype(rows.dtype)
    return _step(spec, weights, rows, plan, mask).reshape(state.shape)


def add(state: State, plan: Plan, change: Float32[Array, "b capacity c"]) -> State:
    """The state with a change added to its free cells."""
    rows = change.reshape(-1, change.shape[-1])
    return state + gather(with_last(rows), plan.slot).reshape(state.shape)


def gather(table: Shaped[Array, "r ..."], index: Int32[Array, "..."]) -> Shaped[Array, "..."]:
    """The rows of a table, all of which must be there."""
    return table.at[index].get(mode="promise_in_bounds")


def with_last(table: Float32[Array, "r k"], last: Array | None = None) -> Float32[Array, "r+1 k"]:
    """The table with one more row, zeros unless given, which the index of nothing points to."""
    row = jnp.zeros((1, table.shape[1]), table.dtype) if last is None else last.reshape(1, -1)
    return jnp.concatenate([table, row])


def with_edge(spec: StepSpec, weights: Weights, rows: Float32[Array, "rows c"]) -> Float32[Array, "r c"]:
    """The rows that a plan's `around` points into."""
    return rows if spec.padding == "wrap" else with_last(rows, beyond_edge(spec, weights))


def _hidden(spec: StepSpec, weights: Weights, near: Float32[Array, "m 9 c"]) -> tuple[Array, Array]:
    """What cells perceive of their neighbourhoods and what their hidden layer makes of it."""
    k = weights["perceive.kernels"]
    z = jnp.concatenate([sum(k[m, n] * near[:, n] for n in range(9)) for m in range(spec.heads)], axis=1)  # type: ignore[arg-type]
    return z, jax.nn.relu(z @ weights["update.w_in"] + weights["update.b_in"][None])


def change(spec: StepSpec, weights: Weights, near: Float32[Array, "m 9 c"]) -> Float32[Array, "m c"]:
    """What cells with these neighbourhoods propose for themselves."""
    _, hidden = _hidden(spec, weights, near)
    return hidden @ weights["update.w_out"].T + weights["update.b_out"][None]


def _step_value(spec: StepSpec, weights: Weights, rows: Array, plan: Plan, mask: Array) -> Array:
    table = with_edge(spec, weights, rows)

    def masked(around: Int32[Array, "m 9"], mask: Float32[Array, "m 1"]) -> Float32[Array, "m c"]:
        return change(spec, weights, gather(table, around)) * mask

    def in_tiles(around: Int32[Array, "m 9"], mask: Float32[Array, "m 1"]) -> Float32[Array, "m c"]:
        count = -(-len(mask) // TILE)
        size = -(-len(mask) // count)

        def split(x: Array) -> Array:
            return jnp.pad(x, ((0, count * size - len(x)), (0, 0))).reshape(count, size, -1)

        tiles = jax.lax.map(lambda tile: masked(*tile), (split(around), split(mask)))
        return tiles.reshape(count * size, -1)[: len(mask)]

    if len(mask) < TILED_FROM:
        changes = masked(plan.around, mask)
    else:
        changes = jax.lax.platform_dependent(plan.around, mask, cpu=in_tiles, default=masked)
    return rows + gather(with_last(changes), plan.slot)


def _step_forward(spec: StepSpec, weights: Weights, rows: Array, plan: Plan, mask: Array) -> tuple:
    return _step_value(spec, weights, rows, plan, mask), (weights, rows, plan, mask)


def _step_backward(spec: StepSpec, residuals: tuple, d_out: Float32[Array, "rows c"]) -> tuple:
    weights, rows, plan, mask = residuals
    near = gather(with_edge(spec, weights, rows), plan.around)
    z, hidden = _hidden(spec, weights, near)
    own = plan.around[:, 4]
    d_kept = jnp.where(plan.alive.reshape(-1, 1), gather(d_out, own), 0.0)
    d_change = d_kept * mask
    d_hidden = jnp.where(hidden > 0, d_change @ weights["update.w_out"], 0.0)
    d_z = d_hidden @ weights["update.w_in"].T
    heads = d_z.reshape(-1, spec.heads, spec.channels)

    k = weights["perceive.kernels"]
    received = gather(with_last(d_z), plan.sources).reshape(-1, 9, spec.heads, spec.channels)
    d_cells = d_kept + sum(k[m, n] * received[:, n, m] for n in range(9) for m in range(spec.heads))  # type: ignore[operator]
    d_rows = gather(with_last(d_cells), plan.slot)

    d_kernels = [jnp.einsum("amc,ac->m", heads, near[:, n]) for n in range(9)]
    d_weights = {name: jnp.zeros_like(weight) for name, weight in weights.items()} | {
        "perceive.kernels": jnp.stack(d_kernels, axis=1),
        "update.w_in": z.T @ d_hidden,
        "update.b_in": d_hidden.sum(0),
        "update.w_out": d_change.T @ hidden,
        "update.b_out": d_change.sum(0),
    }
    return d_weights, d_rows, None, None


_step = jax.custom_vjp(_step_value, nondiff_argnums=(0,))
_step.defvjp(_step_forward, _step_backward)
