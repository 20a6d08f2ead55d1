"""One iteration of learning from pictures, as a pure function of the run's state and its data."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Bool, Float32, Int32, PRNGKeyArray, UInt8, UInt32

from ..automaton import picture, rollout
from ..automaton.layout import Automaton
from ..automaton.picture import Image
from ..kernels import bits
from ..kernels.bits import Keys
from ..kernels.dispatch import Path
from ..kernels.noise import kicks
from ..kernels.precision import products
from ..kernels.reference import State
from ..kernels.spec import Weights
from ..training.optimiser import learning_rate, optimiser
from ..training.perturb import discs
from .draw import Data, draw_boards, draw_digits, draw_state
from .recipe import PictureRecipe

LARGE = 3.0
"""From here on a number costs something, if the recipe says so."""
TOO_LARGE = 100.0
"""A state with a larger number is past healing and is replaced by a fresh one."""
LONG_MEMORY, SHORT_MEMORY = 0.99, 0.9
"""Of the running means of the loss that are compared to find a spike."""
ONE_LOSS = 10.0
"""How often the usual loss a single one can count, so that it alone is no spike."""
NEVER = -1
BEFORE = -1
"""The step whose kicks come before the first."""


class Batch(NamedTuple):
    """States with what should be drawn; `age` counts the iterations since a state began."""

    state: State
    target: UInt8[Array, "b k k"]
    age: Int32[Array, " b"]


class Trend(NamedTuple):
    """How the loss goes: its running means, and how many iterations they are made of."""

    usual: Float32[Array, ""]
    recent: Float32[Array, ""]
    seen: Int32[Array, ""]


class Recovery(NamedTuple):
    """What spikes have led to: the factor of the learning rate, where the run went back to, how often."""

    pace: Float32[Array, ""]
    last: Int32[Array, ""]
    returns: Int32[Array, ""]


class Run(NamedTuple):
    """All that a run consists of; with data, recipe and seed it determines the future exactly."""

    step: Int32[Array, ""]
    weights: Weights
    average: Weights
    optimiser: Any
    pool: Batch
    trend: Trend
    recovery: Recovery


class Report(NamedTuple):
    """What one iteration tells; `rise` is how the loss of late compares with the usual one, or 1 at first."""

    loss: Float32[Array, ""]
    cells: Float32[Array, ""]
    boards: Float32[Array, ""]
    gradient: Float32[Array, ""]
    learning_rate: Float32[Array, ""]
    age: Float32[Array, ""]
    rise: Float32[Array, ""]


def first_run(
    recipe: PictureRecipe, automaton: Automaton, weights: Weights, data: Data, seed: UInt32[Array, ""] | int
) -> Run:
    """A run before its first iteration."""
    # Copies, because a compiled iteration reuses the memory of its input.
    weights = {name: jnp.array(weight) for name, weight in weights.items()}
    average = {name: jnp.array(weight) for name, weight in weights.items()}
    with jax.numpy_dtype_promotion("standard"):
        memory = optimiser(recipe).init(weights)
    pool = first_pool(recipe, automaton, data, jnp.asarray(seed, jnp.uint32))
    recovery = Recovery(jnp.float32(1), jnp.int32(NEVER), jnp.int32(0))
    return Run(jnp.int32(0), weights, average, memory, pool, first_trend(), recovery)


def first_trend() -> Trend:
    """The trend when nothing is known yet."""
    return Trend(jnp.float32(0), jnp.float32(0), jnp.int32(0))


@partial(jax.jit, static_argnames=("recipe", "automaton"))
def first_pool(
    recipe: PictureRecipe,
    automaton: Automaton,
    data: Data,
    seed: UInt32[Array, ""],
    step: Int32[Array, ""] | int = 0,
) -> Batch:
    """States of drawn boards before their first step, in a pool that begins at an iteration."""
    step = -1 - jnp.asarray(step, jnp.int32)
    return _fresh(recipe, automaton, data, _key(seed, step), _trajectories(seed, step, recipe.pool))


@partial(jax.jit, static_argnames=("recipe", "automaton", "path"), donate_argnames=("run",))
def iterate(
    run: Run,
    fixed: Weights,
    data: Data,
    seed: UInt32[Array, ""],
    *,
    recipe: PictureRecipe,
    automaton: Automaton,
    path: Path,
) -> tuple[Run, Report]:
    """One iteration: assemble a batch, disturb it, think, learn, put it back."""
    choose, boards, disturbs, draws = jax.random.split(_key(seed, run.step), 4)
    keys = _trajectories(seed, run.step, recipe.batch)
    index = jax.random.permutation(choose, recipe.pool)[: recipe.batch].astype(jnp.int32)
    old = disturb(recipe, jax.tree.map(lambda whole: whole[index], run.pool), disturbs, keys)
    anew = (jnp.arange(recipe.batch) < recipe.fresh) | spoiled(old.state)
    batch = _chosen(anew, _fresh(recipe, automaton, data, boards, keys), old)
    wanted = target(recipe, automaton, fixed, data, batch.target, draws)

    learn = partial(think, recipe=recipe, automaton=automaton, path=path)
    with products(recipe.precision):
        (loss, state), gradient = jax.value_and_grad(learn, has_aux=True)(
            run.weights, batch.state, wanted, keys
        )
    with jax.numpy_dtype_promotion("standard"):  # optax mixes Python and array numbers
        updates, memory = optimiser(recipe).update(gradient, run.optimiser, run.weights)
        updates = jax.tree.map(lambda update: run.recovery.pace * update, updates)
        weights: Weights = optax.apply_updates(run.weights, updates)  # type: ignore[assignment]
        average: Weights = optax.incremental_update(weights, run.average, 1 - recipe.average)  # type: ignore[assignment]
    right = picture.read(automaton.layout, fixed, picture.drawn(state)) == batch.target
    trend = followed(run.trend, loss)
    report = Report(
        loss=loss,
        cells=jnp.mean(right.astype(jnp.float32)),
        boards=jnp.mean(jnp.all(right, axis=(1, 2)).astype(jnp.float32)),
        gradient=jnp.sqrt(sum((jnp.vdot(g, g) for g in gradient.values()), jnp.float32(0))),
        learning_rate=run.recovery.pace * learning_rate(recipe.schedule, recipe.steps, run.step),
        age=jnp.mean(batch.age.astype(jnp.float32)),
        rise=jnp.where(run.step < recipe.settle, 1.0, trend.recent / trend.usual),
    )
    put = batch._replace(state=state, age=batch.age + 1)
    pool = jax.tree.map(lambda whole, part: whole.at[index].set(part, unique_indices=True), run.pool, put)
    return Run(run.step + 1, weights, average, memory, pool, trend, run.recovery), report


def think(
    weights: Weights,
    state: State,
    wanted: Image,
    keys: Keys,
    *,
    recipe: PictureRecipe,
    automaton: Automaton,
    path: Path,
) -> tuple[Float32[Array, ""], State]:
    """The mean squared error of the board's pixels over the judged steps, and the state after the chunk.

    To the error is added what the recipe charges for channels that drift away.
    """
    spec, layout = automaton.step, automaton.layout
    count, digit = picture.places(layout)
    used, (b, h, w, _) = count * digit, state.shape
    plan = path.plan(spec, jnp.zeros((b, h, w), bool))

    def body(state: State, i: Array) -> tuple[State, Array]:
        how: Any = {"path": path, "rate": recipe.fire_rate, "noise": None}
        state = rollout.one_step(spec, weights, state, plan, keys, i, **how)
        error = state[:, :used, :used, 0] - wanted[:, :used, :used]
        return state, jnp.mean(error * error)

    def some(state: State, steps: Array) -> tuple[State, Array]:
        return jax.lax.scan(body, state, steps)

    steps = jnp.arange(recipe.chunk, dtype=jnp.int32)
    if recipe.segment:
        state, errors = jax.lax.scan(jax.checkpoint(some), state, steps.reshape(-1, recipe.segment))
    else:
        state, errors = some(state, steps)
    beyond = jax.nn.relu(jnp.abs(state) - LARGE)
    loss = jnp.mean(errors.reshape(-1)[-recipe.judged :]) + recipe.overflow * jnp.mean(beyond * beyond)
    return loss, state


def target(
    recipe: PictureRecipe,
    automaton: Automaton,
    fixed: Weights,
    data: Data,
    solution: UInt8[Array, "b k k"],
    key: PRNGKeyArray,
) -> Image:
    """What should be drawn: the mean of each digit, or another picture of it for each place."""
    if recipe.target == "mean":
        tiles = fixed["layout.tokens"][solution.astype(jnp.int32)]
    else:
        tiles = draw_digits(data, solution, key)
    return picture.lay(automaton.layout, tiles)


def disturb(recipe: PictureRecipe, batch: Batch, key: PRNGKeyArray, keys: Keys) -> Batch:
    """Damages some of the states that should know their solution by now, and kicks some of all."""
    hit, place = jax.random.split(key)
    b, h, w, c = batch.state.shape
    state = batch.state
    if recipe.damage * recipe.discs:
        grown = (batch.age >= recipe.grown) & jax.random.bernoulli(hit, recipe.damage, (b,))
        damaged = grown[:, None, None] & discs(place, b, recipe.discs, (h, w))
        state = jnp.where(damaged[..., None], 0.0, state)
    if not recipe.noise.silent:
        cells = jnp.arange(h * w, dtype=jnp.int32)[None]
        state = state + kicks(recipe.noise, c, cells, keys, BEFORE).reshape(state.shape)
    return batch._replace(state=state)


def spoiled(state: State) -> Bool[Array, " b"]:
    """Which states hold numbers that no picture needs."""
    return ~jnp.all(jnp.abs(state) <= TOO_LARGE, axis=(1, 2, 3))  # Also those with what is no number.


def followed(trend: Trend, loss: Float32[Array, ""]) -> Trend:
    """The trend with one more loss; in the beginning both means are those of all losses so far."""
    first = 1.0 / (trend.seen + 1).astype(jnp.float32)
    usual = jnp.maximum(first, 1 - LONG_MEMORY)
    recent = jnp.maximum(first, 1 - SHORT_MEMORY)
    loss = jnp.where(trend.seen > 0, jnp.minimum(loss, ONE_LOSS * trend.usual), loss)
    return Trend(
        trend.usual + usual * (loss - trend.usual),
        trend.recent + recent * (loss - trend.recent),
        trend.seen + 1,
    )


def _fresh(recipe: PictureRecipe, automaton: Automaton, data: Data, key: PRNGKeyArray, keys: Keys) -> Batch:
    choose, digits = jax.random.split(key)
    puzzle, solution = draw_boards(data, recipe.augment, choose, len(keys))
    state = draw_state(automaton, data, puzzle, digits, keys)
    return Batch(state, solution, jnp.zeros(len(keys), jnp.int32))


def _chosen(which: Bool[Array, " b"], one: Batch, other: Batch) -> Batch:
    def choose(x: Array, y: Array) -> Array:
        return jnp.where(which.reshape(-1, *[1] * (x.ndim - 1)), x, y)

    return jax.tree.map(choose, one, other)


def _key(seed: UInt32[Array, ""] | int, step: Int32[Array, ""]) -> PRNGKeyArray:
    return jax.random.fold_in(jax.random.key(jnp.asarray(seed, jnp.uint32)), step.astype(jnp.uint32))


def _trajectories(seed: UInt32[Array, ""] | int, step: Int32[Array, ""], count: int) -> Keys:
    slots = jnp.arange(count, dtype=jnp.int32)
    return bits.trajectory_keys(seed, slots, jnp.broadcast_to(step, slots.shape))
