"""cellwise: neural cellular automata that reason.

>>> import cellwise
>>> mazes = cellwise.puzzles.generate_mazes(size=9, count=4, seed=7)
>>> model = cellwise.load("maze-ood")
>>> solution = model.solve(mazes.inputs)
>>> bool((solution.grid == mazes.target).all()), bool(solution.verified.all())
(True, True)
"""

from . import benchmarks, puzzles
from .api import train
from .automaton.firing import Firing
from .errors import (
    CellwiseError,
    ConfigError,
    DataError,
    FileError,
    ModelError,
    PuzzleError,
    RunError,
)
from .kernels.dispatch import Noise
from .model import Frame, Model, Solution, Trace, load, shipped
from .thinking.pruning import Pruning
from .training.recipe import Recipe, Schedule
from .version import __version__

__all__ = [
    "CellwiseError",
    "ConfigError",
    "DataError",
    "FileError",
    "Firing",
    "Frame",
    "Model",
    "ModelError",
    "Noise",
    "Pruning",
    "PuzzleError",
    "Recipe",
    "RunError",
    "Schedule",
    "Solution",
    "Trace",
    "__version__",
    "benchmarks",
    "load",
    "puzzles",
    "shipped",
    "train",
]
