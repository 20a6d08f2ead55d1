"""One drawn board: what an automaton makes of it, moment by moment."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int32, UInt8

from ..model import Model
from ..puzzles.visual_sudoku import distances
from .painter import mean_digits, painter


@dataclass(frozen=True)
class PictureThought:
    """A thought about a drawn board at `t` moments, the first before any step.

    `grids` is what the pictures say, place by place, and `confidence` how near they are to mean digits.
    """

    steps: Int32[np.ndarray, " t"]
    images: Float32[np.ndarray, "t side side"]
    grids: UInt8[np.ndarray, "t k k"]
    confidence: Float32[np.ndarray, "t k k"]


def think_about(
    model: Model,
    image: Float32[np.ndarray, "side side"],
    looks: Sequence[int],
    seed: int = 0,
    tell: Callable[[int], None] = lambda steps: None,
) -> PictureThought:
    """Thinks about one board and looks at it at the beginning and after each of these numbers of steps.

    `tell(steps)` is called with the steps taken since the last time.
    """
    artist, means = painter(model, seed), mean_digits(model)
    seen, before = [], 0
    for look, picture in zip(
        [0, *looks], artist.think(image[None], np.zeros(1, np.int32), [0, *looks]), strict=True
    ):
        seen.append(picture[0])
        tell(look - before)
        before = look
    images = np.stack(seen)
    gaps = distances(images, means)
    return PictureThought(
        np.array([0, *looks], np.int32),
        images,
        gaps.argmin(-1).astype(np.uint8),
        (1 / (1 + np.sqrt(np.maximum(gaps.min(-1), 0)))).astype(np.float32),
    )


def moments(steps: int, most: int = 150) -> list[int]:
    """After how many steps a film looks: often at first, when most happens, and evenly later."""
    early = np.geomspace(1, steps, most // 2)
    late = np.linspace(steps / most, steps, most // 2)
    return np.unique(np.rint(np.concatenate([early, late])).astype(int).clip(1, steps)).tolist()
