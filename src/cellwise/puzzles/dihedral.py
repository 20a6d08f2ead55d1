"""The eight symmetries of the square, applied to the last two axes of grids."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Shaped

NAMES = (
    "identity",
    "rotate 90",
    "rotate 180",
    "rotate 270",
    "flip columns",
    "flip rows",
    "transpose",
    "anti-transpose",
)
"""What map `k` does; rotations turn counterclockwise, `flip columns` reverses the order of the columns."""

_MAPS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    lambda grids: grids,
    lambda grids: np.rot90(grids, 1, axes=(-2, -1)),
    lambda grids: grids[..., ::-1, ::-1],
    lambda grids: np.rot90(grids, 3, axes=(-2, -1)),
    lambda grids: grids[..., ::-1],
    lambda grids: grids[..., ::-1, :],
    lambda grids: grids.swapaxes(-2, -1),
    lambda grids: grids[..., ::-1, ::-1].swapaxes(-2, -1),
)


def dihedral(grids: Shaped[np.ndarray, "*n h w"], k: int) -> Shaped[np.ndarray, "*n _ _"]:
    """A new array with map `k` (0-7, see `NAMES`) applied to every grid."""
    return _MAPS[k](grids).copy()


def inverse(k: int) -> int:
    """The map that undoes map `k`; only the two quarter turns are not their own inverse."""
    return {1: 3, 3: 1}.get(k, k)
