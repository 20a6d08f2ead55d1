"""The datasets on this machine: one folder each, with a manifest of its files and where they came from.

A file enters a folder only whole and only after its content was checked; whoever brings one holds the
folder's lock. Readers need no lock and write nothing.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import platformdirs
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from ..errors import ConfigError, DataError
from ..files import explained, read_bytes, sha256_of, write_json, written_atomically
from . import archive, catalog
from .arc import Known
from .arc_pairs import Pairs
from .board import Boards
from .catalog import Dataset, File, Split
from .digits import Digits
from .download import discard, download
from .recipe import Recipe

_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Finding:
    """What `verify` found out about one file."""

    file: str
    state: Literal["sound", "missing", "damaged"]
    boards: int
    sha256: str
    source: str


@dataclass(frozen=True)
class Entry:
    """A dataset as `listing` shows it."""

    name: str
    about: str
    state: Literal["ready", "partial", "absent"]
    recorded: bool
    boards: int
    bytes: int
    trainable: tuple[str, ...]
    test_only: tuple[str, ...]
    obtain: str


def data_folder() -> Path:
    """Where datasets live: $CELLWISE_DATA or the user's cache folder."""
    chosen = os.environ.get("CELLWISE_DATA")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("cellwise")) / "data"


def fetch(name: str, split: str | None = None, size: int | None = None) -> list[Path]:
    """Downloads the files of a dataset, or of one split and size, that are not here yet."""
    dataset = catalog.find(name)
    if not dataset.published:
        raise DataError(f"{name} is not published anywhere; {_how_to_get(dataset, split, size)}.")

    def bring(file: File) -> Path:
        folder = data_folder() / name
        partial = folder / ".partial" / file.name
        assert file.url is not None
        with _progress(f"{name}/{file.name}") as report:
            download(file.url, partial, report)
        digest = sha256_of(partial)
        try:
            file.check(partial)
        except DataError as error:
            discard(partial)
            raise DataError(f"What {file.url} sent is not {name}: {error}") from error
        path = _enter(folder / file.name, partial, digest, file.boards, file.url, shutil.move)
        with contextlib.suppress(OSError):
            partial.parent.rmdir()
        return path

    return _bring_all(dataset, dataset.files_of(split, size), bring)


def import_from(name: str, folder: Path, split: str | None = None, size: int | None = None) -> list[Path]:
    """Copies the files of a dataset out of `folder`: all that are there, packed with gzip or not."""
    dataset = catalog.find(name)
    if dataset.made:
        raise DataError(f"{name} is not published anywhere; {_how_to_get(dataset, split, size)}.")
    files = dataset.files_of(split, size)
    found = {file: place for file in files if (place := _place_in(folder, file))}
    if not found:
        names = ", ".join(file.name for file in files)
        raise DataError(
            f"{folder} holds no file of {name}; name the folder with {names}, packed with gzip or not."
        )

    def bring(file: File) -> Path:
        place = found[file]
        digest = sha256_of(place)
        if file.sha256 not in (None, digest):
            raise DataError(
                f"{place} is not the known file of {name} (its SHA-256 differs); get the original file."
            )
        file.check(place)
        target = data_folder() / name / place.name
        return _enter(target, place, digest, file.boards, f"imported {place.name}", shutil.copyfile)

    return _bring_all(dataset, tuple(found), bring)


def make(recipe: Recipe) -> Path:
    """Generates a dataset by its recipe; what was made before by the same recipe is kept."""
    folder = data_folder() / recipe.name
    arguments = json.loads(json.dumps(dataclasses.asdict(recipe)))
    if recipe.count < 1 or not 0 <= recipe.seed < 2**32:
        raise ConfigError(
            "A dataset needs a count of at least 1 and a seed from 0 to 4294967295; change these."
        )
    path = folder / recipe.file
    with _locked(folder):
        files = _manifest(folder)
        if recipe.file in files and _is_whole(path, files[recipe.file]):
            if files[recipe.file].get("arguments") != arguments:
                raise DataError(
                    f"{path} was made with other arguments; remove it or choose another split or size."
                )
            return path
        for other, entry in files.items():
            theirs = entry.get("arguments", {})
            if theirs.get("split") != recipe.split and theirs.get("seed") == recipe.seed:
                raise DataError(
                    f"{recipe.name} {theirs.get('split')} ({other}) already uses seed {recipe.seed}, so the "
                    "splits could share boards; give each split its own --seed."
                )
        with Console(stderr=True).status(f"Making {recipe.name}/{recipe.file}"):
            boards = recipe.boards(load)
            archive.write_boards(path, boards)
        _record(path, sha256_of(path), len(boards), "made here", arguments=arguments)
    return path


