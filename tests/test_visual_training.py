"""Learning from pictures: it learns, survives being stopped, and goes back after a spike."""

import dataclasses
import importlib
import json
import signal
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors import numpy as safetensors

from cellwise import api, benchmarks
from cellwise.automaton import rule
from cellwise.benchmarks.preset import PicturePreset
from cellwise.cli.arguments import parse
from cellwise.cli.train import Train
from cellwise.errors import CellwiseError, ConfigError, PuzzleError, RunError
from cellwise.model import Pace, load
from cellwise.puzzles.visual_sudoku import VisualSet
from cellwise.training.folder import RunFolder, read_config, read_metrics
from cellwise.training.interrupt import Stopped
from cellwise.training.recipe import Schedule
from cellwise.visual import train as visual
from cellwise.visual.check import solve_check
from rules import on_device
from tiny_visual import AUTOMATON, RECIPE, boards, check, run, tiny_picture_job

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
carry = importlib.import_module("carry")


def tensors(folder, back=1):
    path = RunFolder(folder).checkpoint_files()[-back][1]
    return safetensors.load(path.read_bytes())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(folder)
    return folder


@pytest.fixture
def happening(monkeypatch):
    """Lets something happen to the result of the n-th iteration from now on."""
    real = visual.iterate

    def install(n, what):
        count = 0

        def iterate(state, **kwargs):
            nonlocal count
            count += 1
            result = real(state, **kwargs)
            return what(*result) if count == n else result

        monkeypatch.setattr(visual, "iterate", iterate)

    return install


def interrupt(state, report):
    signal.raise_signal(signal.SIGINT)
    return state, report


def spike(state, report):
    return state, report._replace(rise=jnp.float32(7.25))


def broken(state, report):
    return state, report._replace(loss=jnp.float32(np.nan))


def assert_same(folder, other):
    one, two = tensors(folder), tensors(other)
    assert one.keys() == two.keys() and any("mu" in name for name in one)
    for name, array in one.items():
        np.testing.assert_array_equal(array, two[name], err_msg=name)


# Learning

ERASED = (3, 4)
ERASING = dataclasses.replace(
    RECIPE,
    steps=300,
    schedule=Schedule(first=0.0, peak=1e-2, last=1e-4, warmup=20, shape="cosine"),
    batch=8,
    pool=16,
    fresh=4,
    chunk=10,
    judged=4,
    grown=2,
    damage=0.1,
    clip=0.05,
    average=0.97,
)


def erased(some):
    """The same puzzles, of which two of the digits should be wiped out and everything else stay."""
    return VisualSet(some.puzzles, np.where(np.isin(some.puzzles, ERASED), 0, some.puzzles).astype(np.uint8))


def test_digits_are_told_apart_and_redrawn(tmp_path):
    """Some must go and some must stay, for 40 steps, drawn as nobody has drawn them in training."""
    job = tiny_picture_job(ERASING, boards=erased(boards(60)), checks=(check(erased(boards(24, 1)), 40),))
    untouched = solve_check(
        job, job.checks[0], on_device(rule.first_weights(AUTOMATON.step, None, 0) | job.fixed)
    )
    assert untouched[0] < 0.83, "nothing is erased by itself"
    run(tmp_path / "run", job=job, log_every=50, save_every=300, check_every=300)
    learnt = [record for record in read_metrics(tmp_path / "run") if "check" in record][-1]
    assert learnt["cells"] >= 0.9 and learnt["clues"] >= 0.75


# A run and its model


def test_metrics_tell_how_it_goes(whole):
    records = read_metrics(whole)
    looks, checks = ([r for r in records if ("check" in r) == want] for want in (False, True))
    assert [r["step"] for r in looks] == [2, 4, 6, 8] and [r["step"] for r in checks] == [4, 8]
    assert looks[-1].keys() >= {"loss", "cells", "boards", "age", "rise", "learning_rate", "device_minutes"}
    assert checks[-1]["check"] == "unseen" and 0 <= checks[-1]["cells"] <= 1 and checks[-1]["steps"] == 6


def test_the_model_is_a_model_folder(whole):
    model = load(whole / "model")
    assert model.puzzle == "visual-sudoku" and model.automaton == AUTOMATON and model.fire_rate == 0.5
    assert model.provenance["iterations"] == 8 and model.provenance["data"] == "scribbles"
    np.testing.assert_array_equal(model.weights["layout.tokens"], tiny_picture_job().fixed["layout.tokens"])
    assert any(model.weights["update.w_out"].any(axis=1)), "it has learnt something"
    with pytest.raises(PuzzleError) as caught:
        model.solve(boards(1).puzzles)
    assert str(caught.value) == (
        "tiny solves pictures, not token grids; hand one to `cellwise solve visual-sudoku`."
    )


