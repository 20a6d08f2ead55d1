"""`cellwise adapt`: learn ARC tasks from their demonstrations and guess what they ask."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ..errors import ConfigError, ModelError
from ..files import check_writable, explained
from ..model import Model, load, shipped
from ..puzzles.arc import Known, Task, read_tasks
from ..puzzles.arc_vote import Ballot, count, rank
from ..report.arc_grid import drawn, page
from ..tasks.adapt import AdaptRecipe
from ..tasks.solve import Solved, solve, to_record
from .arguments import option
from .console import Console

_MODEL = "arc-small"
_ATTEMPTS = 2


@dataclass(frozen=True)
class Adapt:
    """Learns ARC tasks from their demonstrations and answers what they ask.

    A task is a JSON file such as those of ARC; answers in it are not looked at before all guesses are made,
    and then the command exits with 0 only if one of two attempts is right for every question. With --out what
    is done is kept, and the same command goes on with the rest.
    For instance `cellwise adapt task.json --model runs/arc-small/model --save task.png`.
    """

    tasks: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="FILE|DIR [...]")]
    """Task files, or folders of them."""
    model: Annotated[str, tyro.conf.arg(metavar="NAME|DIR")] = _MODEL
    """A pre-trained model that comes with the package, or the folder of your own."""
    out: Annotated[Path | None, option("DIR", "nowhere")] = None
    """Keep the guesses of each task in this folder."""
    save: Annotated[Path | None, option("PNG", "no picture")] = None
    """Draw the task with its attempts; for one task."""
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
        known = {one.task.name: one for one in self._known()}
        if self.save is not None:
            if len(known) > 1:
                raise ConfigError(
                    f"One picture cannot show {len(known)} tasks; name one, or leave out --save."
                )
            if self.save.suffix.lower() != ".png":
                raise ConfigError(f"The picture cannot be {self.save.name!r}; let its name end in .png.")
            check_writable(self.save)
        model = _load(self.model)
        console, notes = Console(), Console(stderr=True)
        good = True
        # Only the tasks are handed on: what solves them has no answers.
        for solved in self._solve(model, [one.task for one in known.values()], notes):
            ballots = [count(guesses) for guesses in solved.guesses]
            verdict = _verdict(known[solved.task.name], ballots)
            good &= all(ballot.candidates for ballot in ballots) if verdict is None else verdict
            if self.as_json:
                print(json.dumps(to_record(solved) | {"right": verdict}))
            else:
                self._show(console, solved, ballots, verdict)
            if self.save is not None:
                attempts = [ballot.candidates[:_ATTEMPTS] for ballot in ballots]
                with explained("write", self.save):
                    page(solved.task, attempts, [ballot.votes for ballot in ballots]).save(self.save)
        return 0 if good else 1

    def _known(self) -> Iterator[Known]:
        if not self.tasks:
            raise ConfigError("Name a task file or a folder of task files.")
        seen: set[str] = set()
        for path in self.tasks:
            for one in read_tasks(path):
                if one.task.name in seen:
                    raise ConfigError(f"There are two tasks named {one.task.name}; rename one of them.")
                seen.add(one.task.name)
                yield one

    def _solve(self, model: Model, tasks: list[Task], notes: Console) -> Iterator[Solved]:
        with notes.status("learning") if notes.is_terminal else contextlib.nullcontext() as status:
            yield from solve(
                model,
                tasks,
                self.recipe,
                out=self.out,
                seed=self.seed,
                at_once=self.at_once,
                minutes=self.minutes,
                tell=lambda line: status.update(line) if status is not None else None,
            )

    def _show(self, console: Console, solved: Solved, ballots: list[Ballot], verdict: bool | None) -> None:
        for number, (question, ballot) in enumerate(zip(solved.task.questions, ballots, strict=True), 1):
            attempts = ballot.candidates[:_ATTEMPTS]
            shares = ", ".join(f"{one.votes} of {ballot.votes}" for one in attempts)
            console.print(f"[bold]{solved.task.name}[/], question {number}: votes {shares or 'for no grid'}")
            if ballot.invalid:
                console.print(f"{ballot.invalid} of {ballot.votes} guesses showed no grid.", style="dim")
            console.print(drawn([question, *(one.grid for one in attempts)]), soft_wrap=True)
        judged = {None: "No answers to compare with.", True: "Right.", False: "Not right."}[verdict]
        console.print(f"{judged} {solved.updates} updates, {solved.seconds:.1f} s.", highlight=False)


def _verdict(known: Known, ballots: list[Ballot]) -> bool | None:
    """Whether one of two attempts is right for every question; None without answers."""
    if any(answer is None for answer in known.answers):
        return None
    places = [
        rank(ballot, answer)
        for ballot, answer in zip(ballots, known.answers, strict=True)
        if answer is not None
    ]
    return all(place is not None and place <= _ATTEMPTS for place in places)


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
