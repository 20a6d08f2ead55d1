"""Many guesses at one answer become a few: the grids that were given most often; and what they are worth."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .arc import Grid


class Guess(NamedTuple):
    """What one rollout answered, None if it showed no grid, and how sure its cells were."""

    grid: Grid | None
    confidence: float


class Candidate(NamedTuple):
    """One grid with the number of rollouts that gave it and their mean confidence."""

    grid: Grid
    votes: int
    confidence: float


@dataclass(frozen=True)
class Ballot:
    """All different grids, the most frequent first; `invalid` rollouts showed none.

    `tied` says whether the second attempt had as many votes as the next, so that confidence decided.
    """

    candidates: tuple[Candidate, ...]
    invalid: int
    tied: bool

    @property
    def votes(self) -> int:
        """How many rollouts there were."""
        return self.invalid + sum(candidate.votes for candidate in self.candidates)


def count(guesses: Iterable[Guess]) -> Ballot:
    """The ballot of some guesses: by votes, then by mean confidence, then in the order they came."""
    found: dict[tuple[tuple[int, ...], bytes], tuple[Grid, list[float]]] = {}
    invalid = 0
    for grid, confidence in guesses:
        if grid is None:
            invalid += 1
        else:
            found.setdefault((grid.shape, grid.tobytes()), (grid, []))[1].append(confidence)
    candidates = [Candidate(grid, len(sure), float(np.mean(sure))) for grid, sure in found.values()]
    candidates.sort(key=lambda one: (-one.votes, -one.confidence))
    votes = [one.votes for one in candidates]
    return Ballot(tuple(candidates), invalid, len(votes) > 2 and votes[1] == votes[2])


def rank(ballot: Ballot, answer: Grid) -> int | None:
    """The place of the right answer on the ballot, from 1; None if nobody gave it."""
    for place, candidate in enumerate(ballot.candidates, 1):
        if np.array_equal(candidate.grid, answer):
            return place
    return None


Ranks = Mapping[str, Sequence[int | None]]
"""For each task the rank of the right answer to each of its tests."""


def scores(ranks: Ranks, attempts: int) -> dict[str, float]:
    """The three scores of some tasks if each test may be answered `attempts` times.

    `tests`, the one to quote, is the mean over tasks of the share of their tests that are solved; `all`
    counts tasks with every test solved, `first` those with the first test solved.
    """
    solved = [[place is not None and place <= attempts for place in places] for places in ranks.values()]
    return {
        "tests": float(np.mean([np.mean(one) for one in solved])),
        "all": float(np.mean([all(one) for one in solved])),
        "first": float(np.mean([one[0] for one in solved])),
    }
