"""A run on disk. Whatever happens, and whenever, what is there can be read and continued.

    config.json                             what the run is
    metrics.jsonl                           one line for each look at it
    checkpoints/step-0000500.safetensors    the whole state, the newest two
    model/                                  the averaged weights as a model folder

Every file but `metrics.jsonl` is replaced as a whole. That one only grows, each line is on the disk before
the next checkpoint, and what comes after a checkpoint is cut off when the run goes on from there.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped
from safetensors import SafetensorError, safe_open
from safetensors import numpy as safetensors

from ..errors import RunError
from ..files import explained, read_bytes, sync_folder, write_bytes, write_json

FORMAT = 1
KEPT = 2
_KEY = "cellwise"
_CHECKPOINT = re.compile(r"step-(\d{7,})\.safetensors")

Tensors = dict[str, Shaped[np.ndarray, "..."]]


@dataclass(frozen=True)
class Checkpoint:
    """The state of run `identity` after `step` iterations, which took `seconds`; arrays by their names."""

    step: int
    seconds: float
    identity: str
    tensors: Tensors


class _DamagedError(Exception):
    """A checkpoint that cannot be trusted."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run, which this process has for itself."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints are."""
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        """One JSON object a line."""
        return self.path / "metrics.jsonl"

    @property
    def model(self) -> Path:
        """The model folder."""
        return self.path / "model"

    def checkpoint_files(self) -> list[tuple[int, Path]]:
        """The step and the path of every checkpoint, oldest first."""
        matches = [(_CHECKPOINT.fullmatch(path.name), path) for path in self.checkpoints.glob("step-*")]
        return sorted((int(match[1]), path) for match, path in matches if match)

    def save(self, checkpoint: Checkpoint) -> Path:
        """Writes a checkpoint, then removes all but the newest two."""
        path = self.checkpoints / f"step-{checkpoint.step:07d}.safetensors"
        about = {
            "step": checkpoint.step,
            "seconds": checkpoint.seconds,
            "identity": checkpoint.identity,
            "tensors_sha256": digest_of(checkpoint.tensors),
        }
        # As bytes first: the library's own writer does not report a full disk as an OSError.
        write_bytes(path, safetensors.save(checkpoint.tensors, {_KEY: json.dumps(about)}))
        self._remove([old for _, old in self.checkpoint_files()[:-KEPT]])
        return path

    def newest(self, identity: str) -> tuple[Checkpoint | None, list[Path]]:
        """The newest checkpoint of run `identity` that is whole, and the damaged ones after it, now removed.

        None if the run never came to its first checkpoint.
        """
        damaged = []
        for _, path in reversed(self.checkpoint_files()):
            try:
                checkpoint = _read(path, identity)
            except _DamagedError:
                damaged.append(path)
            else:
                self._remove(damaged)
                return checkpoint, damaged
        if damaged:
            raise RunError(f"No checkpoint in {self.checkpoints} is whole; train again in another folder.")
        return None, []

    def whole(self, identity: str) -> list[Checkpoint]:
        """All checkpoints of run `identity` that are whole, newest first."""
        found = []
        for _, path in reversed(self.checkpoint_files()):
            with contextlib.suppress(_DamagedError):
                found.append(_read(path, identity))
        return found

    def drop_after(self, step: int) -> None:
        """Removes the checkpoints of later iterations."""
        self._remove([path for number, path in self.checkpoint_files() if number > step])

    def append(self, record: dict[str, Any]) -> None:
        """Adds a line to the metrics; on a full disk nothing of it stays."""
        rest = memoryview((json.dumps(record, allow_nan=False) + "\n").encode())
        with explained("write", self.metrics), self.metrics.open("ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(end)
                raise

    def cut_metrics(self, step: int) -> None:
        """Drops what was written after iteration `step`, and a line that a kill left unfinished."""
        if self.metrics.exists():
            kept = [json.dumps(record) + "\n" for record in read_metrics(self.path) if record["step"] <= step]
            write_bytes(self.metrics, "".join(kept).encode())

    def replace_model(self, save: Callable[[Path], None]) -> None:
        """Lets `save` write a model folder, which then takes the place of the one before.

        Its files belong together, so they are not replaced one by one.
        """
        fresh, old = self.path / ".model.new", self.path / ".model.old"
        with explained("write", self.model):
            shutil.rmtree(fresh, ignore_errors=True)
            try:
                save(fresh)
            except BaseException:
                shutil.rmtree(fresh, ignore_errors=True)
                raise
            if self.model.exists():
                self.model.rename(old)
            fresh.rename(self.model)
            sync_folder(self.path)
            shutil.rmtree(old, ignore_errors=True)

    def tidy(self) -> None:
        """Removes what a killed run left half done."""
        old = self.path / ".model.old"
        if old.exists() and not self.model.exists():
            old.rename(self.model)
        for name in (old, self.path / ".model.new"):
            shutil.rmtree(name, ignore_errors=True)
        self._remove([*self.path.glob(".*.part"), *self.checkpoints.glob(".*.part")])

    def _remove(self, paths: list[Path]) -> None:
        for path in paths:
            with explained("remove", path):
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[RunFolder]:
    """The run folder at `path`, made if need be, kept from other processes until the block ends."""
    if path.exists() and not path.is_dir():
        raise RunError(f"{path} is a file; choose a folder for the run.")
    with explained("create the folder", path):
        path.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with explained("write", path / ".lock"):
            handle = stack.enter_context((path / ".lock").open("w"))
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(
                    f"Another process trains in {path}; wait for it or choose another folder."
                ) from None
        folder = RunFolder(path)
        with explained("write", path):
            folder.tidy()
        yield folder


def write_config(path: Path, config: dict[str, Any]) -> None:
    """Makes `path` the folder of a run."""
    write_json(path / "config.json", config)


def holds_run(path: Path) -> bool:
    """Whether a run was ever started in a folder."""
    return (path / "config.json").exists() or bool(RunFolder(path).checkpoint_files())


def is_complete(path: Path) -> bool:
    """Whether the run in a folder has come to its end."""
    saved = RunFolder(path).checkpoint_files()
    known = (path / "config.json").exists() and read_config(path).get("recipe")
    return bool(saved) and isinstance(known, dict) and saved[-1][0] == known.get("steps")


def read_config(path: Path) -> dict[str, Any]:
    """What the run in a folder is."""
    if not holds_run(path):
        raise RunError(f"There is no run in {path} to resume; leave out --resume to start one.")
    try:
        config = json.loads(read_bytes(path / "config.json", limit=2**20))
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise RunError(
            f"{path / 'config.json'} does not describe a run of this version; train again in another folder."
        )
    return config


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Every whole line of the metrics of a run, oldest first."""
    metrics = path / "metrics.jsonl"
    records = []
    for line in read_bytes(metrics).splitlines(keepends=True) if metrics.exists() else []:
        # After a power cut the last line may be torn, or filled with zeros.
        with contextlib.suppress(ValueError):
            if line.endswith(b"\n"):
                records.append(json.loads(line))
    return records


def digest_of(tensors: Tensors) -> str:
    """A SHA-256 of arrays with their names, types and shapes."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"{name} {array.dtype} {array.shape};".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _read(path: Path, identity: str) -> Checkpoint:
    try:
        with explained("read", path), safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {})[_KEY])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 not a mapping
        whole = about["identity"] == identity and about["tensors_sha256"] == digest_of(tensors)
        step, seconds = int(about["step"]), float(about["seconds"])
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise _DamagedError from error
    if not whole:
        raise _DamagedError
    return Checkpoint(step, seconds, identity, tensors)
