"""How cells solve a maze: they explore everywhere, then waves run back from the tips of dead ends.

Filling dead ends by hand goes in rounds: in each, every tip that there is closes. So the round of a cell says
how long the wave must wait for it, and if cells do the same they become empty in that order, a fire rate
slower.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int32, Int64, Shaped, UInt8
from matplotlib.figure import Figure

from ..model import Trace, load
from ..puzzles.maze import PATH, START, WALL
from ..puzzles.maze_generator import generate
from ..puzzles.maze_path import count_neighbours
from ..report.strip import choose, draw_moments
from . import figure
from .packed import pack, unpack
from .study import Comparison, Job, Result, Row, Study


@dataclass(frozen=True)
class Settings:
    """Validation mazes, looked at after every step."""

    model: str = "maze-ood"
    size: int = 25
    steps: int = 300
    mazes: int = 8
    generator_seed: int = 1
    seed: int = 0


_POINTS = 80  # Of a curve, in the result file.
_LARGEST_STRIP = 61 * 61


def jobs(settings: Settings) -> list[Job]:
    """One for each maze."""
    return [{"maze": number} for number in range(settings.mazes)]


def measure(settings: Settings, job: Job) -> Row:
    """What the cells say over the steps, and when dead ends became empty for good."""
    board = generate(settings.size, 1, settings.generator_seed, first=job["maze"])
    inputs, target = board.inputs[0], board.target[0]
    trace = load(settings.model).trace(inputs, settings.steps, every=1, seed=settings.seed)
    said, path, open_ = trace.grid == PATH, target == PATH, inputs == 0
    ahead, rounds = emptied(trace), closing_rounds(inputs)
    dead = open_ & ~path
    points = np.unique(np.rint(np.geomspace(1, settings.steps, _POINTS)).astype(int))
    points = np.concatenate([[0], points])
    in_time = [
        [number, round(float(np.median(ahead[dead & (rounds == number)])), 1), int((rounds == number).sum())]
        for number in np.unique(rounds[dead]).tolist()
    ]
    row: Row = {
        "right": bool((trace.grid[-1] == target).all()),
        "settled": int(np.flatnonzero((trace.grid != trace.grid[-1]).any((1, 2))).max(initial=-1) + 1),
        "dead_cells": int(dead.sum()),
        "path_cells": int(path.sum()),
        "rank_correlation": round(rank_correlation(rounds[dead], ahead[dead]), 4),
        "steps_by_round": in_time,
        "curve": {
            "steps": points.tolist(),
            "on_path": said[points][:, path].sum(1).tolist(),
            "astray": said[points][:, dead].sum(1).tolist(),
            "sure": np.round(trace.confidence[points][:, open_].mean(1), 4).tolist(),
        },
    }
    if job["maze"] == 0 and inputs.size <= _LARGEST_STRIP:
        chosen = choose(trace.steps, trace.grid, 6)
        sure = np.rint(254 * np.clip(np.nan_to_num(trace.confidence[chosen]), 0, 1)).astype(np.uint8)
        row["strip"] = {
            "steps": trace.steps[chosen].tolist(),
            "says": pack(trace.grid[chosen]),
            "sure": pack(sure),
        }
    return row


def emptied(trace: Trace) -> Int32[np.ndarray, "h w"]:
    """The step after which each cell no longer said that it is path, never again; 0 if it never did."""
    said = trace.grid == PATH
    last = len(said) - 1 - said[::-1].argmax(0)
    return np.where(said.any(0), trace.steps[np.minimum(last + 1, len(said) - 1)], 0).astype(np.int32)


def closing_rounds(inputs: UInt8[np.ndarray, "h w"]) -> Int64[np.ndarray, "h w"]:
    """The round in which filling dead ends closes each cell, from 1 on; 0 for walls and for what stays."""
    left = inputs != WALL
    rounds = np.zeros(inputs.shape, np.int64)
    for number in range(1, inputs.size + 1):
        tips = left & (count_neighbours(left[None])[0] <= 1) & (inputs < START)
        if not tips.any():
            break
        rounds[tips] = number
        left = left & ~tips
    return rounds


def rank_correlation(one: Shaped[np.ndarray, " n"], other: Shaped[np.ndarray, " n"]) -> float:
    """Spearman's, with mean ranks for ties."""
    ranks = np.stack([_ranks(np.asarray(values, np.float64)) for values in (one, other)])
    return float(np.corrcoef(ranks)[0, 1])


