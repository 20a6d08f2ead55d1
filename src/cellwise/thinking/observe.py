"""The watcher of an evaluation: judges every answer at chosen depths and lets nothing else decide."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float32, Int32, Int64, Shaped, UInt8

from .outcomes import Outcomes
from .stream import Look, Tasks

Judge = Callable[[Int32[np.ndarray, " k"], UInt8[np.ndarray, "k h w"]], dict[str, Bool[np.ndarray, " k"]]]
"""The marks of answers, `right`, `verified` and others, given the row of each board and its grid."""


class Observer:
    """Fills `outcomes`, whose boards are `rows` of the puzzles."""

    def __init__(
        self,
        outcomes: Outcomes,
        rows: Int32[np.ndarray, " n"],
        judge: Judge,
        steps: int,
        every: int | None = None,
        rest: float | None = None,
        until_verified: bool = False,
    ) -> None:
        """`every` adds looks between the depths, for `rest` or `until_verified` to act upon."""
        self.outcomes, self.judge, self.rest, self.until_verified = outcomes, judge, rest, until_verified
        self.early = rest is not None or until_verified
        more = np.arange(every, steps, every) if every else np.zeros(0, int)
        self.looks = np.union1d(outcomes.depths, more).astype(np.int32)
        self.place = np.full(int(rows.max()) + 1, -1, np.int32)
        self.place[rows] = np.arange(len(rows))
        self.best = np.full(len(rows), -np.inf, np.float32)
        self.best_trial = np.zeros(len(rows), np.int32)
        self.solved = np.full(len(rows), steps + 1, np.int32)

    def see(self, look: Look) -> Bool[np.ndarray, " k"]:
        """Writes down what was said; true for what is at rest, or verified if that is the end."""
        at, trial, sure = self.place[look.tasks.row], look.tasks.trial, look.cells.mean((1, 2))
        marks, found = self.judge(look.tasks.row, look.grid), self.outcomes
        was_right = found.settled[at, trial] >= 0
        began = np.where(was_right, found.settled[at, trial], look.done)
        found.settled[at, trial] = np.where(marks["right"], began, -1)
        found.steps[at, trial] = look.done
        ended = marks["verified"] if self.until_verified else look.rested
        for depth, steps in enumerate(found.depths):
            # What ends here would have said the same later.
            here = (look.done == steps) | (ended & (look.done < steps))
            found.confidence[at[here], trial[here], depth] = sure[here]
            for name, mark in marks.items():
                found.marks[name][at[here], trial[here], depth] = mark[here]
        final = ended | (look.done == self.looks[-1])
        self._answer(at, trial, sure, marks["verified"], look, final)
        return ended

    def wanted(self, tasks: Tasks, done: Int32[np.ndarray, " k"]) -> Bool[np.ndarray, " k"]:
        """Everybody to the end, but for boards that were solved after fewer steps."""
        return done < self.solved[self.place[tasks.row]]

    def _answer(
        self,
        at: Int32[np.ndarray, " k"],
        trial: Int32[np.ndarray, " k"],
        sure: Float32[np.ndarray, " k"],
        verified: Bool[np.ndarray, " k"],
        look: Look,
        final: Bool[np.ndarray, " k"],
    ) -> None:
        """Keeps the surest of the final answers, or the first to be verified if that is what counts."""
        if self.until_verified:
            first = _first_of_each(at, (look.done, trial), final & verified)
            before = (self.solved[at[first]], self.best_trial[at[first]])
            done, number = look.done[first], trial[first]
            sooner = (done < before[0]) | ((done == before[0]) & (number < before[1]))
            self._take(at, trial, sure, look, first[sooner])
            self.solved[at[first[sooner]]] = done[sooner]
            final = final & (self.solved[at] > self.looks[-1])
        first = _first_of_each(at, (-sure, trial), final)
        best, number = self.best[at[first]], self.best_trial[at[first]]
        surer = (sure[first] > best) | ((sure[first] == best) & (trial[first] < number))
        self._take(at, trial, sure, look, first[surer])

    def _take(
        self,
        at: Int32[np.ndarray, " k"],
        trial: Int32[np.ndarray, " k"],
        sure: Float32[np.ndarray, " k"],
        look: Look,
        chosen: Int64[np.ndarray, " few"],
    ) -> None:
        self.outcomes.answer[at[chosen]] = look.grid[chosen]
        self.best[at[chosen]], self.best_trial[at[chosen]] = sure[chosen], trial[chosen]


def _first_of_each(
    at: Int32[np.ndarray, " k"],
    order: tuple[Shaped[np.ndarray, " k"], ...],
    among: Bool[np.ndarray, " k"],
) -> Int64[np.ndarray, " few"]:
    """For every board `at`, where the one `among` its answers stands that comes first in an order."""
    chosen = np.flatnonzero(among)
    ranked = chosen[np.lexsort((*(key[chosen] for key in reversed(order)), at[chosen]))]
    return ranked[np.flatnonzero(np.diff(at[ranked], prepend=-1))]
