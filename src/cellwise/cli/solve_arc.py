"""`cellwise solve arc`: an ARC task and a model that has learnt it, or knows others by name."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from PIL import Image

from ..errors import ConfigError, DataError
from ..files import check_writable
from ..model import Frame, Model, load
from ..puzzles import store
from ..puzzles.arc import Grid, Pair
from ..report.arc_grid import canvas_picture, drawn, picture, tiled
from ..report.picture import save_picture
from ..tasks.adapted import ask
from ..tasks.film import Scene, told
from .console import Console
from .task_view import Saves, check_saves, known_tasks, present, watch_scene

_MOMENTS = 6  # Of a rollout, in the picture of several tasks.


@dataclass(frozen=True, kw_only=True)
class Arc:
    """Answers an ARC task with a model that has learnt it; exits with 0 if right, 1 if not, 2 for bad input.

    `cellwise adapt task.json --save DIR` makes such a model; the questions may be other ones by now.
    With --like the cells of a pre-trained model treat the first question as one of tasks that they know.
    For instance `cellwise solve arc task.json --model out/learnt --watch --save task.html`.
    """

    task: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """A task file."""
    model: Annotated[str, tyro.conf.arg(metavar="DIR")]
    """The folder of a model that has learnt the task."""
    rollouts: int = 1
    """Guesses for each of the 51 guises of each question."""
    like: tuple[str, ...] = ()
    """Tasks of the pre-training by their names; the model is then the pre-trained one."""
    watch: bool = False
    """Show the cells while they colour the answer."""
    save: Saves = ()
    """Save a picture, .png, or a page with votes and film, .html; may be given several times."""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print one JSON object and nothing else."""

    def run(self) -> int:
        """Guesses, votes and prints."""
        known = known_tasks([self.task])
        if len(known) > 1:
            raise ConfigError(f"{self.task} holds {len(known)} tasks; hand over a file with one.")
        (one,) = known.values()
        if self.like:
            return self._compare(load(self.model), one.task.questions[0])
        check_saves(self.save, 1, models=False)
        solved = ask(load(self.model), one.task, self.rollouts)
        good = present(
            solved,
            one,
            save=self.save,
            watched=self.watch,
            as_json=self.as_json,
            learnt=f"{len(solved.guesses[0])} guesses a question, {solved.seconds:.1f} s.",
        )
        return 0 if good else 1

    def _compare(self, model: Model, grid: Grid) -> int:
        """The same grid under different contexts."""
        for path in self.save:
            if path.suffix.lower() != ".png":
                raise ConfigError(f"With --like a picture is saved, not {path}; let its name end in .png.")
            check_writable(path)
        if self.as_json:
            raise ConfigError("With --like there are no votes to print as JSON; leave out --json.")
        scenes = {name: told(model, grid, name) for name in self.like}
        examples, console = _examples(self.like), Console()
        rows = []
        for name, scene in scenes.items():
            frames = watch_scene(scene) if self.watch else list(scene.frames())
            answer = scene.shown(frames[-1])
            console.print(f"[bold]{name}[/]{': no grid' if answer is None else ''}")
            console.print(drawn([grid, *([] if answer is None else [answer])]), soft_wrap=True)
            rows.append(_row(name, scene, frames, examples.get(name)))
        for path in self.save:
            save_picture(tiled(rows), path)
        return 0


def _examples(names: tuple[str, ...]) -> dict[str, Pair]:
    """The first demonstration of each task that the dataset store of this machine has."""
    with contextlib.suppress(DataError):
        known = store.load_tasks("arc-agi-1", "train")
        return {one.task.name: one.task.demos[0] for one in known if one.task.name in names}
    return {}


def _row(name: str, scene: Scene, frames: list[Frame], example: Pair | None) -> list[tuple[str, Image.Image]]:
    """What the task does to a grid of its own, and what the cells do to this one, moment by moment."""
    shown = [] if example is None else [("does this", example.input), ("", example.output)]
    moments = np.unique(np.rint(np.linspace(0, len(frames) - 1, _MOMENTS)).astype(int))
    row = [(label, picture(grid, 6)) for label, grid in shown]
    row.append((f"{name}, asked", canvas_picture(scene.canvas)))
    return row + [
        (f"step {frames[i].step}", canvas_picture(frames[i].grid, frames[i].confidence)) for i in moments
    ]
