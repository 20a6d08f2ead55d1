"""Fixed attention against self-attention: Sudoku rules that differ in nothing but how neighbours are weighed.

    cellwise study run fixed-attention --quick     # a small rule, minutes on a laptop: only the loss
    cellwise study run fixed-attention             # a GPU; self-attention has no fast path

Runs lie in `runs/fixed-attention/` and are resumed like any other.
"""

import json
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..benchmarks import BENCHMARKS, BOARD_PRESETS
from ..benchmarks.preset import Preset
from ..model import Model, load
from ..puzzles.board import Boards
from ..puzzles.sudoku_generator import generate_easy
from ..training import folder, loop
from . import figure
from .answers import answers
from .study import Comparison, Job, Result, Row, Study

PERCEPTIONS = ("attention", "self-attention")


@dataclass(frozen=True)
class Task:
    """A preset at an equal budget, its rule made smaller if `channels` says so.

    A small rule learns from generated easy boards and is tested on others of them (`made`), for `made` in
    seconds; else data are the preset's and its benchmark's `case`.
    """

    preset: Literal["sudoku-ood", "sudoku-extreme"]
    case: str
    boards: int
    steps: int
    think: int
    batch: int
    rollout: int
    channels: int | None = None
    made: int = 0

    def trainable(self, perception: str) -> Preset:
        """The preset with this perception."""
        preset = BOARD_PRESETS[self.preset]
        step: Any = replace(preset.automaton.step, perception=perception)
        if self.channels:
            heads = step.heads * self.channels // step.channels
            step = replace(step, channels=self.channels, heads=heads, hidden=4 * self.channels)
        automaton, boards = (
            replace(preset.automaton, step=step),
            partial(_learned_from, self.preset, self.made),
        )
        return replace(preset, automaton=automaton, boards=boards, checks=lambda: ())

    def tests(self) -> Boards:
        """The boards that are solved in the end."""
        if self.made:
            return generate_easy(self.boards, 2)
        found = BENCHMARKS[self.preset]
        case = next(case for case in (*found.cases, *found.more) if case.name == self.case)
        return case.boards(self.boards)


@dataclass(frozen=True)
class Settings:
    """The tasks, and the seeds of training."""

    tasks: tuple[Task, ...]
    seeds: tuple[int, ...]
    runs: str = "runs/fixed-attention"


QUICK = Settings(
    (
        Task(
            "sudoku-ood",
            "made",
            boards=20,
            steps=300,
            think=48,
            batch=8,
            rollout=16,
            channels=64,
            made=500,
        ),
    ),
    seeds=(0, 1),
)
FULL = Settings(
    (
        Task("sudoku-ood", "made", boards=900, steps=3_000, think=256, batch=256, rollout=48),
        Task("sudoku-extreme", "dev", boards=500, steps=2_000, think=512, batch=128, rollout=48),
    ),
    seeds=(0, 1, 2),
)
_LOOKS = 30
"""How often the loss of a run is kept."""


def jobs(settings: Settings) -> list[Job]:
    """A run of training for each task, seed and kind of attention."""
    return [
        {"task": task.preset, "seed": seed, "perception": perception}
        for task in settings.tasks
        for seed in settings.seeds
        for perception in PERCEPTIONS
    ]


