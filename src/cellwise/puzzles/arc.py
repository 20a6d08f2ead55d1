"""ARC tasks: what a few pairs of grids show, to be done to other grids; read from JSON, trusting nothing.

A `Task` holds no answers: whoever solves it cannot look. Those that a file has are returned beside it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

from ..errors import PuzzleError
from ..files import explained, read_bytes

COLOURS = 10
MAX_SIDE = 30
MOST_PAIRS = 1000
"""The most demonstrations or questions of one task; honest ones have at most ten."""
_MAX_BYTES = 2**24

Grid = UInt8[np.ndarray, "_ _"]


class Pair(NamedTuple):
    """A grid and what becomes of it."""

    input: Grid
    output: Grid


@dataclass(frozen=True)
class Task:
    """What there is to learn from, and the grids to which it is to be done."""

    name: str
    demos: tuple[Pair, ...]
    questions: tuple[Grid, ...]


class Known(NamedTuple):
    """A task and its answers, None for each that the file leaves out."""

    task: Task
    answers: tuple[Grid | None, ...]


def read_tasks(path: str | Path) -> list[Known]:
    """The tasks of a JSON file, or of all JSON files in a folder, by name."""
    path = Path(path)
    with explained("read", path):
        is_folder = path.is_dir()
        files = sorted(path.glob("*.json")) if is_folder else [path]
    if not files:
        raise PuzzleError(f"{path} holds no JSON file; name a task file or a folder of task files.")
    known = [one for file in files for one in parse_tasks(read_bytes(file, _MAX_BYTES), file.stem, str(file))]
    names = [one.task.name for one in known]
    for name in names:
        if names.count(name) > 1:
            raise PuzzleError(f"{path} holds two tasks named {name}; rename one of them.")
    return known


def parse_tasks(text: str | bytes, name: str, where: str | None = None) -> list[Known]:
    """The tasks in a JSON text: one task called `name`, or an object with several by their names."""
    where = where or name
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise PuzzleError(f"{where} is not valid JSON; save the task as JSON.") from None
    if not isinstance(value, dict) or not value:
        raise PuzzleError(f'{where} must be a JSON object such as {{"train": [...], "test": [...]}}.')
    if "train" in value or "test" in value:
        return [parse_task(value, name, where)]
    return [parse_task(one, str(key)[:40], f"{where}, task {str(key)[:40]}") for key, one in value.items()]


def parse_task(value: Any, name: str, where: str | None = None) -> Known:
    """One task from its JSON object; what it has besides `train` and `test` is ignored."""
    where = where or name
    if not isinstance(value, dict):
        raise PuzzleError(f'{where} must be a JSON object such as {{"train": [...], "test": [...]}}.')
    demos = tuple(
        Pair(
            _grid(pair, "input", f"{where}, demonstration {number},"),
            _grid(pair, "output", f"{where}, demonstration {number},"),
        )
        for number, pair in _pairs(value, "train", where)
    )
    asked = list(_pairs(value, "test", where))
    if not demos:
        raise PuzzleError(f"{where} has no demonstrations to learn from; add at least one pair to `train`.")
    if not asked:
        raise PuzzleError(f"{where} asks nothing; add at least one input to `test`.")
    questions = tuple(_grid(pair, "input", f"{where}, test {number},") for number, pair in asked)
    answers = tuple(
        _grid(pair, "output", f"{where}, test {number},") if pair.get("output") is not None else None
        for number, pair in asked
    )
    return Known(Task(name, demos, questions), answers)


def _pairs(value: dict[str, Any], part: str, where: str) -> Iterator[tuple[int, dict[str, Any]]]:
    pairs = value.get(part, [])
    if not isinstance(pairs, list) or not all(isinstance(pair, dict) for pair in pairs):
        raise PuzzleError(f'{where} needs `{part}` to be a list of objects like {{"input": [[0]]}}.')
    if len(pairs) > MOST_PAIRS:
        raise PuzzleError(f"{where} has {len(pairs):,} pairs in `{part}`; keep at most {MOST_PAIRS:,}.")
    return enumerate(pairs, 1)


def _grid(pair: dict[str, Any], part: str, where: str) -> Grid:
    rows = pair.get(part)
    what = f"{where} {part}"
    if rows is None:
        raise PuzzleError(f"{what} is missing; give it as a list of rows.")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) for row in rows):
        raise PuzzleError(f"{what} must be a list of rows, such as [[0, 1], [2, 3]].")
    if any(len(row) != len(rows[0]) for row in rows):
        raise PuzzleError(f"{what} has rows of unequal length; make all rows equally long.")
    height, width = len(rows), len(rows[0])
    if not 1 <= height <= MAX_SIDE or not 1 <= width <= MAX_SIDE:
        raise PuzzleError(f"{what} has {height} x {width} cells; a grid has 1 to {MAX_SIDE} cells a side.")
    for cell in (cell for row in rows for cell in row):
        if not isinstance(cell, int) or isinstance(cell, bool) or not 0 <= cell < COLOURS:
            raise PuzzleError(
                f"{what} has the colour {str(cell)[:20]!r}; use whole numbers from 0 to {COLOURS - 1}."
            )
    return np.array(rows, np.uint8)


def to_json(task: Task, answers: tuple[Grid | None, ...] | None = None) -> dict[str, Any]:
    """The task as its JSON object; without `answers` it holds only the questions."""
    test: list[dict[str, Any]] = [{"input": question.tolist()} for question in task.questions]
    for pair, answer in zip(test, answers or (), strict=bool(answers)):
        if answer is not None:
            pair["output"] = answer.tolist()
    return {
        "train": [{"input": demo.input.tolist(), "output": demo.output.tolist()} for demo in task.demos],
        "test": test,
    }
