"""Thinking about boards one trajectory each, with an early end where one is allowed."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Int32, UInt8

from .mind import Mind
from .stream import Look, Puzzles, Tasks, Tell, stream

LOOK_LATE = 500
"""Without a reason to stop early, this many steps are taken at a time, only to be able to tell progress."""

Verify = Callable[[UInt8[np.ndarray, "n h w"], UInt8[np.ndarray, "n h w"]], Bool[np.ndarray, " n"]]
"""Which grids (second) solve their puzzles (first) by the rules."""


@dataclass(frozen=True)
class Answers:
    """What `n` trajectories said when they stopped: grid, confidence of each cell, steps taken."""

    grid: UInt8[np.ndarray, "n h w"]
    cells: Float32[np.ndarray, "n h w"]
    steps: Int32[np.ndarray, " n"]


@dataclass(frozen=True)
class Patience:
    """When to stop early: an answer that `verify` accepts and that has not changed for `looks` looks."""

    verify: Verify
    every: int
    looks: int = 2


@dataclass(frozen=True)
class Rest:
    """When to stop early: no number of the board would change by more than `most` (see `Mind.unrest`)."""

    most: float = 1e-5
    every: int = 100


def look_at(steps: int, every: int) -> Int32[np.ndarray, " looks"]:
    """After every `every` steps and in the end."""
    return np.unique(np.append(np.arange(every, steps, every), steps)).astype(np.int32)


def think(
    mind: Mind,
    inputs: UInt8[np.ndarray, "n h w"],
    given: Bool[np.ndarray, "n h w"],
    seed: int,
    boards: Int32[np.ndarray, " n"],
    trials: Int32[np.ndarray, " n"],
    steps: int,
    until: Patience | Rest | None = None,
    tell: Tell | None = None,
) -> Answers:
    """Thinks `steps` steps about each board, or fewer if `until` allows it.

    A trajectory depends on (`seed`, `boards[i]`, `trials[i]`) alone, and so does the step at which it stops.
    `tell(trajectories, steps)` is called as work gets done: how many trajectories ended, and how many steps
    were taken of the `steps` of each trajectory, added up.
    """
    keeper = _Keeper(inputs, steps, until)
    tasks = Tasks(np.arange(len(inputs), dtype=np.int32), trials)
    stream(mind, Puzzles(inputs, given, boards), tasks, seed, keeper, tell)
    return Answers(keeper.grid, keeper.cells, keeper.steps)


class _Keeper:
    """Keeps the last word of every trajectory; there is one for each board."""

    def __init__(self, inputs: UInt8[np.ndarray, "n h w"], steps: int, until: Patience | Rest | None) -> None:
        self.inputs, self.until = inputs, until
        self.looks = look_at(steps, until.every if until else LOOK_LATE)
        self.rest, self.early = until.most if isinstance(until, Rest) else None, until is not None
        self.grid = np.full(inputs.shape, 255, np.uint8)
        self.cells = np.zeros(inputs.shape, np.float32)
        self.steps, self.same = np.full(len(inputs), steps, np.int32), np.zeros(len(inputs), int)

    def see(self, look: Look) -> Bool[np.ndarray, " k"]:
        """Ends what is at rest, or what the rules accept and has settled."""
        row = look.tasks.row
        self.same[row] = np.where((look.grid == self.grid[row]).all((1, 2)), self.same[row] + 1, 1)
        self.grid[row], self.cells[row], self.steps[row] = look.grid, look.cells, look.done
        if not isinstance(self.until, Patience):
            return look.rested
        finished = self.same[row] >= self.until.looks
        if finished.any():
            finished[finished] = self.until.verify(self.inputs[row[finished]], look.grid[finished])
        return finished

    def wanted(self, tasks: Tasks, done: Int32[np.ndarray, " k"]) -> Bool[np.ndarray, " k"]:
        """All of them."""
        return np.ones(len(done), bool)
