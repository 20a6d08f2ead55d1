"""What the automata of the paper's table cost, counted again; `cellwise flops` prints it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .. import cost
from . import figure
from .study import Comparison, Job, Result, Row, Study


@dataclass(frozen=True)
class Settings:
    """The benchmarks whose rows are counted."""

    benchmarks: tuple[cost.Benchmark, ...] = cost.BENCHMARKS


def jobs(settings: Settings) -> list[Job]:
    """One for each benchmark."""
    return [{"benchmark": benchmark} for benchmark in settings.benchmarks]


def measure(settings: Settings, job: Job) -> Row:
    """Its rows of the table; nothing but the compiler runs."""
    return {"rows": cost.table((job["benchmark"],))["rows"]}


def compare(result: Result) -> list[Comparison]:
    """Every row of the table: what the paper prints, and what is counted here of the same formulation."""
    found = {job["benchmark"]: result.row(**job) for job in jobs(result.settings)}
    compared = []
    for benchmark, row in found.items():
        if row is None:
            compared.append(Comparison(benchmark, None, None))
        for counted in row["rows"] if row else []:
            printed, answer = counted["printed"], counted["answer"]
            saves = answer["cellwise"] < 0.99 * answer["paper"]
            compared.append(
                Comparison(
                    _name(counted),
                    f"{printed['parameters']} numbers, {printed['answer']} FLOPs",
                    f"{counted['parameters']:,} numbers, {cost.short(answer['paper'])} FLOPs",
                    f"{cost.short(answer['cellwise'])} FLOPs as cellwise computes it" if saves else "",
                )
            )
    return compared


def draw(result: Result, picture: Figure) -> None:
    """A line of the table beside the other: printed, counted in the paper's formulation, and in ours."""
    rows = [row for job in jobs(result.settings) for row in (result.row(**job) or {"rows": []})["rows"]]
    places = np.arange(len(rows))[::-1]
    axes = picture.subplots()
    series = (
        ("the paper prints", [cost.amount(row["printed"]["answer"]) for row in rows], 6, 9.0),
        ("counted, the paper's formulation", [row["answer"]["paper"] for row in rows], 1, 5.0),
        ("counted, ours", [row["answer"]["cellwise"] for row in rows], 0, 5.0),
    )
    for label, counts, number, size in series:
        look: dict[str, Any] = figure.style(number) | {"linestyle": "none", "markersize": size}
        hollow: dict[str, Any] = {"markerfacecolor": "none"} if number == 6 else {}
        axes.plot(counts, places, label=label, **look | hollow)
    axes.set_xscale("log")
    axes.set_yticks(places, [_name(row) for row in rows])
    axes.set_xlabel("floating-point operations of one answer")
    picture.legend(loc="outside upper center", ncols=3)


def _name(row: Row) -> str:
    board = "×".join(map(str, row["board"]))
    trials = f" × {row['trials']:,} trials" if row["trials"] > 1 else ""
    return f"{row['benchmark']}, {board} cells, {row['steps']:,} steps{trials}"


STUDY = Study(
    name="flops",
    title="What an answer costs",
    claim="The automata have few parameters, and an answer takes few operations: XLA's CPU count of one "
    "compiled step, times steps, times trials.",
    quick=Settings(),
    full=Settings(),
    data=lambda settings: "one compiled step of each rule on the board that the paper counts, nothing is run",
    jobs=jobs,
    measure=measure,
    compare=compare,
    draw=draw,
    alt="Operations of one answer for thirteen rows of the paper's table on a logarithmic axis: what the "
    "paper prints and what is counted here lie on each other; where there is attention, our formulation "
    "takes about half.",
)
