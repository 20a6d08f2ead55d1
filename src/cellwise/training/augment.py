"""Random symmetries of a batch of boards, drawn and applied on the device.

`per` says how often one is drawn: for each sample, or once for the whole batch as the released training
code does. Everything here is pure and can be compiled with `per` and `bands` static.
"""

import itertools
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, PRNGKeyArray, Shaped, UInt8

from ..puzzles.dihedral import dihedral

Per = Literal["sample", "batch"]
Bands = Literal["free", "tied"]

_ORDERS_OF_THREE = np.array(list(itertools.permutations(range(3))), np.int32)


def augment_maze(
    key: PRNGKeyArray, target: UInt8[Array, "b h w"], given: Bool[Array, "b h w"], per: Per = "sample"
) -> tuple[UInt8[Array, "b h w"], Bool[Array, "b h w"]]:
    """Turns and mirrors the boards: one of 8 ways if they are square, of the 4 that keep the shape if not."""
    count, height, width = target.shape
    index = np.arange(height * width, dtype=np.int32).reshape(height, width)
    ways = [way for k in range(8) if (way := dihedral(index, k)).shape == index.shape]
    drawn = jax.random.randint(key, (_draws(count, per),), 0, len(ways))
    sources = jnp.asarray(np.stack(ways).reshape(len(ways), -1))[drawn]
    return _gather(target, sources), _gather(given, sources)


class SudokuDraw(NamedTuple):
    """`d` random Sudoku symmetries, each with the fields of `puzzles.sudoku_symmetry.Symmetry`."""

    transpose: Bool[Array, " d"]
    rows: Int32[Array, "d 9"]
    columns: Int32[Array, "d 9"]
    digits: UInt8[Array, "d 10"]


def draw_sudoku(key: PRNGKeyArray, count: int, bands: Bands = "free") -> SudokuDraw:
    """Draws `count` independent symmetries.

    `free` is uniform over the whole group. `tied` lets the three bands share one permutation of their
    rows, and the three stacks one of their columns, as the released training code does.
    """
    transpose, rows, columns, digits = jax.random.split(key, 4)
    renamed = 1 + jnp.argsort(jax.random.bits(digits, (count, 9)), axis=1)
    return SudokuDraw(
        transpose=jax.random.bernoulli(transpose, shape=(count,)),
        rows=_random_lines(rows, count, bands),
        columns=_random_lines(columns, count, bands),
        digits=jnp.pad(renamed, ((0, 0), (1, 0))).astype(jnp.uint8),
    )


def augment_sudoku(
    key: PRNGKeyArray,
    target: UInt8[Array, "b 9 9"],
    given: Bool[Array, "b 9 9"],
    per: Per = "sample",
    bands: Bands = "free",
) -> tuple[UInt8[Array, "b 9 9"], Bool[Array, "b 9 9"]]:
    """Maps the boards by the symmetries that `draw_sudoku` draws from `key`; solutions stay solutions."""
    count = len(target)
    draw = draw_sudoku(key, _draws(count, per), bands)
    rows, columns = draw.rows[:, :, None], draw.columns[:, None, :]
    sources = jnp.where(draw.transpose[:, None, None], columns * 9 + rows, rows * 9 + columns).reshape(-1, 81)
    digits = jnp.broadcast_to(draw.digits, (count, 10))
    moved = _gather(target, sources).reshape(count, 81).astype(jnp.int32)
    renamed = jnp.take_along_axis(digits, moved, axis=1).reshape(count, 9, 9)
    return renamed, _gather(given, sources)


def _draws(count: int, per: Per) -> int:
    return count if per == "sample" else 1


def _random_lines(key: PRNGKeyArray, count: int, bands: Bands) -> Int32[Array, "d 9"]:
    """Random orders of nine lines that keep the three bands together."""
    drawn = jax.random.randint(key, (count, 4 if bands == "free" else 2), 0, len(_ORDERS_OF_THREE))
    orders = jnp.asarray(_ORDERS_OF_THREE)[drawn]
    band, lines = orders[:, 0, :, None], orders[:, 1:]
    return (band * 3 + lines).reshape(count, 9)


def _gather(cells: Shaped[Array, "b h w"], sources: Int32[Array, "d n"]) -> Shaped[Array, "b h w"]:
    """Takes every cell from its source, a position counted row by row; one row of sources may serve all."""
    flat = cells.reshape(len(cells), -1)
    return jnp.take_along_axis(flat, jnp.broadcast_to(sources, flat.shape), axis=1).reshape(cells.shape)