def load(
    name: str, split: str, size: int | None = None, limit: int | None = None, training: bool = False
) -> Boards:
    """The first `limit` boards of a split; with `training`, only if a model may learn from them."""
    boards = _load(name, split, size, limit, training)
    if not isinstance(boards, Boards):
        raise ConfigError(f"{name} holds no boards; see `cellwise data list` for others.")
    return boards


def load_pairs(name: str, split: str, limit: int | None = None, training: bool = False) -> Pairs:
    """The first `limit` pairs of a split that holds pairs of grids."""
    pairs = _load(name, split, None, limit, training)
    if not isinstance(pairs, Pairs):
        raise ConfigError(f"{name} holds no pairs of grids; see `cellwise data list` for others.")
    return pairs


def load_tasks(name: str, split: str, limit: int | None = None, training: bool = False) -> list[Known]:
    """The first `limit` tasks of a split, with their answers."""
    tasks = _load(name, split, None, limit, training)
    if not isinstance(tasks, list):
        raise ConfigError(f"{name} holds no tasks; see `cellwise data list` for others.")
    return tasks


def load_digits(name: str, split: str, limit: int | None = None, training: bool = False) -> Digits:
    """The first `limit` handwritten digits of a split."""
    digits = _load(name, split, None, limit, training)
    if not isinstance(digits, Digits):
        raise ConfigError(f"{name} holds no handwritten digits; see `cellwise data list` for others.")
    return digits


def _load(name: str, split: str, size: int | None, limit: int | None, training: bool) -> Any:
    dataset = catalog.find(name)
    part = dataset.split(split, None if dataset.made else size)
    if training and not part.trainable:
        raise DataError(f"{name} {split} is for testing only; train on another split or dataset.")
    path, entry = _stored(dataset, part, size)
    if path.stat().st_size != entry.get("bytes"):
        raise DataError(f"{path} has changed since it was stored; {_how_to_get(dataset, split, size)}.")
    boards = part.read(path, limit)
    whole = part.boards or entry.get("boards")
    if limit is None and len(boards) != whole:
        raise DataError(
            f"{path} gives {len(boards):,} boards instead of {whole:,}; run `cellwise data verify {name}`."
        )
    return boards


def verify(name: str) -> list[Finding]:
    """Compares every stored file of a dataset with the SHA-256 that was recorded when it came."""
    dataset = catalog.find(name)
    folder = data_folder() / name
    files = _manifest(folder)
    if not files:
        raise DataError(f"{name} is not on this machine; {_how_to_get(dataset)}.")
    findings = []
    for file, entry in sorted(files.items()):
        path = folder / file
        state = "missing" if not path.is_file() else "sound" if _is_whole(path, entry) else "damaged"
        findings.append(Finding(file, state, entry["boards"], entry["sha256"], entry["source"]))
    return findings


def listing() -> list[Entry]:
    """Every dataset and how much of it is here."""
    entries = []
    for dataset in catalog.DATASETS.values():
        folder = data_folder() / dataset.name
        recorded = _manifest(folder)
        here = {file: entry for file, entry in recorded.items() if _has_size(folder / file, entry)}
        missing = [file for file in dataset.files if not any(name in here for name in _names(file))]
        names = {
            use: [part.name for part in dataset.splits if part.trainable == use] for use in (True, False)
        }
        entries.append(
            Entry(
                dataset.name,
                dataset.about,
                "absent" if not here else "partial" if missing else "ready",
                bool(recorded),
                sum(entry["boards"] for entry in here.values()),
                sum(entry["bytes"] for entry in here.values()),
                tuple(dict.fromkeys(names[True])),
                tuple(dict.fromkeys(names[False])),
                _how_to_get(dataset),
            )
        )
    return entries


def _bring_all(dataset: Dataset, files: tuple[File, ...], bring: Callable[[File], Path]) -> list[Path]:
    """The stored files, after bringing those that are missing or damaged."""
    folder = data_folder() / dataset.name

    def stored(file: File) -> Path | None:
        here = _manifest(folder)
        whole = (name for name in _names(file) if name in here and _is_whole(folder / name, here[name]))
        return next((folder / name for name in whole), None)

    paths = [path for file in files if (path := stored(file))]
    if len(paths) == len(files):  # nothing to write, so a read-only folder is fine
        return paths
    with _locked(folder):
        return [stored(file) or bring(file) for file in files]


