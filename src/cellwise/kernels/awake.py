"""Cells that do not fire cost nothing either: the step computed for the firing cells only, on a CPU.

`compact` computes every free cell and throws away what those proposed that did not fire. Here the firing
cells are counted up first, and a loop runs over as many tiles of them as there are. What is left to do for
the others is to copy them. It cannot be differentiated, so it is for thinking, not for learning.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int32

from .compact import Plan, change, gather, with_edge, with_last
from .reference import State
from .spec import StepSpec, Weights

TILE = 128
"""So many cells are computed at a time, always, so that what a cell does depends on no other board."""


def step(
    spec: StepSpec, weights: Weights, state: State, plan: Plan, fire: Bool[Array, "b capacity"]
) -> State:
    """The state after one step; `fire` says which of the free cells fire."""
    rows = state.reshape(-1, spec.channels)
    table = with_edge(spec, weights, rows)
    mask = (fire & plan.alive).reshape(-1)
    place = jnp.cumsum(mask, dtype=jnp.int32) - 1  # of a firing cell among the firing cells
    awake = _in_order(mask, place)

    def tile(number: Array, changes: Float32[Array, "n c"]) -> Float32[Array, "n c"]:
        cells = jax.lax.dynamic_slice(awake, (number * TILE,), (TILE,))
        around = gather(plan.around, cells)
        proposed = change(spec, weights, gather(table, around))
        return jax.lax.dynamic_update_slice(changes, proposed, (number * TILE, jnp.int32(0)))

    tiles = (jnp.sum(mask, dtype=jnp.int32) + np.int32(TILE - 1)) // np.int32(TILE)
    nothing = jnp.zeros((len(awake), spec.channels), jnp.float32)
    changes = jax.lax.fori_loop(jnp.int32(0), tiles, tile, nothing)
    none = np.int32(len(awake))
    source = jnp.append(jnp.where(mask, place, none), none)
    return (rows + gather(with_last(changes), gather(source, plan.slot))).reshape(state.shape)


def _in_order(mask: Bool[Array, " m"], place: Int32[Array, " m"]) -> Int32[Array, " n"]:
    """The numbers of the cells that fire, then zeros up to a whole number of tiles."""
    n = -(-len(mask) // TILE) * TILE
    cells = jnp.arange(len(mask), dtype=jnp.int32)
    return jnp.zeros(n, jnp.int32).at[jnp.where(mask, place, n)].set(cells, mode="drop")
