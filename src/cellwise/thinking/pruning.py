"""Niche-capped pruning: many trials begin, the better half goes on, and no one answer may fill the places.

Thinking is cut into `segments`. After each but the last, the trials of a board that say the same are a niche;
only its `cap` surest members compete, and half of all trials go on.
"""

from dataclasses import dataclass
from typing import Literal

import jax
import numpy as np
from jaxtyping import Float32, Int32, Int64, UInt8

from ..errors import ConfigError
from .crowd import Crowd, sizes
from .mind import Mind
from .stream import Effort, Look, Puzzles, Tasks, Tell, Watcher, is_out_of_memory, say_halved

SEGMENTS = (1, 2, 4, 8)
"""Into how many segments thinking can be cut; 1 prunes nothing."""


@dataclass(frozen=True)
class Pruning:
    """How trials are pruned.

    `rule` says who goes on: the surest after the cap, as in the released code (`confidence`), or first the
    surest of every niche, then the second of every niche, and so on, as the paper has it (`niches`). With
    `shared` all trials of a board begin in the state of its first, as in the released code.
    """

    segments: int
    rule: Literal["confidence", "niches"] = "confidence"
    cap: int = 3
    shared: bool = False

    def check(self, trials: int, steps: int) -> None:
        """Raises ConfigError if there are too few trials or steps to cut so often."""
        if self.segments not in SEGMENTS:
            raise ConfigError(
                f"The pruning factor cannot be {self.segments}; "
                f"choose one of {', '.join(map(str, SEGMENTS))}."
            )
        fewest = 2 ** (self.segments - 1)
        if trials < fewest:
            raise ConfigError(
                f"Pruning by {self.segments} halves the trials {self.segments - 1} times and leaves none of "
                f"{trials}; choose at least {fewest} trials or a smaller pruning factor."
            )
        if self.segments > 1 and steps < self.segments:
            raise ConfigError(
                f"{steps} steps cannot be cut into {self.segments} segments; choose at least {self.segments} "
                "steps or a smaller pruning factor."
            )

    def ends(self, steps: int) -> Int32[np.ndarray, " segments"]:
        """After how many steps each segment ends; the last takes what cannot be divided."""
        return np.append(np.arange(1, self.segments) * (steps // self.segments), steps).astype(np.int32)

    def finalists(self, trials: int) -> int:
        """How many trials are left in the end."""
        for _ in range(self.segments - 1):
            trials = max(1, trials // 2)
        return trials


def survivors(
    grids: UInt8[np.ndarray, "s h w"],
    confidence: Float32[np.ndarray, " s"],
    rule: Literal["confidence", "niches"] = "confidence",
    cap: int = 3,
) -> Int64[np.ndarray, " half"]:
    """Which of one board's trials go on, best first; `confidence` is the mean of each trial's cells.

    Trials of equal standing keep their order. If fewer than half compete, capped ones fill the places, the
    earliest first.
    """
    trials = np.arange(len(grids))
    # The place in a sequence that goes through each niche from its surest member down.
    _, niche = np.unique(grids.reshape(len(grids), -1), axis=0, return_inverse=True)
    niche = niche.reshape(-1)
    order = np.lexsort((trials, -confidence, niche))
    begins = np.flatnonzero(np.diff(niche[order], prepend=-1))
    rank = np.empty(len(grids), int)
    rank[order] = trials - np.repeat(begins, np.diff(np.append(begins, len(grids))))
    capped = rank >= cap
    standing = np.where(capped, 0.0, -confidence)
    turn = rank if rule == "niches" else np.zeros(len(grids), int)
    best = np.lexsort((trials, standing, np.where(capped, 0, turn), capped))
    return best[: max(1, len(grids) // 2)]


def tournament(
    mind: Mind,
    puzzles: Puzzles,
    trials: int,
    seed: int,
    pruning: Pruning,
    watcher: Watcher,
    first_trial: int = 0,
    tell: Tell | None = None,
) -> Effort:
    """Thinks about every board with `trials` trials, numbered from `first_trial`, and prunes them on the way.

    `watcher.looks` must hold the ends of all segments. What ends a trajectory ends its whole board.
    """
    together, block = sizes(mind, len(puzzles.inputs) * trials, puzzles.size)
    boards = max(1, together // trials)
    effort, done = Effort(), 0
    while done < len(puzzles.inputs):
        try:
            crowd = Crowd(mind, puzzles.size, boards * trials, block)
            while done < len(puzzles.inputs):
                rows = np.arange(done, min(done + boards, len(puzzles.inputs)), dtype=np.int32)
                effort += _group(crowd, puzzles, rows, trials, seed, pruning, watcher, first_trial, tell)
                done += len(rows)
        except jax.errors.JaxRuntimeError as error:
            if not is_out_of_memory(error) or (boards == 1 and block == 1):
                raise
            boards, block = -(-boards // 2), -(-block // 2)
            say_halved(block)
    return effort


def _group(
    crowd: Crowd,
    puzzles: Puzzles,
    rows: Int32[np.ndarray, " n"],
    trials: int,
    seed: int,
    pruning: Pruning,
    watcher: Watcher,
    first_trial: int,
    tell: Tell | None,
) -> Effort:
    """A few boards with all their trials from the first step to the last."""
    numbers = np.arange(first_trial, first_trial + trials, dtype=np.int32)
    tasks = Tasks(np.repeat(rows, trials), np.tile(numbers, len(rows)))
    at = puzzles.inputs[tasks.row], puzzles.given[tasks.row], seed, puzzles.numbers[tasks.row]
    starts = np.full(len(tasks.row), first_trial, np.int32) if pruning.shared else tasks.trial
    crowd.begin(np.arange(len(tasks.row), dtype=np.int32), *at, tasks.trial, starts)
    looks = np.asarray(watcher.looks, np.int32)
    ends = set(pruning.ends(int(looks[-1])).tolist()[:-1])
    effort, before = Effort(asked=len(tasks.row) * int(looks[-1])), 0
    for look in looks.tolist():
        crowd.advance(np.full(len(tasks.row), before, np.int32), look - before)
        effort.taken += (look - before) * len(tasks.row)
        grid, cells = crowd.read(len(tasks.row))
        if tell is not None:
            tell(0, (look - before) * len(tasks.row))
        before = look
        steps, never = np.full(len(tasks.row), look, np.int32), np.zeros(len(tasks.row), bool)
        ended = watcher.see(Look(tasks, steps, grid, cells, never))
        ended |= ~watcher.wanted(tasks, steps)
        stay = np.flatnonzero(~np.isin(tasks.row, tasks.row[ended]))
        if look in ends:
            stay = _pruned(tasks, stay, grid, cells, pruning)
        if not len(stay):
            break
        if len(stay) < len(tasks.row):
            crowd.keep(stay.astype(np.int32))
            tasks = tasks[stay]
    if tell is not None:
        tell(len(rows) * trials, effort.saved)
    return effort


def _pruned(
    tasks: Tasks,
    stay: Int64[np.ndarray, " k"],
    grid: UInt8[np.ndarray, "n h w"],
    cells: Float32[np.ndarray, "n h w"],
    pruning: Pruning,
) -> Int64[np.ndarray, " kept"]:
    """The better half of every board's trials among `stay`, in their old order."""
    kept = []
    for row in np.unique(tasks.row[stay]):
        own = stay[tasks.row[stay] == row]
        confidence = cells[own].mean((1, 2))
        kept.append(np.sort(own[survivors(grid[own], confidence, pruning.rule, pruning.cap)]))
    return np.concatenate(kept) if kept else stay[:0]
