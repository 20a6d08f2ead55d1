"""`cellwise adapt`: learn ARC tasks from their demonstrations and guess what they ask."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ..errors import ConfigError, ModelError
from ..model import Model, load, shipped
from ..puzzles.arc import Task
from ..tasks.adapt import AdaptRecipe
from ..tasks.adapted import Solved
from ..tasks.solve import is_done, solve
from .arguments import option
from .console import Console
from .task_view import Saves, check_saves, known_tasks, present

_MODEL = "arc-small"


@dataclass(frozen=True)
class Adapt:
    """Learns ARC tasks from their demonstrations and answers what they ask.

    A task is a JSON file such as those of ARC; answers in it are not looked at before all guesses are made,
    and then the command exits with 0 only if one of two attempts is right for every question. With --out what
    is done is kept, and the same command goes on with the rest.
    For instance `cellwise adapt task.json --model runs/arc-small/model --watch --save task.html`.
    """

    tasks: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="FILE|DIR [...]")]
    """Task files, or folders of them."""
    model: Annotated[str, tyro.conf.arg(metavar="NAME|DIR")] = _MODEL
    """A pre-trained model that comes with the package, or the folder of your own."""
    out: Annotated[Path | None, option("DIR", "nowhere")] = None
    """Keep the guesses of each task in this folder."""
    watch: bool = False
    """Show the cells while they colour the answer, once the task is learnt."""
    save: Saves = ()
    """Save a picture, .png, a page with votes and film, .html, or, in a folder, the model that has learnt the
    task, for `cellwise solve arc`; may be given several times."""
    seed: int = 0
    """Another seed, other contexts to begin with, other guesses."""
    at_once: int = 0
    """Tasks learnt together, 0 for as many as suit the device."""
    minutes: Annotated[float | None, option("FLOAT", "to the end")] = None
    """Begin no more tasks after so many minutes; with --out the same command goes on later."""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print one JSON object a task and nothing else."""
    recipe: AdaptRecipe = AdaptRecipe()  # noqa: RUF009 a frozen value
    """How a task is learnt and guessed."""

    def run(self) -> int:
        """Learns, guesses and prints."""
        if not self.tasks:
            raise ConfigError("Name a task file or a folder of task files.")
        known = known_tasks(self.tasks)
        check_saves(self.save, len(known), models=True)
        for one in known.values():
            if self.save and self.out is not None and is_done(self.out, one.task):
                raise ConfigError(
                    f"{self.out} has the guesses for {one.task.name} already, so there is nothing to save; "
                    "choose another folder with --out, or leave out --save."
                )
        model = _load(self.model)
        good = True
        # Only the tasks are handed on: what solves them has no answers.
        for solved in self._solve(model, [one.task for one in known.values()], Console(stderr=True)):
            good &= present(
                solved,
                known[solved.task.name],
                save=self.save,
                watched=self.watch,
                as_json=self.as_json,
                learnt=f"{solved.updates} updates, {solved.seconds:.1f} s.",
            )
        return 0 if good else 1

    def _solve(self, model: Model, tasks: list[Task], notes: Console) -> Iterator[Solved]:
        found = solve(
            model,
            tasks,
            self.recipe,
            out=self.out,
            seed=self.seed,
            at_once=self.at_once,
            minutes=self.minutes,
            models=self.watch or bool(self.save),
            tell=lambda line: status.update(line) if status is not None else None,
        )
        while True:
            # What is shown of a task must not share the terminal with the progress of the next.
            with notes.status("learning") if notes.is_terminal else contextlib.nullcontext() as status:
                solved = next(found, None)
            if solved is None:
                return
            yield solved


def _load(name: str) -> Model:
    try:
        return load(name)
    except ModelError:
        if name != _MODEL or _MODEL in shipped():
            raise
        raise ModelError(
            "No ARC model comes with this version; train one with `cellwise train arc-small` "
            "and name its folder with --model."
        ) from None
