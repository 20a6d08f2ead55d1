"""Thinking longer and thinking often: boards right by the number of steps and of trials.

One evaluation of each benchmark, without kicks, has all of it: what its first trials said after fewer steps
is what a shorter evaluation of fewer trials would have said.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from . import figure
from .evaluations import Evaluation, measured
from .study import Comparison, Job, Result, Row, Study


@dataclass(frozen=True)
class Settings:
    """What is evaluated."""

    evaluations: tuple[Evaluation, ...]


QUICK = Settings(
    (Evaluation("maze-ood", "size 25", 100, 400, trials=8, depths=(16, 32, 48, 64, 96, 128, 192, 400)),)
)
FULL = Settings(
    (
        Evaluation("maze-hard", "test", 1_000, 200, trials=128, depths=(16, 32, 48, 64, 96, 128, 160, 200)),
        Evaluation("sudoku-ood", "made", 1_800, 256, trials=512, depths=(16, 32, 48, 64, 96, 128, 192, 256)),
        Evaluation(
            "sudoku-extreme",
            "dev",
            500,
            2_048,
            trials=512,
            depths=(32, 64, 96, 128, 256, 512, 1_024, 2_048),
        ),
    )
)
_PAPER = {
    "maze-hard": ((200, 1, "86.6 %"), (128, 1, "about 85 %"), (128, 128, "88.1 %"), (200, 128, "89.2 %")),
    "sudoku-ood": ((48, 1, "about 50 %"), (256, 1, "66.1 %"), (256, 512, None)),
    "sudoku-extreme": ((96, 1, "about 50 %"), (2_048, 1, "75.6 %"), (2_048, 512, "91.9 %")),
}
"""Steps, trials and the paper's accuracy: on the published tests, and with kicks where it has 89.2 %."""


def jobs(settings: Settings) -> list[Job]:
    """One for each benchmark."""
    return [{"benchmark": one.benchmark} for one in settings.evaluations]


def measure(settings: Settings, job: Job) -> Row:
    """The share of boards right for every depth and 1, 2, 4, … trials, by the surest and by the rules."""
    one = next(one for one in settings.evaluations if one.benchmark == job["benchmark"])
    found, _ = measured(one)
    single = found.marks["right"].mean((0, 1)).tolist()  # Of all trials, not only of the first.
    depths = found.depths.tolist()
    return {
        "boards": len(found),
        "single": [[depth, round(share, 5)] for depth, share in zip(depths, single, strict=True)],
        "conf": _table(found.curve("right")),
        "by_rules": _table(found.curve("right", among="verified")),
    }


def _table(curve: list[dict[str, Any]]) -> list[list[float]]:
    return [[point["steps"], point["trials"], round(point["share"], 5)] for point in curve]


def compare(result: Result) -> list[Comparison]:
    """The paper's numbers, where it has any for so many steps and trials."""
    compared = []
    for one in result.settings.evaluations:
        row = result.row(benchmark=one.benchmark)
        middle = one.depths[len(one.depths) // 2]
        usual = tuple((steps, trials, None) for steps in (middle, one.steps) for trials in (1, one.trials))
        points = _PAPER.get(one.benchmark, usual)
        for steps, trials, paper in points:
            ours, note = None, ""
            if row is not None:
                table, rules = ({(at[0], at[1]): at[2] for at in row[name]} for name in ("conf", "by_rules"))
                if trials == 1:
                    share = dict(map(tuple, row["single"])).get(steps)
                    note = f"mean of {one.trials} trials"
                else:
                    share = table.get((steps, trials))
                    note = f"by the rules {100 * rules.get((steps, trials), np.nan):.1f} %"
                ours = None if share is None else f"{100 * share:.1f} % of {row['boards']:,} boards"
            what = f"{one.benchmark}, {steps:,} steps, {'1 trial' if trials == 1 else f'conf@{trials}'}"
            compared.append(Comparison(what, paper, ours, note))
    return compared


def draw(result: Result, picture: Figure) -> None:
    """For each benchmark, boards right over the steps; a line for each number of trials."""
    shown = [one for one in result.settings.evaluations if result.row(benchmark=one.benchmark)]
    if not shown:
        return
    panels: Any = picture.subplots(1, len(shown), squeeze=False)
    for axes, one in zip(panels[0], shown, strict=True):
        row = result.row(benchmark=one.benchmark) or {}
        counts = sorted({trials for _, trials, _ in row["conf"]})
        for number, count in enumerate(sorted({*counts[:: max(1, len(counts) // 4)], counts[-1]})):
            points = np.array([[at[0], 100 * at[2]] for at in row["conf"] if at[1] == count])
            label = f"conf@{count}" if count > 1 else "1 trial"
            axes.plot(*points.T, label=label, clip_on=False, **figure.style(number))
        axes.set_xscale("log", base=2)
        axes.set_title(f"{one.benchmark}, {one.case}", loc="left", fontsize=9)
        axes.set_xlabel("steps")
        axes.set_ylabel("boards right, %")
        axes.set_ylim(0, 101)
        axes.legend(fontsize=7)


STUDY = Study(
    name="depth-and-width",
    title="Thinking longer, thinking often",
    claim="Running parallel, longer trials and selecting candidates by their confidence significantly "
    "improves accuracy and generalisation.",
    quick=QUICK,
    full=FULL,
    data=lambda settings: "; ".join(
        f"{one.benchmark} {one.case}, {one.boards:,} boards, {one.steps:,} steps, {one.trials} trials"
        for one in settings.evaluations
    ),
    jobs=jobs,
    measure=measure,
    compare=compare,
    draw=draw,
    alt="Share of boards right against the number of steps, a line for each number of trials, a panel for "
    "each benchmark.",
    inches=(9.0, 3.6),
)
