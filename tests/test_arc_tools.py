"""A run goes into small files and comes out again; levers are measured over the same time."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from cellwise.errors import RunError
from cellwise.training.folder import Checkpoint, RunFolder
from tiny_tasks import RECIPE, tiny_pair_job

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
carry = importlib.import_module("carry")
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
    import dataclasses

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
