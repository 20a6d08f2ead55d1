"""Kicks between steps: for learning to stand them, and for finding another way while thinking."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int32

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


def kicks(
    noise: Noise, channels: int, cells: Int32[Array, "#b n"], keys: Keys, step: Step
) -> Float32[Array, "b n {channels}"]:
    """The noise of one step for the given cells of every board, frozen entries included."""
    board = _kicked_boards(noise, keys, step)

    def some() -> Array:
        kicked = (_kicked_cells(noise, cells, keys, step) & board[:, None])[:, :, None]
        words = bits.at_cells(bits.at_step(keys, bits.NOISE, step), cells)
        return jnp.where(kicked, noise.size * bits.normals(words, channels), 0.0)

    return _unless_still(board, some, (len(keys), cells.shape[1], channels))


def kicks_channels_first(
    noise: Noise, channels: int, cells: Int32[Array, "#b n"], keys: Keys, step: Step
) -> Float32[Array, "{channels} n b"]:
    """The same numbers in another order."""
    board = _kicked_boards(noise, keys, step)

    def some() -> Array:
        kicked = (_kicked_cells(noise, cells, keys, step) & board[:, None]).T[None]
        words = bits.at_cells(bits.at_step(keys, bits.NOISE, step), cells).T
        return jnp.where(kicked, noise.size * bits.normals_channels_first(words, channels), 0.0)

    return _unless_still(board, some, (channels, cells.shape[1], len(keys)))


def _kicked_boards(noise: Noise, keys: Keys, step: Step) -> Bool[Array, " b"]:
    board = bits.chance(bits.at_step(keys, bits.NOISE_WHEN, step), noise.when)
    return board if noise.until is None else board & (jnp.asarray(step).reshape(-1) < noise.until)


def _kicked_cells(noise: Noise, cells: Int32[Array, "#b n"], keys: Keys, step: Step) -> Bool[Array, "b n"]:
    return bits.chance(bits.at_cells(bits.at_step(keys, bits.NOISE_WHERE, step), cells), noise.where)


def _unless_still(board: Bool[Array, " b"], some: Callable[[], Array], shape: tuple[int, ...]) -> Array:
    """`some()`; but if no board is kicked, zeros: making normal numbers can cost as much as a step."""
    if jax.default_backend() != "cpu":
        return some()  # To branch, such a device would wait for the host.
    return jax.lax.cond(jnp.any(board), some, lambda: jnp.zeros(shape, jnp.float32))
