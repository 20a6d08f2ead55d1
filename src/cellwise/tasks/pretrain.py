"""Learning from pairs from the first iteration to the last, in as many stretches as it takes.

The folder is that of every other run; see `training/folder.py`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..automaton import rule
from ..model import Model, Pace
from ..puzzles.arc_canvas import Placement, answer_bounds, question, smallest
from ..training.session import Record, Session, run
from ..training.settings import ABOUT, describe
from .answer import answer_all
from .job import PairCheck, PairJob
from .learn import path_for
from .shelves import shares, shelve
from .step import Report, Run, first_run, iterate


def train(job: PairJob, folder: Path, *, command: str | None = None, **how: Any) -> Model:
    """Trains a job in a folder of its own and returns the model with the averaged weights.

    `how` is what `training.session.run` takes besides.
    """
    return run(_OnPairs, job, folder, describe(job, command or f"cellwise train {job.name}"), **how)


class _OnPairs(Session):
    """A run that learns from pairs of grids."""

    def first(self) -> Run:
        """Small random weights and contexts."""
        job = self.job
        arrays = rule.first_weights(job.automaton.step, None, job.seed)
        arrays |= rule.first_tables(job.automaton, job.seed)
        return first_run(job.recipe, {name: jnp.asarray(a) for name, a in arrays.items()})

    def iteration(self) -> tuple[Callable[[Run], tuple[Run, Report]], str]:
        """An iteration on these pairs."""
        job = self.job
        shelves, path = (
            shelve(job.pairs, job.recipe.canvases),
            path_for(job.automaton.step, job.recipe.precision),
        )
        advance: Any = partial(
            iterate,
            fixed=self.fixed,
            shelves=shelves,
            seed=jnp.uint32(job.seed),
            recipe=job.recipe,
            automaton=job.automaton,
            path=path,
        )
        counts = shares(shelves, job.recipe.batch, job.recipe.small)
        batch = ", ".join(f"{n} of {s.side}" for s, n in zip(shelves, counts, strict=True))
        numbers, device = rule.count_all(job.automaton, None), jax.devices()[0].device_kind
        about = f"{numbers:,} numbers, {len(job.pairs):,} pairs, canvases in a batch: {batch}, {device}"
        return advance, f"{about} ({path.name})"

    def checked(self) -> Iterator[Record]:
        """How many questions are answered right, and how many tasks."""
        for check in self.job.checks:
            right, tasks = answer_check(self.job, check, self.state.average | self.fixed)
            yield {"check": check.name, "boards": right, "tasks": tasks}

    def more(self) -> Record:
        """What the run has cost so far on all devices, and what it has seen for that."""
        minutes = self._seconds() * jax.device_count() / 60
        return {"device_minutes": minutes, "pairs": self.step * self.job.recipe.batch}

    def model(self) -> Model:
        """The averaged weights as they are now."""
        job = self.job
        return Model(
            name=job.name,
            puzzle=job.puzzle,
            automaton=job.automaton,
            weights=self.averaged(),
            size=None,
            fire_rate=job.recipe.fire_rate,
            pace=Pace(base=job.recipe.rollout, per_cell=0.0),
            provenance={name: self.config[name] for name in ABOUT}
            | {"iterations": self.step, "contexts": list(job.pairs.names)}
            | job.provenance,
        )


def answer_check(job: PairJob, check: PairCheck, weights: dict[str, Any]) -> tuple[float, float]:
    """The share of questions that are answered right, and the mean over tasks of the share of theirs.

    Grids lie in the upper left corner of the smallest canvas that a solver could choose without looking.
    """
    context = {name: number for number, name in enumerate(job.pairs.names)}
    questions, wanted = [], []
    for task, answers in check.known:
        for grid, answer in zip(task.questions, answers, strict=True):
            at = Placement(smallest(job.recipe.canvases, *answer_bounds(task, grid)), 1, 1, 1)
            questions.append((question(grid, at), at, context[task.name]))
            wanted.append((task.name, answer))
    with jax.default_matmul_precision("highest"):
        guesses = answer_all(
            job.automaton,
            weights,
            questions,
            seed=job.seed,
            steps=job.recipe.rollout,
            path=path_for(job.automaton.step, job.recipe.precision),
            rate=job.recipe.fire_rate,
        )
    right: dict[str, list[bool]] = {}
    for (name, answer), (grid, _) in zip(wanted, guesses, strict=True):
        right.setdefault(name, []).append(grid is not None and np.array_equal(grid, answer))
    shares = [float(np.mean(one)) for one in right.values()]
    return float(np.mean(list(chain.from_iterable(right.values())))), float(np.mean(shares))
