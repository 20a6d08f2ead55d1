"""The CPU benchmark: it runs, its numbers fit together, and it does without CAX."""

import importlib.util
import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

TOOL = Path(__file__).resolve().parents[1] / "tools" / "bench_cpu.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("bench_cpu", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "bench_cpu", module)  # dataclasses look their module up
        spec.loader.exec_module(module)
        patch.setattr(module, "find_spec", lambda name: None)
        yield module


@pytest.fixture(scope="module")
def result(tool):
    return tool.bench(tool.Scale(3, 2, 2, 2, 2, 2, 16))


def test_without_cax_its_rows_are_left_out_with_a_sentence(result):
    assert (
        'CAX is left out because it is not installed; get it with: pip install -e ".[bench]"'
        in result["notes"]
    )
    assert {row["contender"] for row in result["rows"]} == {
        "cellwise, reference",
        "cellwise, compact",
        "cellwise, think",
    }
    assert not any("times_cax" in row for row in result["rows"])


def test_every_task_has_boards_with_and_without_walls(result):
    seen = {(row["task"], row["boards"]) for row in result["rows"]}
    assert seen == {
        (task, boards) for task in ("forward", "gradient") for boards in ("mazes of size 3", "nothing frozen")
    }


def test_rates_follow_from_the_times(result):
    for row in result["rows"]:
        seconds = row["seconds"]
        assert 0 < seconds["min"] <= seconds["median"] <= seconds["max"]
        assert row["cells"] == 2 * 5 * 5
        assert row["cell_steps_per_second"] == pytest.approx(50 * row["steps"] / seconds["median"])
        # A maze of size 3 has four rooms and three doors; two endpoints are frozen.
        free = 50 if row["boards"] == "nothing frozen" else 2 * 5
        assert row["free_cells"] == free
        assert row["free_cell_steps_per_second"] == pytest.approx(free * row["steps"] / seconds["median"])
        skipped = row["contender"] != "cellwise, reference"
        computed = free if skipped else 50
        passes = 3 if row["task"] == "gradient" else 1
        flops = passes * computed * row["steps"] * (17 * 64 + 2 * 65 * 128 + 2 * 129 * 16)
        assert row["flops_per_second"] == pytest.approx(flops / seconds["median"])


def test_the_file_tells_nothing_of_the_folders_of_this_machine(result):
    assert str(TOOL.parents[1]) not in json.dumps(result)
    assert str(Path.home()) + "/" not in json.dumps(result)


def test_contenders_take_turns(tool):
    calls = []

    def contender(name):
        return tool.Contender(name, "", 1, 1, lambda: calls.append(name))

    times = tool.measure([contender("a"), contender("b")], 2, lambda what: None)
    assert calls == ["a", "b", "a", "b", "a", "b"]  # the first round warms up
    assert [len(one) for one in times] == [2, 2]


def test_the_tables_fit_a_terminal(tool, result):
    console = Console(width=80, record=True, file=io.StringIO())
    for row in result["rows"]:
        row = row | {"times_cax": 12.3, "boards": "mazes of size 59"}
        for view in tool.tables(result | {"rows": [row], "device": "CPU"}):
            console.print(view)
    lines = console.export_text().splitlines()
    assert "…" not in "".join(lines)
    assert sum("12.3" in line for line in lines) == len(result["rows"])
