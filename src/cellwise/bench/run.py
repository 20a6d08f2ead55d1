"""A benchmark from the first workload to the last, as a document that grows as it goes."""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import jax

from .. import environment
from ..kernels.precision import Precision
from . import cax
from .contenders import TASKS, Setting, setting, thinking
from .measure import Contender, Outcome, Tell, matrix_product, measure
from .paths import contending, told_apart
from .workload import Workload

Document = dict[str, Any]
SAME_AS_PAPER = (
    "The paper's formulation has no row of its own for mazes: for shared kernels it is the reference."
)
HEAVY = ("reference", "paper")
"""Paths of which a training iteration is measured at one precision only, because it takes so long."""


@dataclass(frozen=True)
class Selection:
    """What to measure of all there is; nothing named means everything."""

    rules: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    precisions: tuple[Precision, ...] = ("float32",)
    variants: bool = False

    def wants(self, workload: Workload) -> bool:
        """Whether a workload is among them."""
        return (not self.rules or workload.preset in self.rules) and (
            not self.tasks or workload.task in self.tasks
        )


def bench(
    workloads: tuple[Workload, ...],
    selection: Selection,
    repetitions: int,
    side: int,
    seconds: float = float("inf"),
    tell: Tell = lambda _: None,
    keep: Callable[[Document], None] = lambda _: None,
) -> Document:
    """Measures workload after workload until all are done or so much time is gone.

    `keep(document)` is called after each of them with all that was measured until then.
    """
    began, wanted = time.monotonic(), [one for one in workloads if selection.wants(one)]
    document = _head(selection, repetitions, side, tell)
    notes, rows = document["notes"], document["rows"]
    for workload in wanted:
        if time.monotonic() - began > seconds:
            notes.append(f"There was no time left for {workload.preset}, {workload.task}, {workload.about}.")
            continue
        at = setting(workload)
        contenders = list(_contenders(at, selection))
        outcome = measure(
            contenders, repetitions, lambda what, w=workload: tell(f"{w.preset}, {w.task}: {what}")
        )
        made = list(_rows(at, contenders, outcome, document["matrix_products"]))
        notes += [
            f"{contenders[number].name}, {contenders[number].precision} could not take {workload.preset}, "
            f"{workload.task}, {workload.about}: {why}."
            for number, why in outcome.failed.items()
        ]
        rows += _compared(made)
        keep(document)
        del contenders
        jax.clear_caches()  # Hundreds of unrolled steps are a burden to a long run.
    return document


def _head(selection: Selection, repetitions: int, side: int, tell: Tell) -> Document:
    ceilings = {}
    for precision in selection.precisions:
        tell(f"matrix product, {precision}")
        ceilings[precision] = matrix_product(side, precision, repetitions)
    notes = [SAME_AS_PAPER] if cax.installed() else [SAME_AS_PAPER, cax.MISSING]
    also = {name: version(name) for name in ("cax", "flax")} if cax.installed() else {}
    return {
        "benchmark": "bench",
        "date": datetime.now(UTC).date().isoformat(),
        "device": environment.device().partition(", ")[0],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "commit": environment.commit(),
        "versions": environment.versions() | also,
        "notes": notes,
        "matrix_products": ceilings,
        "rows": [],
    }


def _contenders(at: Setting, selection: Selection) -> Iterator[Contender]:
    """Everything to be measured on a workload."""
    workload, spec = at.workload, at.preset.automaton.step
    kernels = spec.perception == "kernels"
    if cax.installed() and workload.open and _asked(selection, "cax"):
        yield cax.contender(at)
    paths = contending(spec, at.most_free, selection.variants)
    for path in paths:
        if (workload.task == "training" and path.name == "paper") or not _asked(selection, path.name):
            continue
        precisions = told_apart(path, selection.precisions)
        if workload.task == "training" and path.name in HEAVY:
            precisions = precisions[-1:]
        for precision in precisions:
            yield TASKS[workload.task](at, path, precision)
    if workload.task == "forward" and kernels and workload.steps and _asked(selection, "think"):
        yield thinking(at, "float32")


def _asked(selection: Selection, path: str) -> bool:
    return not selection.paths or any(path.startswith(name) for name in selection.paths)


def _rows(
    at: Setting, contenders: list[Contender], outcome: Outcome, ceilings: dict[str, Any]
) -> Iterator[Document]:
    for number, seconds in outcome.items():
        one, median = contenders[number], statistics.median(seconds)
        ceiling = ceilings.get(one.precision, {}).get("flops_per_second")
        yield {
            "rule": at.workload.preset,
            "task": at.workload.task,
            "contender": one.name,
            "precision": one.precision,
            "boards": one.boards,
            "batch": one.cells // at.boards.target[0].size,
            "cells": one.cells,
            "free_cells": one.free,
            "steps": one.steps,
            "repetitions": len(seconds),
            "seconds": {"median": median, "min": min(seconds), "max": max(seconds)},
            "runs_per_second": 1 / median,
            "cell_steps_per_second": one.cells * one.steps / median,
            "free_cell_steps_per_second": one.free * one.steps / median,
            "nanoseconds_per_cell_step": 1e9 * median / (one.cells * one.steps),
            "flops_per_second": one.flops / median,
            "share_of_matrix_product": one.flops / median / ceiling if ceiling else None,
        }


def _compared(rows: list[Document]) -> list[Document]:
    """The rows of one workload, each with how many times as fast it is as CAX and as the plainest path."""
    for name, begins in (("times_cax", "CAX"), ("times_reference", "cellwise, reference")):
        base = next((row for row in rows if row["contender"].startswith(begins)), None)
        if base is not None:
            for row in rows:
                row[name] = base["seconds"]["median"] / row["seconds"]["median"]
    return rows
