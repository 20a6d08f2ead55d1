"""An automaton that thinks about pictures: hand it drawn boards, and see what they become."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float32, Int32

from ..automaton import picture
from ..automaton.layout import Automaton
from ..errors import ConfigError
from ..kernels.bits import Keys
from ..kernels.dispatch import Path
from ..kernels.precision import Precision
from ..model import Model
from ..thinking.mind import Mind, Thought, keys_of, prepare

Think = Callable[
    [Float32[np.ndarray, "n side side"], Int32[np.ndarray, " n"], Sequence[int]],
    Iterator[Float32[np.ndarray, "n side side"]],
]
"""What can be measured: from pictures of boards, their numbers and the steps after which to look, to what is
seen then."""


@dataclass(frozen=True)
class Painter:
    """An automaton ready to think about pictures.

    `seed` and the number of a board determine its thought, whatever else is thought about at the same time.
    """

    mind: Mind
    seed: int = 0

    @property
    def cells(self) -> int:
        """Cells along a side of its boards, which is also how many digits there are."""
        return picture.places(self.mind.automaton.layout)[0]

    @property
    def side(self) -> int:
        """Pixels along a side of its pictures."""
        return picture.canvas(self.mind.automaton.layout)

    def at_once(self, count: int) -> int:
        """How many of `count` pictures to think about together."""
        return self.mind.boards_at_once(count, (self.side, self.side))

    def think(
        self,
        images: Float32[np.ndarray, "n side side"],
        boards: Int32[np.ndarray, " n"],
        looks: Sequence[int],
    ) -> Iterator[Float32[np.ndarray, "n side side"]]:
        """Yields the pictures after each of these numbers of steps, which must not fall."""
        keys = keys_of(jnp.uint32(self.seed), jnp.asarray(boards), jnp.zeros(len(boards), jnp.int32))
        thought = _begin(jnp.asarray(images), keys, self.mind.automaton, self.mind.path)
        for before, look in itertools.pairwise([0, *looks]):
            if look > before:
                thought = self.mind.advance(thought, before, look - before)
            yield np.asarray(picture.drawn(thought.state))


def painter(model: Model, seed: int = 0, precision: Precision = "float32") -> Painter:
    """A model for drawn boards, ready to think."""
    if model.puzzle != "visual-sudoku":
        raise ConfigError(f"{model.name} does not think about pictures; choose a model that does.")
    side = picture.canvas(model.automaton.layout)
    nothing_given = np.zeros((1, side, side), bool)
    return Painter(
        prepare(model.automaton, model.weights, nothing_given, model.fire_rate, None, precision), seed
    )


def mean_digits(model: Model) -> Float32[np.ndarray, "v s s"]:
    """The mean picture of every digit, which belongs to the model; 0 is a blank."""
    count, digit = picture.places(model.automaton.layout)
    return model.weights["layout.tokens"].reshape(count + 1, digit, digit)


@partial(jax.jit, static_argnames=("automaton", "path"))
def _begin(images: Array, keys: Keys, automaton: Automaton, path: Path) -> Thought:
    given = jnp.zeros(images.shape, bool)
    return Thought(picture.start(automaton, images, keys), path.plan(automaton.step, given), keys)