# Interruptions


def test_a_stopped_run_goes_on_as_if_nothing_had_happened(whole, tmp_path, happening):
    happening(5, interrupt)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(Stopped) as stopped:
        run(tmp_path / "parts")
    assert str(stopped.value) == (
        "Stopped after iteration 5 and saved; resume with: "
        f"cellwise train tiny --out {tmp_path / 'parts'} --resume"
    )
    run(tmp_path / "parts", resume=True)
    assert_same(whole, tmp_path / "parts")
    times = {"seconds", "iterations_per_second", "device_minutes"}
    one, two = (
        [{k: v for k, v in record.items() if k not in times} for record in read_metrics(folder)]
        for folder in (whole, tmp_path / "parts")
    )
    assert one == two


def test_a_spike_sends_the_run_back(tmp_path, happening):
    happening(6, spike)
    _, said = run(tmp_path / "run")
    assert (
        "tiny 6: the loss rose to 7.2 times what it was, so the run goes on from iteration 3 "
        "with 0.5 of its learning rate\n"
    ) in said
    records = read_metrics(tmp_path / "run")
    (back,) = [r for r in records if "returned_from" in r]
    assert (back["step"], back["returned_from"], back["pace"]) == (3, 6, 0.5)
    assert [r["step"] for r in records if "loss" in r] == [2, 4, 6, 8], "what was spoilt is forgotten"
    rates = {r["step"]: r["learning_rate"] for r in records if "loss" in r}
    assert rates[4] == pytest.approx(0.5 * 1e-3 * (0.5 + 0.5 * np.cos(np.pi * 1 / 6)), rel=1e-5)


def test_a_second_spike_goes_back_further(tmp_path, happening):
    """The checkpoint of iteration 3 did not help, so it was perhaps spoilt as well."""
    count = []

    def twice(state, report):
        count.append(int(state.step))
        return spike(state, report) if int(state.step) == 4 and len(count) < 9 else (state, report)

    real = visual.iterate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(visual, "iterate", lambda state, **how: twice(*real(state, **how)))
        _, said = run(tmp_path / "run")
    assert "goes on from iteration 3 with 0.5 of" in said and "goes on from iteration 0 with 0.25 of" in said
    assert [int(t) for t in (tensors(tmp_path / "run")[f"recovery.{n}"] for n in ("last", "returns"))] == [
        0,
        2,
    ]
    assert RunFolder(tmp_path / "run").checkpoint_files()[-1][0] == 8


