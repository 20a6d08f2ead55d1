"""Many trajectories on the device side by side: each with a step count of its own, computed block by block.

A crowd has room for so many trajectories that fit the memory. Its blocks are as large as suits the device;
only as many of them are computed as hold living trajectories, so that who leaves frees compute. One compiled
program of each kind serves a crowd for all its life, however many are alive.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int32, UInt8

from ..automaton import firing, layout, rollout
from ..automaton.firing import Firing
from ..automaton.layout import Automaton
from ..kernels.dispatch import Noise, Path
from ..kernels.precision import Precision, products
from ..kernels.reference import State
from ..kernels.spec import Weights
from .mind import Mind, keys_of, read

BLOCKS = 4
"""Into so many blocks a crowd is divided: more would waste less on empty places and run less smoothly."""


class Crowd:
    """Places for `len(self)` trajectories on boards of one size."""

    def __init__(self, mind: Mind, size: tuple[int, int], places: int, block: int) -> None:
        """Room for at least `places` trajectories, computed `block` at a time; all are empty at first."""
        self.mind, self.block = mind, block
        self.places = -(-places // block) * block
        self.inputs = np.zeros((self.places, *size), np.uint8)
        self.given = np.ones((self.places, *size), bool)
        self.keys = jnp.zeros(self.places, jnp.uint32)
        self.state = jnp.zeros((self.places, *size, mind.automaton.step.channels), jnp.float32)

    def __len__(self) -> int:
        return self.places

    def begin(
        self,
        where: Int32[np.ndarray, " k"],
        inputs: UInt8[np.ndarray, "k h w"],
        given: Bool[np.ndarray, "k h w"],
        seed: int,
        boards: Int32[np.ndarray, " k"],
        trials: Int32[np.ndarray, " k"],
        starts: Int32[np.ndarray, " k"],
    ) -> None:
        """Puts trajectory (`seed`, `boards[i]`, `trials[i]`) at place `where[i]`, before its first step.

        Its first state is that of trial `starts[i]`.
        """
        self.inputs[where], self.given[where] = inputs, given
        all_boards, all_trials, all_starts = np.zeros((3, self.places), np.int32)
        all_boards[where], all_trials[where], all_starts[where] = boards, trials, starts
        chosen = np.zeros(self.places, bool)
        chosen[where] = True
        first = keys_of(jnp.uint32(seed), all_boards, all_starts)
        self.state = _begin(
            self.state,
            self.mind.weights,
            self.inputs,
            self.given,
            first,
            chosen,
            automaton=self.mind.automaton,
        )
        self.keys = jnp.where(chosen, keys_of(jnp.uint32(seed), all_boards, all_trials), self.keys)

    def keep(self, where: Int32[np.ndarray, " k"]) -> None:
        """Moves the trajectories at the places `where`, in that order, to the first places."""
        order = np.zeros(self.places, np.int32)
        order[: len(where)] = where
        self.inputs, self.given = self.inputs[order], self.given[order]
        self.state, self.keys = _gather(self.state, self.keys, order)

    def advance(self, first: Int32[np.ndarray, " k"], steps: int) -> None:
        """`steps` more steps at the first `k` places; the trajectory at place `i` has taken `first[i]`."""
        mind, begun = self.mind, np.zeros(self.places, np.int32)
        begun[: len(first)] = first
        self.state = _advance(
            self.state,
            mind.weights,
            self.given,
            self.keys,
            begun,
            jnp.int32(steps),
            jnp.int32(-(-len(first) // self.block)),
            automaton=mind.automaton,
            path=mind.path,
            rate=mind.rate,
            noise=mind.noise,
            block=self.block,
            precision=mind.precision,
        )

    def read(self, count: int) -> tuple[UInt8[np.ndarray, "k h w"], Float32[np.ndarray, "k h w"]]:
        """What the cells at the first `count` places say and how sure they are."""
        grid, cells = read(self.mind.weights, self.state, self.mind.automaton)
        return np.asarray(grid)[:count], np.asarray(cells)[:count]

    def unrest(self, steps: Int32[np.ndarray, " k"]) -> Float32[np.ndarray, " k"]:
        """The most that a number of each of the first `k` boards would change if all cells fired at once."""
        mind, at = self.mind, np.zeros(self.places, np.int32)
        at[: len(steps)] = steps
        change = _change(
            self.state,
            mind.weights,
            self.given,
            self.keys,
            at,
            automaton=mind.automaton,
            path=mind.path,
            block=self.block,
            precision=mind.precision,
        )
        return np.asarray(change)[: len(steps)]


def sizes(mind: Mind, trajectories: int, size: tuple[int, int]) -> tuple[int, int]:
    """How many trajectories of so many to have together, and how many of these to compute in a block."""
    together = mind.boards_at_once(trajectories, size)
    return together, max(1, -(-together // BLOCKS))


@partial(jax.jit, static_argnames=("automaton",), donate_argnames=("state",))
def _begin(
    state: State,
    weights: Weights,
    inputs: Array,
    given: Array,
    keys: Array,
    chosen: Array,
    *,
    automaton: Automaton,
) -> State:
    fresh = layout.start(automaton, weights, inputs, given, keys)
    return jnp.where(chosen[:, None, None, None], fresh, state)


@partial(jax.jit, donate_argnames=("state", "keys"))
def _gather(state: State, keys: Array, order: Array) -> tuple[State, Array]:
    return state[order], keys[order]


def _part(array: Array, number: Array, block: int) -> Array:
    return jax.lax.dynamic_slice_in_dim(array, number * block, block)


@partial(
    jax.jit,
    static_argnames=("automaton", "path", "rate", "noise", "block", "precision"),
    donate_argnames=("state",),
)
def _advance(
    state: State,
    weights: Weights,
    given: Array,
    keys: Array,
    first: Array,
    steps: Array,
    blocks: Array,
    *,
    automaton: Automaton,
    path: Path,
    rate: float | Firing,
    noise: Noise | None,
    block: int,
    precision: Precision,
) -> State:
    def moved(state: State, given: Array, keys: Array, first: Array) -> State:
        plan = path.plan(automaton.step, given)
        spec = automaton.step
        how: Any = {"path": path, "rate": firing.bound(rate, automaton), "noise": noise}
        return rollout.rollout(spec, weights, state, plan, keys, first, steps, **how)

    def body(number: Array, state: State) -> State:
        parts = (_part(array, number, block) for array in (state, given, keys, first))
        return jax.lax.dynamic_update_slice_in_dim(state, moved(*parts), number * block, axis=0)

    with products(precision):
        if len(state) == block:
            return moved(state, given, keys, first)
        return jax.lax.fori_loop(jnp.int32(0), blocks, body, state)


@partial(jax.jit, static_argnames=("automaton", "path", "block", "precision"))
def _change(
    state: State,
    weights: Weights,
    given: Array,
    keys: Array,
    steps: Array,
    *,
    automaton: Automaton,
    path: Path,
    block: int,
    precision: Precision,
) -> Float32[Array, " b"]:
    def change(parts: tuple[Array, ...]) -> Array:
        state, given, keys, steps = parts
        plan = path.plan(automaton.step, given)
        after = path.step(automaton.step, weights, state, plan, keys, steps, 1.0)
        return jnp.max(jnp.abs(after - state), axis=(1, 2, 3))

    with products(precision):
        everything = (state, given, keys, steps)
        split = jax.tree.map(lambda array: array.reshape(-1, block, *array.shape[1:]), everything)
        return jax.lax.map(change, split).reshape(-1)
