"""What is run for a measurement: steps, gradients and iterations of training, by any path."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..automaton import layout, rollout
from ..automaton.flops import closed_form
from ..automaton.rule import first_weights
from ..benchmarks import BOARD_PRESETS
from ..benchmarks.preset import Preset
from ..kernels import bits
from ..kernels.dispatch import Path
from ..kernels.precision import Precision, products
from ..kernels.spec import Weights
from ..puzzles.board import Boards
from ..thinking.mind import prepare
from ..thinking.think import think
from ..training.pool import Data
from ..training.recipe import Recipe
from ..training.step import first_run, iterate
from .measure import Contender
from .workload import Workload, made

TRAINING_BOARDS = 1000


@dataclass(frozen=True)
class Setting:
    """A workload with its boards and the rule as it is before training."""

    workload: Workload
    preset: Preset
    boards: Boards

    @property
    def fixed(self) -> Weights:
        """The arrays that are not trained."""
        return {"layout.tokens": jnp.asarray(self.preset.tokens)}

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The arrays that are."""
        return first_weights(self.preset.automaton.step, self.preset.size, seed=0)

    @property
    def most_free(self) -> int:
        """The most free cells on one board."""
        return int((~self.boards.given).sum((1, 2)).max())

    def start(self) -> tuple[Array, Array]:
        """The states before the first step, and the keys of their random bits."""
        numbers = jnp.arange(len(self.boards), dtype=jnp.int32)
        keys = bits.trajectory_keys(0, numbers, jnp.zeros_like(numbers))
        inputs, given = jnp.asarray(self.boards.inputs), jnp.asarray(self.boards.given)
        begin = jax.jit(layout.start, static_argnums=0)
        return begin(self.preset.automaton, self.fixed, inputs, given, keys), keys

    def contender(
        self,
        name: str,
        path: Path,
        precision: Precision,
        boards: int,
        steps: int,
        passes: float | int,
        run: Any,
    ) -> Contender:
        """A run of `passes` computations of every step, on so many boards."""
        places = self.boards.target[0].size
        skips = path.name in ("compact", "resident")
        computed = self.most_free if skips else places
        return Contender(
            name=name,
            precision=precision,
            boards=self.workload.about,
            cells=boards * places,
            free=round(boards * float((~self.boards.given).mean()) * places),
            steps=steps,
            flops=float(closed_form(self.preset.automaton.step)) * boards * computed * passes,
            run=run,
        )


def setting(workload: Workload) -> Setting:
    """The workload, ready to be measured."""
    preset = BOARD_PRESETS[workload.preset]
    count = TRAINING_BOARDS if workload.task == "training" else workload.boards
    return Setting(workload, preset, made(workload, preset, count))


def forward(at: Setting, path: Path, precision: Precision) -> Contender:
    """Many steps of all boards at once."""
    spec, steps = at.preset.automaton.step, at.workload.steps
    weights = {name: jnp.asarray(weight) for name, weight in (at.weights | at.fixed).items()}
    state, keys = at.start()
    plan = jax.jit(path.plan, static_argnums=0)(spec, jnp.asarray(at.boards.given))
    go = _compiled(precision, partial(rollout.rollout, spec, path=path, rate=at.preset.recipe.fire_rate))
    run = partial(go, weights, state, plan, keys, jnp.int32(0), jnp.int32(steps))
    return at.contender(
        f"cellwise, {path.name}",
        path,
        precision,
        len(state),
        steps,
        steps,
        lambda: jax.block_until_ready(run()),
    )


def thinking(at: Setting, precision: Precision) -> Contender:
    """What a user gets: a few boards at a time, from puzzles to answers."""
    numbers, steps = np.arange(len(at.boards), dtype=np.int32), at.workload.steps
    mind = prepare(
        at.preset.automaton,
        at.weights | {name: np.asarray(array) for name, array in at.fixed.items()},
        at.boards.given,
        at.preset.recipe.fire_rate,
        None,
        precision,
    )
    puzzles = (at.boards.inputs, at.boards.given)
    run = partial(think, mind, *puzzles, 0, numbers, np.zeros_like(numbers), steps)
    return at.contender("cellwise, think", mind.path, precision, len(numbers), steps, steps, run)


def gradient(at: Setting, path: Path, precision: Precision) -> Contender:
    """Loss and gradient through all steps, a few boards at a time as training on a CPU does it."""
    automaton, recipe, steps = at.preset.automaton, at.preset.recipe, at.workload.steps
    spec, lay, fixed = automaton.step, automaton.layout, at.fixed
    weights = {name: jnp.asarray(weight) for name, weight in at.weights.items()}
    state, keys = at.start()
    target = layout.target_vectors(lay, fixed, jnp.asarray(at.boards.target))

    def loss(weights: Weights, state: Array, given: Array, target: Array, keys: Array) -> Array:
        errors, _ = rollout.learn(
            spec,
            weights | fixed,
            state,
            path.plan(spec, given),
            keys,
            0,
            steps,
            target,
            channel=lay.write_first,
            judged=recipe.supervise,
            path=path,
            rate=recipe.fire_rate,
        )
        return jnp.mean(errors)

    def learn(weights: Weights, batch: tuple[Array, ...]) -> Any:
        blocks = jax.tree.map(lambda x: x.reshape(-1, at.workload.together, *x.shape[1:]), batch)

        def one(total: Any, block: tuple[Array, ...]) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(weights, *block)), None

        zero = (jnp.float32(0), jax.tree.map(jnp.zeros_like, weights))
        return jax.lax.scan(one, zero, blocks)[0]

    go = _compiled(precision, learn)
    batch = (state, jnp.asarray(at.boards.given), target, keys)
    name = f"cellwise, {path.name}"
    run: Callable[[], Any] = lambda: jax.block_until_ready(go(weights, batch))  # noqa: E731
    return at.contender(name, path, precision, len(state), steps, 3 * steps, run)


def training(at: Setting, path: Path, precision: Precision) -> Contender:
    """A whole iteration by the preset's recipe: pool, symmetries, noise and optimiser included."""
    recipe: Recipe = replace(at.preset.recipe, precision=precision)
    weights = {name: jnp.asarray(weight) for name, weight in at.weights.items()}
    data = Data(jnp.asarray(at.boards.target), jnp.asarray(at.boards.given))
    automaton, fixed, seed = at.preset.automaton, at.fixed, jnp.uint32(0)
    states = [first_run(recipe, automaton, fixed, weights, data, seed)]

    def run() -> None:
        done, report = iterate(states.pop(), fixed, data, seed, recipe=recipe, automaton=automaton, path=path)
        states.append(done)
        jax.block_until_ready((done, report))

    # Half of the steps before the chunk are taken on average.
    passes = (recipe.rollout - recipe.chunk) / 2 + 3 * recipe.chunk
    return at.contender(f"cellwise, {path.name}", path, precision, recipe.batch, recipe.rollout, passes, run)


TASKS: dict[str, Callable[[Setting, Path, Precision], Contender]] = {
    "forward": forward,
    "gradient": gradient,
    "training": training,
}


def _compiled(precision: Precision, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled for a precision whenever it is called."""

    def exactly(*arguments: Any) -> Any:
        with products(precision):
            return function(*arguments)

    return jax.jit(exactly)
