"""A model that has learnt a task: kept as a folder, asked again, and watched while it answers."""

import hashlib
import json
import time
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..config import MOST_SEED, from_json, to_json, whole_number
from ..errors import ConfigError
from ..kernels.spec import Weights
from ..model import Model
from ..puzzles import arc
from ..puzzles.arc import Task
from ..puzzles.arc_canvas import smallest, task_bounds
from ..puzzles.arc_variants import variants
from ..puzzles.arc_vote import Guess
from .adapt import AdaptRecipe, whole
from .guess import guess_all
from .learn import path_for

SIDES = (12, 18, 24, 32)
"""Canvases; tasks that need the same are learnt together."""


@dataclass(frozen=True)
class Lesson:
    """What a model has learnt: the task by name and demonstrations, and the seed of its guises."""

    task: str
    demos_sha256: str
    seed: int
    precision: str = "bf16"


@dataclass(frozen=True)
class Solved:
    """The guesses for every question of a task, and how it was learnt.

    `model` is what has learnt it, if it was to be kept.
    """

    task: Task
    guesses: tuple[tuple[Guess, ...], ...]
    updates: int
    error: float
    seconds: float
    model: Model | None = None


def side_of(task: Task) -> int:
    """The side of the canvas on which a task is learnt and answered."""
    return smallest(SIDES, *task_bounds(task))


def adapted(model: Model, task: Task, trained: Weights, recipe: AdaptRecipe, seed: int) -> Model:
    """The model with what was trained of it; its contexts are those of the task's guises."""
    base = {name: jnp.asarray(array) for name, array in model.weights.items()}
    with jax.default_matmul_precision("highest"):
        weights = {name: np.asarray(array) for name, array in whole(trained, base).items()}
    automaton = model.automaton
    layout = replace(automaton.layout, contexts=len(weights["context.vectors"]))
    lesson = Lesson(task.name, _digest(task), seed, recipe.precision)
    provenance = {name: value for name, value in model.provenance.items() if name != "contexts"}
    return replace(
        model,
        automaton=replace(automaton, layout=layout),
        weights=weights,
        pace=replace(model.pace, base=recipe.rollout or model.pace.base),
        provenance=provenance | {"lesson": to_json(lesson), "adapted": to_json(recipe)},
    )


def lesson_of(model: Model) -> Lesson | None:
    """What a model has learnt, None for one that was only pre-trained."""
    told = model.provenance.get("lesson")
    return None if told is None else from_json(Lesson, told, f"{model.name}: lesson")


def ask(model: Model, task: Task, rollouts: int = 1) -> Solved:
    """The guesses of a model that has learnt this task; its questions may be other ones.

    With the task as it was learnt and as many rollouts, these are the guesses that were made then.
    """
    rollouts = whole_number("The number of rollouts", rollouts, 1, 1000)
    lesson = check_lesson(model, task)
    began = time.monotonic()
    # The guises and their random numbers are found by the name under which the task was learnt.
    known = replace(task, name=lesson.task)
    automaton = model.automaton
    weights = {name: jnp.asarray(array) for name, array in model.weights.items()}
    with jax.default_matmul_precision("highest"):
        (guesses,) = guess_all(
            [known],
            {name: array[None] for name, array in weights.items() if name != "layout.tokens"},
            weights,
            automaton=automaton,
            side=side_of(task),
            seed=lesson.seed,
            rollouts=rollouts,
            steps=model.pace.base,
            path=path_for(automaton.step, lesson.precision),
            rate=model.fire_rate,
        )
    return Solved(task, tuple(map(tuple, guesses)), 0, 0.0, time.monotonic() - began, model)


def check_lesson(model: Model, task: Task) -> Lesson:
    """What the model has learnt; raises ConfigError if it is not this task."""
    lesson = lesson_of(model)
    if lesson is None:
        raise ConfigError(
            f"{model.name} has not learnt {task.name} yet; learn it with `cellwise adapt --save DIR` and "
            "name that folder."
        )
    whole_number("The seed of a lesson", lesson.seed, 0, MOST_SEED)
    contexts = model.automaton.layout.contexts
    if lesson.demos_sha256 != _digest(task) or contexts != len(variants(lesson.task, lesson.seed)):
        raise ConfigError(
            f"{model.name} has learnt {lesson.task}, and {task.name} has other demonstrations; "
            "learn it with `cellwise adapt`."
        )
    return lesson


def _digest(task: Task) -> str:
    """A SHA-256 of the demonstrations."""
    shown: Any = arc.to_json(task)["train"]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()
