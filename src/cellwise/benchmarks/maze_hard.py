"""Maze-Hard: 30×30 mazes with many ways, one of which is the answer.

    cellwise data fetch maze-hard                    # or --from DIR
    cellwise train maze-hard --out runs/maze-hard    # A GPU: hours with the released recipe
    cellwise eval maze-hard --model runs/maze-hard/model

The published answers, made by A*, all equal the path of a breadth-first search with a fixed order of
neighbours (`puzzles.maze_path.label_maze_hard`), so they can be computed again for a maze's eight
symmetries. `maze-hard` does that; `maze-hard-plain` keeps the thousand boards as published, as the paper
does; `maze-hard-bfs` learns the paper's other rule.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..automaton.layout import Automaton, Layout
from ..kernels.dispatch import Noise
from ..kernels.spec import StepSpec
from ..model import Pace
from ..puzzles import store
from ..puzzles.board import Boards
from ..puzzles.dihedral import dihedral
from ..puzzles.maze import WALL
from ..puzzles.maze_path import label_bfs, label_maze_hard
from ..training.job import Check
from ..training.recipe import Recipe, Schedule
from .preset import Benchmark, Case, Preset

AUTOMATON = Automaton(
    StepSpec(
        channels=32,
        perception="kernels",
        heads=4,
        hidden=256,
        padding="token",
        padding_token=WALL,
        frozen=32,
    ),
    Layout(tokens=5, read=32, write=3, head="distance", spread=0.25),
)


def token_vectors() -> np.ndarray:
    """Empty, path, wall, start and goal: three telling components, the rest all -1."""
    vectors = np.full((5, 32), -1, np.float32)
    vectors[:, :3] = [[0, 0, 0], [0, 0, 1], [1, 0, -1], [0, -1, 1], [0, 1, 1]]
    return vectors


RECIPE = Recipe(
    steps=20_000,
    schedule=Schedule(first=1e-3, peak=5e-4, last=5e-4, warmup=5_000),
    batch=32,
    pool=64,
    fresh=16,
    rollout=256,
    chunk=128,
    noise=Noise(when=0.1, where=0.3, size=0.15),
)
"""What the released training code does."""

Label = Callable[[np.ndarray], np.ndarray]


def training_mazes(label: Label | None) -> tuple[Boards, dict[str, Any]]:
    """The published training mazes; with a rule, each in all eight positions and labelled anew in each."""
    boards = store.load("maze-hard", "train", training=True)
    if label is None:
        return boards, {"data": "maze-hard train, answers as published"}
    turned = np.concatenate([dihedral(boards.inputs, k) for k in range(8)])
    target = np.stack([label(maze) for maze in turned])
    given = turned != 0
    source = {"data": f"maze-hard train in eight positions, answers by {label.__name__}"}
    return Boards(target, given, np.tile(boards.difficulty, 8)), source


def checks() -> tuple[Check, ...]:
    """A few of the training mazes, for there is no validation set."""
    return (Check("train", store.load("maze-hard", "train", limit=32), steps=256),)


MAZE_HARD = Preset(
    name="maze-hard",
    about="30×30 mazes with A* answers, computed again in all eight positions",
    puzzle="directed-maze",
    automaton=AUTOMATON,
    tokens=token_vectors(),
    recipe=RECIPE,
    boards=partial(training_mazes, label_maze_hard),
    checks=checks,
    pace=Pace(base=200, per_cell=0.0),
)
MAZE_HARD_PLAIN = replace(
    MAZE_HARD,
    name="maze-hard-plain",
    about="30×30 mazes with A* answers as published, without symmetries",
    boards=partial(training_mazes, None),
)
MAZE_HARD_BFS = replace(
    MAZE_HARD,
    name="maze-hard-bfs",
    about="30×30 mazes with the paper's breadth-first answers, in all eight positions",
    boards=partial(training_mazes, label_bfs),
)

BENCHMARK = Benchmark(
    name="maze-hard",
    about="The 1,000 test mazes of Maze-Hard",
    puzzle="directed-maze",
    model="maze-hard",
    cases=(
        Case(
            name="test",
            steps=200,
            count=1000,
            boards=lambda n: store.load("maze-hard", "test", limit=n),
            source="maze-hard test",
        ),
    ),
)
