"""Tasks come from JSON that may be anything, and whatever is wrong with it is said in one sentence."""

import json

import numpy as np
import pytest

from cellwise.errors import CellwiseError, PuzzleError
from cellwise.puzzles import arc

PAIR = {"input": [[0, 1], [2, 3]], "output": [[3]]}


def task(**changes):
    return {"train": [PAIR], "test": [{"input": [[5]]}]} | changes


def message(value):
    with pytest.raises(PuzzleError) as caught:
        arc.parse_tasks(value if isinstance(value, str | bytes) else json.dumps(value), "some")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def with_grid(grid):
    return task(train=[{"input": grid, "output": [[0]]}])


REFUSED = {
    "{": "some is not valid JSON; save the task as JSON.",
    "[" * 100_000: "some is not valid JSON; save the task as JSON.",
    "[1]": 'some must be a JSON object such as {"train": [...], "test": [...]}.',
    "{}": 'some must be a JSON object such as {"train": [...], "test": [...]}.',
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:10])
def test_what_is_no_object_is_refused(text):
    assert message(text) == REFUSED[text]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (task(train=[]), "some has no demonstrations to learn from; add at least one pair to `train`."),
        (task(test=[]), "some asks nothing; add at least one input to `test`."),
        ({"a": 3}, 'some, task a must be a JSON object such as {"train": [...], "test": [...]}.'),
        (task(train=3), 'some needs `train` to be a list of objects like {"input": [[0]]}.'),
        (task(train=[3]), 'some needs `train` to be a list of objects like {"input": [[0]]}.'),
        (task(test=[PAIR] * 1001), "some has 1,001 pairs in `test`; keep at most 1,000."),
        (
            task(train=[PAIR, {"input": [[1]]}]),
            "some, demonstration 2, output is missing; give it as a list of rows.",
        ),
        (task(test=[{}]), "some, test 1, input is missing; give it as a list of rows."),
        (with_grid([]), "some, demonstration 1, input must be a list of rows, such as [[0, 1], [2, 3]]."),
        (with_grid("12"), "some, demonstration 1, input must be a list of rows, such as [[0, 1], [2, 3]]."),
        (
            with_grid([[1, 2], [3]]),
            "some, demonstration 1, input has rows of unequal length; make all rows equally long.",
        ),
        (
            with_grid([[0] * 31] * 5),
            "some, demonstration 1, input has 5 x 31 cells; a grid has 1 to 30 cells a side.",
        ),
        (with_grid([[]]), "some, demonstration 1, input has 1 x 0 cells; a grid has 1 to 30 cells a side."),
        (
            with_grid([[1, 12]]),
            "some, demonstration 1, input has the colour '12'; use whole numbers from 0 to 9.",
        ),
        (
            with_grid([[1, True]]),
            "some, demonstration 1, input has the colour 'True'; use whole numbers from 0 to 9.",
        ),
        (
            with_grid([[-1]]),
            "some, demonstration 1, input has the colour '-1'; use whole numbers from 0 to 9.",
        ),
        (
            with_grid([[None, "x" * 99]]),
            "some, demonstration 1, input has the colour 'None'; use whole numbers from 0 to 9.",
        ),
        (
            task(test=[{"input": [[1]], "output": [[1], [1, 2]]}]),
            "some, test 1, output has rows of unequal length; make all rows equally long.",
        ),
    ],
)
def test_what_is_wrong_with_a_task_is_said(value, said):
    assert message(value) == said


def test_a_task_may_have_several_tests_with_or_without_answers():
    value = task(test=[{"input": [[5]]}, PAIR, {"input": [[1]], "output": None}])
    [(one, answers)] = arc.parse_tasks(json.dumps(value), "some")
    assert one.name == "some" and len(one.questions) == 3 and len(one.demos) == 1
    assert answers[0] is None and answers[2] is None
    np.testing.assert_array_equal(answers[1], [[3]])


def test_a_task_holds_no_answers():
    [(one, _)] = arc.parse_tasks(json.dumps(task(test=[{"input": [[5]], "output": [[7]]}])), "some")
    assert "7" not in str(one) and "7" not in json.dumps(arc.to_json(one))


def test_a_grid_of_one_cell_is_a_grid():
    [(one, _)] = arc.parse_tasks(json.dumps(with_grid([[9]])), "some")
    assert one.demos[0].input.shape == (1, 1)


def test_files_folders_and_collections_are_read(tmp_path):
    (tmp_path / "b.json").write_text(json.dumps(task()))
    (tmp_path / "a.json").write_text(json.dumps({"one": task(), "two": task()}))
    (tmp_path / "note.txt").write_text("no task")
    assert [known.task.name for known in arc.read_tasks(tmp_path)] == ["one", "two", "b"]
    assert [known.task.name for known in arc.read_tasks(tmp_path / "b.json")] == ["b"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "{} holds no JSON file; name a task file or a folder of task files."),
        ({"x.json": {"a": task()}, "a.json": task()}, "{} holds two tasks named a; rename one of them."),
    ],
)
def test_folders_without_sense_are_refused(tmp_path, files, said):
    for name, value in files.items():
        (tmp_path / name).write_text(json.dumps(value))
    with pytest.raises(PuzzleError) as caught:
        arc.read_tasks(tmp_path)
    assert str(caught.value) == said.format(tmp_path)


def test_a_missing_or_huge_file_is_refused(tmp_path):
    with pytest.raises(CellwiseError, match="there is no such file or folder; check the path"):
        arc.read_tasks(tmp_path / "none.json")
    (tmp_path / "huge.json").write_bytes(b" " * (2**24 + 1))
    with pytest.raises(CellwiseError, match="16,777,217 bytes, more than the 16,777,216 allowed here"):
        arc.read_tasks(tmp_path / "huge.json")


def test_a_task_comes_back_from_its_json():
    known = arc.parse_task(task(test=[PAIR, {"input": [[5]]}]), "some")
    again = arc.parse_task(json.loads(json.dumps(arc.to_json(*known))), "some")
    assert str(again) == str(known)
