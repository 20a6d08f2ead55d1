"""What `adapt` and `solve arc` share: which task, what people see of its answers, what is kept of them."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from ..errors import ConfigError
from ..files import check_writable, explained, write_text
from ..model import Frame
from ..puzzles.arc import Known, read_tasks
from ..puzzles.arc_vote import Ballot, count, rank
from ..report import task_page
from ..report.arc_grid import Canvases, drawn, page
from ..report.task_page import Film
from ..report.terminal import watch
from ..tasks.adapted import Solved
from ..tasks.film import Scene, first_guess
from ..tasks.solve import to_record
from .console import Console

ATTEMPTS = 2

Saves = Annotated[tuple[Path, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="PATH")]
"""Where something of one task is saved, which the ending of the name decides."""


def known_tasks(paths: Iterable[Path]) -> dict[str, Known]:
    """The tasks of some files and folders by their names, which must be different."""
    known: dict[str, Known] = {}
    for path in paths:
        for one in read_tasks(path):
            if one.task.name in known:
                raise ConfigError(f"There are two tasks named {one.task.name}; rename one of them.")
            known[one.task.name] = one
    return known


def check_saves(save: tuple[Path, ...], tasks: int, *, models: bool) -> None:
    """Refuses what cannot be saved before anything is computed; `models` can be saved as folders."""
    if save and tasks > 1:
        raise ConfigError(f"--save is for one task, not for {tasks}; name one, or leave out --save.")
    for path in save:
        ending = path.suffix.lower()
        if ending in (".png", ".html"):
            check_writable(path)
        elif ending or not models:
            folder = ", or name a folder, without an ending, for the model that has learnt it"
            raise ConfigError(
                f"Cannot tell from the name {path} what to save; let it end in .png or .html"
                f"{folder if models else ''}."
            )
        else:
            check_writable(path / "config.json")


def present(
    solved: Solved, known: Known, *, save: tuple[Path, ...], watched: bool, as_json: bool, learnt: str
) -> bool:
    """Shows and keeps what was answered; returns whether it is right, or shows grids if nobody knows."""
    ballots = [count(guesses) for guesses in solved.guesses]
    verdict = _verdict(known, ballots)
    films: list[Film | None] = [None] * len(ballots)
    if watched or any(path.suffix.lower() == ".html" for path in save):
        films = [_film(solved, number, ballot, watched) for number, ballot in enumerate(ballots)]
    judged = {None: "No answers to compare with.", True: "Right.", False: "Not right."}[verdict]
    if as_json:
        print(json.dumps(to_record(solved) | {"right": verdict}))
    else:
        console = Console()
        _show(console, solved, ballots)
        console.print(f"{judged} {learnt}", highlight=False)
    for path in save:
        _save(path, solved, ballots, films, judged)
    return all(ballot.candidates for ballot in ballots) if verdict is None else verdict


def _show(console: Console, solved: Solved, ballots: list[Ballot]) -> None:
    for number, (question, ballot) in enumerate(zip(solved.task.questions, ballots, strict=True), 1):
        attempts = ballot.candidates[:ATTEMPTS]
        shares = ", ".join(f"{one.votes} of {ballot.votes}" for one in attempts)
        console.print(f"[bold]{solved.task.name}[/], question {number}: votes {shares or 'for no grid'}")
        if ballot.invalid:
            console.print(f"{ballot.invalid} of {ballot.votes} guesses showed no grid.", style="dim")
        console.print(drawn([question, *(one.grid for one in attempts)]), soft_wrap=True)


def _save(path: Path, solved: Solved, ballots: list[Ballot], films: list[Film | None], judged: str) -> None:
    match path.suffix.lower():
        case ".png":
            attempts = [ballot.candidates[:ATTEMPTS] for ballot in ballots]
            with explained("write", path):
                page(solved.task, attempts, [ballot.votes for ballot in ballots]).save(path)
        case ".html":
            write_text(path, task_page.page(solved.task, ballots, films, judged))
        case _:
            assert solved.model is not None
            solved.model.save(path)


def _verdict(known: Known, ballots: list[Ballot]) -> bool | None:
    """Whether one of two attempts is right for every question; None without answers."""
    if any(answer is None for answer in known.answers):
        return None
    places = [
        rank(ballot, answer)
        for ballot, answer in zip(ballots, known.answers, strict=True)
        if answer is not None
    ]
    return all(place is not None and place <= ATTEMPTS for place in places)


def _film(solved: Solved, number: int, ballot: Ballot, watched: bool) -> Film:
    """The rollout of the first guess, shown while it is computed if it is to be watched."""
    assert solved.model is not None
    scene = first_guess(solved.model, solved.task, number)
    frames = watch_scene(scene) if watched else list(scene.frames())
    grid = scene.shown(frames[-1])
    place = None if grid is None else rank(ballot, grid)
    votes = "showed no grid" if grid is None else f"gave answer {place}" if place else "gave another grid"
    outcome = f"The first of {ballot.votes} guesses, of the task as it is, {votes}."
    return Film(
        scene.canvas,
        np.stack([frame.grid for frame in frames]),
        np.stack([frame.confidence for frame in frames]),
        outcome,
    )


def watch_scene(scene: Scene) -> list[Frame]:
    """Draws what the cells say as they say it, where there is a terminal, and returns all of it."""
    frames: list[Frame] = []

    def kept() -> Iterator[Frame]:
        for frame in scene.frames():
            frames.append(frame)
            yield frame

    watch(
        kept(),
        scene.model.pace.base + 1,
        scene.asked,
        draw=lambda frame: Canvases(scene.canvas, frame.grid, frame.confidence),
    )
    return frames
