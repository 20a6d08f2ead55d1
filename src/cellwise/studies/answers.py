"""What a model says after so many steps, whether it is right or not; nothing ends a thought early."""

import numpy as np

from ..kernels.dispatch import Noise
from ..model import Model
from ..puzzles.board import Boards
from ..thinking.mind import prepare
from ..thinking.think import Answers, think


def answers(model: Model, boards: Boards, steps: int, seed: int, noise: Noise | None = None) -> Answers:
    """The answer of one trial to each board."""
    batch, restore = model.prepared(boards.inputs)
    given = model.given(batch)
    mind = prepare(model.automaton, model.weights, given, model.fire_rate, noise)
    numbers = np.arange(len(boards), dtype=np.int32)
    said = think(mind, batch, given, seed, numbers, np.zeros_like(numbers), steps)
    return Answers(restore(said.grid), restore(said.cells), said.steps)
