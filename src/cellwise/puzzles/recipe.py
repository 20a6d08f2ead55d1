"""The datasets that are made on this machine: what one may ask for, and how the boards come about."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ..errors import ConfigError
from .board import Boards
from .maze_generator import generate
from .sudoku_generator import generate_easy, generate_hard

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
    """Sudokus like sudoku-hard's: 17-clue puzzles in another guise with clues added. For testing only."""

    name: ClassVar[str] = "sudoku-hard-made"

    split: Literal["test"] = "test"
    """What the boards are for."""
    count: int = 1000
    """How many boards for each number of blanks."""
    seed: int = 0
    """Which boards."""
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
        base = load("sudoku-seventeen", "train")
        parts = [generate_hard(base, self.count, self.seed, empties) for empties in range(fewest, most + 1)]
        return Boards(
            np.concatenate([part.target for part in parts]),
            np.concatenate([part.given for part in parts]),
            np.concatenate([part.difficulty for part in parts]),
        )


Recipe = MazeOodMade | SudokuEasyMade | SudokuHardMade
