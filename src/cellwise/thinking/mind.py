"""An automaton ready to think: its arrays on the device, its path chosen, one thought taken step by step."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int32, UInt8

from ..automaton import firing, layout, rollout
from ..automaton.firing import Firing
from ..automaton.layout import Automaton
from ..kernels import bits
from ..kernels.bits import Keys
from ..kernels.dispatch import Noise, Path, choose
from ..kernels.precision import Precision, products
from ..kernels.reference import State
from ..kernels.spec import Weights

NUMBERS_IN_CACHE = 2**20
"""About so many numbers of a layer are computed together on a CPU, because they then stay in the cache."""

NUMBERS_AT_ONCE = 2**30
"""The most numbers in an array on any other device; four gigabytes of them."""


class Thought(NamedTuple):
    """Trajectories in progress."""

    state: State
    plan: Any
    keys: Keys


@dataclass(frozen=True)
class Mind:
    """An automaton ready to think: its arrays are on the device and its path is chosen."""

    automaton: Automaton
    weights: Weights
    path: Path
    rate: float | Firing
    noise: Noise | None
    precision: Precision = "float32"
    """Float32 unless asked otherwise, on every device: a thought is to be the same thought everywhere, and
    thousands of steps make much of a rounded factor."""

    def boards_at_once(self, n: int, size: tuple[int, int]) -> int:
        """How many of `n` boards to think about together, so that all blocks are about as large."""
        spec, cells = self.automaton.step, size[0] * size[1]
        widest = max(spec.perceived, spec.hidden)
        numbers = NUMBERS_IN_CACHE if jax.default_backend() == "cpu" else NUMBERS_AT_ONCE
        blocks = -(-n // max(1, numbers // widest // cells))
        return -(-n // blocks)

    def begin(
        self,
        inputs: UInt8[np.ndarray, "b h w"],
        given: Bool[np.ndarray, "b h w"],
        seed: int,
        boards: Int32[np.ndarray, " b"],
        trials: Int32[np.ndarray, " b"],
    ) -> Thought:
        """The start of trajectory (`seed`, `boards[i]`, `trials[i]`) on board `inputs[i]`."""
        keys = keys_of(jnp.uint32(seed), jnp.asarray(boards), jnp.asarray(trials))
        return _begin(self.weights, jnp.asarray(inputs), jnp.asarray(given), keys, self.automaton, self.path)

    def advance(self, thought: Thought, first: int, steps: int) -> Thought:
        """Steps `first … first + steps - 1`; the memory of `thought` is used again."""
        state = _advance(
            thought.state,
            self.weights,
            thought.plan,
            thought.keys,
            jnp.int32(first),
            jnp.int32(steps),
            automaton=self.automaton,
            path=self.path,
            rate=self.rate,
            noise=self.noise,
            precision=self.precision,
        )
        return thought._replace(state=state)

    def unrest(self, thought: Thought, step: int) -> Float32[np.ndarray, " b"]:
        """The most that any number of a board would change if every cell fired at once, without noise.

        Where this is nothing but rounding, no firing order can lead anywhere else: the thought is over.
        """
        how: Any = {"automaton": self.automaton, "path": self.path, "precision": self.precision}
        return np.asarray(_change(self.weights, thought, jnp.int32(step), **how))

    def read(self, thought: Thought) -> tuple[UInt8[np.ndarray, "b h w"], Float32[np.ndarray, "b h w"]]:
        """What the cells say and how sure they are."""
        grid, confidence = read(self.weights, thought.state, self.automaton)
        return np.asarray(grid), np.asarray(confidence)


keys_of = jax.jit(bits.trajectory_keys)
"""The keys of trajectories, apart from the states: traced anew each time, folds cost a tenth of a second."""


@partial(jax.jit, static_argnames=("automaton", "path"))
def _begin(
    weights: Weights, inputs: Array, given: Array, keys: Keys, automaton: Automaton, path: Path
) -> Thought:
    state = layout.start(automaton, weights, inputs, given, keys)
    return Thought(state, path.plan(automaton.step, given), keys)


@partial(
    jax.jit, static_argnames=("automaton", "path", "rate", "noise", "precision"), donate_argnames=("state",)
)
def _advance(
    state: State,
    weights: Weights,
    plan: Any,
    keys: Keys,
    first: Array,
    steps: Array,
    *,
    automaton: Automaton,
    path: Path,
    rate: float | Firing,
    noise: Noise | None,
    precision: Precision,
) -> State:
    how: Any = {"path": path, "rate": firing.bound(rate, automaton), "noise": noise}
    with products(precision):
        return rollout.rollout(automaton.step, weights, state, plan, keys, first, steps, **how)


@partial(jax.jit, static_argnames=("automaton", "path", "precision"))
def _change(
    weights: Weights, thought: Thought, step: Array, *, automaton: Automaton, path: Path, precision: Precision
) -> Float32[Array, " b"]:
    with products(precision):
        after = path.step(automaton.step, weights, thought.state, thought.plan, thought.keys, step, 1.0)
    return jnp.max(jnp.abs(after - thought.state), axis=(1, 2, 3))


@partial(jax.jit, static_argnames=("automaton",))
def read(weights: Weights, state: State, automaton: Automaton) -> tuple[Array, Array]:
    """What the cells of states say and how sure they are."""
    with products("float32"):
        return layout.read(automaton.layout, weights, state)


def prepare(
    automaton: Automaton,
    weights: dict[str, Float32[np.ndarray, "..."]],
    given: Bool[np.ndarray, "n h w"],
    rate: float | Firing,
    noise: Noise | None,
    precision: Precision = "float32",
) -> Mind:
    """A mind for these boards, by the fastest path that can run it."""
    free = int((~given).sum((1, 2)).max(initial=0))
    arrays = {name: jnp.asarray(weight) for name, weight in weights.items()}
    path = choose(automaton.step, free, precision, firing.steady(rate))
    return Mind(automaton, arrays, path, rate, noise, precision)
