"""What a step costs, against every row of the method's table, and that the cheaper way is the same."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cellwise import cost
from cellwise.automaton.flops import closed_form, step_flops
from cellwise.cli import main as front
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


PARAMETERS = [10_420] * 3 + [41_284] * 2 + [159_760] * 2 + [602_768] * 2 + [3_484_844, 3 * 3_484_844]
PARAMETERS += [768 * 2048 + 2048 * 256] * 2


@pytest.fixture(scope="module")
def papers_table():
    return cost.table()


def test_every_row_of_the_papers_table_is_counted(papers_table):
    """The method's counts of a step to 0.3 %, the paper's of an answer to 0.25 % and its rounding."""
    steps = [4_940_609, 81_705_864, 9.049e8, *[76_339_904] * 2, *[45_520_052] * 2, *[181_278_800] * 2]
    steps += [1.1302e10] * 2 + [2.7596e11] * 2
    assert [row["parameters"] for row in papers_table["rows"]] == PARAMETERS
    for row, step in zip(papers_table["rows"], steps, strict=True):
        assert row["step"]["paper"] == pytest.approx(step, rel=3e-3)
        h, w = row["board"]
        for formulation, by_hand in row["closed_form_of_a_cell"].items():
            assert by_hand * h * w == pytest.approx(row["step"][formulation], rel=5e-3)
        assert row["answer"]["paper"] == row["step"]["paper"] * row["steps"] * row["trials"]
        for printed, counted, slack in (
            (row["printed"]["answer"], row["answer"]["paper"], 2.5e-3),
            (row["printed"]["parameters"], row["parameters"], 0.0),
        ):
            last = 0.1 if "." in printed else 1.0
            half_a_unit = 0.5 * last * cost.amount(f"1{printed[-1]}")
            assert abs(counted - cost.amount(printed)) <= half_a_unit + slack * cost.amount(printed)


def test_ours_costs_less_where_there_is_attention_or_a_zero(papers_table):
    shares = {"sudoku-ood": 0.53, "sudoku-extreme": 0.53, "arc-agi-1": 0.62, "visual-sudoku": 0.998}
    for row in papers_table["rows"]:
        share = row["step"]["cellwise"] / row["step"]["paper"]
        assert share == pytest.approx(shares.get(row["benchmark"], 1.0), abs=5e-3 if share < 0.9 else 1e-3)


def test_the_command_prints_the_table_and_writes_it(capsys, tmp_path):
    out = tmp_path / "flops.json"
    assert front.main(["flops", "maze-ood", "sudoku-ood", "--out", str(out)]) == 0
    told = capsys.readouterr().out
    kept = json.loads(out.read_text())
    assert [row["benchmark"] for row in kept["rows"]] == ["maze-ood"] * 3 + ["sudoku-ood"] * 2
    lines = [" ".join(line.split()) for line in told.splitlines()]
    counted = cost.short(kept["rows"][3]["answer"]["paper"])
    ours = cost.short(kept["rows"][3]["answer"]["cellwise"])
    assert f"sudoku-ood 9×9 256 1 11.7B {counted} {ours}" in lines
    assert lines[0] == "One step of one board; by hand: of one cell"
    assert all(len(line) <= 80 for line in told.splitlines()[:15])
    assert lines[-1] == f"Written to {out}."


def test_json_is_all_that_is_printed_when_asked_for(capsys):
    assert front.main(["flops", "maze-hard", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["trials"] for row in rows] == [1, 128]


def test_a_benchmark_that_is_not_in_the_table(capsys):
    assert front.main(["flops", "maze"]) == 2
    assert capsys.readouterr().err == (
        "cellwise: There is no benchmark 'maze'; did you mean maze-ood or maze-hard?\n"
    )
