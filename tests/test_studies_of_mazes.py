"""What the studies of mazes and of costs measure, against what is known of small cases."""

from dataclasses import replace

import numpy as np
import pytest

import cellwise
from cellwise import studies
from cellwise.puzzles.maze import PATH
from cellwise.puzzles.maze_filling import fill_dead_ends
from cellwise.puzzles.maze_generator import generate
from cellwise.studies import exact_algorithm, packed
from cellwise.studies.run import run
from cellwise.studies.study import Result


@pytest.fixture
def measured(tmp_path):
    """Runs a study with these settings and gives its result."""

    def measure(study, settings):
        result = Result(study.name, "quick", settings, "command", study.data(settings))
        return run(study, result, tmp_path / "result.jsonl", float("inf"))

    return measure


def test_costs_are_compared_with_every_row_of_the_paper(measured):
    study = studies.find("flops")
    settings = replace(study.full, benchmarks=("sudoku-ood", "maze-hard"))
    found = [(one.what, one.paper, one.ours, one.note) for one in study.compare(measured(study, settings))]
    assert [(what, paper) for what, paper, _, _ in found] == [
        ("sudoku-ood, 9×9 cells, 256 steps", "160K numbers, 11.7B FLOPs"),
        ("sudoku-ood, 9×9 cells, 256 steps × 2,048 trials", "160K numbers, 23.9T FLOPs"),
        ("maze-hard, 30×30 cells, 200 steps", "41K numbers, 15.3B FLOPs"),
        ("maze-hard, 30×30 cells, 200 steps × 128 trials", "41K numbers, 2.0T FLOPs"),
    ]
    assert found[0][2].startswith("159,760 numbers, 11.65B") and found[0][3].startswith("6.21")
    assert found[2][2].startswith("41,284 numbers, 15.29B") and found[2][3] == ""


def test_costs_that_were_not_counted_are_said_to_be_so():
    study = studies.find("flops")
    empty = Result(study.name, "full", study.full, "command", "data")
    assert {one.ours for one in study.compare(empty)} == {None}


def test_answers_are_compared_with_the_path_and_with_filling(measured):
    study = studies.find("exact-algorithm")
    kinds = exact_algorithm.kinds(9, 6)
    chosen = (kinds[0], kinds[-1], exact_algorithm.Kind("wide, 5 × 13", 5, 13, 3))
    result = measured(study, replace(study.quick, kinds=chosen))
    known, braided, wide = (row for row in (one.row for one in result.done))
    assert known["right"] == known["shortest"] == known["filled"] == 6 and known["loops"] == 0
    assert known["cells_as_path"] == known["cells_as_filled"] == 1 and wide["right"] == 3
    # The same thoughts one by one, by the public door.
    mazes = generate(9, 6, 2, braid=1.0)
    thought = cellwise.load("maze-ood").trace(mazes.inputs[0], chosen[1].steps, every=chosen[1].steps)
    shown = braided["example"]
    target, said = packed.unpack(shown["target"]), packed.unpack(shown["said"])
    np.testing.assert_array_equal(target, mazes.target[shown["number"]])
    if shown["number"] == 0:
        np.testing.assert_array_equal(said, thought.grid[-1])
    assert braided["right"] < 6 and braided["loops"] > 0
    left = fill_dead_ends(mazes.inputs).sum() - 2 * 6
    assert braided["left_but_not_said"] <= 1 and left > (mazes.target == PATH).sum()
    notes = [one.note for one in study.compare(result)]
    assert notes[0] == "6 are what filling dead ends leaves"
    assert [one.paper for one in study.compare(result)] == ["100.0 %", None, None]


def test_an_unmeasured_kind_is_said_to_be_so():
    study = studies.find("exact-algorithm")
    empty = Result(study.name, "full", study.full, "command", "data")
    assert {one.ours for one in study.compare(empty)} == {None}
    assert [one.what for one in study.compare(empty)][-4:] == [
        "wide, 9 × 401",
        "size 101, 101 × 101",
        "size 201, 201 × 201",
        "size 401, 401 × 401",
    ]
