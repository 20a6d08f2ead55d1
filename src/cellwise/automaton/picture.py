"""Boards that are drawn: how a picture becomes a state, a state a picture, and a picture tokens.

Each cell is a pixel. Channel 0 is the picture, light ink on a dark ground; the others start as noise. The
board stands in the upper left of a square canvas whose side is a power of two, and a token is read where a
place of the board resembles its picture most. See `puzzles/visual_sudoku.py`, which does the same in NumPy.
"""

import math

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float32, UInt8

from ..kernels import bits
from ..kernels.bits import Keys
from ..kernels.reference import State
from ..kernels.spec import Weights
from .layout import Automaton, Layout

Image = Float32[Array, "b h w"]


def places(layout: Layout) -> tuple[int, int]:
    """Places along a side of the board, which is also how many digits there are, and pixels along one's."""
    return layout.tokens - 1, math.isqrt(layout.read)


def canvas(layout: Layout) -> int:
    """Pixels along a side of the canvas."""
    count, digit = places(layout)
    return 1 << (count * digit - 1).bit_length()


def noise(automaton: Automaton, side: int, keys: Keys) -> State:
    """What the cells of a square canvas start as, apart from the picture."""
    cells = jnp.arange(side * side, dtype=jnp.int32)[None]
    words = bits.at_cells(bits.at_step(keys, bits.START, 0), cells)
    channels = automaton.step.channels
    numbers = automaton.layout.spread * bits.uniforms(words, channels)
    return numbers.reshape(len(keys), side, side, channels)


def start(automaton: Automaton, image: Image, keys: Keys) -> State:
    """The state before the first step."""
    return noise(automaton, image.shape[1], keys).at[..., 0].set(image)


def drawn(state: State) -> Image:
    """The picture that the cells show."""
    return state[..., 0]


def cut(layout: Layout, image: Image) -> Float32[Array, "b k k p"]:
    """The pixels of every place of the board, row by row."""
    count, digit = places(layout)
    board = image[:, : count * digit, : count * digit]
    tiles = board.reshape(-1, count, digit, count, digit).swapaxes(2, 3)
    return tiles.reshape(-1, count, count, digit * digit)


def lay(layout: Layout, tiles: Float32[Array, "b k k p"]) -> Image:
    """The canvas on which the pictures of all places stand; beyond the board it is zero."""
    count, digit = places(layout)
    board = tiles.reshape(-1, count, count, digit, digit).swapaxes(2, 3)
    board = board.reshape(-1, count * digit, count * digit)
    rest = canvas(layout) - count * digit
    return jnp.pad(board, ((0, 0), (0, rest), (0, rest)))


def read(layout: Layout, weights: Weights, image: Image) -> UInt8[Array, "b k k"]:
    """The token whose picture is nearest to each place, the smaller of two that are equally near."""
    tiles, means = cut(layout, image), weights["layout.tokens"]
    near = 2.0 * (tiles @ means.T) - jnp.sum(means * means, axis=-1)[None, None, None]
    return jnp.argmax(near, axis=-1).astype(jnp.uint8)