def _ranks(values: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (count.cumsum() - (count - 1) / 2)[place]


def compare(result: Result) -> list[Comparison]:
    """The paper describes what it sees; these are numbers for it."""
    rows = result.rows()
    if not rows:
        return [Comparison("dead ends are emptied from their tips", "seen in a film", None)]
    most = [max(row["curve"]["astray"]) / row["dead_cells"] for row in rows]
    last = [row["curve"]["astray"][-1] for row in rows]
    order = [row["rank_correlation"] for row in rows]
    slopes = [_slope(row) for row in rows]
    return [
        Comparison(
            "cells explore in parallel: share of the dead-end cells that say path at the same time",
            "seen in a film",
            f"up to {100 * np.mean(most):.0f} % (mean of {len(rows)} mazes)",
        ),
        Comparison("cells astray in the end", "none", f"{sum(last)} in {len(rows)} mazes"),
        Comparison(
            "waves run back from the tips of dead ends",
            "seen in a film",
            f"rank correlation {np.mean(order):.2f} (lowest {min(order):.2f})",
            "between the round in which filling dead ends closes a cell and the step at which it is emptied",
        ),
        Comparison(
            "speed of the waves",
            None,
            f"{1 / np.mean(slopes):.2f} rounds of filling a step",
            "a round is one cell; news travels one cell a step at most, but a cell may guess",
        ),
        Comparison(
            "steps until nothing changes",
            None,
            f"{min(row['settled'] for row in rows)} to {max(row['settled'] for row in rows)}",
        ),
    ]


def _slope(row: Row) -> float:
    """Steps a round, by least squares over the medians of all rounds."""
    rounds, steps, _ = np.array(row["steps_by_round"]).T
    return float(np.polyfit(rounds, steps, 1)[0])


def draw(result: Result, picture: Figure) -> None:
    """The strip of the first maze; below, what cells say over the steps, and the order of emptying."""
    rows = result.rows()
    if not rows:
        return
    strip = (result.row(maze=0) or {}).get("strip")
    parts: Any = picture.subfigures(2, 1, height_ratios=(1.5, 1))
    upper, lower = parts
    if strip:
        says, sure = unpack(strip["says"]), unpack(strip["sure"]).astype(np.float32) / 254
        draw_moments(upper, np.array(strip["steps"], np.int32), says, sure)
    course, waves = lower.subplots(1, 2)
    curve = rows[0]["curve"]
    for number, (name, label) in enumerate((("on_path", "path cells"), ("astray", "dead-end cells"))):
        look: dict[str, Any] = figure.style(number) | {"markersize": 3}
        course.plot(curve["steps"], curve[name], label=f"{label} that say path", **look)
    course.set_xscale("symlog", linthresh=1)
    course.set_xlabel("step")
    course.set_ylabel("cells")
    course.legend(fontsize=7)
    for number, row in enumerate(rows):
        rounds, steps, _ = np.array(row["steps_by_round"]).T
        look: dict[str, Any] = figure.style(number) | {"linestyle": "none", "markersize": 3}
        waves.plot(rounds, steps, **look)
    waves.set_xlabel("round in which filling dead ends closes a cell")
    waves.set_ylabel("emptied at step (median)")


STUDY = Study(
    name="backtracking",
    title="How cells solve a maze",
    claim="Cell activations explore paths in parallel, then locally propagate waves back that prune dead "
    "ends, until only the path is left.",
    quick=Settings(),
    full=Settings(size=101, steps=2_500, mazes=8),
    data=lambda settings: (
        f"{settings.mazes} generated mazes of size {settings.size}, generator seed "
        f"{settings.generator_seed}, {settings.model}, seed of the thoughts {settings.seed}, looked "
        "at after every step"
    ),
    jobs=jobs,
    measure=measure,
    compare=compare,
    draw=draw,
    alt="Six moments of a maze with the confidence of each cell: first cells everywhere say path, then dead "
    "ends become empty from their tips. Below, cells that say path over the steps, and the step at which "
    "dead-end cells are emptied against the round in which filling dead ends by hand closes them: they lie "
    "near a line.",
    inches=(9.5, 6.5),
)
