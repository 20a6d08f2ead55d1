"""The 51 guises of a task: turned, mirrored, its colours exchanged, and exactly undone again."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .arc import COLOURS, Grid, Pair, Task

Turn = Literal["none", "left", "right", "half", "up-down", "left-right"]

TURNS: dict[Turn, tuple[Callable[[Grid], Grid], Callable[[Grid], Grid]]] = {
    "none": (lambda grid: grid, lambda grid: grid),
    "left": (lambda grid: np.rot90(grid, 1), lambda grid: np.rot90(grid, 3)),
    "right": (lambda grid: np.rot90(grid, 3), lambda grid: np.rot90(grid, 1)),
    "half": (lambda grid: np.rot90(grid, 2), lambda grid: np.rot90(grid, 2)),
    "up-down": (np.flipud, np.flipud),
    "left-right": (np.fliplr, np.fliplr),
}
"""How a grid is turned, and back. Transposes are not among them, as in the paper."""

PERMUTATIONS = 10
"""Colourings of each turned guise; the first keeps all colours."""


@dataclass(frozen=True)
class Variant:
    """One guise: turned, then colour `c` becomes `colours[c]`, a bijection that keeps 0."""

    turn: Turn
    colours: tuple[int, ...]

    def apply(self, grid: Grid) -> Grid:
        """The grid in this guise."""
        return np.array(self.colours, np.uint8)[TURNS[self.turn][0](grid)]

    def undo(self, grid: Grid) -> Grid:
        """The grid of which this is the guise."""
        return TURNS[self.turn][1](np.argsort(self.colours).astype(np.uint8)[grid])

    def task(self, task: Task) -> Task:
        """A whole task in this guise."""
        demos = tuple(Pair(self.apply(demo.input), self.apply(demo.output)) for demo in task.demos)
        return Task(task.name, demos, tuple(self.apply(question) for question in task.questions))


ORIGINAL = Variant("none", tuple(range(COLOURS)))


def variants(name: str, seed: int = 0) -> tuple[Variant, ...]:
    """The original and ten colourings of each of five turned guises; the same for the same task and seed."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    found = [ORIGINAL]
    turns: tuple[Turn, ...] = ("left", "right", "half", "up-down", "left-right")
    for turn in turns:
        colourings = {ORIGINAL.colours: None}
        while len(colourings) < PERMUTATIONS:
            colourings[(0, *(int(colour) for colour in 1 + rng.permutation(COLOURS - 1)))] = None
        found += [Variant(turn, colours) for colours in colourings]
    return tuple(found)
