"""Learning a task at test time: many tasks at once, each with weights and moments of its own.

Every guise of a task gets a context vector of its own, which begins at random. They are trained on the
demonstrations in all guises, together with all weights or, more cheaply, with a part of low rank.
"""

import zlib
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jaxtyping import Float32, Int32, UInt32

from ..automaton.layout import Automaton
from ..errors import ConfigError
from ..kernels import bits
from ..kernels.dispatch import Path
from ..kernels.spec import Weights
from ..puzzles.arc import Pair, Task
from ..puzzles.arc_pairs import pack
from ..puzzles.arc_variants import variants
from ..training.recipe import Schedule
from .learn import judge, loss
from .recipe import PairRecipe
from .shelves import Shelf, draw, shelve

LOW_RANK = ("perceive.value", "update.w_in", "update.w_gate", "update.w_out")
"""What a part of low rank is added to."""

_LIGHT = 2**13
"""Steps times channels up to which there is room for all products of many tasks at once."""


@dataclass(frozen=True)
class AdaptRecipe:
    """How a task is learnt and guessed."""

    steps: int = 400
    """How many times the weights are updated."""
    batch: int = 8
    """Pairs in one update of one task."""
    peak: float = 3e-4
    """The learning rate at the start; it falls to zero along a cosine."""
    context_rate: float = 10.0
    """How many times faster the context vectors learn."""
    rank: int = 0
    """Rank of the part of each matrix that is trained, with the contexts alone; 0 trains everything."""
    hold_out: int = 4
    """A task with at least so many demonstrations keeps the last to stop early by; 0 for never."""
    look_every: int = 50
    """Updates between two looks at it."""
    patience: int = 4
    """Looks without a better one after which a task is left as it was at its best."""
    rollouts: int = 2
    """Guesses for each guise of each question."""
    rollout: int = 0
    """Steps of a rollout, 0 for those of the model's training."""
    judged: int = 8
    """Steps, the last of those, after which the answer is judged."""
    precision: Literal["bf16", "float32"] = "bf16"
    """Factors of products."""

    def __post_init__(self) -> None:
        """Refuses what could not be computed."""
        problems = {
            "steps must be between 0 and a million": not 0 <= self.steps <= 10**6,
            "batch must be between 1 and 1024": not 1 <= self.batch <= 1024,
            "peak must be in (0, 1]": not 0 < self.peak <= 1,
            "context_rate must be between 0 and 1000": not 0 <= self.context_rate <= 1000,
            "rank must be between 0 and 64": not 0 <= self.rank <= 64,
            "hold_out must be 0 or at least 2": self.hold_out < 0 or self.hold_out == 1,
            "look_every and patience must be positive": self.look_every < 1 or self.patience < 1,
            "rollouts must be between 1 and 1000": not 1 <= self.rollouts <= 1000,
            "rollout and judged must fit each other": not 1 <= self.judged <= (self.rollout or 4096) <= 4096,
        }
        for problem, present in problems.items():
            if present:
                raise ConfigError(f"A task cannot be learnt like this: {problem}.")


class Pupil(NamedTuple):
    """A task in learning; `best` is what was trained when the held-out demonstration went best."""

    trained: Weights
    memory: Any
    best: Weights
    best_error: Float32[Array, ""]
    waited: Int32[Array, ""]


class Material(NamedTuple):
    """What a task is learnt from: its demonstrations in all guises and, apart, the held-out one in all.

    `among` says how many entries of the two shelves there are; the rest is filling.
    """

    shown: Shelf
    held: Shelf
    among: Int32[Array, " 2"]
    key: UInt32[Array, ""]


def identity_of(name: str, seed: int) -> int:
    """A number by which a task draws its own random numbers, whatever it is learnt together with."""
    return zlib.crc32(f"{seed}:{name}".encode())


def material(task: Task, seed: int, side: int, recipe: AdaptRecipe) -> Material:
    """The demonstrations of a task in all its guises, for a canvas of this side."""
    demos = list(task.demos)
    keep = bool(recipe.hold_out) and len(demos) >= recipe.hold_out
    parts = (demos[:-1], demos[-1:]) if keep else (demos, [])
    shelves, among = [], []
    for part in parts:
        pairs = pack(
            (str(number), Pair(guise.apply(demo.input), guise.apply(demo.output)))
            for number, guise in enumerate(variants(task.name, seed))
            for demo in part or demos[:1]
        )
        (shelf,) = shelve(pairs, (side,))
        shelves.append(shelf)
        among.append(len(pairs) if part else 0)
    key = np.uint32(identity_of(task.name, seed))
    return Material(shelves[0], shelves[1], jnp.asarray(np.array(among, np.int32)), jnp.asarray(key))


def together(several: list[Material], demos: int) -> Material:
    """The material of several tasks with one more axis in front, filled up to so many demonstrations.

    So all groups of tasks have the same shape, and one compiled program serves them.
    """
    most = len(variants("")) * demos

    def filled(*arrays: Array) -> Array:
        """Entries beyond `among` are never drawn."""
        if arrays[0].ndim < 1 or len(arrays[0]) == 2:
            return jnp.asarray(np.stack(arrays))
        return jnp.asarray(np.stack([np.resize(array, (most, *array.shape[1:])) for array in arrays]))

    return jax.tree.map(filled, *several)


