"""The pool: states left as they were, taken up again later, so that cells learn to live long."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Int32, PRNGKeyArray, UInt8

from ..automaton.layout import Automaton, start
from ..kernels.bits import Keys
from ..kernels.reference import State
from ..kernels.spec import Weights
from .augment import augment_maze, augment_sudoku
from .recipe import Recipe


class Batch(NamedTuple):
    """States with the boards they work on; `age` counts the iterations since a state began or was swapped."""

    state: State
    target: UInt8[Array, "b h w"]
    given: Bool[Array, "b h w"]
    age: Int32[Array, " b"]


class Data(NamedTuple):
    """The training boards, on the device."""

    target: UInt8[Array, "n h w"]
    given: Bool[Array, "n h w"]


def draw_boards(recipe: Recipe, data: Data, key: PRNGKeyArray, count: int) -> Data:
    """`count` random boards, without duplicates if there are enough, each drawn with a symmetry."""
    choose, turn = jax.random.split(key)
    total = len(data.target)
    # Sampling without replacement sorts the whole dataset; beyond a few thousand boards a rejection-free
    # trick does as well: an independent draw within each of `count` equal strata, starting anywhere.
    if count > total:
        index = jax.random.randint(choose, (count,), 0, total)
    elif total <= 4096:
        index = jax.random.permutation(choose, total)[:count]
    else:
        first, within = jax.random.split(choose)
        stratum = total // count
        offset = jax.random.randint(within, (count,), 0, stratum)
        index = (jnp.arange(count) * stratum + offset + jax.random.randint(first, (1,), 0, total)) % total
    target, given = data.target[index], data.given[index]
    if recipe.augment == "maze":
        target, given = augment_maze(turn, target, given, recipe.augment_per)
    elif recipe.augment == "sudoku":
        target, given = augment_sudoku(turn, target, given, recipe.augment_per, recipe.bands)
    return Data(target, given)


def begin(automaton: Automaton, weights: Weights, boards: Data, keys: Keys) -> Batch:
    """Fresh states for boards."""
    inputs = jnp.where(boards.given, boards.target, jnp.uint8(0))
    state = start(automaton, weights, inputs, boards.given, keys)
    return Batch(state, boards.target, boards.given, jnp.zeros(len(keys), jnp.int32))


def take(pool: Batch, index: Int32[Array, " b"]) -> Batch:
    """The entries at `index`."""
    return jax.tree.map(lambda whole: whole[index], pool)


def put(pool: Batch, index: Int32[Array, " b"], batch: Batch) -> Batch:
    """The pool with the entries at `index`, which must be distinct, replaced."""
    return jax.tree.map(lambda whole, part: whole.at[index].set(part, unique_indices=True), pool, batch)


def replace_first(batch: Batch, fresh: Batch) -> Batch:
    """The batch with its first entries replaced by fresh ones."""
    return jax.tree.map(lambda new, old: jnp.concatenate([new, old[len(new) :]]), fresh, batch)
