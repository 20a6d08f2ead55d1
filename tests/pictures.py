"""Models for drawn boards that need no training, and the digits of tests in place of MNIST's."""

import numpy as np
import pytest

from cellwise.automaton import rule
from cellwise.automaton.layout import Automaton, Layout
from cellwise.kernels.spec import StepSpec
from cellwise.model import Model, Pace
from cellwise.puzzles import visual_data
from cellwise.puzzles.digits import prototypes
from handwriting import digits


def model(cells=4, side=7, moving=0.0, **more):
    """Cells that change their picture by about `moving` times what they see; with 0, never."""
    spec = StepSpec(8, "sobel", 3, 16, "wrap", frozen=0, update="bare")
    automaton = Automaton(spec, Layout(cells + 1, side * side, side * side, "picture", spread=0.1))
    weights = rule.first_weights(spec, None, 0)
    kicks = np.random.default_rng(1).standard_normal(weights["update.w_out"].shape)
    weights["update.w_out"] = (moving * kicks).astype(np.float32)
    weights["layout.tokens"] = prototypes(digits(side), cells).reshape(cells + 1, side * side)
    how = {"fire_rate": 0.5, "pace": Pace(base=4, per_cell=0.0), **more}
    return Model("still" if moving == 0 else "moving", "visual-sudoku", automaton, weights, **how)


@pytest.fixture
def handwritten(monkeypatch):
    """MNIST's digits are those of the tests; says which splits were asked for."""
    asked = []

    def instead(split, side):
        asked.append(split)
        return digits(side, 3 if split == "train" else 4)

    monkeypatch.setattr(visual_data, "digits", instead)
    return asked
