"""What guesses are worth, once the answers are looked at."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import PuzzleError
from ..puzzles.arc import Known
from ..puzzles.arc_vote import Guess, count, rank, scores

ATTEMPTS = (1, 2, 64)
"""How many different answers may be given; two by the rules of ARC."""

Guesses = Mapping[str, Sequence[Sequence[Guess]]]


def score(known: Sequence[Known], guesses: Guesses, rollouts: int | None = None) -> dict[str, Any]:
    """The scores of some tasks by the first `rollouts` guesses for each question, or by all.

    A task or question without guesses counts as not solved. `invalid` is the share of guesses that showed no
    grid, `tied` how often confidence decided who came second.
    """
    ranks: dict[str, list[int | None]] = {}
    total = invalid = tied = questions = 0
    for task, answers in known:
        if any(answer is None for answer in answers):
            raise PuzzleError(f"{task.name} has no answers to score by; get the task with its answers.")
        mine = guesses.get(task.name, ())
        places: list[int | None] = []
        for number, answer in enumerate(answers):
            assert answer is not None
            ballot = count(mine[number][:rollouts] if number < len(mine) else ())
            places.append(rank(ballot, answer))
            total, invalid, tied = total + ballot.votes, invalid + ballot.invalid, tied + ballot.tied
            questions += 1
        ranks[task.name] = places
    row: dict[str, Any] = {
        "rollouts": rollouts,
        "tasks": len(ranks),
        "guessed": len(guesses.keys() & ranks.keys()),
    }
    for attempts in ATTEMPTS:
        row[f"pass@{attempts}"] = scores(ranks, attempts)
    return row | {"invalid": invalid / max(total, 1), "tied": tied / max(questions, 1), "ranks": ranks}


def pooled(several: Sequence[Guesses]) -> dict[str, list[list[Guess]]]:
    """The guesses of an ensemble, one after the other."""
    names = dict.fromkeys(name for guesses in several for name in guesses)
    return {
        name: [
            [guess for parts in questions for guess in parts]
            for questions in zip(*(guesses[name] for guesses in several if name in guesses), strict=True)
        ]
        for name in names
    }


def curve(known: Sequence[Known], guesses: Guesses) -> list[dict[str, Any]]:
    """The scores for ever more guesses, doubled each time: all guises once, then all once more."""
    most = max((len(one) for questions in guesses.values() for one in questions), default=0)
    steps, rollouts = [], 1
    while rollouts < most:
        steps.append(rollouts)
        rollouts *= 2
    rows = [score(known, guesses, step) for step in [*steps, most]]
    return [{name: value for name, value in row.items() if name != "ranks"} for row in rows]
