"""The datasets that are made on this machine: what one may ask for, and how the boards come about."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ..errors import ConfigError
from .board import Boards
from .equivalence import fingerprints
from .maze_generator import generate
from .maze_scattered import HARD_DISTANCE, generate_scattered
from .sudoku_generator import generate_easy, generate_hard

_TRAINED = (("sudoku-extreme-pool", "train"), ("sudoku-extreme-pool", "eval"))
Load = Callable[[str, str], Boards]


@dataclass(frozen=True)
class MazeOodMade:
    """Mazes like Maze-OOD's, of any size."""

    name: ClassVar[str] = "maze-ood-made"

    split: Literal["train", "eval", "test"] = "train"
    """What the mazes are for; only `train` may be learned from."""
    size: int = 9
    """Nominal size, odd; the grid has two cells more a side."""
    count: int = 10_000
    """How many mazes."""
    seed: int = 0
    """Which mazes; another split needs another seed."""
    braid: float = 0.0
    """Share of dead ends that get a second door, which makes loops."""
    endpoints: Literal["rooms", "dead-ends"] = "rooms"
    """Where start and goal may lie."""

    @property
    def file(self) -> str:
        """The file these mazes are stored in."""
        return f"{self.split}-{self.size}.npz"

    def boards(self, load: Load) -> Boards:
        """Makes the mazes."""
        return generate(self.size, self.count, self.seed, braid=self.braid, endpoints=self.endpoints)


@dataclass(frozen=True)
class MazeHardMade:
    """Mazes like Maze-Hard's: scattered walls, ends far apart; forty a second."""

    name: ClassVar[str] = "maze-hard-made"

    split: Literal["train", "eval", "test"] = "train"
    """What the mazes are for; only `train` may be learned from."""
    count: int = 10_000
    """How many mazes."""
    seed: int = 0
    """Which mazes; another split needs another seed."""
    least: int = HARD_DISTANCE
    """The fewest steps from start to goal."""

    @property
    def file(self) -> str:
        """The file these mazes are stored in."""
        return f"{self.split}.npz"

    def boards(self, load: Load) -> Boards:
        """Makes the mazes."""
        return generate_scattered(self.count, self.seed, least=self.least)


@dataclass(frozen=True)
class SudokuEasyMade:
    """Sudokus like sudoku-easy's: random grids with clues dug out."""

    name: ClassVar[str] = "sudoku-easy-made"

    split: Literal["train", "eval", "test"] = "train"
    """What the boards are for; only `train` may be learned from."""
    count: int = 9000
    """How many boards."""
    seed: int = 0
    """Which boards; another split needs another seed."""
    givens: tuple[int, int] = (31, 42)
    """The fewest and the most clues."""

    @property
    def file(self) -> str:
        """The file these boards are stored in."""
        return f"{self.split}.npz"

    def boards(self, load: Load) -> Boards:
        """Makes the boards."""
        return generate_easy(self.count, self.seed, self.givens)


@dataclass(frozen=True)
class SudokuHardMade:
    """Sudokus like sudoku-hard's: 17-clue puzzles in another guise with clues added. Never for training.

    Half of the 17-clue puzzles are for testing and half for choosing between models (`eval`); those that
    sudoku-extreme-pool holds as well are left out.
    """

    name: ClassVar[str] = "sudoku-hard-made"

    split: Literal["eval", "test"] = "test"
    """What the boards are for."""
    count: int = 100
    """How many boards for each number of blanks."""
    seed: int = 0
    """Which boards; another split needs another seed."""
    empties: tuple[int, int] = (47, 64)
    """The fewest and the most blanks."""

    @property
    def file(self) -> str:
        """The file these boards are stored in."""
        return f"{self.split}.npz"

    def boards(self, load: Load) -> Boards:
        """Makes the boards, fewest blanks first, out of the dataset sudoku-seventeen."""
        fewest, most = self.empties
        if fewest > most:
            raise ConfigError(
                f"There is no number of blanks from {fewest} to {most}; put the lower one first."
            )
        base = self.base(load)
        parts = [generate_hard(base, self.count, self.seed, empties) for empties in range(fewest, most + 1)]
        return Boards(
            np.concatenate([part.target for part in parts]),
            np.concatenate([part.given for part in parts]),
            np.concatenate([part.difficulty for part in parts]),
        )

    def base(self, load: Load) -> Boards:
        """The 17-clue puzzles that the boards of this split grow from."""
        puzzles = load("sudoku-seventeen", "train")
        order = np.random.RandomState(0).permutation(len(puzzles))
        half = len(order) // 2
        mine = puzzles[order[:half] if self.split == "test" else order[half:]]
        trained = np.concatenate([fingerprints(load(name, split), sudoku=True) for name, split in _TRAINED])
        return mine[~np.isin(fingerprints(mine, sudoku=True), trained)]


Recipe = MazeOodMade | MazeHardMade | SudokuEasyMade | SudokuHardMade
