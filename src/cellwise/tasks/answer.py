"""Answers to many grids at once: laid on canvases, thought about, read off and cropped."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float32, Int32, UInt8

from ..automaton import clock, layout
from ..automaton.layout import Automaton
from ..kernels import bits
from ..kernels.bits import Keys
from ..kernels.dispatch import Path
from ..kernels.spec import Weights
from ..puzzles.arc_canvas import Canvas, Placement, crop
from ..puzzles.arc_vote import Guess
from .learn import begin


class Said(NamedTuple):
    """What the cells of some canvases said at the end, and how sure they were."""

    grid: UInt8[Array, "b s s"]
    confidence: Float32[Array, "b s s"]


def think(
    automaton: Automaton,
    weights: Weights,
    question: UInt8[Array, "b s s"],
    context: Int32[Array, " b"],
    keys: Keys,
    steps: int,
    *,
    path: Path,
    rate: float,
) -> Said:
    """Thinks `steps` steps about every canvas; pure, so that it can be mapped over weights."""
    now = begin(automaton, weights, question, weights["context.vectors"][context], keys)
    plan = path.plan(automaton.step, jnp.ones(question.shape, bool))
    now = clock.advance(automaton, weights, now, plan, keys, 0, steps, path=path, rate=rate)
    return Said(*layout.read(automaton.layout, weights, now.state))


think_alone = partial(jax.jit, static_argnames=("automaton", "steps", "path", "rate"))(think)


def answer_all(
    automaton: Automaton,
    weights: Weights,
    questions: list[tuple[Canvas, Placement, int]],
    *,
    seed: int,
    steps: int,
    path: Path,
    rate: float,
    at_once: int = 2**16,
) -> list[Guess]:
    """A guess for each canvas with its placement and context; at most `at_once` cells are computed together.

    The trajectory of question `i` is that of board `i` of the seed, whatever it is computed with.
    """
    guesses: list[Guess] = [Guess(None, 0.0)] * len(questions)
    for side in sorted({at.side for _, at, _ in questions}):
        mine = np.array([i for i, (_, at, _) in enumerate(questions) if at.side == side], np.int32)
        size = min(len(mine), max(1, at_once // side**2))
        for first in range(0, len(mine), size):
            # The last block is filled up with repetitions, so that one compiled program serves all.
            block = mine[np.minimum(np.arange(first, first + size), len(mine) - 1)]
            said = think_alone(
                automaton,
                weights,
                jnp.asarray(np.stack([questions[i][0] for i in block])),
                jnp.asarray(np.array([questions[i][2] for i in block], np.int32)),
                bits.trajectory_keys(seed, jnp.asarray(block), jnp.zeros(size, jnp.int32)),
                steps,
                path=path,
                rate=rate,
            )
            grids, sure = np.asarray(said.grid), np.asarray(said.confidence)
            for number, i in enumerate(block[: len(mine) - first]):
                guesses[i] = guess(grids[number], sure[number], questions[i][1])
    return guesses


def guess(canvas: Canvas, confidence: Float32[np.ndarray, "s s"], at: Placement) -> Guess:
    """The grid on a canvas with the mean confidence of its cells and its border."""
    grid = crop(canvas, at)
    if grid is None:
        return Guess(None, 0.0)
    height, width = (at.scale * side + 1 for side in grid.shape)
    return Guess(grid, float(confidence[at.row : at.row + height, at.column : at.column + width].mean()))
