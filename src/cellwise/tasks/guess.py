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
from ..puzzles.arc_canvas import answer_bounds, draw, question
from ..puzzles.arc_variants import variants
from ..puzzles.arc_vote import Guess
from .adapt import identity_of, whole
from .answer import Said, guess, think


@partial(jax.jit, static_argnames=("automaton", "steps", "path", "rate"))
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
) -> Said:
    """What the cells of several tasks say, each task by its own weights."""

    def one(trained: Weights, question: Array, keys: Array) -> Said:
        return think(automaton, whole(trained, base), question, contexts, keys, steps, path=path, rate=rate)

    return jax.vmap(one)(trained, questions, keys)


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
            laid = [_laid(task, min(number, len(task.questions) - 1), turn, side, seed) for task in tasks]
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


def _laid(task: Task, number: int, turn: int, side: int, seed: int) -> tuple[np.ndarray, list, np.ndarray]:
    """One question in all guises on canvases, with the places and the keys of the trajectories."""
    own = identity_of(task.name, seed)
    canvases, places = [], []
    for v, guise in enumerate(variants(task.name, seed)):
        turned = guise.task(task)
        grid = turned.questions[number]
        at = draw(np.random.default_rng([own, number, turn, v]), side, *answer_bounds(turned, grid))
        canvases.append(question(grid, at))
        places.append(at)
    slots = jnp.arange(len(places), dtype=jnp.int32) + len(places) * number
    keys = bits.trajectory_keys(own, slots, jnp.full(len(places), turn, jnp.int32))
    return np.stack(canvases), places, np.asarray(keys)
