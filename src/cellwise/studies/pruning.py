"""Pruned thinking on Sudoku-Extreme: accuracy against operations, and against time.

Steps are cut into m segments, and half of the trials go on after each, so K trials of D steps cost the share
(2 − 2^(1−m)) / m of what they would. The same budget then buys deeper thoughts.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from . import figure
from .evaluations import Evaluation, measured, shares
from .study import Comparison, Job, Result, Row, Study


@dataclass(frozen=True)
class Settings:
    """What is evaluated at every depth with every pruning factor."""

    evaluation: Evaluation
    depths: tuple[int, ...]
    factors: tuple[int, ...] = (1, 2, 4, 8)


QUICK = Settings(
    Evaluation("sudoku-extreme", "balanced", boards=44, steps=0, trials=16, released_kicks=True),
    (32, 64, 128),
    (1, 2, 4),
)
FULL = Settings(
    Evaluation("sudoku-extreme", "balanced", boards=1_100, steps=0, trials=128, released_kicks=True),
    (64, 128, 256, 512, 1_024, 2_048),
)


def jobs(settings: Settings) -> list[Job]:
    """One for each depth and factor, the shallow ones first."""
    return [{"depth": depth, "factor": factor} for depth in settings.depths for factor in settings.factors]


def measure(settings: Settings, job: Job) -> Row:
    """Boards right, operations of a board, and seconds if it was measured now."""
    found, took = measured(replace(settings.evaluation, steps=job["depth"], prune=job["factor"]))
    return shares(found) | took


def theory(factor: int) -> float:
    """The share of the operations that is left."""
    return (2 - 2.0 ** (1 - factor)) / factor


def compare(result: Result) -> list[Comparison]:
    """Savings, the same budget spent otherwise, and the wall clock."""
    compared = []
    settings = result.settings
    deepest = settings.depths[-1]
    for factor in settings.factors[1:]:
        plain, pruned = (result.row(depth=deepest, factor=m) for m in (1, factor))
        ours = note = None
        if plain and pruned:
            ours = f"{100 * (1 - pruned['steps_taken'] / plain['steps_taken']):.1f} %"
            note = f"{100 * plain['conf']:.1f} % right unpruned, {100 * pruned['conf']:.1f} % pruned"
        paper = f"{100 * (1 - theory(factor)):.1f} %"
        compared.append(
            Comparison(f"operations saved, m = {factor}, {deepest:,} steps", paper, ours, note or "")
        )
        if plain and pruned and plain["seconds"] and pruned["seconds"]:
            compared.append(
                Comparison(
                    f"how many times as fast, m = {factor}, {deepest:,} steps",
                    f"up to {1 / theory(factor):.2f}×",
                    f"{plain['seconds'] / pruned['seconds']:.2f}×",
                )
            )
    base, deep = result.row(depth=64, factor=1), result.row(depth=256, factor=8)
    both = f"{100 * base['conf']:.1f} → {100 * deep['conf']:.1f} %" if base and deep else None
    what = "the same budget: 64 steps unpruned → 256 steps, m = 8"
    compared.append(Comparison(what, "25.6 → 81.7 %", both))
    return compared


def draw(result: Result, picture: Figure) -> None:
    """Boards right against operations, and the same budget by pruning factor."""
    budget, allocation = picture.subplots(1, 2)
    settings = result.settings
    for number, factor in enumerate(settings.factors):
        found = [row for depth in settings.depths if (row := result.row(depth=depth, factor=factor))]
        if found:
            flops, right = [row["flops"] for row in found], [100 * row["conf"] for row in found]
            label = "unpruned" if factor == 1 else f"m = {factor}"
            budget.plot(flops, right, label=label, **figure.style(number))
    budget.set_xscale("log")
    budget.set_xlabel("operations of a board, as the paper counts")
    ways = ((1, 1, "D, unpruned"), (2, 4, "2 D, m = 4"), (4, 8, "4 D, m = 8"))
    for number, (times, factor, label) in enumerate(ways):
        found = [
            (depth, 100 * row["conf"])
            for depth in settings.depths
            if (row := result.row(depth=times * depth, factor=factor))
        ]
        if found:
            look: dict[str, Any] = figure.style(number)
            allocation.plot(*np.array(found).T, label=label, **look)
    allocation.set_xscale("log", base=2)
    allocation.set_xlabel("D: steps that the budget buys unpruned")
    for axes in (budget, allocation):
        axes.set_ylabel("boards right, %")
        axes.set_ylim(0, 101)
        if axes.lines:
            axes.legend(fontsize=8)


STUDY = Study(
    name="pruning",
    title="Pruning",
    claim="Pruned rollouts achieve similar accuracy with up to 4× lower compute, and at equal budgets "
    "deeper, pruned rollouts win: at a base budget of 64 steps, quadrupling depth with m = 8 boosts "
    "accuracy from 25.6 % to 81.7 %.",
    quick=QUICK,
    full=FULL,
    data=lambda settings: (
        f"{settings.evaluation.benchmark} {settings.evaluation.case}, {settings.evaluation.boards:,} boards, "
        f"{settings.evaluation.trials} trials, all with the kicks of the released code"
    ),
    jobs=jobs,
    measure=measure,
    compare=compare,
    draw=draw,
    alt="Boards right against operations, a line for each pruning factor, and boards right for the same "
    "budget spent on unpruned, twice as deep or four times as deep thoughts.",
    inches=(9.0, 3.8),
)
