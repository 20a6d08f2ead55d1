"""Kicks between steps: for learning to stand them, and for finding another way while thinking."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int32, UInt32

from . import bits
from .bits import Keys, Step


@dataclass(frozen=True)
class Noise:
    """Kicks that a rollout gets after each step with index below `until` (`None` for all).

    A board is kicked with probability `when`; then each of its cells with probability `where`, by normal
    numbers times `size` on every entry that is not frozen. Kicked units are not brought back to length one.
    """

    when: float
    where: float
    size: float
    until: int | None = None

    @property
    def silent(self) -> bool:
        """Whether nothing is ever kicked."""
        return self.when * self.where * self.size == 0


class KickKeys(NamedTuple):
    """The keys of a step's kicks: of the boards, of the cells, of the sizes; and the number of the step."""

    boards: UInt32[Array, "*steps b"]
    cells: UInt32[Array, "*steps b"]
    sizes: UInt32[Array, "*steps b"]
    step: Int32[Array, "*steps _"]


def kick_keys(keys: Keys, step: Step) -> KickKeys:
    """The keys of the kicks after a step."""
    return KickKeys(
        boards=bits.at_step(keys, bits.NOISE_WHEN, step),
        cells=bits.at_step(keys, bits.NOISE_WHERE, step),
        sizes=bits.at_step(keys, bits.NOISE, step),
        step=jnp.asarray(step, jnp.int32).reshape(-1),
    )


def kicks(
    noise: Noise, channels: int, cells: Int32[Array, "#b n"], keys: Keys, step: Step
) -> Float32[Array, "b n {channels}"]:
    """The noise of one step for the given cells of every board, frozen entries included."""
    return kicks_of(noise, channels, cells, kick_keys(keys, step))


def kicks_of(
    noise: Noise, channels: int, cells: Int32[Array, "#b n"], keys: KickKeys
) -> Float32[Array, "b n {channels}"]:
    """The same from the keys of the step."""
    board = _kicked_boards(noise, keys)

    def some() -> Array:
        kicked = (bits.chance(bits.at_cells(keys.cells, cells), noise.where) & board[:, None])[:, :, None]
        words = bits.at_cells(keys.sizes, cells)
        return jnp.where(kicked, noise.size * bits.normals(words, channels), 0.0)

    return _unless_still(board, some, (len(board), cells.shape[1], channels))


def kicks_channels_first(
    noise: Noise, channels: int, cells: Int32[Array, "#b n"], keys: KickKeys
) -> Float32[Array, "{channels} n b"]:
    """The same numbers in another order."""
    board = _kicked_boards(noise, keys)

    def some() -> Array:
        kicked = (bits.chance(bits.at_cells(keys.cells, cells), noise.where) & board[:, None]).T[None]
        words = bits.at_cells(keys.sizes, cells).T
        return jnp.where(kicked, noise.size * bits.normals_channels_first(words, channels), 0.0)

    return _unless_still(board, some, (channels, cells.shape[1], len(board)))


def _kicked_boards(noise: Noise, keys: KickKeys) -> Bool[Array, " b"]:
    board = bits.chance(keys.boards, noise.when)
    return board if noise.until is None else board & (keys.step < noise.until)


def _unless_still(board: Bool[Array, " b"], some: Callable[[], Array], shape: tuple[int, ...]) -> Array:
    """`some()`; but if no board is kicked, zeros: making normal numbers can cost as much as a step."""
    if jax.default_backend() != "cpu":
        return some()  # To branch, such a device would wait for the host.
    return jax.lax.cond(jnp.any(board), some, lambda: jnp.zeros(shape, jnp.float32))
