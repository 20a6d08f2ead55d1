"""Film strips: moments of a thought in a row, how sure each cell is beneath, and the course of the whole."""

import os
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float32, Int32, Int64, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from ..files import written_atomically
from ..puzzles import sudoku
from ..puzzles.maze import PATH
from .palette import LIGHT, digit_colours, maze_colours

MOMENTS = 7
_SURE = "cividis"  # A scale that people with any colour blindness see alike.


def choose(
    steps: Int32[np.ndarray, " t"], grid: UInt8[np.ndarray, "t h w"], most: int = MOMENTS
) -> Int64[np.ndarray, " k"]:
    """The places of the start, of the end of all change, and of moments between at growing distances."""
    changed = np.flatnonzero((grid[1:] != grid[:-1]).any((1, 2)))
    end = int(changed[-1]) + 1 if len(changed) else len(steps) - 1
    first = max(1.0, float(steps[min(1, end)]))
    wanted = np.geomspace(first, max(first, float(steps[end])), max(1, most - 1))
    return np.unique([0, *(int(np.abs(steps - step).argmin()) for step in wanted), end])


def draw_moments(
    figure: Figure | SubFigure,
    steps: Int32[np.ndarray, " k"],
    grid: UInt8[np.ndarray, "k h w"],
    confidence: Float32[np.ndarray, "k h w"],
    clues: UInt8[np.ndarray, "9 9"] | None = None,
) -> None:
    """What the cells say at each moment, and beneath it how sure they are, light for sure."""
    panels: Any = figure.subplots(2, len(steps), squeeze=False)
    for above, below, step, cells, sure in zip(*panels, steps.tolist(), grid, confidence, strict=True):
        above.set_title(f"step {step:,}", fontsize=8)
        if clues is None:
            above.imshow(maze_colours(cells, sure, LIGHT), interpolation="nearest")
        else:
            _digits(above, cells, clues)
        below.imshow(np.nan_to_num(sure), cmap=_SURE, vmin=0.0, vmax=1.0, interpolation="nearest")
        for panel in (above, below):
            panel.set_xticks([])
            panel.set_yticks([])
            panel.grid(False)
    panels[0, 0].set_ylabel("says", fontsize=8)
    panels[1, 0].set_ylabel("how sure", fontsize=8)


def restless(grid: UInt8[np.ndarray, "t h w"], sudokus: bool) -> Int64[np.ndarray, " t"]:
    """What a thought wrestles with: digits that stand twice in a house, or cells that say they are path."""
    return (sudoku.conflicts(grid) if sudokus else grid == PATH).sum((1, 2))


def save_strip(
    path: str | os.PathLike[str],
    steps: Int32[np.ndarray, " t"],
    grid: UInt8[np.ndarray, "t h w"],
    confidence: Float32[np.ndarray, "t h w"],
    clues: UInt8[np.ndarray, "9 9"] | None = None,
) -> None:
    """Writes the strip of a thought as .svg or .pdf; its course is that of `restless` and of confidence."""
    chosen = choose(steps, grid)
    with mpl.rc_context({"font.size": 9.0, "svg.hashsalt": "cellwise", "axes.spines.top": False}):
        figure = Figure(figsize=(1.5 * len(chosen) + 1, 5.2), layout="constrained")
        parts: Any = figure.subfigures(2, 1, height_ratios=(1.9, 1))
        upper, lower = parts
        draw_moments(upper, steps[chosen], grid[chosen], confidence[chosen], clues)
        counts = lower.subplots()
        counts.plot(steps, restless(grid, clues is not None), color="#d55e00", linestyle="--")
        counts.set_xscale("symlog", linthresh=10)
        counts.set_xlabel("step")
        counts.set_ylabel(
            "digits that clash" if clues is not None else "cells that say path", color="#d55e00"
        )
        sure = counts.twinx()
        sure.plot(steps, np.nan_to_num(confidence).mean((1, 2)), color="#0072b2")
        sure.set_ylim(0, 1.02)
        sure.set_ylabel("mean confidence", color="#0072b2")
        kind = Path(path).suffix.lower()[1:]
        with written_atomically(path) as temporary:
            figure.savefig(
                temporary, format=kind, metadata={"Date" if kind == "svg" else "CreationDate": None}
            )


def _digits(axes: Axes, grid: UInt8[np.ndarray, "9 9"], clues: UInt8[np.ndarray, "9 9"]) -> None:
    """A Sudoku: clues bold, found digits blue, those that stand twice orange and slanted."""
    inks = digit_colours(grid, clues, None, LIGHT) / 255
    clash = sudoku.conflicts(grid[None])[0] & (clues == 0)
    for row, column in np.argwhere(grid > 0).tolist():
        axes.text(
            column + 0.5,
            row + 0.55,
            str(grid[row, column]),
            color=inks[row, column],
            fontsize=5.5,
            ha="center",
            va="center",
            weight="bold" if clues[row, column] else "normal",
            style="italic" if clash[row, column] else "normal",
        )
    for line in range(10):
        width = 0.9 if line % 3 == 0 else 0.3
        axes.axhline(line, color="#1c1f24", linewidth=width)
        axes.axvline(line, color="#1c1f24", linewidth=width)
    axes.set_xlim(0, 9)
    axes.set_ylim(9, 0)
    axes.set_aspect("equal")
