"""Guessing: every question of a task in every guise, several times, by the weights that have learnt it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Int32, UInt8, UInt32

from ..automaton.layout import Automaton
from ..kernels import bits
from ..kernels.dispatch import Path
from ..kernels.spec import Weights
from ..puzzles.arc import Task
from ..puzzles.arc_canvas import Canvas, Placement, answer_bounds, draw, question
from ..puzzles.arc_variants import variants
from ..puzzles.arc_vote import Guess
from .adapt import identity_of, whole
from .answer import Said, guess, think

_CELLS_IN_CACHE = 3 * 2**11
"""Cells that a CPU computes together, so that their hidden layers stay in its cache."""


@partial(jax.jit, static_argnames=("automaton", "steps", "path", "rate", "block"))
def think_together(
    trained: Weights,
    base: Weights,
    questions: UInt8[Array, "t b s s"],
    contexts: Int32[Array, " b"],
    keys: UInt32[Array, "t b"],
    *,
    automaton: Automaton,
    steps: int,
    path: Path,
    rate: float,
    block: int = 0,
) -> Said:
    """What the cells of several tasks say, each task by its own weights.

    All at once, or one task after the other and `block` canvases at a time, which divides their number.
    """

    def one(trained: Weights, question: Array, keys: Array) -> Said:
        weights = whole(trained, base)

        def some(parts: tuple[Array, Array, Array]) -> Said:
            return think(automaton, weights, *parts, steps, path=path, rate=rate)

        if not block:
            return some((question, contexts, keys))
        cut = jax.tree.map(
            lambda array: array.reshape(-1, block, *array.shape[1:]), (question, contexts, keys)
        )
        return jax.tree.map(lambda array: array.reshape(question.shape), jax.lax.map(some, cut))

    if not block:
        return jax.vmap(one)(trained, questions, keys)
    return jax.lax.map(lambda task: one(*task), (trained, questions, keys))


def block_of(count: int, side: int) -> int:
    """How many of so many canvases are computed together: 0 for all, or on a CPU what its cache holds."""
    if jax.default_backend() != "cpu":
        return 0
    fitting = [n for n in range(1, count + 1) if count % n == 0 and n * side**2 <= _CELLS_IN_CACHE]
    return max(fitting, default=1)


def guess_all(
    tasks: list[Task],
    trained: Weights,
    base: Weights,
    *,
    automaton: Automaton,
    side: int,
    seed: int,
    rollouts: int,
    steps: int,
    path: Path,
    rate: float,
) -> list[list[list[Guess]]]:
    """The guesses for each task and each of its questions: all guises once, then all once more, and so on.

    Where a question lies on its canvas, how its cells begin and when they fire depends on the seed, the
    task, the question, the guise and the round alone.
    """
    found: list[list[list[Guess]]] = [[[] for _ in task.questions] for task in tasks]
    for number in range(max(len(task.questions) for task in tasks)):
        for turn in range(rollouts):
            laid = [lay_out(task, min(number, len(task.questions) - 1), turn, side, seed) for task in tasks]
            said = think_together(
                trained,
                base,
                jnp.asarray(np.stack([canvases for canvases, _, _ in laid])),
                jnp.arange(len(laid[0][1]), dtype=jnp.int32),
                jnp.asarray(np.stack([keys for _, _, keys in laid])),
                automaton=automaton,
                steps=steps,
                path=path,
                rate=rate,
                block=block_of(len(laid[0][1]), side),
            )
            grids, sure = np.asarray(said.grid), np.asarray(said.confidence)
            for t, (task, (_, places, _)) in enumerate(zip(tasks, laid, strict=True)):
                if number >= len(task.questions):
                    continue
                for v, (guise, at) in enumerate(zip(variants(task.name, seed), places, strict=True)):
                    grid, confidence = guess(grids[t, v], sure[t, v], at)
                    # The size was told in the guise; the grid is turned back as it is.
                    found[t][number].append(Guess(None if grid is None else guise.undo(grid), confidence))
    return found


def lay_out(
    task: Task, number: int, turn: int, side: int, seed: int
) -> tuple[UInt8[np.ndarray, "b s s"], list[Placement], UInt32[np.ndarray, " b"]]:
    """One question in all guises on canvases, with the places and the keys of the trajectories."""
    own = identity_of(task.name, seed)
    canvases: list[Canvas] = []
    places: list[Placement] = []
    for v, guise in enumerate(variants(task.name, seed)):
        turned = guise.task(task)
        grid = turned.questions[number]
        at = draw(np.random.default_rng([own, number, turn, v]), side, *answer_bounds(turned, grid))
        canvases.append(question(grid, at))
        places.append(at)
    slots = jnp.arange(len(places), dtype=jnp.int32) + len(places) * number
    keys = bits.trajectory_keys(own, slots, jnp.full(len(places), turn, jnp.int32))
    return np.stack(canvases), places, np.asarray(keys)
