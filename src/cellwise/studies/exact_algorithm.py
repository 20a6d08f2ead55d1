"""Where the algorithm that a maze model has learnt holds, and where it breaks.

The suspicion is that the cells fill dead ends: a cell with one free neighbour becomes empty, and so on, until
only what joins the two ends is left. In a maze without loops that is the answer; a loop has no dead end. So
each answer is compared with the shortest path and with what filling dead ends leaves.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from ..evaluation import interval
from ..model import load
from ..puzzles.board import Boards
from ..puzzles.maze import EMPTY, PATH, START, WALL
from ..puzzles.maze_filling import count_loops, fill_dead_ends
from ..puzzles.maze_generator import generate
from ..puzzles.maze_path import judge
from . import figure
from .answers import answers
from .packed import pack, unpack
from .study import Comparison, Job, Result, Row, Study


@dataclass(frozen=True)
class Kind:
    """Mazes of one kind and size, and how many of them."""

    name: str
    height: int
    width: int
    mazes: int
    tree: Literal["depth-first", "kruskal", "prim", "wilson"] = "depth-first"
    braid: float = 0.0
    endpoints: Literal["rooms", "dead-ends"] = "rooms"

    @property
    def steps(self) -> int:
        """How long the cells think: 300 steps and half a step for each cell."""
        return 300 + (self.height + 2) * (self.width + 2) // 2

    def boards(self, seed: int) -> Boards:
        """The mazes."""
        return generate(
            (self.height, self.width),
            self.mazes,
            seed,
            tree=self.tree,
            braid=self.braid,
            endpoints=self.endpoints,
        )


def kinds(side: int, mazes: int) -> tuple[Kind, ...]:
    """Every kind of maze at one size."""
    square = Kind("depth-first, as in training", side, side, mazes)
    return (
        square,
        replace(square, name="between two dead ends", endpoints="dead-ends"),
        replace(square, name="Wilson's tree", tree="wilson"),
        replace(square, name="Kruskal's tree", tree="kruskal"),
        replace(square, name="Prim's tree", tree="prim"),
        replace(square, name="2 % braided", braid=0.02),
        replace(square, name="10 % braided", braid=0.1),
        replace(square, name="30 % braided", braid=0.3),
        replace(square, name="braided", braid=1.0),
    )


@dataclass(frozen=True)
class Settings:
    """What is solved. The seed of test mazes is 2; 0 was trained on and 1 chosen by."""

    kinds: tuple[Kind, ...]
    model: str = "maze-ood"
    generator_seed: int = 2
    seed: int = 0


QUICK = Settings(
    (
        *kinds(25, 100),
        Kind("wide, 9 × 101", 9, 101, 50),
        Kind("size 101", 101, 101, 6),
    )
)
FULL = Settings(
    (
        *kinds(59, 500),
        Kind("wide, 9 × 401", 9, 401, 100),
        Kind("size 101", 101, 101, 200),
        Kind("size 201", 201, 201, 100),
        Kind("size 401", 401, 401, 10),
    )
)
_LARGEST_EXAMPLE = 61 * 61


def jobs(settings: Settings) -> list[Job]:
    """One for each kind."""
    return [{"kind": kind.name} for kind in settings.kinds]


def measure(settings: Settings, job: Job) -> Row:
    """How many answers are the path, how many what filling dead ends leaves, and the first that is not."""
    kind = next(kind for kind in settings.kinds if kind.name == job["kind"])
    boards = kind.boards(settings.generator_seed)
    said = answers(load(settings.model), boards, kind.steps, settings.seed).grid
    unknown = boards.inputs == EMPTY
    left = fill_dead_ends(boards.inputs) & unknown
    path, marked = boards.target == PATH, said == PATH
    right, filled = (said == boards.target).all((1, 2)), ((marked == left) | ~unknown).all((1, 2))
    row: Row = {
        "mazes": len(boards),
        "steps": kind.steps,
        "right": int(right.sum()),
        "shortest": int(judge(boards.inputs, boards.target, said).optimal.sum()),
        "filled": int(filled.sum()),
        "path_wiped": int((~right & ~(marked & path).any((1, 2))).sum()),
        "loops": round(float(count_loops(boards.inputs).mean()), 2),
        "cells_as_path": round(float((marked == path)[unknown].mean()), 6),
        "cells_as_filled": round(float((marked == left)[unknown].mean()), 6),
        "left_but_not_said": round(float((left & ~marked).sum() / max(1, left.sum())), 6),
        "said_but_not_left": round(float((marked & ~left & unknown).sum() / max(1, marked.sum())), 6),
    }
    if boards.inputs[0].size <= _LARGEST_EXAMPLE:
        shown = int(np.argmin(right))  # The first that is wrong, or the first of all.
        row["example"] = {"number": shown, "target": pack(boards.target[shown]), "said": pack(said[shown])}
    return row


def compare(result: Result) -> list[Comparison]:
    """The paper's 100 % for the mazes it knows, and nothing for the others."""
    compared = []
    for kind in result.settings.kinds:
        row = result.row(kind=kind.name)
        known = kind.name == "depth-first, as in training" or kind.name.startswith("size")
        ours, note = None, ""
        if row is not None:
            low, high = interval(row["right"], row["mazes"])
            ours = f"{row['right']} of {row['mazes']} right ({100 * low:.1f}–{100 * high:.1f} %)"
            parts = [f"{row['filled']} are what filling dead ends leaves"]
            parts += [f"{row['path_wiped']} have lost the whole path"] if row["path_wiped"] else []
            parts += [f"{row['loops']:g} loops a maze"] if row["loops"] else []
            note = "; ".join(parts)
        size = f"{kind.height} × {kind.width}"
        what = kind.name if size in kind.name else f"{kind.name}, {size}"
        compared.append(Comparison(what, "100.0 %" if known else None, ours, note))
    return compared


