"""A run goes into small files and comes out again; levers are measured over the same time."""

import dataclasses
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from cellwise.errors import RunError
from cellwise.tasks.adapt import AdaptRecipe
from cellwise.training.folder import Checkpoint, RunFolder
from tiny_tasks import AUTOMATON, RECIPE, TOKENS, tiny_known, tiny_pair_job

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
carry = importlib.import_module("carry")
adapt_levers = importlib.import_module("adapt_levers")
arc_levers = importlib.import_module("arc_levers")


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "runs" / "tiny"
    (folder / "model").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model" / "model.safetensors").write_bytes(b"m" * 1000)
    (folder / ".lock").write_text("")
    big = np.random.default_rng(0).integers(0, 256, 3 * 2**20).astype(np.uint8)
    for step in (1, 2):
        RunFolder(folder).save(Checkpoint(step, 0.0, "me", {"big": big + np.uint8(step)}))
    return folder


def test_a_run_comes_out_as_it_went_in(run, tmp_path):
    parts = carry.pack(run, tmp_path / "parts", limit=1)
    assert len(parts) == 4 and all(part.stat().st_size <= 2**20 for part in parts)
    (back,) = carry.unpack(tmp_path / "parts", tmp_path / "there")
    files = sorted(str(path.relative_to(back)) for path in back.rglob("*") if path.is_file())
    assert files == ["checkpoints/step-0000002.safetensors", "config.json"]
    checkpoint, _ = RunFolder(back).newest("me")
    original, _ = RunFolder(run).newest("me")
    assert checkpoint.step == 2
    np.testing.assert_array_equal(checkpoint.tensors["big"], original.tensors["big"])


def test_packing_again_leaves_no_old_parts(run, tmp_path):
    carry.pack(run, tmp_path / "parts", limit=1)
    parts = carry.pack(run, tmp_path / "parts", limit=2, model=True)
    assert sorted((tmp_path / "parts").iterdir()) == parts and len(parts) == 2


def test_parts_that_do_not_belong_together_are_refused(run, tmp_path):
    parts = carry.pack(run, tmp_path / "parts", limit=1)
    parts[1].unlink()
    with pytest.raises(RunError) as caught:
        carry.unpack(tmp_path / "parts", tmp_path / "there")
    assert str(caught.value) == (
        f"A part of tiny is missing or damaged in {tmp_path / 'parts'}; bring all of them again."
    )
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match="holds no parts of a run; name the folder that `pack` wrote"):
        carry.unpack(tmp_path / "empty", tmp_path / "there")
    with pytest.raises(RunError, match="There is no run in"):
        carry.pack(tmp_path / "empty", tmp_path / "there")


def test_levers_change_what_they_say():
    for changes in arc_levers.LEVERS.values():
        recipe = arc_levers.changed(arc_levers.find_preset("arc-small").recipe, changes, 500)
        assert recipe.steps == 500 and recipe.schedule.warmup == 10
        for name, value in changes.items():
            owner, _, field = name.rpartition("__")
            assert getattr(recipe.schedule if owner else recipe, field) == value


def test_the_cost_of_an_iteration_counts_what_is_computed():
    job = tiny_pair_job()
    whole = arc_levers.step_cost(job, RECIPE)
    cells = 16 * 36
    assert whole == 3 * 6 * cells * arc_levers.closed_form(job.automaton.step)
    short = dataclasses.replace(RECIPE, learned=2, judged=1, window="random")
    assert arc_levers.step_cost(job, short) == pytest.approx(whole * (2 + 3 * 2) / (3 * 6))


@pytest.mark.slow
def test_speeds_are_measured_and_a_way_that_fails_does_not_hide_the_others(monkeypatch):
    monkeypatch.setitem(arc_levers.WAYS, "broken", (None, "nonsense", "steps"))
    rows = arc_levers.speed(tiny_pair_job(), 1, ["broken", "plain"])
    assert rows[0]["way"] == "broken" and "nonsense" in rows[0]["failed"]
    assert rows[1]["pairs_per_second"] > 0 and rows[1]["teraflops"] > 0


