"""Maze-Hard: 30×30 mazes with many ways, one of which is the answer.

    cellwise data fetch maze-hard                           # or --from DIR
    cellwise train maze-hard-astar --out runs/astar         # A GPU and hours
    cellwise eval maze-hard --model runs/astar/model        # expected: no numbers yet
    cellwise train maze-hard-bfs --out runs/bfs
    cellwise eval maze-hard --case bfs --model runs/bfs/model
    cellwise data make maze-hard-made                       # 10,000 fresh mazes, five minutes
    cellwise train maze-hard-unlimited --out runs/unlimited

The published answers, made by A*, all equal the path of a breadth-first search with a fixed order of
neighbours (`puzzles.maze_path.label_maze_hard`), so they can be computed again for a maze's eight
symmetries. `maze-hard-astar` does that; `maze-hard-released` keeps the boards as published, as the paper
does; `maze-hard-bfs` learns the paper's other rule. There is no validation set, so 64 of the training mazes,
drawn once for all, are not trained on; between models and checkpoints one chooses by them.

`maze-hard-unlimited` sees no published maze but as many of the same kind as one makes, so its scores are not
to be compared with those of the others and are reported apart.
"""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..automaton.layout import Automaton, Layout
from ..errors import DataError
from ..kernels.dispatch import Noise
from ..kernels.spec import StepSpec
from ..model import Pace
from ..puzzles import store
from ..puzzles.board import Boards
from ..puzzles.dihedral import dihedral
from ..puzzles.maze import EMPTY, PATH, WALL
from ..puzzles.maze_flood import label_all
from ..puzzles.maze_path import label_bfs, label_maze_hard
from ..puzzles.maze_scattered import generate_scattered
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


RELEASED = Recipe(
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

RECIPE = replace(RELEASED, schedule=Schedule(first=0.0, peak=1e-3, last=0.0, warmup=500, shape="cosine"))
"""Where to start: a cosine over the whole run, as Maze-OOD wants it; the peak is still to be found."""

KEPT = 64
"""Training mazes that are kept for selection."""
VALIDATION_SEED = 2**32
"""Of the fresh mazes that are not trained on; no dataset can have it."""

Label = Callable[[np.ndarray], np.ndarray]


def split(name: str) -> Boards:
    """The published training mazes that are learned from (`train`) or kept (`validation`)."""
    boards = store.load("maze-hard", "train", training=True)
    order = np.random.RandomState(0).permutation(len(boards))
    return boards[np.sort(order[KEPT:] if name == "train" else order[:KEPT])]


def labelled(boards: Boards, label: Label) -> Boards:
    """The same mazes with answers by a rule."""
    target = np.stack([label(maze) for maze in boards.inputs])
    return Boards(target, boards.given, boards.difficulty)


def training_mazes(label: Label | None) -> tuple[Boards, dict[str, Any]]:
    """The mazes to learn from; with a rule, each in all eight positions and labelled anew in each."""
    boards = split("train")
    about = f"{len(boards)} training mazes of maze-hard, {KEPT} others kept for selection"
    if label is None:
        return boards, {"data": f"{about}, answers as published"}
    turned = np.concatenate([dihedral(boards.inputs, k) for k in range(8)])
    everywhere = labelled(Boards(turned, turned != 0, np.tile(boards.difficulty, 8)), label)
    return everywhere, {"data": f"{about}, in eight positions, answers by {label.__name__}"}


def fresh_mazes() -> tuple[Boards, dict[str, Any]]:
    """Mazes that were made here, each in all eight positions."""
    boards = store.load("maze-hard-made", "train", training=True)
    turned = label_all(np.concatenate([dihedral(boards.inputs, k) for k in range(8)]))
    everywhere = Boards(turned, (turned != EMPTY) & (turned != PATH), np.tile(boards.difficulty, 8))
    about = f"{len(boards):,} mazes of maze-hard-made, in eight positions, no published maze"
    return everywhere, {"data": about}


def fresh_checks() -> tuple[Check, ...]:
    """Fresh mazes of another series, and the published ones that are kept, if they are on this machine."""
    fresh = Check("fresh", generate_scattered(64, VALIDATION_SEED), steps=200)
    with contextlib.suppress(DataError):
        return fresh, *checks(None)
    return (fresh,)


def checks(label: Label | None) -> tuple[Check, ...]:
    """The mazes that are kept."""
    boards = split("validation")
    return (Check("validation", labelled(boards, label) if label else boards, steps=200),)


MAZE_HARD = Preset(
    name="maze-hard-astar",
    about="30×30 mazes with A* answers, computed again in all eight positions",
    puzzle="directed-maze",
    automaton=AUTOMATON,
    tokens=token_vectors(),
    recipe=RECIPE,
    boards=partial(training_mazes, label_maze_hard),
    checks=partial(checks, None),
    pace=Pace(base=200, per_cell=0.0),
)
MAZE_HARD_BFS = replace(
    MAZE_HARD,
    name="maze-hard-bfs",
    about="30×30 mazes with the paper's breadth-first answers, in all eight positions",
    boards=partial(training_mazes, label_bfs),
    checks=partial(checks, label_bfs),
)
MAZE_HARD_UNLIMITED = replace(
    MAZE_HARD,
    name="maze-hard-unlimited",
    about="The same from ten thousand fresh mazes of the same kind, and no published one",
    boards=fresh_mazes,
    checks=fresh_checks,
)
MAZE_HARD_RELEASED = replace(
    MAZE_HARD,
    name="maze-hard-released",
    about="30×30 mazes with A* answers as published, recipe of the paper's released code",
    boards=partial(training_mazes, None),
    recipe=RELEASED,
)


def _case(name: str, load: Callable[[], Boards], source: str, count: int, label: Label | None) -> Case:
    def boards(limit: int) -> Boards:
        some = load()[slice(limit)]
        return labelled(some, label) if label else some

    return Case(name=name, steps=200, count=count, boards=boards, source=source)


_test = partial(store.load, "maze-hard", "test")
_kept = partial(split, "validation")

BENCHMARK = Benchmark(
    name="maze-hard",
    about="The 1,000 test mazes of Maze-Hard",
    puzzle="directed-maze",
    model="maze-hard-astar",
    cases=(_case("test", _test, "maze-hard test", 1000, None),),
    more=(
        _case("bfs", _test, "maze-hard test, answers by label_bfs", 1000, label_bfs),
        _case("validation", _kept, "maze-hard train, kept for selection", KEPT, None),
        _case("validation-bfs", _kept, "maze-hard train, kept, answers by label_bfs", KEPT, label_bfs),
    ),
)
