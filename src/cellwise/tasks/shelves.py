"""Pairs of grids on the device, sorted by the canvas they need, and laid on it at random.

What is drawn for an iteration is a function of its number, and a batch has pairs of every shelf, as many as
its share asks for.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Int32, PRNGKeyArray, UInt8

from ..puzzles.arc_canvas import BORDER, MARGIN, PAD, room
from ..puzzles.arc_pairs import Pairs


class Shelf(NamedTuple):
    """Pairs for one size of canvas: grids in the corner of squares with their shapes, and their tasks."""

    input: UInt8[Array, "n k k"]
    output: UInt8[Array, "n k k"]
    shapes: Int32[Array, "n 4"]
    task: Int32[Array, " n"]

    @property
    def side(self) -> int:
        """The side of the canvas."""
        return self.input.shape[1] + MARGIN


class Laid(NamedTuple):
    """A batch on its canvas."""

    question: UInt8[Array, "b s s"]
    target: UInt8[Array, "b s s"]
    task: Int32[Array, " b"]


def shelve(pairs: Pairs, sides: tuple[int, ...]) -> tuple[Shelf, ...]:
    """The pairs on shelves, smallest canvas first, each on the first that has room; no shelf is empty."""
    ordered = sorted(set(sides))
    place = np.searchsorted([room(side) for side in ordered], pairs.longest)
    shelves = []
    for number, side in enumerate(ordered):
        # What is too large for every canvas is cut off by the largest.
        some = pairs.where(np.minimum(place, len(ordered) - 1) == number)
        if len(some):
            grids = some.padded(max(room(side), int(some.longest.max())))
            grids = (grid[:, : room(side), : room(side)] for grid in grids)
            shelves.append(Shelf(*map(jnp.asarray, (*grids, some.shapes, some.task))))
    return tuple(shelves)


def shares(shelves: tuple[Shelf, ...], batch: int, small: float) -> tuple[int, ...]:
    """How many pairs of a batch come from each shelf; at least one, if the batch is large enough."""
    weight = np.array([len(shelf.task) * float(shelf.side) ** (-2 * small) for shelf in shelves])
    wanted = batch * weight / weight.sum()
    counts = np.maximum(np.floor(wanted).astype(int), int(batch >= len(shelves)))
    while counts.sum() != batch:
        step = 1 if counts.sum() < batch else -1
        counts[np.argmax(step * (wanted - counts))] += step
    return tuple(int(count) for count in counts)


def draw(shelf: Shelf, key: PRNGKeyArray, count: int, among: Int32[Array, ""] | None = None) -> Laid:
    """`count` random pairs, of the first `among` if told so, each with a scale and a place of its own."""
    choose, *place = jax.random.split(key, 4)
    index = jax.random.randint(choose, (count,), 0, len(shelf.task) if among is None else among)
    side, shapes = shelf.side, shelf.shapes[index]
    height, width = jnp.maximum(shapes[:, 0], shapes[:, 2]), jnp.maximum(shapes[:, 1], shapes[:, 3])
    most = jnp.maximum(room(side) // jnp.maximum(height, width), 1)
    scale = jax.random.randint(place[0], (count,), 1, most + 1)
    row, column = (
        jax.random.randint(key, (count,), 1, jnp.maximum(room(side) - scale * cells, 1) + 1)
        for key, cells in zip(place[1:], (height, width), strict=True)
    )
    where = (scale, row, column)
    return Laid(
        lay(shelf.input[index], shapes[:, :2], where, side, framed=False),
        lay(shelf.output[index], shapes[:, 2:], where, side, framed=True),
        shelf.task[index],
    )


def lay(
    grids: UInt8[Array, "b k k"],
    shapes: Int32[Array, "b 2"],
    where: tuple[Int32[Array, " b"], Int32[Array, " b"], Int32[Array, " b"]],
    side: int,
    *,
    framed: bool,
) -> UInt8[Array, "b {side} {side}"]:
    """Grids on canvases, as `arc_canvas.question` has it, or with the border of `arc_canvas.target`."""
    b, k = grids.shape[:2]
    scale, row, column = (value[:, None, None] for value in where)
    height, width = (scale * shapes[:, axis, None, None] for axis in (0, 1))
    cells = jnp.arange(side, dtype=jnp.int32)
    y, x = cells[None, :, None] - row, cells[None, None, :] - column
    source = jnp.clip(y // scale, 0, k - 1) * k + jnp.clip(x // scale, 0, k - 1)
    colours = jnp.take_along_axis(grids.reshape(b, -1), source.reshape(b, -1), axis=1).reshape(source.shape)
    inside = (y >= 0) & (x >= 0) & (y < height) & (x < width)
    canvas = jnp.where(inside, colours, jnp.uint8(PAD))
    if framed:
        edge = ((y == height) & (x >= 0) & (x <= width)) | ((x == width) & (y >= 0) & (y <= height))
        canvas = jnp.where(edge, jnp.uint8(BORDER), canvas)
    return canvas
