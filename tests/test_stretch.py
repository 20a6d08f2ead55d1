"""The tools that train elsewhere: stretches that go on from each other, ablations of equal budget."""

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cellwise import benchmarks
from cellwise.automaton.layout import Automaton, Layout, orthonormal_tokens
from cellwise.benchmarks import sudoku_ood
from cellwise.benchmarks.preset import Preset
from cellwise.kernels.spec import StepSpec
from cellwise.model import Pace, load
from cellwise.puzzles.equivalence import fingerprints
from cellwise.puzzles.sudoku_generator import generate_easy
from cellwise.training.job import Check
from cellwise.training.recipe import Recipe, Schedule

TOOLS = Path(__file__).resolve().parents[1] / "tools"
BOARDS = generate_easy(12, 0)
TINY = Preset(
    name="tiny-sudoku",
    about="Nothing that could be learned",
    puzzle="sudoku",
    automaton=Automaton(
        StepSpec(channels=16, perception="attention", heads=4, hidden=8, padding="wrap", frozen=8, unit=8),
        Layout(tokens=10, read=8, write=8, head="cosine", spread=0.15),
    ),
    tokens=orthonormal_tokens(10, 16, 0)[:, :8].copy(),
    recipe=Recipe(
        steps=12,
        schedule=Schedule(0.0, 1e-3, 0.0, 2, "cosine"),
        batch=4,
        pool=8,
        fresh=2,
        rollout=4,
        chunk=4,
        augment="sudoku",
    ),
    boards=lambda: (BOARDS, {"data": "twelve Sudokus"}),
    checks=lambda: (Check("validation", generate_easy(3, 1), steps=4),),
    pace=Pace(4, 0.0),
    size=(9, 9),
)


