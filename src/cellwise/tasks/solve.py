"""From task files to guesses: tasks of one canvas are learnt together, and what is done is kept at once.

A folder of guesses has `config.json`, which says what they were made with, and a file for each task that is
done. Whoever makes guesses is given questions only; answers come in when they are scored.
"""

import hashlib
import itertools
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import environment
from ..config import to_json
from ..errors import ConfigError, PuzzleError, RunError
from ..files import explained, read_bytes, write_json
from ..model import Model
from ..puzzles.arc import COLOURS, MAX_SIDE, Task
from ..puzzles.arc_vote import Guess, count
from ..training.folder import digest_of
from .adapt import AdaptRecipe, as_lesson, begin, learn_some, material, together
from .adapted import SIDES, Solved, adapted, side_of
from .guess import guess_all
from .learn import path_for

FORMAT = 1
_MAX_BYTES = 2**28
_CELLS_AT_ONCE = {"cpu": 0}
"""On a CPU one task is learnt at a time, because products of several weights at once use a single core."""
_CELLS_ELSEWHERE = 2**17
Tell = Callable[[str], None]


def solve(
    model: Model,
    tasks: list[Task],
    recipe: AdaptRecipe,
    *,
    out: Path | None = None,
    seed: int = 0,
    at_once: int = 0,
    minutes: float | None = None,
    models: bool = False,
    tell: Tell = lambda line: None,
) -> Iterator[Solved]:
    """Learns and guesses every task that is not done yet, those that need the smallest canvas first.

    `at_once` tasks are learnt together, or as many as suit the device. No group is begun after `minutes`.
    With `models` what has learnt a task comes with its guesses.
    """
    if model.puzzle != "arc":
        raise ConfigError(f"{model.name} does not learn tasks; choose a model of `cellwise train arc`.")
    config = describe(model, recipe, seed)
    if out is not None:
        _claim(out, config)
        tasks = [task for task in tasks if not is_done(out, task)]
    began = time.monotonic()
    for side in SIDES:
        mine = [task for task in tasks if side_of(task) == side]
        size = at_once or max(1, _cells_at_once() // (recipe.batch * side * side))
        demos = max((len(task.demos) for task in mine), default=0)
        for first in range(0, len(mine), size):
            if minutes is not None and time.monotonic() - began > 60 * minutes:
                return
            # The last group is filled up with repetitions, so that one compiled program serves all.
            group = [mine[min(n, len(mine) - 1)] for n in range(first, first + min(size, len(mine)))]
            solved = _learn_group(model, group, demos, recipe, side, seed, models, tell)
            for done in itertools.islice(solved, len(mine) - first):
                if out is not None:
                    write_json(out / f"{_file_name(done.task)}.json", to_record(done))
                yield done


def describe(model: Model, recipe: AdaptRecipe, seed: int) -> dict[str, Any]:
    """What guesses are made with: `config.json`."""
    return {
        "format": FORMAT,
        "model": model.name,
        "model_sha256": digest_of(model.weights),
        "model_iterations": model.provenance.get("iterations"),
        "recipe": to_json(recipe),
        "seed": seed,
        "device": environment.device(),
        "versions": environment.versions(),
        "commit": environment.commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _claim(out: Path, config: dict[str, Any]) -> None:
    """Makes `out` the folder of these guesses, or refuses if it holds others."""
    path = out / "config.json"
    if not path.exists():
        write_json(path, config)
        return
    old = read_config(out)
    for name in ("model_sha256", "recipe", "seed"):
        if old.get(name) != config[name]:
            raise RunError(
                f"{out} holds guesses of another {name.removesuffix('_sha256')}; "
                "choose another folder with --out."
            )


def read_config(folder: Path) -> dict[str, Any]:
    """What the guesses in a folder were made with."""
    path = folder / "config.json"
    try:
        config = json.loads(read_bytes(path, 2**20)) if path.exists() else None
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise RunError(f"{folder} is no folder of guesses of this version; name one of `cellwise adapt`.")
    return config


def is_done(out: Path, task: Task) -> bool:
    """Whether a folder of guesses has those of a task."""
    return (out / f"{_file_name(task)}.json").exists()


def _file_name(task: Task) -> str:
    """The name of a task as far as it can be that of a file, made unmistakable."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in task.name)[:60]
    if plain == task.name and plain != "config":
        return plain
    return f"{plain}-{hashlib.sha256(task.name.encode()).hexdigest()[:8]}"


def _cells_at_once() -> int:
    return _CELLS_AT_ONCE.get(jax.default_backend(), _CELLS_ELSEWHERE)


def _learn_group(
    model: Model,
    tasks: list[Task],
    demos: int,
    recipe: AdaptRecipe,
    side: int,
    seed: int,
    models: bool,
    tell: Tell,
) -> Iterator[Solved]:
    started = time.monotonic()
    automaton = model.automaton
    rollout = recipe.rollout or model.pace.base
    lesson = as_lesson(recipe, rollout, model.fire_rate, automaton.step.channels)
    path = path_for(automaton.step, recipe.precision)
    base = {name: jnp.asarray(array) for name, array in model.weights.items()}
    pupils = begin(automaton, base, [task.name for task in tasks], seed, recipe)
    with jax.default_matmul_precision("highest"):
        matter = together([material(task, seed, side, recipe) for task in tasks], demos)
        done, errors = 0, jnp.zeros(len(tasks))
        while done < recipe.steps:
            ahead = min(recipe.look_every, recipe.steps - done)
            pupils, errors = learn_some(
                pupils,
                matter,
                base,
                jnp.int32(done),
                recipe=recipe,
                lesson=lesson,
                automaton=automaton,
                path=path,
                count=ahead,
            )
            done += ahead
            error = float(errors.mean())
            tell(f"{len(tasks)} tasks on {side}: {done} of {recipe.steps} updates, error {error:.3f}")
            if bool((pupils.waited >= recipe.patience).all()):
                break
        guesses = guess_all(
            tasks,
            pupils.best,
            base,
            automaton=automaton,
            side=side,
            seed=seed,
            rollouts=recipe.rollouts,
            steps=rollout,
            path=path,
            rate=model.fire_rate,
        )
    seconds = (time.monotonic() - started) / len(tasks)
    for number, (task, found, error) in enumerate(zip(tasks, guesses, np.asarray(errors), strict=True)):
        learnt = None
        if models:
            mine = {name: array[number] for name, array in pupils.best.items()}
            learnt = adapted(model, task, mine, recipe, seed)
        yield Solved(task, tuple(map(tuple, found)), done, float(error), seconds, learnt)


# Files


def to_record(solved: Solved) -> dict[str, Any]:
    """The guesses of a task as JSON: different grids once each, and which of them every rollout gave."""
    questions = []
    for guesses in solved.guesses:
        grids: dict[str, int] = {}
        chosen = []
        for grid, _ in guesses:
            text = None if grid is None else json.dumps(grid.tolist())
            chosen.append(-1 if text is None else grids.setdefault(text, len(grids)))
        attempts = count(guesses).candidates[:2]
        questions.append(
            {
                "attempts": [one.grid.tolist() for one in attempts],
                "votes": [one.votes for one in attempts],
                "grids": [json.loads(text) for text in grids],
                "guesses": chosen,
                "confidence": [round(sure, 4) for _, sure in guesses],
            }
        )
    return {
        "task": solved.task.name,
        "updates": solved.updates,
        "error": solved.error,
        "seconds": solved.seconds,
        "questions": questions,
    }


def read_guesses(folder: Path) -> dict[str, tuple[tuple[Guess, ...], ...]]:
    """The guesses of every task in a folder, by its name."""
    read_config(folder)
    with explained("read", folder):
        files = sorted(path for path in folder.glob("*.json") if path.name != "config.json")
    found = {}
    for path in files:
        try:
            record = json.loads(read_bytes(path, _MAX_BYTES))
            found[str(record["task"])] = tuple(_guesses(one) for one in record["questions"])
        except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
            raise PuzzleError(f"{path} holds no guesses; remove it and run `cellwise adapt` again.") from None
    if not found:
        raise RunError(f"{folder} holds no guesses yet; run `cellwise adapt` first.")
    return found


def _guesses(question: dict[str, Any]) -> tuple[Guess, ...]:
    grids = [np.array(grid, np.uint8) for grid in question["grids"]]
    if not all(g.ndim == 2 and g.size > 0 and max(g.shape) <= MAX_SIDE and g.max() < COLOURS for g in grids):
        raise ValueError("not a grid")
    pairs = zip(question["guesses"], question["confidence"], strict=True)
    return tuple(Guess(None if number < 0 else grids[number], float(sure)) for number, sure in pairs)
