"""Self-attention, which fixed attention is compared with, against loops over cells and heads."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cellwise import onnx_step
from cellwise.automaton import rule
from cellwise.automaton.flops import closed_form, step_flops
from cellwise.automaton.layout import Automaton, Layout
from cellwise.errors import ConfigError, ModelError
from cellwise.kernels import dispatch, paper, reference
from cellwise.kernels.spec import StepSpec
from cellwise.model import Model, load
from cellwise.studies import figure, fixed_attention
from cellwise.studies.study import Measured, Result

SPEC = StepSpec(
    channels=12, perception="self-attention", heads=3, hidden=10, padding="wrap", frozen=4, unit=4
)
AUTOMATON = Automaton(SPEC, Layout(tokens=10, read=4, write=4, head="cosine", spread=0.15))
SIZE = (4, 5)


def weights_for(spec, size):
    rng = np.random.default_rng(3)
    shapes = rule.trained_shapes(spec, size)
    weights = {name: np.float32(0.5 * rng.standard_normal(shape)) for name, shape in shapes.items()}
    return weights | {"layout.tokens": np.zeros((10, 4), np.float32)}


def perceived_by_loops(spec, weights, state):
    """In float64, cell by cell; what lies beyond an edge that does not wrap has projections of zero."""
    state = state.astype(np.float64) + weights["perceive.places"]
    b, h, w, c = state.shape
    out = np.zeros((b, h, w, c))
    width = c // spec.heads
    for board, row, column, head in np.ndindex(b, h, w, spec.heads):
        query = weights["perceive.query"][head] @ state[board, row, column]
        fits, values = [], []
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                y, x = row + dy, column + dx
                inside = 0 <= y < h and 0 <= x < w
                near = state[board, y % h, x % w] * (inside or spec.padding == "wrap")
                fits.append(query @ (weights["perceive.key"][head] @ near) / width**0.5)
                values.append(weights["perceive.value"][head] @ near)
        shares = np.exp(fits - np.max(fits))
        out[board, row, column, head * width : (head + 1) * width] = shares / shares.sum() @ values
    return out


@pytest.mark.parametrize("padding", ["wrap", "zero"])
def test_each_head_weighs_neighbours_by_keys_and_queries(padding):
    spec = StepSpec(12, "self-attention", 3, 10, padding, frozen=4, unit=4)
    weights = weights_for(spec, SIZE)
    state = np.random.default_rng(0).standard_normal((2, *SIZE, 12)).astype(np.float32)
    found = reference.perceive(spec, {n: jnp.asarray(x) for n, x in weights.items()}, jnp.asarray(state))
    np.testing.assert_allclose(found, perceived_by_loops(spec, weights, state), atol=1e-5)


def test_its_weights_are_counted_and_begin_small():
    shapes = rule.trained_shapes(SPEC, SIZE)
    assert shapes["perceive.places"] == (4, 5, 12)
    assert shapes["perceive.query"] == shapes["perceive.key"] == shapes["perceive.value"] == (3, 4, 12)
    assert rule.count(SPEC, SIZE) == 4 * 5 * 12 + 3 * 144 + 2 * 120 + 10 + 12
    first = rule.first_weights(SPEC, SIZE, 0)
    assert 0.01 < first["perceive.places"].std() < 0.03
    assert first["perceive.key"].std() == pytest.approx(12**-0.5, rel=0.2)


def test_only_the_definition_runs_it():
    reasons = {verdict.path: verdict.reason for verdict in dispatch.verdicts(SPEC)}
    assert reasons["attention"] == "it knows attention, not self-attention"
    assert [path for path, reason in reasons.items() if reason is None] == ["reference"]


def test_its_gradient_is_that_of_finite_differences():
    weights = {name: jnp.asarray(x) for name, x in weights_for(SPEC, SIZE).items()}
    rng = np.random.default_rng(1)
    state, towards = (jnp.asarray(rng.standard_normal((1, *SIZE, 12)), jnp.float32) for _ in range(2))

    def along(places):
        return jnp.sum(towards * reference.perceive(SPEC, weights | {"perceive.places": places}, state))

    places, way = weights["perceive.places"], jnp.asarray(rng.standard_normal((*SIZE, 12)), jnp.float32)
    slope = jnp.sum(jax.grad(along)(places) * way)
    step = 1e-2
    by_difference = (along(places + step * way) - along(places - step * way)) / (2 * step)
    assert float(slope) == pytest.approx(float(by_difference), rel=2e-2)


def test_it_has_one_formulation_and_a_closed_form():
    wide = StepSpec(128, "self-attention", 16, 512, "wrap", frozen=32, unit=32)
    automaton = Automaton(wide, AUTOMATON.layout)
    assert step_flops(automaton, (9, 9), "paper") == step_flops(automaton, (9, 9))
    assert closed_form(wide) * 81 == pytest.approx(step_flops(automaton, (9, 9)), rel=0.02)
    state, given = jnp.zeros((1, 2, 2, 12)), jnp.zeros((1, 2, 2), bool)
    weights = {name: jnp.asarray(x) for name, x in weights_for(SPEC, (2, 2)).items()}
    np.testing.assert_array_equal(
        paper.step(SPEC, weights, state, given, ~given), reference.step(SPEC, weights, state, given, ~given)
    )


def test_a_model_has_a_size_because_places_have_vectors(tmp_path):
    weights = weights_for(SPEC, (9, 9))
    Model("attending", "sudoku", AUTOMATON, weights, (9, 9)).save(tmp_path / "model")
    assert load(tmp_path / "model").automaton == AUTOMATON
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text().replace('"size": [\n    9,\n    9\n  ]', '"size": null'))
    with pytest.raises(ModelError, match="describes an automaton that cannot exist"):
        load(tmp_path / "model")


def test_the_rules_that_are_compared_differ_in_nothing_else():
    for task in (*fixed_attention.QUICK.tasks, *fixed_attention.FULL.tasks):
        fixed, other = (task.trainable(kind) for kind in fixed_attention.PERCEPTIONS)
        assert replace(fixed.automaton.step, perception="self-attention") == other.automaton.step
        assert replace(other, automaton=fixed.automaton, boards=fixed.boards, checks=fixed.checks) == fixed
    quick = fixed_attention.QUICK.tasks[0].trainable("attention").automaton.step
    assert (quick.channels, quick.heads, quick.hidden, quick.unit) == (64, 8, 256, 32)


def test_losses_and_boards_are_compared():
    study = fixed_attention.STUDY
    rows = [
        ("attention", 0, [[10, 0.5], [20, 0.02]], 0.75),
        ("attention", 1, [[10, 0.5], [20, 0.04]], 0.25),
        ("self-attention", 0, [[10, 0.5], [20, 0.05]], 0.1),
    ]
    done = tuple(
        Measured(
            {"task": "sudoku-ood", "seed": seed, "perception": kind},
            {"loss": loss, "cells": 0.9, "boards": boards}
            | ({"weights": [[0.1] * 9] * 8} if kind == "attention" else {}),
            1.0,
            "2026-11-20",
            "a CPU",
            None,
            {},
        )
        for kind, seed, loss, boards in rows
    )
    result = Result(study.name, "quick", study.quick, "command", "data", done)
    assert [one.ours for one in study.compare(result)] == [
        "0.0300 ± 0.0141 against 0.0500",
        "50.0 % ± 35.4 % against 10.0 %",
    ]
    picture = figure.make(study, result)
    assert len(figure.lines(picture)) == 3 and len(picture.axes) == 9
    begun = replace(result, done=done[:1])
    assert [one.ours for one in study.compare(begun)] == [None, None]


def test_no_onnx_file_is_written_for_it():
    pytest.importorskip("onnx", reason="onnx is not installed")
    model = Model("attending", "sudoku", AUTOMATON, weights_for(SPEC, (9, 9)), (9, 9))
    with pytest.raises(ConfigError) as refusal:
        onnx_step.graph(model)
    assert str(refusal.value) == (
        "attending has self-attention, which no ONNX file is written for; export another model."
    )
