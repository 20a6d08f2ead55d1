"""What the studies of firing and of damage share: ways to fire, and when many mazes were right."""

from typing import Any

import numpy as np
from jaxtyping import Bool, UInt8

from ..automaton.firing import FRUGAL, PAPER, Firing
from ..model import Model
from ..thinking.follow import Course, continued, follow, joined, wiped
from ..thinking.mind import Mind, Thought, prepare
from .study import Row

POLICIES: dict[str, float | Firing] = {"uniform": 0.8, "paper's": PAPER, "frugal": FRUGAL}
TITLES = {"paper's": "the paper's adaptive firing", "frugal": "frugal firing"}
ENOUGH = 0.95
"""The paper's share of right answers."""
_POINTS = 60  # Of a curve, in a result file.


class Group:
    """Mazes that think side by side by one policy, from the beginning or on from where they are."""

    def __init__(self, model: Model, inputs: UInt8[np.ndarray, "b h w"], rate: float | Firing) -> None:
        self.given = model.given(inputs)
        self.mind: Mind = prepare(model.automaton, model.weights, self.given, rate, None)
        self.open: int = int((~self.given).sum())
        self.inputs, self.step = inputs, 0
        self.blocks = _blocks(self.mind, inputs)
        self.thoughts: list[Thought] = [
            self.mind.begin(inputs[rows], self.given[rows], 0, rows, np.zeros_like(rows))
            for rows in self.blocks
        ]

    def follow(self, target: UInt8[np.ndarray, "b h w"], looks: int, every: int) -> Course:
        """What happens in the next `looks` times `every` steps."""
        courses = []
        for number, rows in enumerate(self.blocks):
            thought, course = follow(
                self.mind, self.thoughts[number], self.given[rows], target[rows], self.step, looks, every
            )
            self.thoughts[number] = thought
            courses.append(course)
        self.step += looks * every
        return joined(courses)

    def until_right(self, target: UInt8[np.ndarray, "b h w"], steps: int, every: int) -> Course:
        """What happens until all mazes are right and stay so for some looks, or so many steps are over."""
        looks = max(1, steps // every // 20)
        course = self.follow(target, looks, every)
        while course.steps[-1] < steps and not course.solved[-looks:].all():
            course = continued(course, self.follow(target, looks, every))
        return course

    def hit(self, where: Bool[np.ndarray, "b h w"]) -> None:
        """Wipes cells of every maze."""
        self.thoughts = [
            wiped(self.mind, thought, self.given[rows], where[rows])
            for thought, rows in zip(self.thoughts, self.blocks, strict=True)
        ]


def _blocks(mind: Mind, inputs: UInt8[np.ndarray, "b h w"]) -> list[Any]:
    n = len(inputs)
    together = mind.boards_at_once(n, inputs.shape[1:])
    return [np.arange(at, min(at + together, n), dtype=np.int32) for at in range(0, n, together)]


def reached(course: Course, open_cells: int) -> Row:
    """After how many steps, and updates a maze, 95 % of the mazes were right, and 95 % of the open cells.

    Steps are counted from the beginning of the course. None if it did not come to that.
    """
    boards = course.solved.shape[1]
    shares = {"boards": course.solved.mean(1), "cells": course.right.sum(1) / open_cells}
    every = int(course.steps[1] - course.steps[0])
    begun = int(course.steps[0]) - every
    found: Row = {}
    for name, share in shares.items():
        at = np.flatnonzero(share >= ENOUGH)
        found[name] = None
        if len(at):
            found[name] = {
                "steps": int(course.steps[at[0]]) - begun,
                "updates": round(float(course.updates[at[0]].mean())),
                "updates_of_all": round(float(course.updates_of_all[at[0]].mean())),
            }
    return found | {"right_in_the_end": round(float(shares["boards"][-1]), 4), "mazes": boards}


def settled(course: Course) -> Row:
    """Of the mazes that end right, the mean of steps and updates until each was right for good."""
    every = int(course.steps[1] - course.steps[0])
    wrong_for = len(course.steps) - np.argmin(course.solved[::-1], axis=0)
    look = np.where(course.solved.all(0), 0, wrong_for)
    kept = np.flatnonzero(course.solved[-1])
    if not len(kept):
        return {"mazes": 0, "steps": None, "updates": None}
    return {
        "mazes": len(kept),
        "steps": round(float(every * (1 + look[kept]).mean()), 1),
        "updates": round(float(course.updates[look[kept], kept].mean()), 1),
    }


def curve(course: Course, open_cells: int) -> Row:
    """A course in few numbers: shares of right mazes and cells, updates of open cells a maze."""
    chosen = np.unique(np.linspace(0, len(course.steps) - 1, _POINTS).astype(int))
    return {
        "steps": course.steps[chosen].tolist(),
        "boards": np.round(course.solved[chosen].mean(1), 4).tolist(),
        "cells": np.round(course.right[chosen].sum(1) / open_cells, 5).tolist(),
        "updates": np.round(course.updates[chosen].mean(1)).astype(int).tolist(),
    }


def times(one: Row | None, other: Row | None, criterion: str, what: str) -> float | None:
    """How many times the steps or updates of `other` it took `one`; None if either did not get there."""
    if one is None or other is None or one[criterion] is None or other[criterion] is None:
        return None
    return one[criterion][what] / other[criterion][what]


def said(ratio: float | None) -> str | None:
    """A ratio in words."""
    return None if ratio is None else f"{ratio:.2f}×"
