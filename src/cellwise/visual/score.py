"""Measuring who solves drawn boards: read by the nearest mean digit, judged by the solution and by the rules.

Whatever thinks is only a function from pictures to pictures here. Every board is drawn and thought about by
its own number, so neither batches nor an interruption change what comes out.
"""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int32

from ..files import explained
from ..puzzles.digits import Digits
from ..puzzles.visual_sudoku import VisualSet, audit, distances, draw
from ..thinking import outcomes as kept
from ..thinking.outcomes import Outcomes
from .painter import Think

SAVE_EVERY = 30.0
"""Seconds between two writes of unfinished outcomes."""

MARKS = ("right", "verified", "rows", "columns", "boxes", "clues")
"""What is said of an answer: it is the solution, it obeys all rules, it obeys each of them."""


@dataclass(frozen=True)
class Exam:
    """Boards with what they are drawn with, and after how many steps their answers are judged.

    `seed` is that of the drawing; `prototypes` are what answers are read with.
    """

    boards: VisualSet
    digits: Digits
    prototypes: Float32[np.ndarray, "v s s"]
    looks: tuple[int, ...]
    seed: int = 0

    def images(self, numbers: Int32[np.ndarray, " n"]) -> Float32[np.ndarray, "n side side"]:
        """The boards of these numbers as they are handed over."""
        return np.concatenate(
            [
                draw(self.boards.puzzles[n : n + 1], self._table, np.random.default_rng([self.seed, n]))
                for n in numbers.tolist()
            ]
        )

    @cached_property
    def _table(self) -> Float32[np.ndarray, "v m s s"]:
        return self.digits.by_class(self.boards.cells)


def looks_until(steps: int) -> tuple[int, ...]:
    """After how many steps to look, unless told otherwise: each half of the one before, and each eighth."""
    halves = {depth for i in range(12) if (depth := steps >> i) >= 16}
    return tuple(sorted(halves | {steps * i // 8 for i in range(1, 9) if steps * i // 8 >= 16} | {steps}))


def take(
    exam: Exam,
    think: Think,
    numbers: Int32[np.ndarray, " n"],
    at_once: int,
    keep: Path | None = None,
    identity: dict[str, Any] | None = None,
    tell: Callable[[int, int], None] = lambda boards, steps: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> tuple[Outcomes, float]:
    """What became of the boards `numbers`, and how many seconds that took.

    `tell(boards, steps)` is called as work gets done. With `keep`, the outcomes are written there, from time
    to time while they are measured, and what an interrupted run has left there is not measured again as
    long as `identity` is the same.
    """
    looks = np.array(exam.looks, np.int32)
    size = (exam.boards.cells, exam.boards.cells)
    found, before = Outcomes.empty(numbers[:0], 1, looks, size, MARKS), 0.0
    partial = None if keep is None else keep.with_name(f"{keep.stem}.partial.npz")
    if partial is not None and partial.exists():
        found, before = _left(partial, identity or {}, (found, before), say)
        tell(len(found), len(found) * exam.looks[-1])
    todo = numbers[~np.isin(numbers, found.boards)]
    began = written = time.perf_counter()
    for first in range(0, len(todo), at_once):
        found = found.joined(_some(exam, think, todo[first : first + at_once], tell))
        now = time.perf_counter()
        if partial is not None and now - written > SAVE_EVERY and len(found) < len(numbers):
            kept.save(partial, found, {**(identity or {}), "seconds": before + now - began})
            written = now
    found, seconds = found.in_order(), before + time.perf_counter() - began
    if keep is not None and partial is not None:
        kept.save(keep, found, {**(identity or {}), "seconds": seconds})
        with explained("remove", partial):
            partial.unlink(missing_ok=True)
    return found, seconds


def _some(
    exam: Exam, think: Think, numbers: Int32[np.ndarray, " n"], tell: Callable[[int, int], None]
) -> Outcomes:
    """The outcomes of boards that are thought about together."""
    boards, looks = exam.boards[numbers], np.array(exam.looks, np.int32)
    part = Outcomes.empty(numbers, 1, looks, (boards.cells, boards.cells), MARKS)
    before = 0
    for at, image in enumerate(think(exam.images(numbers), numbers, exam.looks)):
        gaps = distances(image, exam.prototypes)
        answer = gaps.argmin(-1).astype(np.uint8)
        verdict = audit(answer, boards.puzzles)
        right = (answer == boards.solutions).all((1, 2))
        said = {"right": right, "verified": verdict.all, **dataclasses.asdict(verdict)}
        for name in MARKS:
            part.marks[name][:, 0, at] = said[name]
        part.confidence[:, 0, at] = (1 / (1 + np.sqrt(np.maximum(gaps.min(-1), 0)))).mean((1, 2))
        part.settled[:, 0] = np.where(
            right, np.where(part.settled[:, 0] < 0, looks[at], part.settled[:, 0]), -1
        )
        part.answer[:] = answer
        tell(len(numbers) if at == len(looks) - 1 else 0, len(numbers) * int(looks[at] - before))
        before = looks[at]
    part.steps[:] = looks[-1]
    return part


def _left(
    partial: Path,
    identity: dict[str, Any],
    nothing: tuple[Outcomes, float],
    say: Callable[[str], None],
) -> tuple[Outcomes, float]:
    """What an interrupted run of this kind has left, or `nothing`."""
    found, about = kept.load(partial)
    seconds = about.pop("seconds", 0.0)
    if about != identity:
        say(f"{partial} is of another evaluation and is written anew")
        return nothing
    say(f"{len(found):,} boards were measured before")
    return found, seconds


def curve(outcomes: Outcomes) -> list[dict[str, Any]]:
    """The share of boards with each mark at every look."""
    return [
        {"steps": int(look)}
        | {name: round(float(mark[:, 0, at].mean()), 6) for name, mark in outcomes.marks.items()}
        for at, look in enumerate(outcomes.depths)
    ]


def clues_read(exam: Exam, numbers: Int32[np.ndarray, " n"]) -> float:
    """How many clues the nearest mean digit tells without any thinking, as a share."""
    puzzles = exam.boards.puzzles[numbers]
    read = distances(exam.images(numbers), exam.prototypes).argmin(-1)
    return float((read == puzzles)[puzzles > 0].mean())
