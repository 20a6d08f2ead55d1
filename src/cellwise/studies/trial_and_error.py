"""How cells solve a Sudoku: clashes fall, rise again where that is needed, and end at none.

Counted are the found digits that stand twice in a row, column or box. A rebound is how many more of them
there are at some later time than at the best moment before it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64, UInt8
from matplotlib.figure import Figure

from ..model import load
from ..puzzles.sudoku import conflicts
from ..puzzles.sudoku_generator import generate_easy
from ..report.strip import draw_moments
from . import figure
from .packed import pack, unpack
from .study import Comparison, Job, Result, Row, Study


@dataclass(frozen=True)
class Settings:
    """Boards dug down to the fewest clues that digging leaves, looked at after every step."""

    model: str = "sudoku-ood"
    boards: int = 20
    givens: tuple[int, int] = (24, 26)
    steps: int = 512
    generator_seed: int = 11
    seed: int = 0


NEAR = 8
"""With at most so many clashes a grid is nearly valid."""
REBOUND = 4
"""With so many clashes more than before, cells have given up something that nearly fitted."""


def jobs(settings: Settings) -> list[Job]:
    """One for each board."""
    return [{"board": number} for number in range(settings.boards)]


def measure(settings: Settings, job: Job) -> Row:
    """The clashes over the steps, and six moments: among them the largest rise, both ends of it."""
    boards = generate_easy(job["board"] + 1, settings.generator_seed, settings.givens)
    clues, target = boards.inputs[-1], boards.target[-1]
    trace = load(settings.model).trace(clues, settings.steps, every=1, seed=settings.seed)
    clashes = count_clashes(trace.grid, clues > 0)
    low, top = rebound(clashes)
    right = (trace.grid == target).all((1, 2))
    settled = len(right) - int(right[::-1].argmin()) if right[-1] and not right.all() else 0
    end = settled if right[-1] else len(right) - 1
    chosen = np.unique([min(place, end) for place in (0, low // 2, low, top, (top + end) // 2, end)])
    sure = np.rint(254 * np.clip(np.nan_to_num(trace.confidence[chosen]), 0, 1)).astype(np.uint8)
    return {
        "right": bool(right[-1]),
        "settled": settled if right[-1] else None,
        "best_before": int(clashes[low]),
        "rebound": int(clashes[top] - clashes[low]),
        "steps_of_rebound": [low, top],
        "clashes": pack(clashes),
        "clues": pack(clues),
        "strip": {
            "steps": trace.steps[chosen].tolist(),
            "says": pack(trace.grid[chosen]),
            "sure": pack(sure),
        },
    }


def count_clashes(
    grid: UInt8[np.ndarray, "t 9 9"], given: Bool[np.ndarray, "9 9"]
) -> Int64[np.ndarray, " t"]:
    """How many found digits stand twice in a house, at each moment."""
    return (conflicts(grid) & ~given).sum((1, 2))


def rebound(clashes: Int64[np.ndarray, " t"]) -> tuple[int, int]:
    """Where the largest rise begins and ends: the best moment and a later, worse one."""
    best = np.minimum.accumulate(clashes)
    top = int(np.argmax(clashes - best))
    return int(np.argmin(clashes[: top + 1])), top


def compare(result: Result) -> list[Comparison]:
    """How often cells do what the paper shows of one board."""
    rows = result.rows()
    if not rows:
        return [
            Comparison("solved after clashes had risen again", "one board: 60, 116, 250 steps", None),
        ]
    solved = [row for row in rows if row["right"]]
    again = [row for row in solved if row["best_before"] <= NEAR and row["rebound"] >= REBOUND]
    settled = [row["settled"] for row in solved]
    return [
        Comparison("boards solved by one trial", None, f"{len(solved)} of {len(rows)}"),
        Comparison(
            "of these, nearly valid once, then worse, then solved",
            "one board: 60, 116, 250 steps",
            f"{len(again)} of {len(solved)}",
            f"nearly valid: at most {NEAR} clashing digits; worse: at least {REBOUND} more",
        ),
        Comparison(
            "steps until solved for good",
            None,
            f"{min(settled)} to {max(settled)}, median {np.median(settled):.0f}" if settled else "never",
        ),
    ]


def draw(result: Result, picture: Figure) -> None:
    """The board whose clashes rose most and which was solved, and below the clashes on several boards."""
    rows = sorted(result.rows(), key=lambda row: (not row["right"], -row["rebound"]))
    if not rows:
        return
    shown = rows[0]
    parts: Any = picture.subfigures(2, 1, height_ratios=(1.6, 1))
    upper, lower = parts
    strip = shown["strip"]
    sure = unpack(strip["sure"]).astype(np.float32) / 254
    draw_moments(
        upper, np.array(strip["steps"], np.int32), unpack(strip["says"]), sure, unpack(shown["clues"])
    )
    axes = lower.subplots()
    for number, row in enumerate(rows[:4]):
        clashes = unpack(row["clashes"])
        label = "the board above" if number == 0 else f"another, {'solved' if row['right'] else 'not solved'}"
        look: dict[str, Any] = figure.style(number) | {"marker": "", "zorder": 3 - number}
        axes.plot(np.arange(len(clashes)), clashes, label=label, **look)
    axes.set_xlabel("step")
    axes.set_ylabel("digits that clash")
    axes.legend(fontsize=7, ncols=4)


STUDY = Study(
    name="trial-and-error",
    title="How cells solve a Sudoku",
    claim="Cells demonstrate collective trial and error: they first reach a nearly valid grid with a few "
    "conflicting digits, escape that local minimum by temporarily increasing constraint violations, and "
    "finally converge to a correct global consensus.",
    quick=Settings(boards=6, steps=256),
    full=Settings(boards=40),
    data=lambda settings: (
        f"{settings.boards} generated Sudokus with {settings.givens[0]} to {settings.givens[1]} clues, "
        f"generator seed {settings.generator_seed}, {settings.model}, seed of the thoughts "
        f"{settings.seed}, one trial"
    ),
    jobs=jobs,
    measure=measure,
    compare=compare,
    draw=draw,
    alt="Moments of a Sudoku with the confidence of each cell, and below how many digits clash over the "
    "steps, for this board and others.",
    inches=(9.5, 6.0),
)