@pytest.fixture
def tool(monkeypatch, tmp_path):
    """Runs a tool with words, in a folder of its own, with the tiny preset at hand."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(benchmarks.BOARD_PRESETS, "tiny-sudoku", TINY)

    def run(name, *words):
        spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        if words:
            monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
            module.main()
        return module

    return run


def test_stretches_go_on_from_each_other(tool, tmp_path, capsys, monkeypatch):
    stretch = tool("stretch")
    # The time is over after five iterations of the first stretch.
    real, count = stretch.iterate, 0

    def iterate(*args, **kwargs):
        nonlocal count
        count += 1
        if count == 5:
            monkeypatch.setattr(stretch.time, "monotonic", lambda: 1e9)
        return real(*args, **kwargs)

    monkeypatch.setattr(stretch, "iterate", iterate)
    words = ["stretch", "tiny-sudoku", "--out", "one", "--every", "2", "--minutes", "9"]
    monkeypatch.setattr(sys, "argv", words)
    stretch.main()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(benchmarks.BOARD_PRESETS, "tiny-sudoku", TINY)
    assert "5 iterations in" in capsys.readouterr().err.replace("\n", " ")
    assert {path.name for path in Path("one").iterdir()} == {"carry.safetensors", "curve.jsonl", "curve.png"}
    stretch = tool("stretch", "tiny-sudoku", "--from", "one", "--out", "two", "--every", "2")
    tensors, about, records = stretch.carried(Path("two"))
    assert int(tensors["step"]) == 12 and about["preset"] == "tiny-sudoku"
    assert not any(name.startswith("pool") for name in tensors)
    assert [record["step"] for record in records if "begins" in record] == [0, 5]
    assert [record["step"] for record in records if "check" in record] == [2, 4, 6, 8, 10, 12]
    # What was carried is what goes on: the moments and the average, not only the weights.
    before, _, _ = stretch.carried(Path("one"))
    assert any(name.startswith("optimiser") and array.any() for name, array in before.items())
    job = TINY.job(TINY.recipe, 0)
    again = stretch.Stretch(job, {}, Path("two"), []).begin(before)
    assert all(
        np.asarray(again.average[name]).tobytes() == before[f"average.{name}"].tobytes()
        for name in again.average
    )
    assert int(again.step) == 5 and len(again.pool.age) == TINY.recipe.pool

    tool("stretch", "--export", "two", "--model", "models")
    best, last = load("models/best"), load("models/last")
    assert last.provenance["iterations"] == 12 and best.provenance["iterations"] == about["best_step"]
    assert last.trained_on is not None
    assert (last.trained_on == np.unique(fingerprints(BOARDS, sudoku=True))).all()
    assert all((last.weights[name] == tensors[f"average.{name}"]).all() for name in again.average)


@pytest.mark.slow
def test_a_longer_run_and_another_preset(tool, capsys):
    tool("stretch", "tiny-sudoku", "--out", "one", "--steps", 4, "--every", 2)
    module = tool("stretch", "tiny-sudoku", "--out", "one", "--steps", 6, "--every", 2)
    assert "The recipe is changed from here on." in capsys.readouterr().err
    assert int(module.carried(Path("one"))[0]["step"]) == 6
    with pytest.raises(SystemExit) as caught:
        tool("stretch", "maze-laptop", "--out", "one")
    assert str(caught.value) == "one is a run of tiny-sudoku, not maze-laptop; choose another folder."
    with pytest.raises(SystemExit) as caught:
        tool("stretch", "tiny-sudoku", "--from", "nowhere", "--out", "two")
    assert str(caught.value) == "There is no nowhere/carry.safetensors; name the folder of a stretch."


def test_every_preset_can_be_carried():
    # Weights, their average, the best average, and two moments, in float32.
    from cellwise.automaton import rule

    for preset in benchmarks.BOARD_PRESETS.values():
        assert 5 * 4 * rule.count(preset.automaton.step, preset.size) < 15 * 2**20


@pytest.mark.slow
def test_ablations_compare_at_an_equal_budget(tool, monkeypatch):
    validation = replace(sudoku_ood.BENCHMARK.more[0], boards=lambda n: generate_easy(n, 1))
    monkeypatch.setattr(sudoku_ood, "SUDOKU_OOD", TINY)
    monkeypatch.setattr(sudoku_ood, "BENCHMARK", replace(sudoku_ood.BENCHMARK, more=(validation,)))
    words = ["--boards", 2, "--depths", 2, 4, 8, "--result", "r.json", "--page", "p.md", "--only", "base"]
    tool("ablate", *words, "--steps", 6, "--seeds", 0)
    tool("ablate", *words, "no-tangent", "--steps", 6, "--seeds", 0)
    document = json.loads(Path("r.json").read_text())
    assert [row["variant"] for row in document["rows"]] == ["base", "no-tangent"]
    for row in document["rows"]:
        assert [look["step"] for look in row["curve"]] == [1, 2, 3, 4, 5, 6]
        assert {"D=2", "D=4", "D=8"} <= row["curve"][0].keys()
    assert document["rows"][0]["recipe"] == document["rows"][1]["recipe"], "only the rule differs"
    page = Path("p.md").read_text()
    assert "| tangent projection | `no-tangent`: units are only renormalised |" in page
    with pytest.raises(SystemExit) as caught:
        tool("ablate", *words, "--steps", 7)
    assert str(caught.value) == "r.json has another budget; remove it or name another with --result."


def test_every_variant_is_a_run_that_can_begin(tool):
    ablate = tool("ablate")
    preset = sudoku_ood.SUDOKU_OOD
    jobs = [ablate.job_of(preset, v, 3000, None, 0, (BOARDS, {}, ())) for v in ablate.VARIANTS]
    kinds = {(job.recipe, job.automaton) for job in jobs}
    assert len(kinds) == len(ablate.VARIANTS) == len({v.name for v in ablate.VARIANTS})
    assert {(job.recipe.steps, job.recipe.batch, job.recipe.pool) for job in jobs} == {(3000, 256, 1024)}


@pytest.mark.slow
def test_seeds_trained_together_are_those_trained_alone(tool):
    ablate = tool("ablate")
    data = (BOARDS, {}, ())
    jobs = [ablate.job_of(TINY, ablate.VARIANTS[0], 6, None, seed, data) for seed in (0, 1)]
    ends = []
    for together in (False, True):
        last = {}
        for _, runs, _ in ablate.runs_of(jobs, together):
            last.update({job.seed: {k: np.array(v) for k, v in run.weights.items()} for job, run in runs})
        ends.append(last)
    for seed in (0, 1):
        for name, alone in ends[0][seed].items():
            assert np.allclose(alone, ends[1][seed][name], atol=2e-4), name
