"""Kicks at test time: whether trained cells bear them, and whether they help.

In the first quarter of the steps, at each step with probability 0.1, 0.3 of the cells of a maze or 0.2 of a
Sudoku's get normal noise of a size from 0 to 1.
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
    """What is evaluated, with which sizes of kicks and from which seeds."""

    evaluations: tuple[Evaluation, ...]
    sizes: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5, 1.0)
    seeds: tuple[int, ...] = (0, 1, 2)


QUICK = Settings(
    (
        Evaluation("maze-ood", "size 25", boards=60, steps=664),
        Evaluation("maze-ood", "wilson-59", boards=20, steps=2_000),
    ),
    seeds=(0,),
)
FULL = Settings(
    (
        Evaluation("maze-ood", "size 59", boards=500, steps=2_000),
        Evaluation("maze-ood", "wilson-59", boards=500, steps=2_000),
        Evaluation("maze-hard", "test", boards=1_000, steps=200, trials=16),
        Evaluation("sudoku-ood", "made", boards=1_800, steps=256, trials=16),
        Evaluation("sudoku-extreme", "dev", boards=500, steps=1_024, trials=16),
    )
)


def jobs(settings: Settings) -> list[Job]:
    """An evaluation for each benchmark, seed and size of the kicks."""
    return [
        {"benchmark": one.benchmark, "case": one.case, "seed": seed, "noise": size}
        for one in settings.evaluations
        for seed in settings.seeds
        for size in settings.sizes
    ]


def measure(settings: Settings, job: Job) -> Row:
    """The shares of boards right."""
    told = job["benchmark"], job["case"]
    one = next(one for one in settings.evaluations if (one.benchmark, one.case) == told)
    found, _ = measured(replace(one, noise=job["noise"], seed=job["seed"]))
    return shares(found)


def compare(result: Result) -> list[Comparison]:
    """For each benchmark: without kicks, with the best of them, and with the largest."""
    compared = []
    for one in result.settings.evaluations:
        found = {size: _shares(result, one, size) for size in result.settings.sizes}
        found = {size: values for size, values in found.items() if values}
        ours, note = None, ""
        if 0.0 in found and len(found) > 1:
            best = max((size for size in found if size), key=lambda size: np.mean(found[size]))
            most = max(found)
            ours = f"{_said(found[0.0])} without, {_said(found[best])} with kicks of {best:g}"
            note = f"{_said(found[most])} with {most:g}; {_chosen(one)}, {one.boards:,} boards"
        compared.append(
            Comparison(f"{one.benchmark}, {one.case}", "kicks of any size from 0 to 1 help", ours, note)
        )
    return compared


def _shares(result: Result, one: Evaluation, size: float) -> list[float]:
    return [100 * row["conf"] for row in result.rows(benchmark=one.benchmark, case=one.case, noise=size)]


def _chosen(one: Evaluation) -> str:
    return "1 trial" if one.trials == 1 else f"conf@{one.trials}"


def _said(values: list[float]) -> str:
    spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{spread} %"


def draw(result: Result, picture: Figure) -> None:
    """A line for each benchmark; mean over the seeds of the thoughts, lowest to highest."""
    axes = picture.subplots()
    for number, one in enumerate(result.settings.evaluations):
        found = [(size, _shares(result, one, size)) for size in result.settings.sizes]
        found = [(size, values) for size, values in found if values]
        if not found:
            continue
        sizes = [size for size, _ in found]
        look: dict[str, Any] = figure.style(number)
        label = f"{one.benchmark}, {one.case}, {_chosen(one)}"
        axes.plot(sizes, [np.mean(values) for _, values in found], label=label, clip_on=False, **look)
        low, high = ([end(values) for _, values in found] for end in (min, max))
        axes.fill_between(sizes, low, high, color=look["color"], alpha=0.15, linewidth=0)
    axes.set_xlabel("size of the kicks")
    axes.set_ylabel("boards right, %")
    axes.set_ylim(0, 101)
    if axes.lines:
        axes.legend(fontsize=8)


STUDY = Study(
    name="noise",
    title="Kicks at test time",
    claim="When noise of varying magnitude is added at test time, not only do the learned rules show perfect "
    "robustness, but noise even boosts performance across all benchmarks and noise scales.",
    quick=QUICK,
    full=FULL,
    data=lambda settings: (
        "; ".join(f"{one.benchmark} {one.case}, {one.steps:,} steps" for one in settings.evaluations)
        + f"; seeds of the thoughts {', '.join(map(str, settings.seeds))}"
    ),
    jobs=jobs,
    measure=measure,
    compare=compare,
    draw=draw,
    alt="Share of boards right against the size of the kicks, a line for each benchmark.",
    inches=(7.5, 4.0),
)
