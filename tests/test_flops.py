"""What a step costs, against every row of the method's table, and that the cheaper way is the same."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cellwise.automaton.flops import closed_form, step_flops
from cellwise.kernels import paper, reference
from rules import (
    ARC,
    MAZE_HARD,
    MAZE_OOD,
    RULES,
    SUDOKU_EXTREME,
    SUDOKU_OOD,
    boards_for,
    lively_weights,
    on_device,
)

ROWS = {
    "maze-ood 13": (MAZE_OOD, (15, 15), 4_940_609, 4_940_609),
    "maze-ood 59": (MAZE_OOD, (61, 61), 81_705_864, 81_705_864),
    "maze-ood 201": (MAZE_OOD, (203, 203), 9.049e8, 9.049e8),
    "maze-hard": (MAZE_HARD, (30, 30), 76_339_904, 76_339_904),
    "sudoku-ood": (SUDOKU_OOD, (9, 9), 45_520_052, 24.29e6),
    "sudoku-extreme": (SUDOKU_EXTREME, (9, 9), 181_278_800, 96.34e6),
    "arc": (ARC, (32, 32), 1.1302e10, 6.99e9),
}


@functools.cache
def counted(row, formulation):
    automaton, size, _, _ = ROWS[row]
    return step_flops(automaton, size, formulation)


@pytest.mark.parametrize("row", ROWS)
def test_counts_are_those_of_the_method(row):
    automaton, (h, w), paper_count, cellwise_count = ROWS[row]
    for formulation, wanted in (("paper", paper_count), ("cellwise", cellwise_count)):
        if formulation == "cellwise" and paper_count == cellwise_count:
            continue  # Without a projection there is nothing to save, and the step is the same.
        assert counted(row, formulation) == pytest.approx(wanted, rel=0.01)
        assert closed_form(automaton.step, formulation) * h * w == pytest.approx(
            counted(row, formulation), rel=0.01
        )


def test_shared_kernels_have_one_formulation():
    assert step_flops(MAZE_OOD, (5, 4), "paper") == step_flops(MAZE_OOD, (5, 4), "cellwise")
    assert closed_form(MAZE_OOD.step, "paper") == closed_form(MAZE_OOD.step) == 21_856


@pytest.mark.parametrize("rule", ["sudoku-ood", "shared-swiglu"])
def test_projecting_first_gives_the_same_state(rule):
    spec = RULES[rule].automaton.step
    boards = boards_for(RULES[rule].automaton, (0.4, 0.2), (9, 9))
    rng = np.random.default_rng(0)
    state = rng.standard_normal((2, 9, 9, spec.channels)).astype(np.float32)
    arguments = (
        on_device(lively_weights(rule, (9, 9))),
        jnp.asarray(state / np.sqrt(spec.unit)),
        jnp.asarray(boards.given),
        jnp.asarray(rng.random((2, 9, 9)) < 0.8),
    )
    before, after = (
        jax.jit(step, static_argnums=0)(spec, *arguments) for step in (reference.step, paper.step)
    )
    np.testing.assert_allclose(before, after, atol=1e-6)