def draw(result: Result, picture: Figure) -> None:
    """Shares by kind of maze, and below what a model says of a maze that it gets wrong."""
    found = [(kind, row) for kind in result.settings.kinds if (row := result.row(kind=kind.name))]
    parts: Any = picture.subfigures(2, 1, height_ratios=(1.25, 1))
    upper, lower = parts
    axes = upper.subplots()
    places = np.arange(len(found))[::-1]
    for number, (name, label) in enumerate(
        (("right", "the path"), ("filled", "what filling dead ends leaves"))
    ):
        shares = [100 * row[name] / row["mazes"] for _, row in found]
        look: dict[str, Any] = {"linestyle": "none", "markersize": 9 - 3 * number, "clip_on": False}
        axes.plot(shares, places, label=label, **figure.style(number) | look)
    axes.set_yticks(places, [kind.name for kind, _ in found])
    axes.set_xlim(0, 100)
    axes.set_xlabel("answers that are …, %")
    upper.legend(loc="outside upper center", ncols=2)
    wrong = [(kind, row) for kind, row in found if row["right"] < row["mazes"] and "example" in row]
    chosen = [*(one for one in wrong if not one[1]["loops"]), *(one for one in wrong if one[1]["loops"])]
    chosen = [chosen[0], *chosen[-3:]] if len(chosen) > 4 else chosen
    if chosen:
        for panel, (kind, row) in zip(np.atleast_1d(lower.subplots(1, len(chosen))), chosen, strict=True):
            _example(panel, kind.name, row["example"])


def _example(axes: Axes, name: str, example: Row) -> None:
    """A maze with what is said of it: on the path, on what else is left of it, and what is missing."""
    target, said = unpack(example["target"]), unpack(example["said"])
    shown = np.zeros(target.shape, np.uint8)  # Free cells that are said to be free.
    shown[target == WALL] = 1
    shown[(said == PATH) & (target == PATH)] = 2
    shown[(said == PATH) & (target == EMPTY)] = 3
    shown[(said != PATH) & (target == PATH)] = 4
    shown[target == START] = 5
    colours = ["#ffffff", "#5a5f69", figure.COLOURS[0], figure.COLOURS[4], figure.COLOURS[1], "#000000"]
    axes.imshow(shown, cmap=ListedColormap(colours), vmin=0, vmax=5, interpolation="nearest")
    axes.set_title(f"{name}, number {example['number']}", fontsize=8)
    axes.set_axis_off()


STUDY = Study(
    name="exact-algorithm",
    title="Where the exact algorithm breaks",
    claim="Trained on mazes of size 9, the cells have learnt a seemingly exact algorithm for finding ways, "
    "with wavefronts and backtracking, which generalises to mazes of size 201.",
    quick=QUICK,
    full=FULL,
    data=lambda settings: (
        f"generated mazes, generator seed {settings.generator_seed}, {settings.model}, seed of the thoughts "
        f"{settings.seed}, 300 steps and half a step a cell"
    ),
    jobs=jobs,
    measure=measure,
    compare=compare,
    draw=draw,
    alt="For each kind of maze the share of answers that are the path, and of those that are what filling "
    "dead ends leaves. Below, mazes answered wrongly: blue what is rightly said to be path, yellow what is "
    "wrongly said to be, orange the path that was lost.",
    inches=(9.0, 7.0),
)