def begin(automaton: Automaton, weights: Weights, names: list[str], seed: int, recipe: AdaptRecipe) -> Pupil:
    """Pupils before their first lesson: the pre-trained weights, and contexts that know nothing yet."""
    count, width = len(variants("")), automaton.layout.context
    drawn: list[dict[str, np.ndarray]] = []
    for name in names:
        rng = np.random.default_rng(identity_of(name, seed))
        own = {"context.vectors": 0.02 * rng.standard_normal((count, width))}
        for kind in LOW_RANK if recipe.rank else ():
            rows = weights[kind].size // weights[kind].shape[-1]
            own[f"{kind}.low"] = rows**-0.5 * rng.standard_normal((rows, recipe.rank))
            own[f"{kind}.rank"] = np.zeros((recipe.rank, weights[kind].shape[-1]))
        drawn.append(own)
    stacked = {
        kind: jnp.asarray(np.stack([own[kind] for own in drawn]).astype(np.float32)) for kind in drawn[0]
    }
    return _begin(weights, stacked, recipe)


@partial(jax.jit, static_argnames=("recipe",))
def _begin(weights: Weights, drawn: Weights, recipe: AdaptRecipe) -> Pupil:
    trained = dict(drawn)
    count = len(trained["context.vectors"])
    if not recipe.rank:
        for name, weight in weights.items():
            if name not in ("context.vectors", "layout.tokens"):
                trained[name] = jnp.broadcast_to(weight, (count, *weight.shape))
    with jax.numpy_dtype_promotion("standard"):
        memory = jax.vmap(_optimiser(recipe).init)(trained)
    none = jnp.full(count, jnp.inf, jnp.float32)
    # A copy, because learning reuses the memory of what it is given.
    best = jax.tree.map(jnp.copy, trained)
    return Pupil(trained, memory, best, none, jnp.zeros(count, jnp.int32))


def whole(trained: Weights, base: Weights) -> Weights:
    """All weights of one task, from what was trained of them and what it began with."""
    weights = base | {name: array for name, array in trained.items() if name in base}
    for kind in LOW_RANK:
        if f"{kind}.low" in trained:
            low = trained[f"{kind}.low"] @ trained[f"{kind}.rank"]
            weights[kind] = base[kind] + low.reshape(base[kind].shape)
    return weights


def _optimiser(recipe: AdaptRecipe) -> optax.GradientTransformation:
    """Clip, Adam and a cosine to zero; no decay."""
    return optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adam(optax.cosine_decay_schedule(recipe.peak, max(recipe.steps, 1))),
    )


def as_lesson(recipe: AdaptRecipe, rollout: int, rate: float, channels: int) -> PairRecipe:
    """The same as a recipe for pairs, as far as the error of a batch is concerned."""
    light = rollout * channels <= _LIGHT
    return PairRecipe(
        steps=max(recipe.steps, 1),
        schedule=Schedule(0.0, recipe.peak, 0.0, 0),
        batch=recipe.batch,
        canvases=(32,),
        rollout=rollout,
        learned=rollout,
        judged=min(recipe.judged, rollout),
        clock="global",
        fire_rate=rate,
        precision=recipe.precision,
        remember="products" if light else "steps",
    )


@partial(
    jax.jit, static_argnames=("recipe", "lesson", "automaton", "path", "count"), donate_argnames=("pupils",)
)
def learn_some(
    pupils: Pupil,
    matter: Material,
    base: Weights,
    first: Int32[Array, ""],
    *,
    recipe: AdaptRecipe,
    lesson: PairRecipe,
    automaton: Automaton,
    path: Path,
    count: int,
) -> tuple[Pupil, Float32[Array, " t"]]:
    """`count` updates of every pupil, then a look at the held-out demonstration; also the last errors.

    A pupil that has waited too long learns no more; one without such a demonstration always counts as best.
    """

    def error(
        trained: Weights, shelf: Shelf, among: Array, key: Array, step: Array, weights: Weights
    ) -> Array:
        laid = draw(
            shelf, jax.random.fold_in(jax.random.key(key), step.astype(jnp.uint32)), recipe.batch, among
        )
        slots = jnp.arange(recipe.batch, dtype=jnp.int32)
        keys = bits.trajectory_keys(key, slots, jnp.broadcast_to(step, slots.shape))
        now = whole(trained, weights)
        return loss(judge(automaton, now, laid, keys, jnp.int32(0), recipe=lesson, path=path), lesson)

    def one(pupil: Pupil, matter: Material) -> tuple[Pupil, Array]:
        def update(carry: tuple, step: Array) -> tuple[tuple, Array]:
            trained, memory = carry
            found, slope = jax.value_and_grad(error)(
                trained, matter.shown, matter.among[0], matter.key, step, base
            )
            with jax.numpy_dtype_promotion("standard"):
                updates, memory = _optimiser(recipe).update(slope, memory, trained)
            change: Weights = dict(updates)  # type: ignore[arg-type]
            change["context.vectors"] = recipe.context_rate * change["context.vectors"]
            return ({name: trained[name] + change[name] for name in trained}, memory), found

        steps = first + jnp.arange(count, dtype=jnp.int32)
        (trained, memory), errors = jax.lax.scan(update, (pupil.trained, pupil.memory), steps)
        # The same draw at every look, so that looks can be compared.
        held = error(
            trained, matter.held, jnp.maximum(matter.among[1], 1), matter.key, jnp.int32(2**30), base
        )
        blind = matter.among[1] == 0
        over = pupil.waited >= recipe.patience
        better = (blind | (held < pupil.best_error)) & ~over
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), trained, pupil.best)
        waited = jnp.where(better, 0, pupil.waited + 1)
        best_error = jnp.where(better & ~blind, held, pupil.best_error)
        return Pupil(trained, memory, best, best_error, waited), errors[-1]

    return jax.vmap(one)(pupils, matter)
