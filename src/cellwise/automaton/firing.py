"""Who fires how often: all cells alike, or those seldom that are sure of what they say."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32

from ..errors import ConfigError
from ..kernels.precision import products
from ..kernels.reference import State
from ..kernels.spec import OFFSETS, Weights
from .layout import Automaton, read


@dataclass(frozen=True)
class Firing:
    """A cell fires at `rate`, but only at `dormant` while it is sure: more confident than `above`.

    With `reach` 1 all of its eight neighbours must be sure as well, so that news wakes a cell. The paper's
    adaptive firing is `Firing(0.8, 0.4, 0.95)`. Given cells are sure; nothing is beyond an edge.
    """

    rate: float
    dormant: float
    above: float
    reach: int = 0


PAPER = Firing(0.8, 0.4, 0.95)
"""What the paper calls adaptive firing."""

FRUGAL = Firing(1.0, 0.1, 0.95, reach=1)
"""Who is unsure, or next to someone who is, fires at every step; the others keep watch (docs/firing.md)."""


def check(firing: Firing) -> None:
    """Raises ConfigError for a way to fire that cannot be."""
    good = 0 < firing.rate <= 1 and 0 <= firing.dormant <= 1 and firing.reach in (0, 1)
    if not good or not -1 <= firing.above <= 1:
        raise ConfigError(
            f"Cells cannot fire at {firing.rate:g}, or {firing.dormant:g} when surer than {firing.above:g} "
            f"with reach {firing.reach}; choose rates up to 1, the first above 0, a confidence up to 1, and "
            "reach 0 or 1."
        )


@dataclass(frozen=True)
class Adaptive:
    """A way to fire together with what it takes to know how sure a cell is."""

    firing: Firing
    automaton: Automaton

    def rates(self, weights: Weights, state: State) -> Float32[Array, "b h w"]:
        """How likely every cell is to fire next."""
        firing = self.firing
        with products("float32"):
            sure = read(self.automaton.layout, weights, state)[1] > firing.above
        if firing.reach:
            sure = _all_around(sure, wraps=self.automaton.step.padding == "wrap")
        return jnp.where(sure, jnp.float32(firing.dormant), jnp.float32(firing.rate))


def steady(rate: float | Firing) -> bool:
    """Whether all cells fire alike, whatever they are sure of."""
    return not isinstance(rate, Firing) or rate.dormant == rate.rate


def bound(rate: float | Firing, automaton: Automaton) -> float | Adaptive:
    """The same for a rollout of this automaton."""
    if not isinstance(rate, Firing):
        return rate
    return rate.rate if steady(rate) else Adaptive(rate, automaton)


def _all_around(sure: Bool[Array, "b h w"], wraps: bool) -> Bool[Array, "b h w"]:
    """True where it is true of a cell and its neighbours."""
    h, w = sure.shape[1:]
    if wraps:
        wide = jnp.pad(sure, ((0, 0), (1, 1), (1, 1)), mode="wrap")
    else:
        wide = jnp.pad(sure, ((0, 0), (1, 1), (1, 1)), constant_values=True)
    everyone = sure
    for dy, dx in OFFSETS:
        everyone = everyone & wide[:, 1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w]
    return everyone