def measure(settings: Settings, job: Job) -> Row:
    """The loss during training, the share of cells and boards right afterwards, and fixed weights."""
    task = next(task for task in settings.tasks if task.preset == job["task"])
    run = Path(settings.runs) / f"{task.preset}-{task.steps}" / f"{job['perception']}-{job['seed']}"
    every = max(1, task.steps // _LOOKS)
    if not (folder.holds_run(run) and folder.is_complete(run)):
        preset = task.trainable(job["perception"])
        schedule = replace(preset.recipe.schedule, warmup=min(500, task.steps // 10))
        recipe = replace(
            preset.recipe,
            steps=task.steps,
            schedule=schedule,
            batch=task.batch,
            pool=4 * task.batch,
            fresh=task.batch // 2,
            rollout=task.rollout,
            chunk=task.rollout,
            average=0.99,
        )
        command = "cellwise study run fixed-attention"
        training = preset.job(recipe, job["seed"])
        loop.train(
            training, run, resume=folder.holds_run(run), command=command, log_every=every, save_every=500
        )
    model, tests = load(str(run / "model")), _tests(task)
    said = answers(model, tests, task.think, 0).grid
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    row: Row = {
        "loss": [[line["step"], round(line["loss"], 6)] for line in lines if "loss" in line],
        "cells": round(float((said == tests.target).mean()), 5),
        "boards": round(float((said == tests.target).all((1, 2)).mean()), 5),
    }
    if job["perception"] == "attention":
        row["weights"] = learned(model)
    return row


@cache
def _learned_from(preset: str, made: int) -> tuple[Boards, dict[str, Any]]:
    """The boards of a task, which some presets make in a minute, and where they come from."""
    if not made:
        return BOARD_PRESETS[preset].boards()
    return generate_easy(made, 0), {"data": f"{made:,} generated easy Sudokus", "generator_seed": 0}


@cache
def _tests(task: Task) -> Boards:
    return task.tests()


def learned(model: Model) -> list[list[float]]:
    """The weights of the nine neighbours for each head, mean over all places."""
    weights = model.weights["perceive.attention"]
    return np.round(weights.reshape(-1, *weights.shape[-2:]).mean(0), 4).tolist()


def compare(result: Result) -> list[Comparison]:
    """Final loss and boards right, fixed beside self-attention."""
    compared = []
    for task in result.settings.tasks:
        found = [result.rows(task=task.preset, perception=kind) for kind in PERCEPTIONS]
        losses = [[row["loss"][-1][1] for row in rows] for rows in found]
        shares = [[100 * row["boards"] for row in rows] for rows in found]
        for what, values, form in (
            ("loss in the end", losses, "{:.4f}"),
            ("boards right", shares, "{:.1f} %"),
        ):
            ours = None
            if all(values):
                ours = " against ".join(_mean(one, form) for one in values)
            compared.append(
                Comparison(
                    f"{task.preset}, {task.steps:,} iterations: {what}, fixed against self-attention",
                    "fixed is better, three seeds",
                    ours,
                )
            )
    return compared


def _mean(values: list[float], form: str) -> str:
    spread = f" ± {form.format(np.std(values, ddof=1))}" if len(values) > 1 else ""
    return f"{form.format(np.mean(values))}{spread}"


def draw(result: Result, picture: Figure) -> None:
    """The loss over the iterations by seed, and what eight heads of a fixed rule have learnt."""
    tasks = [task for task in result.settings.tasks if result.rows(task=task.preset)]
    if not tasks:
        return
    upper, lower = _halves(picture)
    panels: Any = upper.subplots(1, len(tasks), squeeze=False)
    for axes, task in zip(panels[0], tasks, strict=True):
        _losses(axes, task, result)
    weights = next((row["weights"] for row in result.rows(perception="attention")), None)
    if weights is not None:
        heads: Any = lower.subplots(1, 8, squeeze=False)
        most = float(np.abs(weights).max())
        for number, (axes, head) in enumerate(zip(heads[0], weights, strict=False)):
            axes.imshow(np.reshape(head, (3, 3)), cmap="PuOr", vmin=-most, vmax=most)
            axes.set_title(f"head {number}", fontsize=7)
        for axes in heads[0]:
            axes.set_axis_off()


def _halves(picture: Figure) -> tuple[Any, Any]:
    parts: Any = picture.subfigures(2, 1, height_ratios=(2.6, 1))
    return parts[0], parts[1]


def _losses(axes: Axes, task: Task, result: Result) -> None:
    for number, kind in enumerate(PERCEPTIONS):
        look: dict[str, Any] = figure.style(number) | {"marker": ""}
        for place, row in enumerate(result.rows(task=task.preset, perception=kind)):
            label = {"attention": "fixed attention", "self-attention": "self-attention"}[kind]
            axes.plot(*np.array(row["loss"]).T, label=label if place == 0 else None, **look)
    axes.set_yscale("log")
    axes.set_title(f"{task.preset}, seeds one by one", loc="left", fontsize=9)
    axes.set_xlabel("iteration")
    axes.set_ylabel("loss")
    axes.legend(fontsize=8)


STUDY = Study(
    name="fixed-attention",
    title="Fixed attention against self-attention",
    claim="Fixed attention consistently trains faster and achieves higher solve rates than standard "
    "self-attention on Sudoku-OOD and Sudoku-Extreme.",
    quick=QUICK,
    full=FULL,
    data=lambda settings: "; ".join(
        f"{task.preset}: {task.boards} "
        + (
            f"generated easy boards, a rule of {task.channels} channels"
            if task.made
            else f"boards of {task.case}"
        )
        + f", {task.think} steps"
        for task in settings.tasks
    ),
    jobs=jobs,
    measure=measure,
    compare=compare,
    draw=draw,
    alt="Loss against iterations for both kinds of attention, each seed a line, and the weights that eight "
    "heads of the fixed rule give to the nine neighbours.",
    inches=(9.0, 5.0),
)
