"""Thinking: many trajectories, a few boards at a time, looked at as they go."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int32, UInt8

from ..automaton import layout, rollout
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

LOOK_LATE = 500
"""Without a reason to stop early, this many steps are taken at a time, only to be able to tell progress."""

Tell = Callable[[int, int], None]
Verify = Callable[[UInt8[np.ndarray, "n h w"], UInt8[np.ndarray, "n h w"]], Bool[np.ndarray, " n"]]


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
    rate: float
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
        keys = _keys(jnp.uint32(seed), jnp.asarray(boards), jnp.asarray(trials))
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
        grid, confidence = _read(self.weights, thought.state, self.automaton)
        return np.asarray(grid), np.asarray(confidence)


_keys = jax.jit(bits.trajectory_keys)


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
    rate: float,
    noise: Noise | None,
    precision: Precision,
) -> State:
    with products(precision):
        return rollout.rollout(
            automaton.step, weights, state, plan, keys, first, steps, path=path, rate=rate, noise=noise
        )


@partial(jax.jit, static_argnames=("automaton", "path", "precision"))
def _change(
    weights: Weights, thought: Thought, step: Array, *, automaton: Automaton, path: Path, precision: Precision
) -> Float32[Array, " b"]:
    with products(precision):
        after = path.step(automaton.step, weights, thought.state, thought.plan, thought.keys, step, 1.0)
    return jnp.max(jnp.abs(after - thought.state), axis=(1, 2, 3))


@partial(jax.jit, static_argnames=("automaton",))
def _read(weights: Weights, state: State, automaton: Automaton) -> tuple[Array, Array]:
    with products("float32"):
        return layout.read(automaton.layout, weights, state)


def prepare(
    automaton: Automaton,
    weights: dict[str, Float32[np.ndarray, "..."]],
    given: Bool[np.ndarray, "n h w"],
    rate: float,
    noise: Noise | None,
    precision: Precision = "float32",
) -> Mind:
    """A mind for these boards, by the fastest path that can run it."""
    free = int((~given).sum((1, 2)).max(initial=0))
    arrays = {name: jnp.asarray(weight) for name, weight in weights.items()}
    return Mind(automaton, arrays, choose(automaton.step, free), rate, noise, precision)


@dataclass(frozen=True)
class Answers:
    """What `n` trajectories said when they stopped: grid, confidence of each cell, steps taken."""

    grid: UInt8[np.ndarray, "n h w"]
    cells: Float32[np.ndarray, "n h w"]
    steps: Int32[np.ndarray, " n"]


@dataclass(frozen=True)
class Patience:
    """When to stop early: an answer that `verify` accepts and that has not changed for `looks` looks."""

    verify: Verify
    every: int
    looks: int = 2


@dataclass(frozen=True)
class Rest:
    """When to stop early: no number of the board would change by more than `most` (see `Mind.unrest`)."""

    most: float = 1e-5
    every: int = 100


def think(
    mind: Mind,
    inputs: UInt8[np.ndarray, "n h w"],
    given: Bool[np.ndarray, "n h w"],
    seed: int,
    boards: Int32[np.ndarray, " n"],
    trials: Int32[np.ndarray, " n"],
    steps: int,
    until: Patience | Rest | None = None,
    tell: Tell | None = None,
) -> Answers:
    """Thinks `steps` steps about each board, or fewer if `until` allows it.

    A trajectory depends on (`seed`, `boards[i]`, `trials[i]`) alone, and so does the step at which it stops.
    `tell(trajectories, steps)` is called as work gets done: how many trajectories ended, and how many steps
    were taken of the `steps` of each trajectory, added up.
    """
    n, h, w = inputs.shape
    grid, cells = np.zeros((n, h, w), np.uint8), np.zeros((n, h, w), np.float32)
    stopped = np.full(n, steps, np.int32)
    size = mind.boards_at_once(n, (h, w))
    for first in range(0, n, size):
        # The last block is filled up with repetitions, so that one compiled program serves all.
        block = np.minimum(np.arange(first, first + size), n - 1)
        live = np.arange(size) < n - first
        thought = mind.begin(inputs[block], given[block], seed, boards[block], trials[block])
        before = 0
        for done, says, sure, finished in _looks(mind, thought, inputs[block], steps, until):
            ending = live & finished
            if tell is not None:
                rest = (steps - done) * int(ending.sum())
                tell(int(ending.sum()), (done - before) * int(live.sum()) + rest)
            before = done
            grid[block[ending]], cells[block[ending]] = says[ending], sure[ending]
            stopped[block[ending]] = done
            live &= ~finished
            if not live.any():
                break
    return Answers(grid, cells, stopped)


def _looks(
    mind: Mind,
    thought: Thought,
    inputs: UInt8[np.ndarray, "b h w"],
    steps: int,
    until: Patience | Rest | None,
) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Step count, grids, confidences and which boards are finished, at each look and at the end."""
    same, before = np.zeros(len(inputs), int), np.full(inputs.shape, 255, np.uint8)
    none, done = np.zeros(len(inputs), bool), 0
    while done < steps:
        ahead = min(until.every if until else LOOK_LATE, steps - done)
        thought = mind.advance(thought, done, ahead)
        done += ahead
        says, sure = mind.read(thought)
        if done == steps:
            yield done, says, sure, ~none
            return
        if isinstance(until, Patience):
            same = np.where((says == before).all((1, 2)), same + 1, 1)
            before = says
            finished = same >= until.looks
            if finished.any():
                finished[finished] = until.verify(inputs[finished], says[finished])
        else:
            finished = none if until is None else mind.unrest(thought, done) <= until.most
        yield done, says, sure, finished
