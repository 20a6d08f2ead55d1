"""What training needs: the recipe without replay, without each disturbance, and with all cells firing.

    cellwise study run training-ingredients --quick    # mazes of size 5, minutes on a laptop
    cellwise study run training-ingredients            # a GPU; stopped at any time, the same command goes on

Every variant differs from the recipe in what its line says and in nothing else: as many iterations, the same
boards, the same seeds. Runs lie in `runs/training-ingredients/` and are resumed like any other.
"""

from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..benchmarks import BOARD_PRESETS, maze_ood, sudoku_ood
from ..benchmarks.preset import Preset
from ..kernels.dispatch import Noise
from ..model import Model, load
from ..puzzles.board import Boards
from ..puzzles.maze_generator import generate
from ..training import folder, loop
from ..training.recipe import Recipe
from . import figure
from .answers import answers
from .study import Comparison, Job, Result, Row, Study

SILENCE = Noise(0.0, 0.0, 0.0)
VARIANTS: dict[str, dict[str, Any]] = {
    "everything": {},
    "no replay": {"fresh": "batch"},
    "no noise": {"noise": SILENCE, "noise_before": False},
    "no damage": {"damage": 0.0},
    "no swap": {"swap": 0.0},
    "no disturbance": {"noise": SILENCE, "noise_before": False, "damage": 0.0, "swap": 0.0},
    "synchronous": {"fire_rate": 1.0},
}
"""What each variant changes in the recipe; `"batch"` stands for the number of boards in a batch."""


