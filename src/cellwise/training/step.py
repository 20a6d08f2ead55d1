"""One iteration of training, as a pure function of the run's state and its data."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Float32, Int32, UInt32

from ..automaton import layout, rollout
from ..automaton.layout import Automaton
from ..kernels import bits
from ..kernels.bits import Keys
from ..kernels.dispatch import Path
from ..kernels.precision import products
from ..kernels.reference import State
from ..kernels.spec import Weights
from .optimiser import learning_rate, optimiser
from .perturb import disturb, swap
from .pool import Batch, Data, begin, draw_boards, put, replace_first, take
from .recipe import Recipe

CELLS_IN_CACHE = 1024
"""About so many cells are computed together on a CPU."""

Seed = UInt32[Array, ""] | int
"""A number below 2³²; as an array one compiled program serves all seeds."""


class Run(NamedTuple):
    """All that a run consists of; with the data, the recipe and the seed it determines the future exactly."""

    step: Int32[Array, ""]
    weights: Weights
    average: Weights
    optimiser: Any
    pool: Batch


class Report(NamedTuple):
    """What one iteration tells."""

    loss: Float32[Array, ""]
    cells: Float32[Array, ""]
    boards: Float32[Array, ""]
    gradient: Float32[Array, ""]
    learning_rate: Float32[Array, ""]
    age: Float32[Array, ""]


def first_run(
    recipe: Recipe, automaton: Automaton, fixed: Weights, weights: Weights, data: Data, seed: Seed
) -> Run:
    """A run before its first iteration; `fixed` holds the arrays that are not trained."""
    boards = draw_boards(recipe, data, _key(seed, -1), recipe.pool)
    pool = begin(automaton, fixed, boards, _trajectories(seed, jnp.int32(-1), recipe.pool))
    # Copies, because a compiled iteration reuses the memory of its input.
    average = {name: jnp.array(weight) for name, weight in weights.items()}
    return Run(jnp.int32(0), weights, average, optimiser(recipe).init(weights), pool)


@partial(jax.jit, static_argnames=("recipe", "automaton", "path"), donate_argnames=("run",))
def iterate(
    run: Run, fixed: Weights, data: Data, seed: Seed, *, recipe: Recipe, automaton: Automaton, path: Path
) -> tuple[Run, Report]:
    """One iteration: assemble a batch, disturb it, think, learn, put it back."""
    choose, boards, swaps, donors, disturbs, windows = jax.random.split(_key(seed, run.step), 6)
    keys = _trajectories(seed, run.step, recipe.batch)

    fresh = begin(automaton, fixed, draw_boards(recipe, data, boards, recipe.fresh), keys[: recipe.fresh])
    index = jax.random.permutation(choose, recipe.pool)[: recipe.batch].astype(jnp.int32)
    batch = replace_first(take(run.pool, index), fresh)
    if recipe.swap_from == "pool":
        source = run.pool
    else:
        others = draw_boards(recipe, data, donors, recipe.batch)
        source = begin(automaton, fixed, others, keys)
    batch = disturb(recipe, automaton, swap(recipe, automaton, batch, source, swaps), disturbs)

    begin_at = jax.random.randint(windows, (recipe.batch,), 0, recipe.rollout - recipe.chunk + 1)
    think = partial(_think, recipe=recipe, automaton=automaton, path=path, fixed=fixed)
    with products(recipe.precision):
        loss, gradient, state, pooled = _in_blocks(think, recipe, run.weights, batch, keys, begin_at)

    with jax.numpy_dtype_promotion("standard"):  # optax mixes Python and array numbers
        updates, optimiser_state = optimiser(recipe).update(gradient, run.optimiser, run.weights)
        weights = optax.apply_updates(run.weights, updates)
        average = optax.incremental_update(weights, run.average, 1 - recipe.average)
    batch = batch._replace(state=pooled, age=batch.age + 1)

    grid, _ = layout.read(automaton.layout, fixed, state)
    right = grid == batch.target
    report = Report(
        loss=loss,
        cells=jnp.mean(right.astype(jnp.float32)),
        boards=jnp.mean(jnp.all(right, axis=(1, 2)).astype(jnp.float32)),
        gradient=jnp.sqrt(sum(jnp.vdot(g, g) for g in gradient.values())),
        learning_rate=learning_rate(recipe.schedule, recipe.steps, run.step),
        age=jnp.mean(batch.age.astype(jnp.float32)),
    )
    run = Run(run.step + 1, weights, average, optimiser_state, put(run.pool, index, batch))  # type: ignore[arg-type]
    return run, report


def _key(seed: Seed, step: Int32[Array, ""] | int) -> Array:
    seed = jnp.asarray(seed, jnp.uint32)
    return jax.random.fold_in(jax.random.key(seed), jnp.asarray(step).astype(jnp.uint32))


def _trajectories(seed: Seed, step: Int32[Array, ""], count: int) -> Keys:
    """A key for each slot of an iteration; in the place of a trial stands the iteration."""
    slots = jnp.arange(count, dtype=jnp.int32)
    return bits.trajectory_keys(seed, slots, jnp.broadcast_to(step, slots.shape))


def _suitable(batch: int, cells: int) -> int:
    """How many boards to compute together: on a CPU a few, so that they stay in the cache, else all."""
    if jax.default_backend() != "cpu":
        return batch
    return max(n for n in range(1, batch + 1) if batch % n == 0 and (n == 1 or n * cells <= CELLS_IN_CACHE))


def _in_blocks(
    think: Any, recipe: Recipe, weights: Weights, batch: Batch, keys: Keys, begin_at: Array
) -> tuple[Array, Weights, State, State]:
    """Loss and gradient over the batch, `recipe.microbatch` boards at a time."""
    size = recipe.microbatch or _suitable(recipe.batch, batch.state.shape[1] * batch.state.shape[2])
    blocks = recipe.batch // size
    if blocks == 1:
        (loss, (state, pooled)), gradient = jax.value_and_grad(think, has_aux=True)(
            weights, batch, keys, begin_at
        )
        return loss, gradient, state, pooled
    split = partial(jax.tree.map, lambda x: x.reshape(blocks, size, *x.shape[1:]))

    def one(total: tuple, block: tuple) -> tuple[tuple, tuple[State, State]]:
        (loss, states), gradient = jax.value_and_grad(think, has_aux=True)(weights, *block)
        share = jax.tree.map(lambda x: x / blocks, (loss, gradient))
        return jax.tree.map(jnp.add, total, share), states

    zero = (jnp.float32(0), jax.tree.map(jnp.zeros_like, weights))
    (loss, gradient), (state, pooled) = jax.lax.scan(one, zero, split((batch, keys, begin_at)))
    return loss, gradient, state.reshape(batch.state.shape), pooled.reshape(batch.state.shape)


def _think(
    weights: Weights,
    batch: Batch,
    keys: Keys,
    begin_at: Int32[Array, " b"],
    *,
    recipe: Recipe,
    automaton: Automaton,
    path: Path,
    fixed: Weights,
) -> tuple[Float32[Array, ""], tuple[State, State]]:
    """The loss over the chunk, the state after it and the state for the pool.

    The states before the chunk need no gradient, and those after it are not needed unless the pool wants
    them, so each board is advanced to the start of its own chunk, through it, and no further.
    """
    spec, everything = automaton.step, weights | fixed
    plan = path.plan(spec, batch.given)
    how: Any = {"path": path, "rate": recipe.fire_rate, "noise": recipe.noise}
    think = partial(rollout.rollout, spec, **how)

    def until(state: State, first: Array, last: Array) -> State:
        """Each board from its own step `first` to its own step `last`, without gradient."""
        return think(jax.lax.stop_gradient(everything), state, plan, keys, first, last - first)

    state = batch.state
    spare = recipe.rollout - recipe.chunk
    if spare:
        state = until(state, jnp.zeros_like(begin_at), begin_at)
    state = jax.lax.stop_gradient(state)
    target = layout.target_vectors(automaton.layout, fixed, batch.target)
    errors, state = rollout.learn(
        spec,
        everything,
        state,
        plan,
        keys,
        begin_at,
        recipe.chunk,
        target,
        channel=automaton.layout.write_first,
        judged=recipe.supervise,
        **how,
    )
    loss = jnp.mean(errors)
    if recipe.loss_scale == "sum":
        loss = loss * automaton.layout.write
    state = jax.lax.stop_gradient(state)
    if spare and recipe.write_back == "rollout":
        end = begin_at + recipe.chunk
        return loss, (state, until(state, end, jnp.full_like(end, recipe.rollout)))
    return loss, (state, state)
