"""Drawing boards on the device: every digit a random picture of its class, in every place another."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float32, PRNGKeyArray, UInt8

from ..automaton import picture
from ..automaton.layout import Automaton
from ..automaton.picture import Image
from ..kernels.bits import Keys
from ..kernels.reference import State
from ..training.augment import augment_sudoku


class Data(NamedTuple):
    """What is drawn: boards, 0 for a blank place, and the table of pictures by class (none for a blank)."""

    puzzles: UInt8[Array, "n k k"]
    solutions: UInt8[Array, "n k k"]
    table: Float32[Array, "v m p"]


def draw_boards(
    data: Data, augment: Literal["none", "sudoku"], key: PRNGKeyArray, count: int
) -> tuple[UInt8[Array, "b k k"], UInt8[Array, "b k k"]]:
    """Random puzzles with their solutions."""
    choose, turn = jax.random.split(key)
    index = jax.random.randint(choose, (count,), 0, len(data.puzzles))
    puzzle, solution = data.puzzles[index], data.solutions[index]
    if augment == "sudoku":
        solution, given = augment_sudoku(turn, solution, puzzle > 0)
        puzzle = jnp.where(given, solution, jnp.uint8(0))
    return puzzle, solution


def draw_digits(data: Data, tokens: UInt8[Array, "b k k"], key: PRNGKeyArray) -> Float32[Array, "b k k p"]:
    """A picture for every place, independently."""
    which = jax.random.randint(key, tokens.shape, 0, data.table.shape[1])
    return data.table[tokens.astype(jnp.int32), which]


def draw_state(
    automaton: Automaton, data: Data, puzzle: UInt8[Array, "b k k"], key: PRNGKeyArray, keys: Keys
) -> State:
    """First states: digits where there are clues, noise in blank places, nothing beyond the board."""
    tiles = draw_digits(data, puzzle, key)
    return begin(automaton, picture.lay(automaton.layout, tiles), blanks(automaton, puzzle), keys)


def blanks(automaton: Automaton, puzzle: UInt8[Array, "b k k"]) -> Image:
    """One where a pixel belongs to a blank place, else zero."""
    pixels = automaton.layout.read
    places = jnp.broadcast_to((puzzle == 0)[..., None], (*puzzle.shape, pixels))
    return picture.lay(automaton.layout, places.astype(jnp.float32))


def begin(automaton: Automaton, image: Image, blank: Image, keys: Keys) -> State:
    """The state before the first step; the picture is noise where a place is blank."""
    noise = picture.noise(automaton, image.shape[1], keys)
    return noise.at[..., 0].set(jnp.where(blank > 0, noise[..., 0], image))
