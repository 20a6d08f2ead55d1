"""Adaptive firing: what it saves if cells that are sure of themselves fire less often.

    cellwise study run adaptive-firing --quick     # mazes of size 31, minutes on two CPU cores
    cellwise study run adaptive-firing             # mazes of size 201, ten minutes on an H200

Ways to fire are compared on validation mazes; the chosen one, which is `FRUGAL`, and the paper's are then
measured on test mazes, beside uniform firing. The clock runs without counting anything, contenders take
turns, and the least of their times counts, because other work can only make them longer. On a machine with
other work the time that its processors spent says more than the clock; both are there.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..automaton.firing import Firing
from ..benchmarks.maze_ood import TEST_SEED, VALIDATION_SEED
from ..kernels.dispatch import Compact
from ..model import load
from ..puzzles.maze_generator import generate
from ..thinking.mind import Mind
from . import figure
from .courses import POLICIES, TITLES, Group, curve, reached, said, times
from .packed import pack, unpack
from .study import Comparison, Job, Result, Row, Study


@dataclass(frozen=True)
class Settings:
    """`mazes` are for the sweep over ways to fire, `tested` for the comparison."""

    model: str = "maze-ood"
    size: int = 31
    steps: int = 1_000
    every: int = 5
    mazes: int = 20
    tested: int = 40
    rates: tuple[float, ...] = (0.8, 1.0)
    dormant: tuple[float, ...] = (0.4, 0.1, 0.02)
    above: tuple[float, ...] = (0.9, 0.95, 0.98)
    reach: tuple[int, ...] = (0, 1)
    repetitions: int = 5


QUICK = Settings()
FULL = Settings(size=201, steps=13_000, every=50, mazes=10, tested=100, repetitions=3)


def jobs(settings: Settings) -> list[Job]:
    """The comparison first, then the clock, then the sweep."""
    return [
        *({"part": "test", "policy": name} for name in POLICIES),
        {"part": "clock"},
        *(
            {"part": "sweep", "rate": rate, "dormant": rate, "above": 1.0, "reach": 0}
            for rate in settings.rates
        ),
        *(
            {"part": "sweep", "rate": rate, "dormant": dormant, "above": above, "reach": reach}
            for reach in settings.reach
            for rate in settings.rates
            for above in settings.above
            for dormant in settings.dormant
        ),
    ]


def measure(settings: Settings, job: Job) -> Row:
    """One way to fire."""
    model = load(settings.model)
    if job["part"] == "sweep":
        rate = Firing(job["rate"], job["dormant"], job["above"], job["reach"])
        mazes = generate(settings.size, settings.mazes, VALIDATION_SEED)
        group = Group(model, mazes.inputs, rate)
        return reached(group.until_right(mazes.target, settings.steps, settings.every), group.open)
    if job["part"] == "clock":
        return _clock(settings)
    mazes = generate(settings.size, settings.tested, TEST_SEED)
    group = Group(model, mazes.inputs, POLICIES[job["policy"]])
    course = group.until_right(mazes.target, settings.steps, settings.every)
    often = np.rint(255 * course.activity[0] / course.steps[-1])
    return reached(course, group.open) | {"curve": curve(course, group.open), "activity": pack(often)}


CONTENDERS = (
    ("uniform", "all"),
    ("paper's", "all"),
    ("paper's", "few"),
    ("frugal", "all"),
    ("frugal", "few"),
)
"""Ways to fire, computing all open cells or by the fastest path for them; uniform firing always by that."""


def _clock(settings: Settings) -> Row:
    """Seconds of each contender until 95 % of the mazes of the sweep are right."""
    model, mazes = load(settings.model), generate(settings.size, settings.mazes, VALIDATION_SEED)
    rows = np.arange(len(mazes.inputs), dtype=np.int32)
    ready: dict[str, tuple[Mind, int]] = {}
    for policy, cells in CONTENDERS:
        group = Group(model, mazes.inputs, POLICIES[policy])
        found = reached(group.until_right(mazes.target, settings.steps, settings.every), group.open)
        if found["boards"] is not None:
            free = int((~group.given).sum((1, 2)).max())
            masked = cells == "all" and policy != "uniform"
            mind = replace(group.mind, path=Compact(free)) if masked else group.mind
            ready[f"{policy}, {cells}"] = mind, found["boards"]["steps"]
    given = model.given(mazes.inputs)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ready}
    for _ in range(settings.repetitions + 1):  # The first compiles.
        for name, (mind, steps) in ready.items():
            thought = mind.begin(mazes.inputs, given, 0, rows, np.zeros_like(rows))
            jax.block_until_ready(thought.state)
            began, before = time.perf_counter(), time.process_time()
            jax.block_until_ready(mind.advance(thought, 0, steps).state)
            seconds, spent = time.perf_counter() - began, time.process_time() - before
            taken[name].append((round(seconds, 4), round(spent, 4)))
    return {
        name: {
            "steps": ready[name][1],
            "path": ready[name][0].path.name,
            "seconds": [seconds for seconds, _ in times[1:]],
            "processor_seconds": [spent for _, spent in times[1:]],
        }
        for name, times in taken.items()
    }


_MEASURES = (
    ("boards", "steps", "steps until 95 % of mazes are right", "1.29×"),
    ("boards", "updates", "cell updates until then", "0.71×"),
    ("boards", "updates_of_all", "the same, updates of walls counted too", None),
    ("cells", "steps", "steps until 95 % of open cells are right", "1.29×"),
    ("cells", "updates", "cell updates until then", "0.71×"),
)


def compare(result: Result) -> list[Comparison]:
    """Steps, updates and seconds relative to uniform firing."""
    uniform = result.row(part="test", policy="uniform")
    rows = []
    for name, title in TITLES.items():
        row = result.row(part="test", policy=name)
        for criterion, what, words, claimed in _MEASURES:
            ours = said(times(row, uniform, criterion, what))
            if row is not None and uniform is not None and ours is None:
                ours = f"never reached in {result.settings.steps:,} steps"
            paper = claimed if name == "paper's" else None
            note = "the paper does not say whether mazes or cells" if paper else ""
            rows.append(Comparison(f"{title}: {words}", paper, ours, note))
    clock = result.row(part="clock") or {}
    for policy, cells in CONTENDERS[1:]:
        words = f"{TITLES[policy]}: seconds, computing {'all open cells' if cells == 'all' else 'few cells'}"
        row, base = clock.get(f"{policy}, {cells}"), clock.get("uniform, all")
        ours = None
        if row and base:
            least, other = min(row["seconds"]), min(base["seconds"])
            spent = min(row["processor_seconds"]) / min(base["processor_seconds"])
            ours = f"{least / other:.2f}× ({least:.2f} s by path {row['path']}, beside {other:.2f} s)"
            ours += f"; time of processors {spent:.2f}×"
        elif clock:
            ours = f"never reached in {result.settings.steps:,} steps"
        rows.append(Comparison(words, "saves no time" if (policy, cells) == CONTENDERS[1] else None, ours))
    return rows


def draw(result: Result, picture: Figure) -> None:
    """Right mazes against steps and updates; the sweep; how often each cell of a maze fired."""
    above, below = np.ravel(np.array(picture.subfigures(2, 1, height_ratios=(1.0, 0.85))))
    by_steps, by_updates, swept = above.subplots(1, 3)
    for number, name in enumerate(POLICIES):
        row = result.row(part="test", policy=name)
        if row is None:
            continue
        look = figure.style(number) | {"markevery": 6}
        shares = 100 * np.array(row["curve"]["cells"])
        by_steps.plot(row["curve"]["steps"], shares, label=name, **look)
        by_updates.plot(np.array(row["curve"]["updates"]) / 1e3, shares, label=name, **look)
    for axes in (by_steps, by_updates):
        axes.set_ylabel("open cells right, %")
        axes.axhline(95, color="#767b85", linewidth=0.8)
        if axes.lines[1:]:
            axes.legend(loc="lower right")
    by_steps.set(title="Steps", xlabel="steps")
    by_updates.set(title="Cell updates", xlabel="thousand updates of open cells a maze")
    _draw_sweep(result, swept)
    maps = below.subplots(1, len(POLICIES))
    for axes, name in zip(maps, POLICIES, strict=True):
        row = result.row(part="test", policy=name)
        axes.set(xticks=[], yticks=[])
        axes.grid(False)
        axes.set_title(name if row else f"{name}: not run")
        if row:
            shown = axes.imshow(unpack(row["activity"]) / 255, cmap="viridis", vmin=0, vmax=1)
            if name == "frugal":
                below.colorbar(shown, ax=maps, label="share of steps at which a cell fired", shrink=0.8)


def _draw_sweep(result: Result, axes: Axes) -> None:
    """Each way to fire as a point: steps and updates until 95 % of the mazes are right."""
    uniform = result.row(part="sweep", rate=0.8, dormant=0.8)
    axes.set(title="Ways to fire, 95 % of mazes right", xlabel="× steps", ylabel="× updates")
    axes.axhline(1.0, color="#767b85", linewidth=0.8)
    axes.axvline(1.0, color="#767b85", linewidth=0.8)
    rows = [one for one in result.done if one.job["part"] == "sweep"]
    alike = [one for one in rows if one.job["dormant"] == one.job["rate"]]
    alone, around = (
        [one for one in rows if one.job["reach"] == reach and one not in alike] for reach in (0, 1)
    )
    kinds = {
        "dormant: sure cells": alone,
        "dormant: sure cells, neighbours too": around,
        "all cells alike": alike,
    }
    for number, (words, kind) in enumerate(kinds.items()):
        points = [[times(one.row, uniform, "boards", what) for what in ("steps", "updates")] for one in kind]
        known = np.array([point for point in points if None not in point], float).reshape(-1, 2)
        label = f"{words} ({len(known)} of {len(kind)} get there)"
        axes.plot(known[:, 0], known[:, 1], label=label, **figure.style(number, joined=False))
    star: Any = {"color": "#000000", "marker": "*", "markersize": 10, "linestyle": "none"}
    axes.plot([1.29], [0.71], label="the paper's claim", **star)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), fontsize=7.5)


def data(settings: Settings) -> str:
    """What was measured on what."""
    return (
        f"{settings.tested} generated test mazes of size {settings.size} (seed {TEST_SEED}); sweep and "
        f"clock: {settings.mazes} validation mazes (seed {VALIDATION_SEED}); thoughts of seed 0; "
        f"model {settings.model}"
    )


STUDY = Study(
    name="adaptive-firing",
    title="Adaptive firing: fewer updates, and what they cost in steps",
    claim=(
        "If cells more confident than 0.95 fire with probability 0.4 instead of 0.8, mazes of size 201 need "
        "1.29 times the steps but 0.71 times the cell updates until 95 % are right. No time is saved: "
        "all cells are computed and then masked."
    ),
    here=(
        "All numbers are relative to uniform firing at 0.8. Frugal firing asks the neighbours as well: who "
        "is unsure, or next to someone who is, fires at every step, everybody else once in ten. Few cells "
        "means that on a CPU only the firing cells are computed; on a GPU nothing is saved."
    ),
    quick=QUICK,
    full=FULL,
    data=data,
    jobs=jobs,
    measure=measure,
    compare=compare,
    draw=draw,
    alt=(
        "Open cells right against steps and against cell updates; steps and updates of every way to fire, "
        "relative to uniform firing; for three ways to fire, how often each cell of a maze fired."
    ),
    inches=(10.5, 7.0),
)
