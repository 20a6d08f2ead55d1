"""Looking for an answer that obeys the rules: trials in waves, and an end as soon as one of them has it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32, Int32, UInt8

from .mind import Mind
from .pruning import Pruning, tournament
from .stream import Effort, Look, Puzzles, Tasks, Tell, stream
from .think import Verify, look_at

WAVE = 16
"""So many trials think side by side; the next wave is for boards that they have not solved."""


@dataclass(frozen=True)
class Budget:
    """How long to go on: `trials` trials of `steps` steps for each board, and `seconds` for all together.

    `endless`: when all trials are spent, others begin until every board is solved or the time is over.
    """

    trials: int
    steps: int
    seconds: float | None = None
    endless: bool = False


@dataclass
class Found:
    """The best answer so far for each of `n` boards; `trial` gave it, after `steps` steps."""

    grid: UInt8[np.ndarray, "n h w"]
    cells: Float32[np.ndarray, "n h w"]
    confidence: Float32[np.ndarray, " n"]
    verified: Bool[np.ndarray, " n"]
    steps: Int32[np.ndarray, " n"]
    trial: Int32[np.ndarray, " n"]
    effort: Effort = field(default_factory=Effort)


def seek(
    mind: Mind,
    puzzles: Puzzles,
    verify: Verify,
    seed: int,
    budget: Budget,
    pruning: Pruning | None = None,
    tell: Tell | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Found:
    """Thinks about every board until an answer obeys the rules or the budget is spent.

    In a wave the answer that obeys the rules after the fewest steps counts, of several the one of the lowest
    trial; without any, the one whose cells are surest in the end. Only `budget.seconds` makes an answer
    depend on the machine.
    """
    seeker = _Seeker(puzzles, verify, budget, clock)
    wave = budget.trials if pruning else min(WAVE, budget.trials)
    first, patient = 0, True
    while patient:
        count = wave if budget.endless else min(wave, budget.trials - first)
        todo = np.flatnonzero(~seeker.found.verified).astype(np.int32)
        _wave(mind, seeker, todo, first, count, seed, pruning, tell)
        first += count
        over = first >= budget.trials and not budget.endless
        patient = not (over or seeker.found.verified.all() or seeker.late)
    unused = max(0, budget.trials * len(puzzles.inputs) * budget.steps - seeker.found.effort.asked)
    seeker.found.effort.asked += unused
    if tell is not None and unused:
        tell(unused // budget.steps, unused)
    return seeker.found


def _wave(
    mind: Mind,
    seeker: "_Seeker",
    todo: Int32[np.ndarray, " t"],
    first: int,
    count: int,
    seed: int,
    pruning: Pruning | None,
    tell: Tell | None,
) -> None:
    """Trials `first … first + count - 1` of the boards `todo`."""
    puzzles, found = seeker.puzzles, seeker.found
    if pruning is None:
        trials = np.arange(first, first + count, dtype=np.int32)
        tasks = Tasks(np.repeat(todo, count), np.tile(trials, len(todo)))
        seeker.looks = look_at(seeker.budget.steps, seeker.every)
        found.effort += stream(mind, puzzles, tasks, seed, seeker, tell)
        return
    some = Puzzles(puzzles.inputs[todo], puzzles.given[todo], puzzles.numbers[todo])
    ends = pruning.ends(seeker.budget.steps)
    seeker.looks = np.union1d(ends, look_at(seeker.budget.steps, seeker.every)).astype(np.int32)
    seeker.rows = todo
    found.effort += tournament(mind, some, count, seed, pruning, seeker, first, tell)
    seeker.rows = None


class _Seeker:
    """Watches for answers that obey the rules."""

    rest, early = None, True

    def __init__(self, puzzles: Puzzles, verify: Verify, budget: Budget, clock: Callable[[], float]) -> None:
        self.puzzles, self.verify, self.budget, self.clock = puzzles, verify, budget, clock
        self.every = max(16, budget.steps // 64)
        self.looks = look_at(budget.steps, self.every)
        self.rows: Int32[np.ndarray, " t"] | None = None
        self.began, self.late = clock(), False
        n = len(puzzles.inputs)
        self.found = Found(
            grid=puzzles.inputs.copy(),
            cells=np.zeros(puzzles.inputs.shape, np.float32),
            confidence=np.full(n, -np.inf, np.float32),
            verified=np.zeros(n, bool),
            steps=np.zeros(n, np.int32),
            trial=np.full(n, -1, np.int32),
        )

    def see(self, look: Look) -> Bool[np.ndarray, " k"]:
        """Takes an answer if it is better than what there is."""
        # Only here, so that nobody leaves whose answer was not taken.
        seconds = self.budget.seconds
        self.late = seconds is not None and self.clock() - self.began >= seconds
        row = self._rows_of(look.tasks)
        right = self.verify(self.puzzles.inputs[row], look.grid)
        last = (look.done == self.looks[-1]) | self.late
        sure, found = look.cells.mean((1, 2)), self.found
        for i in np.flatnonzero(right | last):
            board, step, trial = row[i], look.done[i], look.tasks.trial[i]
            if right[i]:
                there = (found.steps[board], found.trial[board])
                better = not found.verified[board] or (step, trial) < there
            else:
                surer = sure[i] > found.confidence[board]
                tied = sure[i] == found.confidence[board] and trial < found.trial[board]
                better = not found.verified[board] and (surer or tied)
            if better:
                found.grid[board], found.cells[board] = look.grid[i], look.cells[i]
                found.confidence[board] = sure[i]
                found.steps[board], found.trial[board], found.verified[board] = step, trial, right[i]
        return right

    def wanted(self, tasks: Tasks, done: Int32[np.ndarray, " k"]) -> Bool[np.ndarray, " k"]:
        """Who could still be the first to be right; nobody when the time is over."""
        if self.late:
            return np.zeros(len(done), bool)
        row = self._rows_of(tasks)
        return ~self.found.verified[row] | (done < self.found.steps[row])

    def _rows_of(self, tasks: Tasks) -> Int32[np.ndarray, " k"]:
        return tasks.row if self.rows is None else self.rows[tasks.row]
