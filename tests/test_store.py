import errno
import gzip
import json
import os
import pathlib
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cellwise.errors import CellwiseError, ConfigError, DataError, FileError
from cellwise.files import sha256_of
from cellwise.puzzles import archive, catalog, store
from cellwise.puzzles.catalog import Dataset, File, Split
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.recipe import MazeOodMade, SudokuEasyMade, SudokuHardMade
from test_archive import SHARED, SOLVED, mood, quiz, sudoku_csv, tar_gz


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CELLWISE_DATA", str(tmp_path / "store"))
    return tmp_path / "store"


def tiny(url: str | None = None, sha256: str | None = None) -> Dataset:
    """A dataset of three Sudokus in one file."""

    def check(path: Path) -> None:
        if len(archive.read_sudoku_csv(path)) != 3:
            raise DataError(f"{path} does not hold three boards; fetch it again.")

    file = File("tiny.csv", 3, check, url, sha256, folder="sudokus")
    splits = (
        Split("train", "tiny.csv", 3, True, archive.read_sudoku_csv),
        Split("test", "tiny.csv", 3, False, archive.read_sudoku_csv),
    )
    return Dataset("tiny", "Three Sudokus.", splits, (file,))


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A folder that holds the dataset `tiny`, which has no address."""
    monkeypatch.setitem(catalog.DATASETS, "tiny", tiny())
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "tiny.csv").write_text(sudoku_csv([1, 2, 3]))
    return tmp_path / "source"


def message(kind: type[CellwiseError], call, *args, **kwargs) -> str:
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# ---- what there is ---------------------------------------------------------------------------------------


def test_nothing_is_here_at_first():
    assert {entry.state for entry in store.listing()} == {"absent"}
    assert {entry.name for entry in store.listing()} == set(catalog.DATASETS)


def test_test_sets_are_never_trainable():
    trainable = {(d.name, s.name) for d in catalog.DATASETS.values() for s in d.splits if s.trainable}
    assert trainable == {
        ("maze-ood", "train"),
        ("maze-hard", "train"),
        ("maze-hard", "eval"),
        ("sudoku-easy", "train"),
        ("sudoku-extreme", "train"),
        ("sudoku-extreme-pool", "train"),
        ("sudoku-extreme-pool", "train-1k"),
        ("sudoku-seventeen", "train"),
        ("arc-agi-1", "train"),
        ("re-arc", "train"),
        ("re-arc-150", "train"),
        ("mnist", "train"),
        ("maze-ood-made", "train"),
        ("maze-hard-made", "train"),
        ("sudoku-easy-made", "train"),
    }


def test_the_catalog_is_consistent():
    for dataset in catalog.DATASETS.values():
        names = {file.name for file in dataset.files}
        assert dataset.made or {f for part in dataset.splits for f in (part.file, *part.beside)} == names
        for file in dataset.files:
            assert bool(file.url) != bool(file.sha256)
            assert file.url is None or file.url.startswith("https://")
    sizes = [split.size for split in catalog.find("maze-ood").splits if split.name == "test"]
    assert sizes == [9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 59, 201]


MISSING = {
    ("maze-hard", "test", None): (
        "maze-hard test is not on this machine; run `cellwise data fetch maze-hard --split test` or "
        "`cellwise data fetch maze-hard --split test --from DIR`."
    ),
    ("maze-ood", "test", 59): (
        "maze-ood test 59 is not on this machine; run `cellwise data fetch maze-ood --split test --size 59` "
        "or `cellwise data fetch maze-ood --split test --size 59 --from DIR`."
    ),
    ("sudoku-easy", "eval", None): (
        "sudoku-easy eval is not on this machine; run `cellwise data fetch sudoku-easy` or "
        "`cellwise data fetch sudoku-easy --from DIR`."
    ),
    ("sudoku-extreme-dev", "test", None): (
        "sudoku-extreme-dev test is not on this machine; run `cellwise data fetch sudoku-extreme-dev "
        "--from DIR` with the folder that holds test-dev.csv.gz."
    ),
    ("maze-ood-made", "test", 13): (
        "maze-ood-made test 13 is not on this machine; run `cellwise data make maze-ood-made --split test "
        "--size 13`."
    ),
}


@pytest.mark.parametrize("asked", MISSING)
def test_a_missing_dataset_says_how_to_get_it(asked, folder):
    name, split, size = asked
    assert message(DataError, store.load, name, split, size) == MISSING[asked]
    assert not folder.exists()


def test_wrong_names(source):
    names = ", ".join(catalog.DATASETS)
    assert message(ConfigError, store.load, "chess", "train") == (
        f"There is no dataset 'chess'; choose one of: {names}."
    )
    assert message(ConfigError, store.load, "maze-ood", "dev") == (
        "maze-ood has no split 'dev'; choose one of: train, eval, test."
    )
    sizes = "9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 59, 201"
    for size, problem in ((None, "has several sizes"), (10, "has no size 10")):
        assert message(ConfigError, store.load, "maze-ood", "test", size) == (
            f"maze-ood test {problem}; name one of its sizes: {sizes}."
        )
    assert message(ConfigError, store.fetch, "maze-ood", size=10).startswith("maze-ood train has no size 10;")
    assert message(ConfigError, store.load, "tiny", "train", 9) == (
        "tiny train has boards of one size only; leave out the size."
    )


def test_training_on_a_test_set_is_refused():
    assert message(DataError, store.load, "maze-hard", "test", training=True) == (
        "maze-hard test is for testing only; train on another split or dataset."
    )


# ---- import ----------------------------------------------------------------------------------------------


def test_import_load_verify(source, folder):
    assert store.import_from("tiny", source) == [folder / "tiny" / "tiny.csv"]
    assert store.load("tiny", "train", training=True).difficulty.tolist() == [1, 2, 3]
    assert store.load("tiny", "test", limit=2).difficulty.tolist() == [1, 2]
    entry = json.loads((folder / "tiny" / "manifest.json").read_text())["files"]["tiny.csv"]
    assert entry == {
        "sha256": sha256_of(source / "tiny.csv"),
        "bytes": (source / "tiny.csv").stat().st_size,
        "boards": 3,
        "source": "imported tiny.csv",
    }
    assert [finding.state for finding in store.verify("tiny")] == ["sound"]
    listed = next(entry for entry in store.listing() if entry.name == "tiny")
    assert (listed.state, listed.boards, listed.trainable, listed.test_only) == (
        "ready",
        3,
        ("train",),
        ("test",),
    )


def test_a_packed_file_in_the_publishers_folder_is_found(source, folder):
    (source / "sudokus").mkdir()
    (source / "sudokus" / "tiny.csv.gz").write_bytes(gzip.compress((source / "tiny.csv").read_bytes()))
    (source / "tiny.csv").unlink()
    assert store.import_from("tiny", source) == [folder / "tiny" / "tiny.csv.gz"]
    assert len(store.load("tiny", "train")) == 3


def test_import_refuses_what_it_cannot_use(source, folder, tmp_path, monkeypatch):
    empty = tmp_path / "empty"
    assert message(DataError, store.import_from, "tiny", empty) == (
        f"{empty} holds no file of tiny; name the folder with tiny.csv, packed with gzip or not."
    )
    assert message(DataError, store.import_from, "maze-ood-made", empty) == (
        "maze-ood-made is not published anywhere; run `cellwise data make maze-ood-made`."
    )
    (source / "tiny.csv").write_text(sudoku_csv([1, 2]))
    wrong = message(DataError, store.import_from, "tiny", source)
    assert wrong == f"{source / 'tiny.csv'} does not hold three boards; fetch it again."
    monkeypatch.setitem(catalog.DATASETS, "tiny", tiny(sha256="0" * 64))
    assert message(DataError, store.import_from, "tiny", source) == (
        f"{source / 'tiny.csv'} is not the known file of tiny (its SHA-256 differs); get the original file."
    )
    assert files_in(folder) == ["tiny/.lock"]


def test_damage_is_found_and_mended(source, folder):
    (path,) = store.import_from("tiny", source)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"3\n", b"4\n"))
    assert [finding.state for finding in store.verify("tiny")] == ["damaged"]
    path.write_bytes(data[:-1])
    assert message(DataError, store.load, "tiny", "train") == (
        f"{path} has changed since it was stored; run `cellwise data fetch tiny --from DIR` with the folder "
        "that holds tiny.csv."
    )
    path.unlink()
    assert [finding.state for finding in store.verify("tiny")] == ["missing"]
    store.import_from("tiny", source)
    assert path.read_bytes() == data and [finding.state for finding in store.verify("tiny")] == ["sound"]


def test_verify_needs_something():
    assert message(DataError, store.verify, "sudoku-hard-made") == (
        "sudoku-hard-made is not on this machine; run `cellwise data make sudoku-hard-made`."
    )


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"files": []}', '{"files": {"a": {}}}', '{"files": {"../a": {}}}', "[" * 9999]
)
def test_a_damaged_manifest(source, folder, text):
    store.import_from("tiny", source)
    (folder / "tiny" / "manifest.json").write_text(text)
    assert message(DataError, store.load, "tiny", "train") == (
        f"{folder}/tiny/manifest.json is damaged; delete the folder {folder}/tiny and get the dataset again."
    )


def test_a_full_disk_leaves_nothing_behind(source, folder, monkeypatch):
    def full(place, target):
        Path(target).write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfile", full)
    path = folder / "tiny" / "tiny.csv"
    assert message(FileError, store.import_from, "tiny", source) == (
        f"Cannot write {path}: the disk is full; free some space and run the command again."
    )
    assert files_in(folder) == ["tiny/.lock"]


def test_a_read_only_folder(source, folder, monkeypatch):
    store.import_from("tiny", source)

    def denied(self, mode="r", *args, **kwargs):
        if "w" in mode or "a" in mode:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return opened(self, mode, *args, **kwargs)

    opened = pathlib.Path.open
    monkeypatch.setattr(pathlib.Path, "open", denied)
    assert len(store.import_from("tiny", source)) == 1  # nothing to do, nothing to write
    assert len(store.load("tiny", "train")) == 3
    (folder / "tiny" / "tiny.csv").unlink()
    assert message(FileError, store.import_from, "tiny", source) == (
        f"Cannot write {folder}/tiny/.lock: permission was denied; choose another folder or change its "
        "permissions."
    )


def test_the_cache_folder_is_the_default(monkeypatch):
    monkeypatch.delenv("CELLWISE_DATA")
    assert store.data_folder().parts[-2:] == ("cellwise", "data")


# ---- made here -------------------------------------------------------------------------------------------


def test_made_mazes(folder):
    recipe = MazeOodMade(count=6, size=11, braid=0.5, endpoints="dead-ends")
    path = store.make(recipe)
    assert path == folder / "maze-ood-made" / "train-11.npz"
    before = path.read_bytes()
    expected = generate(11, 6, 0, braid=0.5, endpoints="dead-ends")
    boards = store.load("maze-ood-made", "train")
    assert (boards.target == expected.target).all() and (boards.given == expected.given).all()
    assert len(store.load("maze-ood-made", "train", 11, limit=2, training=True)) == 2
    entry = json.loads((path.parent / "manifest.json").read_text())["files"]["train-11.npz"]
    assert entry["arguments"] == {
        "split": "train",
        "size": 11,
        "count": 6,
        "seed": 0,
        "braid": 0.5,
        "endpoints": "dead-ends",
    }
    path.unlink()
    assert store.make(recipe).read_bytes() == before
    moment = path.stat().st_mtime_ns
    assert store.make(recipe).stat().st_mtime_ns == moment


def test_made_sets_keep_their_splits_apart(folder):
    path = store.make(MazeOodMade(count=2))
    assert message(DataError, store.make, MazeOodMade(count=3)) == (
        f"{path} was made with other arguments; remove it or choose another split or size."
    )
    assert message(DataError, store.make, MazeOodMade(split="test", size=13, count=2)) == (
        "maze-ood-made train (train-9.npz) already uses seed 0, so the splits could share boards; give each "
        "split its own --seed."
    )
    store.make(MazeOodMade(split="test", seed=1, count=2))
    store.make(MazeOodMade(split="test", seed=1, count=2, size=13))
    assert store.load("maze-ood-made", "test", 13).target.shape == (2, 15, 15)
    assert message(ConfigError, store.load, "maze-ood-made", "test") == (
        "maze-ood-made test is here in several sizes; name one of 9, 13."
    )


@pytest.mark.parametrize(
    "recipe", [MazeOodMade(count=0), SudokuEasyMade(seed=-1), SudokuEasyMade(seed=2**32)]
)
def test_impossible_recipes(recipe, folder):
    assert message(ConfigError, store.make, recipe) == (
        "A dataset needs a count of at least 1 and a seed from 0 to 4294967295; change these."
    )
    assert not folder.exists()


def test_made_sudokus(folder, monkeypatch):
    store.make(SudokuEasyMade(count=2, givens=(36, 37)))
    easy = store.load("sudoku-easy-made", "train")
    assert set(easy.difficulty.tolist()) <= {44, 45}
    path = folder / "sudoku-easy-made" / "train.npz"
    archive.write_boards(path, generate(7, 2, 0))
    monkeypatch.setattr(store, "_stored", lambda *_: (path, {"bytes": path.stat().st_size, "boards": 2}))
    assert message(DataError, store.load, "sudoku-easy-made", "train").startswith(
        f"{path} has an answer that is not a solved Sudoku;"
    )


def test_made_hard_sudokus_need_the_seventeen_clue_ones(monkeypatch, tmp_path, folder):
    assert message(DataError, store.make, SudokuHardMade(count=1)) == (
        "sudoku-seventeen train is not on this machine; run `cellwise data fetch sudoku-seventeen "
        "--from DIR` with the folder that holds seventeen-clue.csv.gz."
    )
    table = tmp_path / "table.csv"
    rows = "".join(f"{quiz(blanks)},{SOLVED}\n" for blanks in (64, 63, 62, 64))
    table.write_text(f"question,answer\n{rows}")
    puzzles = archive.read_sudoku_csv(table)
    # The pool holds the first and the last; the others are in different halves.
    known = {"sudoku-seventeen": puzzles, "sudoku-extreme-pool": puzzles[np.array([0, 3])]}
    monkeypatch.setattr(store, "load", lambda name, split: known[name])
    halves = [SudokuHardMade(split).base(store.load) for split in ("eval", "test")]
    assert sorted(int(half.difficulty[0]) for half in halves) == [62, 63]
    assert [len(half) for half in halves] == [1, 1]
    store.make(SudokuHardMade(count=2, empties=(50, 52)))
    monkeypatch.undo()
    boards = archive.read_boards(folder / "sudoku-hard-made" / "test.npz")
    assert boards.difficulty.tolist() == [50, 50, 51, 51, 52, 52]
    with pytest.raises(ConfigError, match="no number of blanks from 9 to 8; put the lower one first"):
        SudokuHardMade(empties=(9, 8)).boards(store.load)


# ---- the real files --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "split", "count"),
    [
        ("maze-hard", "train", 1000),
        ("maze-hard", "test", 1000),
        ("sudoku-extreme-pool", "train", 19_500),
        ("sudoku-extreme-pool", "train-1k", 1000),
        ("sudoku-extreme-pool", "eval", 500),
        ("sudoku-extreme-dev", "test", 500),
        ("sudoku-extreme-balanced", "test", 1100),
        ("sudoku-seventeen", "train", 39_158),
    ],
)
def test_the_benchmark_data_is_what_the_catalog_says(name, split, count):
    if not SHARED.is_dir():
        pytest.skip("the benchmark data is not beside the repository")
    store.import_from(name, SHARED, split)
    boards = store.load(name, split)
    assert len(boards) == count
    if name == "sudoku-extreme-balanced":
        assert np.bincount(archive.bin_of(boards.difficulty)).tolist() == [100] * 11


def test_other_mazes_are_not_maze_hard(tmp_path):
    if not SHARED.is_dir():
        pytest.skip("the benchmark data is not beside the repository")
    shutil.copy(SHARED / "maze-hard" / "test.csv.gz", tmp_path / "train.csv.gz")
    place = tmp_path / "train.csv.gz"
    again = "fetch the dataset again or check where the file came from."
    assert message(DataError, store.import_from, "maze-hard", tmp_path) == (
        f"{place} holds other boards than the published ones; {again}"
    )
    place.write_bytes(gzip.decompress(place.read_bytes())[:-1825])
    assert message(DataError, store.import_from, "maze-hard", tmp_path) == (
        f"{place} holds 999 boards instead of 1,000; {again}"
    )


def test_a_maze_archive_must_hold_all_mazes_and_shortest_paths(tmp_path):
    check = catalog.find("maze-ood").files_of("test", 9)[0].check
    assert isinstance(check, partial) and check.keywords == {"size": 9, "count": 10_000}
    check = partial(check.func, size=9, count=20)
    path = tmp_path / "mazes"
    again = "fetch the dataset again or check where the file came from."
    boards = generate(9, 20, 3)
    path.write_bytes(tar_gz(mood(boards, "bool")))
    check(path)
    ring = np.full((11, 11), 2, np.uint8)
    ring[1:-1, 1:-1] = 1
    ring[2:-2, 2:-2] = 2
    ring[1, 1:4] = 3, 0, 3  # the answer goes all the way round instead of through the cell between
    boards.target[5] = ring
    path.write_bytes(tar_gz(mood(boards, "bool")))
    assert message(DataError, check, path) == (f"{path} has an answer that is not a shortest path; {again}")
    path.write_bytes(tar_gz(mood(boards[:9], "bool")))
    assert message(DataError, check, path) == f"{path} holds 9 boards instead of 20; {again}"
