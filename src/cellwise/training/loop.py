"""Training on boards from the first iteration to the last, through interruptions."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from rich.console import Console

from ..automaton import rule
from ..kernels import dispatch
from ..model import Model
from ..puzzles.equivalence import fingerprints
from .check import most_free, solve_check
from .folder import RunFolder
from .job import Job
from .pool import Data
from .session import Record, Session, run
from .settings import ABOUT, describe
from .step import Report, Run, first_run, iterate


def train(job: Job, folder: Path, *, command: str | None = None, **how: Any) -> Model:
    """Trains a job in a folder of its own and returns the model with the averaged weights.

    `command` is how the run was started, for the records; `how` is what `session.run` takes besides.
    """
    return run(_OnBoards, job, folder, describe(job, command or f"cellwise train {job.name}"), **how)


class _OnBoards(Session):
    """A run that learns from boards, through a pool of states."""

    def __init__(self, job: Job, files: RunFolder, config: Record, console: Console) -> None:
        self.data = Data(jnp.asarray(job.boards.target), jnp.asarray(job.boards.given))
        self.trained_on = fingerprints(job.boards, sudoku=job.puzzle == "sudoku")
        super().__init__(job, files, config, console)

    def first(self) -> Run:
        """Small random weights, and a pool of boards before their first step."""
        job = self.job
        first = rule.first_weights(job.automaton.step, job.size, job.seed)
        weights = {name: jnp.asarray(weight) for name, weight in first.items()}
        return first_run(job.recipe, job.automaton, self.fixed, weights, self.data, job.seed)

    def iteration(self) -> tuple[Callable[[Run], tuple[Run, Report]], str]:
        """An iteration on these boards, by the fastest path."""
        job = self.job
        path = dispatch.choose(job.automaton.step, most_free(job.boards), job.recipe.precision)
        advance: Any = partial(
            iterate,
            fixed=self.fixed,
            data=self.data,
            recipe=job.recipe,
            automaton=job.automaton,
            path=path,
            seed=jnp.uint32(job.seed),
        )
        numbers, device = rule.count(job.automaton.step, job.size), jax.devices()[0].device_kind
        return advance, f"{numbers:,} numbers, {len(job.boards):,} boards, {device} ({path.name})"

    def checked(self) -> Iterator[Record]:
        """How many validation boards are solved."""
        for check in self.job.checks:
            cells, boards = solve_check(self.job, check, self.state.average | self.fixed)
            yield {"check": check.name, "cells": cells, "boards": boards, "steps": check.steps}

    def model(self) -> Model:
        """The averaged weights as they are now."""
        job, config = self.job, self.config
        return Model(
            name=job.name,
            puzzle=job.puzzle,
            automaton=job.automaton,
            weights=self.averaged(),
            size=job.size,
            fire_rate=job.recipe.fire_rate,
            pace=job.pace,
            provenance={name: config[name] for name in (*ABOUT, "boards_sha256")}
            | {"iterations": self.step}
            | job.provenance,
            trained_on=self.trained_on,
        )
