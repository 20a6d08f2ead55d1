"""Following trajectories closely: what is right after so many steps, and how often cells fired until then.

A cell update is a cell that fires at a step. They are counted over open cells, which can change, and over
all cells, walls and clues included: given cells are sure, so they fire like other sure cells, for nothing.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Int32, Int64, UInt8

from ..automaton import firing, layout, rollout
from ..automaton.firing import Adaptive, Firing
from ..automaton.layout import Automaton
from ..kernels.dispatch import Noise, Path, fired
from ..kernels.precision import Precision, products
from ..kernels.reference import frozen_entries, normalise
from ..kernels.spec import Weights
from .mind import Mind, Thought


@dataclass(frozen=True)
class Course:
    """What `b` boards said at `t` moments, and how many cells had fired since the course began.

    `right` counts open cells that say what they should; `activity` counts how often each cell fired.
    """

    steps: Int32[np.ndarray, " t"]
    right: Int32[np.ndarray, "t b"]
    solved: Bool[np.ndarray, "t b"]
    updates: Int64[np.ndarray, "t b"]
    updates_of_all: Int64[np.ndarray, "t b"]
    activity: Int32[np.ndarray, "b h w"]


class _Fired(NamedTuple):
    state: Array
    activity: Array


def follow(
    mind: Mind,
    thought: Thought,
    given: Bool[np.ndarray, "b h w"],
    target: UInt8[np.ndarray, "b h w"],
    first: int,
    looks: int,
    every: int,
) -> tuple[Thought, Course]:
    """`looks` times `every` steps from step `first` on, looked at after each `every`."""
    state, activity, seen = _follow(
        thought.state,
        mind.weights,
        thought.plan,
        thought.keys,
        jnp.asarray(given),
        jnp.asarray(target),
        jnp.int32(first),
        jnp.int32(every),
        looks=looks,
        automaton=mind.automaton,
        path=mind.path,
        rate=mind.rate,
        noise=mind.noise,
        precision=mind.precision,
    )
    right, solved, some, everyone = (np.asarray(one) for one in seen)
    course = Course(
        steps=first + every * np.arange(1, looks + 1, dtype=np.int32),
        right=right,
        solved=solved,
        updates=some.astype(np.int64).cumsum(0),
        updates_of_all=everyone.astype(np.int64).cumsum(0),
        activity=np.asarray(activity),
    )
    return thought._replace(state=state), course


@partial(
    jax.jit,
    static_argnames=("looks", "automaton", "path", "rate", "noise", "precision"),
    donate_argnames=("state",),
)
def _follow(
    state: Array,
    weights: Weights,
    plan: Any,
    keys: Array,
    given: Array,
    target: Array,
    first: Array,
    every: Array,
    *,
    looks: int,
    automaton: Automaton,
    path: Path,
    rate: float | Firing,
    noise: Noise | None,
    precision: Precision,
) -> tuple[Array, Array, tuple[Array, ...]]:
    spec, how = automaton.step, firing.bound(rate, automaton)

    def step(i: Array, now: _Fired) -> _Fired:
        rates = how.rates(weights, now.state) if isinstance(how, Adaptive) else how
        fire = fired(given, keys, i, rates)
        moved = rollout.one_step(spec, weights, now.state, plan, keys, i, path=path, rate=rates, noise=noise)
        return _Fired(moved, now.activity + fire.astype(jnp.int32))

    def look(now: _Fired, number: Array) -> tuple[_Fired, tuple[Array, ...]]:
        begun, before = first + number * every, now.activity
        now = jax.lax.fori_loop(begun, begun + every, step, now)
        grid, _ = layout.read(automaton.layout, weights, now.state)
        new, good = now.activity - before, grid == target
        right = jnp.sum(good & ~given, axis=(1, 2), dtype=jnp.int32)
        some = jnp.sum(jnp.where(given, 0, new), axis=(1, 2), dtype=jnp.int32)
        return now, (right, jnp.all(good, axis=(1, 2)), some, jnp.sum(new, axis=(1, 2), dtype=jnp.int32))

    with products(precision):
        none = jnp.zeros(given.shape, jnp.int32)
        now, seen = jax.lax.scan(look, _Fired(state, none), jnp.arange(looks, dtype=jnp.int32))
    return now.state, now.activity, seen


def joined(courses: list[Course]) -> Course:
    """Courses of other boards at the same moments, as one."""
    return Course(
        steps=courses[0].steps,
        right=np.concatenate([one.right for one in courses], axis=1),
        solved=np.concatenate([one.solved for one in courses], axis=1),
        updates=np.concatenate([one.updates for one in courses], axis=1),
        updates_of_all=np.concatenate([one.updates_of_all for one in courses], axis=1),
        activity=np.concatenate([one.activity for one in courses]),
    )


def continued(before: Course, after: Course) -> Course:
    """A course and how it went on, as one."""
    return Course(
        steps=np.concatenate([before.steps, after.steps]),
        right=np.concatenate([before.right, after.right]),
        solved=np.concatenate([before.solved, after.solved]),
        updates=np.concatenate([before.updates, before.updates[-1:] + after.updates]),
        updates_of_all=np.concatenate(
            [before.updates_of_all, before.updates_of_all[-1:] + after.updates_of_all]
        ),
        activity=before.activity + after.activity,
    )


def wiped(
    mind: Mind, thought: Thought, given: Bool[np.ndarray, "b h w"], where: Bool[np.ndarray, "b h w"]
) -> Thought:
    """The thought with zeros in some cells, except for what is given."""
    spec = mind.automaton.step
    hit = jnp.asarray(where)[..., None] & ~frozen_entries(spec, jnp.asarray(given))
    return thought._replace(state=normalise(spec, jnp.where(hit, 0.0, thought.state)))


def discs(
    rng: np.random.Generator, boards: int, count: int, radius: float, size: tuple[int, int]
) -> Bool[np.ndarray, "b h w"]:
    """`count` discs on each board, anywhere in its middle half.

    Lengths are shares of half a side, as in training, where radii are 0.1 to 0.4.
    """
    centre = rng.uniform(-0.5, 0.5, (boards, count, 2))
    y = np.linspace(-1.0, 1.0, size[0])[None, None, :, None]
    x = np.linspace(-1.0, 1.0, size[1])[None, None, None, :]
    square = (y - centre[..., 0, None, None]) ** 2 + (x - centre[..., 1, None, None]) ** 2
    return np.any(square < radius**2, axis=1)
