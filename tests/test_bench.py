"""The benchmark: it runs, its numbers fit together, and it does without CAX."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from cellwise.automaton.flops import closed_form
from cellwise.bench import cax, run, workload
from cellwise.bench.measure import Contender, measure
from cellwise.bench.run import Selection, bench
from cellwise.bench.workload import Workload
from cellwise.benchmarks import BOARD_PRESETS, PRESETS
from cellwise.cli.bench import Bench, tables
from cellwise.errors import ConfigError
from cellwise.report import speed

TINY = (
    Workload("maze-ood", "forward", boards=2, steps=2, size=3, open=True),
    Workload("maze-ood", "forward", boards=2, steps=2, size=3),
    Workload("maze-ood", "gradient", boards=2, steps=2, size=3, together=1),
    Workload("sudoku-ood", "forward", boards=2, steps=2),
    Workload("sudoku-ood", "gradient", boards=2, steps=2, together=2),
)


@pytest.fixture(scope="module")
def result():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cax, "installed", lambda: False)
        return bench(TINY, Selection(), repetitions=2, side=16)


@pytest.mark.parametrize("kind", ["CPU", "GPU", "QUICK"])
def test_every_rule_that_is_measured_is_a_preset(kind):
    measured = {one.preset for one in getattr(workload, kind)}
    assert measured == {"maze-ood", "maze-hard-astar", "sudoku-ood", "sudoku-extreme"}
    assert measured <= BOARD_PRESETS.keys()


def test_every_way_is_there(result):
    seen = {}
    for row in result["rows"]:
        key = (row["rule"], row["task"], row["boards"])
        seen.setdefault(key, []).append(row["contender"].removeprefix("cellwise, "))
    assert seen == {
        ("maze-ood", "forward", "nothing frozen"): ["reference", "compact", "think"],
        ("maze-ood", "forward", "mazes of size 3"): ["reference", "compact", "think"],
        ("maze-ood", "gradient", "mazes of size 3"): ["reference", "compact"],
        ("sudoku-ood", "forward", "Sudokus"): ["paper", "reference", "attention"],
        ("sudoku-ood", "gradient", "Sudokus"): ["paper", "reference", "attention"],
    }
    assert result["notes"] == [
        "The paper's formulation has no row of its own for mazes: for shared kernels it is the reference.",
        'CAX is left out because it is not installed; get it with: pip install -e ".[bench]"',
    ]
    assert not any("times_cax" in row for row in result["rows"])


def test_rates_follow_from_the_times(result):
    peak = result["matrix_products"]["float32"]["flops_per_second"]
    for row in result["rows"]:
        seconds, median = row["seconds"], row["seconds"]["median"]
        assert 0 < seconds["min"] <= median <= seconds["max"]
        cells = 2 * 81 if row["rule"] == "sudoku-ood" else 2 * 5 * 5
        assert (row["cells"], row["batch"], row["steps"], row["repetitions"]) == (cells, 2, 2, 2)
        assert row["cell_steps_per_second"] == pytest.approx(2 * cells / median)
        assert row["nanoseconds_per_cell_step"] == pytest.approx(1e9 * median / (2 * cells))
        computed = cells
        if row["rule"] == "maze-ood":
            # A maze of size 3 has four rooms and three doors; two endpoints are frozen.
            free = cells if row["boards"] == "nothing frozen" else 2 * 5
            assert row["free_cells"] == free
            computed = free if row["contender"] != "cellwise, reference" else cells
        formulation = "paper" if row["contender"] == "cellwise, paper" else "cellwise"
        flops = 2 * computed * closed_form(PRESETS[row["rule"]].automaton.step, formulation)
        flops *= 3 if row["task"] == "gradient" else 1
        assert row["flops_per_second"] == pytest.approx(flops / median)
        assert row["share_of_matrix_product"] == pytest.approx(flops / median / peak)
    base = {row["boards"] + row["task"]: row for row in result["rows"] if "reference" in row["contender"]}
    for row in result["rows"]:
        wanted = base[row["boards"] + row["task"]]["seconds"]["median"] / row["seconds"]["median"]
        assert row["times_reference"] == pytest.approx(wanted)


def test_cax_is_compared_with_boards_of_the_same_size(result):
    row = {"rule": "maze-ood", "task": "forward", "cells": 50, "steps": 2}
    made = [
        row | {"contender": name, "seconds": {"median": seconds}} for name, seconds in (("a", 2), ("b", 4))
    ]
    slow = row | {"contender": "CAX 1", "seconds": {"median": 8}}
    found = run._compared([dict(one) for one in made], [slow | {"steps": 3}, slow])
    assert [one["times_cax"] for one in found] == [4, 2]
    assert not any("times_reference" in one for one in found)
    assert not any("times_cax" in one for one in run._compared(made, [slow | {"cells": 9}]))


def test_the_file_tells_nothing_of_the_folders_of_this_machine(result):
    assert str(Path(__file__).parents[1]) not in json.dumps(result)
    assert str(Path.home()) + "/" not in json.dumps(result)


def test_contenders_take_turns_and_those_without_room_are_left_out():
    calls = []

    def contender(name):
        return Contender(name, "float32", "", 1, 1, 1, 1.0, lambda: calls.append(name))

    def too_large():
        import jax

        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: 1 TB")

    large = Contender("c", "float32", "", 1, 1, 1, 1.0, too_large)
    outcome = measure([contender("a"), large, contender("b")], 2)
    assert calls == ["a", "b", "a", "b", "a", "b"]  # the first round warms up
    assert {number: len(seconds) for number, seconds in outcome.items()} == {0: 2, 2: 2}
    assert outcome.failed == {1: "it needs more memory than the device has"}


def test_time_runs_out_between_workloads(monkeypatch):
    monkeypatch.setattr(cax, "installed", lambda: True)
    monkeypatch.setattr(run, "version", lambda name: "1")
    kept = []
    document = bench(TINY[3:], Selection(), 1, 16, seconds=-1.0, keep=kept.append)
    assert not document["rows"] and not kept
    assert document["notes"][1:] == [
        f"There was no time left for sudoku-ood, {task}, Sudokus." for task in ("forward", "gradient")
    ]


def test_a_training_iteration_is_measured_as_it_is():
    from dataclasses import replace

    from cellwise.bench import contenders
    from cellwise.bench.contenders import Setting, training
    from cellwise.bench.workload import made
    from cellwise.kernels.dispatch import Attention

    preset = PRESETS["sudoku-ood"]
    recipe = replace(preset.recipe, batch=2, pool=4, fresh=1, rollout=4, chunk=2)
    workload = Workload("sudoku-ood", "training")
    at = Setting(workload, replace(preset, recipe=recipe), made(workload, preset, 4))
    one = training(at, Attention(), "bf16")
    outcome = measure([one], 1)
    assert len(outcome[0]) == 1 and one.steps == 4 and one.cells == 2 * 81
    assert one.flops == closed_form(preset.automaton.step) * 2 * 81 * (2 / 2 + 3 * 2)
    assert contenders.TASKS["training"] is training


def test_the_tables_fit_a_terminal(result):
    console = Console(width=80, record=True, file=io.StringIO())
    for row in result["rows"]:
        row = row | {"times_cax": 12.3, "times_reference": 123.4, "boards": "mazes of size 201"}
        for view in tables(result | {"rows": [row]}):
            console.print(view)
    lines = console.export_text().splitlines()
    assert "…" not in "".join(lines)
    assert sum("12.3" in line for line in lines) == len(result["rows"])


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_the_result_is_drawn(kind, result, tmp_path):
    speed.draw(result, tmp_path / f"speed.{kind}")
    begin = (tmp_path / f"speed.{kind}").read_bytes()[:5]
    assert begin == (b"\x89PNG\r" if kind == "png" else b"<?xml")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            Bench(("maze-odd",)),
            "There is no rule to measure 'maze-odd'; did you mean maze-ood or maze-hard-astar?",
        ),
        (Bench(repetitions=0), "There cannot be 0 repetitions; choose 1 or more."),
        (
            Bench(("sudoku-ood",), task=(("training",),)),
            "Nothing is measured by that choice of rules and tasks on this device; "
            "choose tasks from: forward, gradient.",
        ),
        (
            Bench(picture=Path("speed.doc")),
            "speed.doc cannot be drawn; give it a name that ends in .png, .svg, .pdf.",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(bad, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        bad.run()
    assert str(caught.value) == message


def test_the_command_writes_and_says_where(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cax, "installed", lambda: False)
    monkeypatch.setattr("cellwise.bench.workload.QUICK", TINY[3:4])
    chosen = Bench(quick=True, path=(("attention",),), picture=Path("speed.png"))
    assert chosen.run() == 0
    text = capsys.readouterr().out
    assert 'get it with: pip install -e ".[bench]"' in text
    assert "Written to out/bench.json." in text and "Written to speed.png." in text
    written = json.loads(Path("out/bench.json").read_text())
    assert [row["contender"] for row in written["rows"]] == ["cellwise, attention"]