def _enter(
    path: Path, source: Path, digest: str, boards: int, origin: str, transfer: Callable[[Path, Path], object]
) -> Path:
    """Puts a checked file, whose SHA-256 was `digest` before the check, into its folder and the manifest."""
    with written_atomically(path) as temporary:
        transfer(source, temporary)
        if sha256_of(temporary) != digest:
            raise DataError(f"{source} changed while it was read; run the command again.")
    _record(path, digest, boards, origin)
    return path


def _record(path: Path, digest: str, boards: int, source: str, **more: Any) -> None:
    entry = {"sha256": digest, "bytes": path.stat().st_size, "boards": boards, "source": source, **more}
    write_json(path.parent / _MANIFEST, {"files": {**_manifest(path.parent), path.name: entry}})


def _manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """What the manifest says about each file."""
    path = folder / _MANIFEST
    if not path.exists():
        return {}
    kinds = {"sha256": str, "bytes": int, "boards": int, "source": str}
    try:
        files = json.loads(read_bytes(path, limit=1 << 20))["files"]
        if all(Path(n).name == n and isinstance(e[k], t) for n, e in files.items() for k, t in kinds.items()):
            return files
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass
    raise DataError(f"{path} is damaged; delete the folder {folder} and get the dataset again.")


def _is_whole(path: Path, entry: dict[str, Any]) -> bool:
    return _has_size(path, entry) and sha256_of(path) == entry["sha256"]


def _has_size(path: Path, entry: dict[str, Any]) -> bool:
    return path.is_file() and path.stat().st_size == entry["bytes"]


def _names(file: File) -> tuple[str, str]:
    """What a file may be called here: packed or not."""
    return file.name, f"{file.name}.gz"


def _place_in(folder: Path, file: File) -> Path | None:
    places = [base / name for base in (folder, folder / file.folder) for name in _names(file)]
    return next((place for place in places if place.is_file()), None)


def _stored(dataset: Dataset, part: Split, size: int | None) -> tuple[Path, dict[str, Any]]:
    """The file a split is read from and its manifest entry."""
    folder = data_folder() / dataset.name
    here = {name: entry for name, entry in _manifest(folder).items() if (folder / name).is_file()}
    if dataset.made:
        asked = {"split": part.name} | ({} if size is None else {"size": size})
        names = [name for name, entry in here.items() if asked.items() <= entry.get("arguments", {}).items()]
        if len(names) > 1:
            sizes = ", ".join(str(here[name]["arguments"]["size"]) for name in names)
            raise ConfigError(f"{dataset.name} {part.name} is here in several sizes; name one of {sizes}.")
    else:
        names = [name for name in (part.file, f"{part.file}.gz") if name in here]
        for file in part.beside:
            if not any(_has_size(folder / n, here[n]) for n in (file, f"{file}.gz") if n in here):
                names = []
    if not names:
        what = " ".join(str(word) for word in (dataset.name, part.name, size) if word is not None)
        raise DataError(f"{what} is not on this machine; {_how_to_get(dataset, part.name, size)}.")
    return folder / names[0], here[names[0]]


def _how_to_get(dataset: Dataset, split: str | None = None, size: int | None = None) -> str:
    """The rest of a sentence: which command brings the dataset."""
    options = (f" --split {split}" if split else "") + (f" --size {size}" if size else "")
    if not dataset.files:
        return f"run `cellwise data make {dataset.name}{options}`"
    command = f"`cellwise data fetch {dataset.name}{options if len(dataset.files) > 1 else ''}"
    if dataset.published:
        return f"run {command}` or {command} --from DIR`"
    names = ", ".join(file.name for file in dataset.files)
    return f"run {command} --from DIR` with the folder that holds {names}"


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keeps other processes from changing the folder; the lock dies with its holder."""
    with explained("write", folder / ".lock"):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            Console(stderr=True).print(
                f"Another process is working on {folder}; waiting for it.", soft_wrap=True
            )
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _progress(label: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on a terminal, nothing elsewhere."""
    console = Console(stderr=True)
    columns = (TextColumn(label), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(label, total=None)
        yield lambda have, total: progress.update(task, completed=have, total=total)