def test_a_run_that_went_back_is_resumed_exactly(tmp_path, happening):
    happening(6, spike)
    run(tmp_path / "whole")
    happening(6, spike)
    run(tmp_path / "parts", job=tiny_picture_job(), minutes=None, save_every=3, log_every=2, check_every=4)
    # The same once more, stopped right after it went back: its checkpoint has all that is needed.
    happening(6, spike)

    class PowerError(Exception):
        pass

    real = visual.iterate
    count = 0

    def cut(state, **how):
        nonlocal count
        count += 1
        if count == 8:
            raise PowerError
        return real(state, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(visual, "iterate", cut)
        with pytest.raises(PowerError):
            run(tmp_path / "cut")
    run(tmp_path / "cut", resume=True)
    assert_same(tmp_path / "whole", tmp_path / "parts")
    assert_same(tmp_path / "whole", tmp_path / "cut")


def test_what_is_no_number_sends_the_run_back_too(tmp_path, happening):
    happening(2, broken)
    _, said = run(tmp_path / "run")
    assert "2: the loss is nan, so the run goes on from iteration 0 with 0.5 of its learning rate" in said


def test_a_run_that_went_back_too_often_ends(tmp_path, happening, monkeypatch):
    monkeypatch.setattr(visual, "MOST_RETURNS", 0)
    happening(4, broken)
    with pytest.raises(RunError) as caught:
        run(tmp_path / "run")
    assert str(caught.value) == (
        "Training broke down at iteration 4 because the loss is nan; the last good checkpoint is "
        f"{tmp_path / 'run' / 'checkpoints' / 'step-0000003.safetensors'}; "
        "train again in another folder with a lower --recipe.schedule.peak."
    )


def test_a_run_can_be_carried_without_its_pool(tmp_path, happening):
    happening(5, interrupt)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(Stopped):
        run(tmp_path / "run")
    parts = carry.pack(tmp_path / "run", tmp_path / "parts", light=True)
    assert (
        sum(path.stat().st_size for path in parts) < 60_000 < 4 * tensors(tmp_path / "run")["pool.state"].size
    )
    (there,) = carry.unpack(tmp_path / "parts", tmp_path / "there")
    before = tensors(tmp_path / "run")
    assert {name for name in before if not name.startswith("pool.")} == tensors(there).keys()
    model, said = run(there, resume=True)
    assert "goes on after iteration 5" in said and model.provenance["iterations"] == 8
    assert "pool.state" in tensors(there)


# From one size to another


def test_a_run_starts_from_the_weights_of_another(whole, tmp_path):
    source = load(whole / "model")
    job = tiny_picture_job()
    run(tmp_path / "run", job=dataclasses.replace(job, source=source), minutes=1e-9)
    begun = tensors(tmp_path / "run", back=2)
    assert int(begun["step"]) == 0
    for name in ("update.w_in", "update.w_out"):
        np.testing.assert_array_equal(begun[f"weights.{name}"], source.weights[name])
    assert read_config(tmp_path / "run")["start_from"] == "tiny"
    model, _ = run(tmp_path / "run", job=job, resume=True)
    assert model.provenance["start_from"] == "tiny", "the source is not needed again"


def test_a_model_of_another_rule_is_refused(whole):
    source = load(whole / "model")
    wide = dataclasses.replace(AUTOMATON, step=dataclasses.replace(AUTOMATON.step, channels=16))
    for other in (load("maze-ood"), source):
        with pytest.raises(ConfigError) as caught:
            dataclasses.replace(tiny_picture_job(), automaton=wide, source=other)
        assert str(caught.value) == (
            f"tiny cannot start from {other.name}, whose rule is another; choose a model of pictures with "
            "16 channels and a hidden layer of 32."
        )


# The presets


def preset_of(job):
    return PicturePreset(
        name="visual-sudoku-tiny",
        about="",
        puzzle="visual-sudoku",
        automaton=job.automaton,
        recipe=job.recipe,
        data=lambda: (job.boards, job.digits, job.provenance),
        checks=lambda: job.checks,
        pace=Pace(base=6, per_cell=0.0),
    )


def test_options_reach_the_recipe(monkeypatch, whole):
    calls = []

    def train(job, folder, **how):
        calls.append((job, folder, how))
        return load(whole / "model")

    monkeypatch.setattr(visual, "train", train)
    monkeypatch.setitem(benchmarks.PRESETS, "visual-sudoku-tiny", preset_of(tiny_picture_job()))
    words = ["visual-sudoku-tiny", "--minutes", "2", "--recipe.chunk", "9", "--recipe.judged", "3"]
    words += ["--recipe.target", "draw", "--recipe.noise.size", "0.5", "--start-from", str(whole / "model")]
    assert parse(Train, "cellwise train", words).run() == 0
    [(job, folder, how)] = calls
    noise = dataclasses.replace(RECIPE.noise, size=0.5)
    assert job.recipe == dataclasses.replace(RECIPE, chunk=9, judged=3, target="draw", noise=noise)
    assert job.source.name == "tiny" and str(folder) == "runs/visual-sudoku-tiny" and how["minutes"] == 2.0
    assert f"--start-from {whole / 'model'} --recipe.chunk 9" in how["command"]


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        (
            "maze-laptop",
            {"start_from": "maze-ood"},
            "maze-laptop begins with random weights; only presets of visual-sudoku can start from a model.",
        ),
        (
            "visual-sudoku-4x4",
            {"start_from": "maze-ood", "resume": True},
            "A run that is resumed has weights of its own; leave out --start-from or --resume.",
        ),
        ("visual-sudoku-4x4", {"start_from": "nothing"}, "There is no model 'nothing'; name a folder or one"),
        ("visual-sudoku-4x4", {"swap": 0.5}, "There is no recipe field 'swap'"),
        ("visual-sudoku-9x9", {}, "mnist train is not on this machine"),
    ],
)
def test_what_cannot_be_trained_says_so(name, options, said, tmp_path, monkeypatch):
    monkeypatch.setenv("CELLWISE_DATA", str(tmp_path))
    with pytest.raises(CellwiseError) as caught:
        api.train(name, tmp_path / "run", **options)
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_timing_tool_measures_every_way(tmp_path, monkeypatch, capsys):
    tool = importlib.import_module("visual_time")
    small = ["batch=1", "pool=1", "fresh=1", "chunk=2", "judged=1"]
    words = ["visual_time", "visual-sudoku-tiny", "--repetitions", "1", "--out", str(tmp_path / "out.json")]
    monkeypatch.setattr(sys, "argv", [*words, "--set", *small])
    assert tool.main() == 0
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert [row["way"] for row in rows] == ["pad", "roll", "plain"]
    assert all(row["iteration_ms"] > 0 and row["chunk"] == 2 for row in rows)
    assert rows[0]["loss"] == pytest.approx(rows[2]["loss"], rel=1e-4)
    assert len(capsys.readouterr().out.splitlines()) == 3
