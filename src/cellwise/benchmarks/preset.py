"""What a benchmark consists of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32

from ..automaton.layout import Automaton
from ..model import Model, Pace, Puzzle
from ..puzzles.arc import Known
from ..puzzles.arc_pairs import Pairs
from ..puzzles.board import Boards
from ..puzzles.digits import Digits
from ..puzzles.visual_sudoku import VisualSet
from ..tasks.job import PairCheck, PairJob
from ..tasks.recipe import PairRecipe
from ..training.job import Check, Job
from ..training.recipe import Recipe
from ..visual.job import PictureCheck, PictureJob
from ..visual.recipe import PictureRecipe


@dataclass(frozen=True)
class Preset:
    """Something that can be trained: `cellwise train NAME`."""

    name: str
    about: str
    puzzle: Puzzle
    automaton: Automaton
    tokens: Float32[np.ndarray, "v k"]
    recipe: Recipe
    boards: Callable[[], tuple[Boards, dict[str, Any]]]
    """The training boards and where they come from."""
    checks: Callable[[], tuple[Check, ...]]
    """What is solved from time to time during training."""
    pace: Pace
    size: tuple[int, int] | None = None

    def job(self, recipe: Recipe, seed: int) -> Job:
        """This preset with its data at hand."""
        boards, provenance = self.boards()
        return Job(
            name=self.name,
            puzzle=self.puzzle,
            automaton=self.automaton,
            size=self.size,
            fixed={"layout.tokens": self.tokens},
            recipe=recipe,
            seed=seed,
            boards=boards,
            checks=self.checks(),
            provenance=provenance,
            pace=self.pace,
        )


@dataclass(frozen=True)
class PairPreset:
    """The same for many tasks that are learnt from pairs of grids."""

    name: str
    about: str
    puzzle: Puzzle
    automaton: Automaton
    tokens: Float32[np.ndarray, "v k"]
    recipe: PairRecipe
    pairs: Callable[[], tuple[Pairs, dict[str, Any]]]
    """The training pairs and where they come from."""
    checks: Callable[[], tuple[PairCheck, ...]]
    """What is answered from time to time during training."""

    def job(self, recipe: PairRecipe, seed: int) -> PairJob:
        """This preset with its data at hand."""
        pairs, provenance = self.pairs()
        return PairJob(
            name=self.name,
            automaton=self.automaton,
            fixed={"layout.tokens": self.tokens},
            recipe=recipe,
            seed=seed,
            pairs=pairs,
            checks=self.checks(),
            provenance=provenance,
        )


@dataclass(frozen=True)
class PicturePreset:
    """The same for pictures of Sudokus; the layout of the automaton says how large they are."""

    name: str
    about: str
    puzzle: Puzzle
    automaton: Automaton
    recipe: PictureRecipe
    data: Callable[[], tuple[VisualSet, Digits, dict[str, Any]]]
    """The training boards, the digits to draw them with, and where both come from."""
    checks: Callable[[], tuple[PictureCheck, ...]]
    """What is solved from time to time during training."""
    pace: Pace

    def job(self, recipe: PictureRecipe, seed: int, source: Model | None = None) -> PictureJob:
        """This preset with its data at hand; a run of it begins with the weights of `source`, if given."""
        boards, digits, provenance = self.data()
        return PictureJob(
            name=self.name,
            automaton=self.automaton,
            recipe=recipe,
            seed=seed,
            boards=boards,
            digits=digits,
            checks=self.checks(),
            provenance=provenance,
            pace=self.pace,
            source=source,
        )


@dataclass(frozen=True)
class TaskBenchmark:
    """Tasks that are learnt and answered, then compared with their answers: `cellwise eval NAME`."""

    name: str
    about: str
    known: Callable[[], list[Known]]
    """The tasks with their answers, by name."""


@dataclass(frozen=True)
class Case:
    """One row of a benchmark's table: boards and how long to think about them."""

    name: str
    steps: int
    count: int
    boards: Callable[[int], Boards]
    """The first so many test boards of the case."""
    source: str
    """Where they come from, for the result file."""
    grade: Callable[[np.ndarray], np.ndarray] | None = None
    """From the difficulty of boards to the grades by which accuracy is told apart."""


@dataclass(frozen=True)
class Benchmark:
    """Something that can be measured: `cellwise eval NAME`."""

    name: str
    about: str
    puzzle: Puzzle
    model: str
    cases: tuple[Case, ...]
    """What is measured unless told otherwise."""
    more: tuple[Case, ...] = ()
    """What is measured only if it is asked for."""
    sized: Callable[[int], Case] | None = None
    """The case for another board size, where there are any."""