@pytest.mark.slow
def test_a_lever_is_measured(monkeypatch):
    monkeypatch.setitem(arc_levers.LEVERS, "tiny", {"batch": 8})
    row = arc_levers.worth(tiny_pair_job(), "tiny", minutes=0.02)
    assert row["iterations"] >= 20 and 0 <= row["known"] <= 1 and row["loss"] > 0


# Ways to learn a task


@pytest.fixture
def levers(monkeypatch, tmp_path):
    """`adapt_levers` with an automaton that has learnt nothing and two quick ways for two tiny tasks."""
    from cellwise.automaton import rule
    from cellwise.model import Model, Pace

    arrays = rule.first_weights(AUTOMATON.step, None, 0) | rule.first_tables(AUTOMATON, 0)
    model = Model("tiny", "arc", AUTOMATON, arrays | {"layout.tokens": TOKENS}, None, 0.9, Pace(3, 0.0))
    model.save(tmp_path / "model")
    quick = {"steps": 2, "batch": 2, "look_every": 1, "rollouts": 1, "rollout": 2, "judged": 1}
    ways = {"base": quick, "low": quick | {"rank": 2}}
    monkeypatch.setattr(adapt_levers, "LEVERS", ways)
    known = [tiny_known("clear", 5, demos=4), tiny_known("paint-red", 6, demos=4)]
    monkeypatch.setattr(adapt_levers.arc, "held_out", lambda: known)
    out = tmp_path / "rows.json"

    def run(minutes):
        words = ["--model", str(tmp_path / "model"), "--folder", str(tmp_path / "kept"), "--out", str(out)]
        words += ["--minutes", str(minutes), "--at-once", "1", "--only", *ways]
        monkeypatch.setattr(sys, "argv", ["adapt_levers.py", *words])
        adapt_levers.main()
        return json.loads(out.read_text())["rows"]

    return run


@pytest.mark.slow
def test_ways_to_learn_are_compared_on_the_same_tasks_and_resumed(levers, tmp_path):
    rows = levers(0.0)
    assert [row["done"] for row in rows] == [0, 0] and rows[0]["compared"] == 0
    rows = levers(10.0)
    assert [row["done"] for row in rows] == [2, 2] and [row["compared"] for row in rows] == [2, 2]
    assert rows[1]["trained_numbers"] < rows[0]["trained_numbers"] / 5
    assert all(0 <= row["pass@2"] <= row["pass@64"] <= 1 for row in rows)
    assert all(row["tasks_per_hour"] > 0 and row["hours"] > 0 for row in rows)
    assert levers(10.0) == rows, "all is done"
    (tmp_path / "kept" / "low" / "clear.json").unlink()
    rows = levers(0.0)
    assert [row["done"] for row in rows] == [2, 1] and [row["compared"] for row in rows] == [1, 1]


def test_speed_is_told_by_looks_and_not_by_compiling(monkeypatch):
    now = iter([100.0, 101.0, 102.0, 500.0, 502.0])
    monkeypatch.setattr(adapt_levers.time, "monotonic", lambda: next(now))
    speed = adapt_levers.Speed(400)
    for line in (
        "2 tasks on 12: 50 of 400 updates, error 1.0",
        "2 tasks on 12: 100 of 400 updates, error 1.0",
    ):
        speed.tell(line)
    speed.tell("something else")
    for line in (
        "2 tasks on 12: 150 of 400 updates",
        "4 tasks on 18: 50 of 400",
        "4 tasks on 18: 100 of 400",
    ):
        speed.tell(line + " updates")
    assert speed.seconds == [4.0, 4.0, 4.0]
    assert speed.tasks_per_hour() == 900.0


def test_levers_are_recipes_that_can_be():
    for changes in adapt_levers.LEVERS.values():
        dataclasses.replace(AdaptRecipe(), **changes)
