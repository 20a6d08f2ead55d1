"""What is measured: rules, tasks and sizes, for a GPU, for a CPU, and in little."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..benchmarks.preset import Preset
from ..puzzles import maze
from ..puzzles.board import Boards
from ..puzzles.maze_generator import generate

Task = Literal["forward", "gradient", "training"]
"""Steps alone; loss and gradient through steps, as training computes them; whole iterations of training."""


@dataclass(frozen=True)
class Workload:
    """One task on boards of one kind.

    `size` is the nominal size of mazes. On `open` boards nothing is frozen. A gradient is taken of `together`
    boards at a time. Training has the batch and the steps of the preset's recipe.
    """

    preset: str
    task: Task
    boards: int = 0
    steps: int = 0
    size: int | None = None
    open: bool = False
    together: int = 0

    @property
    def about(self) -> str:
        """The boards in words."""
        if self.open:
            return "nothing frozen"
        return "Sudokus" if self.preset.startswith("sudoku") else f"mazes of size {self.size}"


GPU = (
    Workload("sudoku-ood", "training"),
    Workload("sudoku-extreme", "forward", boards=4096, steps=16),
    Workload("sudoku-extreme", "training"),
    Workload("sudoku-ood", "forward", boards=4096, steps=16),
    Workload("maze-ood", "training", size=9),
    Workload("maze-ood", "forward", boards=20, steps=200, size=201),
    Workload("maze-hard-astar", "training", size=30),
    Workload("maze-hard-astar", "forward", boards=256, steps=50, size=30),
    Workload("sudoku-extreme", "forward", boards=512, steps=256),
)
"""The sizes that matter on a GPU, most telling first; the last is one board thought about 512 times."""

CPU = (
    Workload("maze-ood", "forward", boards=64, steps=40, size=59, open=True),
    Workload("maze-ood", "forward", boards=64, steps=40, size=59),
    Workload("maze-ood", "gradient", boards=8, steps=50, size=59, open=True, together=1),
    Workload("maze-ood", "gradient", boards=8, steps=50, size=59, together=1),
    Workload("maze-hard-astar", "forward", boards=64, steps=10, size=30),
    Workload("maze-hard-astar", "gradient", boards=8, steps=10, size=30, together=1),
    Workload("sudoku-ood", "forward", boards=64, steps=16),
    Workload("sudoku-ood", "gradient", boards=16, steps=16, together=8),
    Workload("sudoku-extreme", "forward", boards=64, steps=8),
    Workload("sudoku-extreme", "forward", boards=1, steps=64),
    Workload("sudoku-extreme", "gradient", boards=8, steps=8, together=8),
)

QUICK = (
    Workload("maze-ood", "forward", boards=4, steps=3, size=9, open=True),
    Workload("maze-ood", "forward", boards=4, steps=3, size=9),
    Workload("maze-ood", "gradient", boards=2, steps=3, size=9, open=True, together=1),
    Workload("maze-ood", "gradient", boards=2, steps=3, size=9, together=1),
    Workload("maze-hard-astar", "forward", boards=2, steps=3, size=30),
    Workload("sudoku-ood", "forward", boards=2, steps=3),
    Workload("sudoku-ood", "gradient", boards=2, steps=3, together=2),
    Workload("sudoku-extreme", "forward", boards=2, steps=3),
)
"""Seconds of work that prove only that everything runs."""


def made(workload: Workload, preset: Preset, count: int) -> Boards:
    """Boards of the right kind; only how many cells are given matters to speed."""
    if workload.preset == "maze-ood":
        assert workload.size is not None
        boards = generate(workload.size, count, seed=0)
    elif preset.puzzle == "sudoku":
        boards = _random(np.random.default_rng(0), (count, 9, 9), first=1, last=9, given=0.3)
    else:
        assert workload.size is not None
        boards = _walls(np.random.default_rng(0), (count, workload.size, workload.size))
    given = np.zeros_like(boards.given) if workload.open else boards.given
    return Boards(boards.target, given, boards.difficulty)


def _random(
    rng: np.random.Generator, shape: tuple[int, int, int], first: int, last: int, given: float
) -> Boards:
    target = rng.integers(first, last + 1, shape).astype(np.uint8)
    return Boards(target, rng.random(shape) < given, np.zeros(len(target), np.int32))


def _walls(rng: np.random.Generator, shape: tuple[int, int, int]) -> Boards:
    """As many walls as the published mazes of size 30 have."""
    target = np.where(rng.random(shape) < 0.37, maze.WALL, maze.PATH).astype(np.uint8)
    return Boards(target, target == maze.WALL, np.zeros(len(target), np.int32))