@dataclass(frozen=True)
class Task:
    """How much is trained and what is solved afterwards.

    `levels` are sizes of mazes, or numbers of blanks of Sudokus, with `boards` of each. `size` is that of the
    mazes that are trained on.
    """

    preset: Literal["maze-ood", "sudoku-ood"]
    steps: int
    levels: tuple[int, ...]
    boards: int
    size: int = 9
    batch: int | None = None
    rollout: int | None = None
    peak: float | None = None
    average: float = 0.999

    def recipe(self, variant: str) -> Recipe:
        """The recipe of a variant at this budget."""
        base = BOARD_PRESETS[self.preset].recipe
        batch, rollout = self.batch or base.batch, self.rollout or base.rollout
        schedule = replace(
            base.schedule,
            peak=self.peak or base.schedule.peak,
            warmup=min(base.schedule.warmup, self.steps // 10),
        )
        sizes = {
            "batch": batch,
            "pool": base.pool * batch // base.batch,
            "fresh": base.fresh * batch // base.batch,
            "rollout": rollout,
            "chunk": rollout,
        }
        changes = {name: batch if to == "batch" else to for name, to in VARIANTS[variant].items()}
        return replace(base, steps=self.steps, schedule=schedule, average=self.average, **(sizes | changes))

    def trainable(self) -> Preset:
        """What is trained: the preset on mazes of this size, without looks on the way."""
        boards = partial(_learned_from, self.preset, self.size)
        return replace(BOARD_PRESETS[self.preset], boards=boards, checks=lambda: ())


@dataclass(frozen=True)
class Settings:
    """The tasks, and the seeds of training."""

    tasks: tuple[Task, ...]
    seeds: tuple[int, ...]
    runs: str = "runs/training-ingredients"


QUICK = Settings(
    tasks=(
        Task(
            "maze-ood",
            steps=1_500,
            levels=(5, 7, 9, 13, 17),
            boards=100,
            size=5,
            batch=16,
            rollout=24,
            peak=3e-3,
            average=0.99,
        ),
    ),
    seeds=(0, 1),
)
FULL = Settings(
    tasks=(
        Task("maze-ood", steps=5_000, levels=(9, 13, 17, 21, 25, 33, 41, 49, 59), boards=200),
        Task("sudoku-ood", steps=3_000, levels=tuple(range(47, 65)), boards=50, average=0.99),
    ),
    seeds=(0, 1, 2),
)


def jobs(settings: Settings) -> list[Job]:
    """A run of training for each task, seed and variant; whole seeds first, so that an end finds pairs."""
    return [
        {"task": task.preset, "seed": seed, "variant": variant}
        for task in settings.tasks
        for seed in settings.seeds
        for variant in VARIANTS
    ]


def measure(settings: Settings, job: Job) -> Row:
    """The share of boards right after training, by level."""
    task = next(task for task in settings.tasks if task.preset == job["task"])
    model = trained(task, job, Path(settings.runs))
    return {"right": [round(share(model, level, task), 4) for level in task.levels]}


def trained(task: Task, job: Job, runs: Path) -> Model:
    """The model of a job: trained now, or from where its run stopped, or as it is there already."""
    run = runs / f"{task.preset}-{task.steps}" / f"{job['variant'].replace(' ', '-')}-{job['seed']}"
    if not (folder.holds_run(run) and folder.is_complete(run)):
        training = task.trainable().job(task.recipe(job["variant"]), job["seed"])
        loop.train(
            training,
            run,
            resume=folder.holds_run(run),
            command="cellwise study run training-ingredients",
            log_every=250,
            save_every=1_000,
        )
    return load(str(run / "model"))


def share(model: Model, level: int, task: Task) -> float:
    """The share of the boards of a level that one trial gets right."""
    boards, steps = _boards(task.preset, level, task.boards)
    return float((answers(model, boards, steps, 0).grid == boards.target).all((1, 2)).mean())


@cache
def _learned_from(preset: str, size: int) -> tuple[Boards, dict[str, Any]]:
    """The boards of a task, which some presets make in a minute, and where they come from."""
    if preset != "maze-ood" or size == 9:
        return BOARD_PRESETS[preset].boards()
    source = {"data": f"20,000 generated mazes of size {size}", "generator_seed": maze_ood.TRAIN_SEED}
    return generate(size, 20_000, maze_ood.TRAIN_SEED), source


@cache
def _boards(preset: str, level: int, count: int) -> tuple[Boards, int]:
    """Test boards of a level, and how long to think about them."""
    if preset == "maze-ood":
        return generate(level, count, maze_ood.TEST_SEED), 300 + (level + 2) ** 2 // 2
    boards = sudoku_ood.test_boards(10**6)
    return boards[np.flatnonzero(boards.difficulty == level)[:count]], 256


def compare(result: Result) -> list[Comparison]:
    """The mean over all levels for each variant, beside what the paper concludes from its figure."""
    compared = []
    for task in result.settings.tasks:
        for variant in VARIANTS:
            shares = [np.mean(row["right"]) for row in result.rows(task=task.preset, variant=variant)]
            ours = None
            if shares:
                spread = f" ± {100 * np.std(shares, ddof=1):.1f}" if len(shares) > 1 else ""
                seeds = f"{len(shares)} seed{'s' if len(shares) > 1 else ''}"
                ours = f"{100 * np.mean(shares):.1f}{spread} % right ({seeds})"
            compared.append(Comparison(f"{task.preset}, {variant}", _conclusion(task.preset, variant), ours))
    return compared


def _conclusion(preset: str, variant: str) -> str:
    if variant == "everything":
        return "best"
    if variant == "synchronous" and preset == "maze-ood":
        return "needed, in particular for Sudoku"
    return "needed"


def draw(result: Result, picture: Figure) -> None:
    """A panel for each task: the mean over the seeds by level, and the lowest and highest."""
    tasks = [task for task in result.settings.tasks if result.rows(task=task.preset)]
    if not tasks:
        return
    panels: Any = picture.subplots(1, len(tasks), squeeze=False)
    for axes, task in zip(panels[0], tasks, strict=True):
        _panel(axes, task, result)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside upper center", ncols=4)


def _panel(axes: Axes, task: Task, result: Result) -> None:
    for number, variant in enumerate(VARIANTS):
        found = result.rows(task=task.preset, variant=variant)
        if not found:
            continue
        shares = 100 * np.array([row["right"] for row in found])
        look = figure.style(number)
        axes.plot(task.levels, shares.mean(0), label=variant, clip_on=False, **look)
        if len(found) > 1:
            axes.fill_between(
                task.levels, shares.min(0), shares.max(0), color=look["color"], alpha=0.12, linewidth=0
            )
    mazes = task.preset == "maze-ood"
    axes.set_title(f"{task.preset}, {task.steps:,} iterations", loc="left", fontsize=9)
    axes.set_xlabel(f"size of the maze; trained on {task.size}" if mazes else "blanks; trained on 39 to 50")
    axes.set_ylabel("boards right, %")
    axes.set_ylim(0, 100)


def data(settings: Settings) -> str:
    """What is trained and tested on."""
    told = {
        "maze-ood": "generated mazes, test seed 2",
        "sudoku-ood": "sudoku-hard-made test, 256 steps",
    }
    tasks = "; ".join(
        f"{task.preset}: {told[task.preset]}, {task.boards} boards a level" for task in settings.tasks
    )
    return f"{tasks}; seeds of training {', '.join(map(str, settings.seeds))}; one trial a board"


STUDY = Study(
    name="training-ingredients",
    title="What training needs",
    claim="Asynchronous updates (in particular for Sudoku), stochastic perturbations (noise, damage and "
    "target swap) as well as sample replay during training are critical for generalisation.",
    quick=QUICK,
    full=FULL,
    data=data,
    jobs=jobs,
    measure=measure,
    compare=compare,
    draw=draw,
    alt="Share of boards right against the size of the maze, or against the blanks of the Sudoku, for the "
    "recipe and for the recipe without replay, noise, damage, swaps, all of these disturbances, or with all "
    "cells firing.",
    inches=(9.0, 4.6),
)
