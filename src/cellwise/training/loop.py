"""Training from the first iteration to the last, through interruptions."""

import math
import shlex
import time
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from ..automaton import rule
from ..errors import ConfigError, RunError
from ..kernels import dispatch
from ..kernels.precision import products
from ..model import Model
from ..puzzles.equivalence import fingerprints
from . import folder as folders
from .check import most_free, solve_check
from .curves import Curves, summary_writer
from .folder import Checkpoint, RunFolder
from .interrupt import Stopped, deferred
from .job import Job
from .pool import Data
from .progress import Display, say
from .settings import describe, first_difference, identity, moved, up_to_date
from .step import Report, Run, first_run, iterate
from .tensors import first_infinite, from_tensors, to_tensors


def train(
    job: Job,
    folder: Path,
    *,
    resume: bool = False,
    log_every: int = 25,
    save_every: int = 500,
    check_every: int = 500,
    tensorboard: bool = False,
    console: Console | None = None,
    command: str | None = None,
) -> Model:
    """Trains a job in a folder of its own and returns the model with the averaged weights.

    A run that was interrupted in any way goes on with `resume` as if nothing had happened: its weights and
    metrics become those of a run that was not. Ctrl-C or SIGTERM saves and raises `Stopped`. `command` is
    how the run was started, for the records.
    """
    if min(log_every, save_every, check_every) < 1:
        raise ConfigError("The intervals to log, save and check must be at least 1.")
    if not 0 <= job.seed < 2**32:
        raise ConfigError(f"The seed cannot be {job.seed}; choose one from 0 to {2**32 - 1}.")
    if tensorboard:
        summary_writer()
    console = console or Console(stderr=True)
    config = describe(job, command or f"cellwise train {job.name}")
    if resume:
        config = _settings_of_run(folder, config, console)
    elif folders.holds_run(folder):
        raise RunError(
            f"{folder} already holds a run; continue it with --resume or choose another folder."
            if not folders.is_complete(folder)
            else f"{folder} already holds a run that is complete; choose another folder."
        )
    with folders.opened(folder) as files, products("float32"):  # What thinks has the recipe's precision.
        if not resume:
            folders.write_config(folder, config)
        session = _Session(job, files, config, console)
        if session.step == job.recipe.steps:
            files.replace_model(session.model().save)
        else:
            session.go_on(log_every, save_every, check_every, tensorboard)
        say(console, f"{job.name} is complete: {job.recipe.steps:,} iterations, model in {files.model}")
        return session.model()


def _settings_of_run(folder: Path, config: dict[str, Any], console: Console) -> dict[str, Any]:
    """The settings of the run in `folder`, if `config` agrees with them."""
    old = folders.read_config(folder)
    if difference := first_difference(up_to_date(old), config):
        name, before, after = difference
        raise RunError(
            f"Cannot resume {folder}: {name} is {before} there and {after} here; "
            "use the run's value or choose another folder."
        )
    if difference := moved(old, config):
        name, before, after = difference
        say(console, f"{folder} began with {name} {before}, here it is {after}: rounding may differ")
    return old


class _Session:
    """What one process does of a run: everything from the newest checkpoint on."""

    def __init__(self, job: Job, files: RunFolder, config: dict[str, Any], console: Console) -> None:
        self.job, self.files, self.config, self.console = job, files, config, console
        self.step, self.seconds_before = 0, 0.0
        self.reports: list[Report] = []  # Those that were not looked at yet.
        self.fixed = {name: jnp.asarray(array) for name, array in job.fixed.items()}
        self.data = Data(jnp.asarray(job.boards.target), jnp.asarray(job.boards.given))
        self.trained_on = fingerprints(job.boards, sudoku=job.puzzle == "sudoku")
        self.curves: Curves | None = None
        self.state = self._restored()

    def go_on(self, log_every: int, save_every: int, check_every: int, tensorboard: bool) -> None:
        """Trains to the end."""
        job, total = self.job, self.job.recipe.steps
        path = dispatch.choose(job.automaton.step, most_free(job.boards), job.recipe.precision)
        advance = partial(
            iterate,
            fixed=self.fixed,
            data=self.data,
            recipe=job.recipe,
            automaton=job.automaton,
            path=path,
            seed=jnp.uint32(job.seed),
        )
        self._introduce(path.name)
        self.curves = Curves(self.files.path / "tensorboard", self.step) if tensorboard else None
        self.display = Display(self.console, job.name, self.step, total)
        self.started = time.monotonic()
        compiling = True
        self._measure_anew()
        try:
            with self.display, deferred(self.display.stopping) as wish:
                while self.step < total:
                    self.state, report = advance(self.state)
                    self.step += 1
                    self.reports.append(report)
                    # Waits for the iteration before: the device never idles, and a wish is soon granted.
                    jax.block_until_ready(self.reports[-2:][0])
                    self.display.advance(self.step)
                    if compiling and not self._due(log_every):
                        self._measure_anew()
                    compiling = False
                    if self._due(log_every):
                        self._log()
                    if self._due(check_every):
                        self._check()
                    if self._due(save_every) or wish.signal:
                        self._save()
                    if wish.signal and self.step < total:
                        self._stop(wish.signal)
        finally:
            if self.curves:
                self.curves.close()

    def model(self) -> Model:
        """The averaged weights as they are now."""
        job, config = self.job, self.config
        about = (
            "command",
            "seed",
            "device",
            "commit",
            "matmul_precision",
            "date",
            "versions",
            "recipe",
            "boards_sha256",
        )
        return Model(
            name=job.name,
            puzzle=job.puzzle,
            automaton=job.automaton,
            weights={name: np.array(weight) for name, weight in (self.state.average | self.fixed).items()},
            size=job.size,
            fire_rate=job.recipe.fire_rate,
            pace=job.pace,
            provenance={name: config[name] for name in about} | {"iterations": self.step} | job.provenance,
            trained_on=self.trained_on,
        )

    def _restored(self) -> Run:
        """The state at the newest whole checkpoint, or at the beginning."""
        job = self.job
        first = rule.first_weights(job.automaton.step, job.size, job.seed)
        weights = {name: jnp.asarray(weight) for name, weight in first.items()}
        begin = partial(first_run, job.recipe, job.automaton, self.fixed, weights, self.data, job.seed)
        checkpoint, damaged = self.files.newest(identity(self.config))
        for path in damaged:
            say(self.console, f"{path} is damaged, so the run goes on from the checkpoint before it")
        self.files.cut_metrics(checkpoint.step if checkpoint else 0)
        if checkpoint is None:
            return begin()
        self.step, self.seconds_before = checkpoint.step, checkpoint.seconds
        state = from_tensors(jax.eval_shape(begin), checkpoint.tensors)
        if state is None:
            raise RunError(
                f"{self.files.path} was made by another version of cellwise; train again in another folder."
            )
        return state

    def _introduce(self, path: str) -> None:
        job = self.job
        begins = f"goes on after iteration {self.step:,}" if self.step else "begins"
        numbers, boards = rule.count(job.automaton.step, job.size), len(job.boards)
        say(
            self.console,
            f"{job.name} {begins}: {job.recipe.steps:,} iterations, {numbers:,} numbers, {boards:,} boards, "
            f"{jax.devices()[0].device_kind} ({path}), folder {self.files.path}",
        )

    def _due(self, every: int) -> bool:
        return self.step % every == 0 or self.step == self.job.recipe.steps

    def _log(self) -> None:
        report = self._look()
        record = {"step": self.step} | {name: float(value) for name, value in report._asdict().items()}
        record["seconds"] = self._seconds()
        record["iterations_per_second"] = (self.step - self.marked) / max(time.monotonic() - self.mark, 1e-9)
        self._record(record)
        self.display.tell(record)
        self._measure_anew()

    def _check(self) -> None:
        for check in self.job.checks:
            cells, boards = solve_check(self.job, check, self.state.average | self.fixed)
            record: dict[str, Any] = {
                "step": self.step,
                "check": check.name,
                "cells": cells,
                "boards": boards,
            }
            record |= {"steps": check.steps, "seconds": self._seconds()}
            self._record(record)
            self.display.tell_check(record)
        self._measure_anew()

    def _save(self) -> None:
        """Writes a checkpoint and the model, if all numbers are finite."""
        if self.reports:
            self._look()
        tensors = to_tensors(self.state)
        if name := first_infinite(tensors):
            self._give_up(f"{name} is not finite", self.step)
        self.files.save(Checkpoint(self.step, self._seconds(), identity(self.config), tensors))
        self.files.replace_model(self.model().save)
        self._measure_anew()

    def _look(self) -> Report:
        """Fetches the reports since the last look and returns the newest, if all of them are finite."""
        reports = jax.device_get(self.reports)
        self.reports.clear()
        for step, report in enumerate(reports, self.step - len(reports) + 1):
            for name in ("loss", "gradient"):
                if not math.isfinite(getattr(report, name)):
                    self._give_up(f"the {name} is {getattr(report, name)}", step)
        return reports[-1]

    def _give_up(self, problem: str, step: int) -> NoReturn:
        saved = self.files.checkpoint_files()
        last = f"the last good checkpoint is {saved[-1][1]}" if saved else "there is no checkpoint yet"
        raise RunError(
            f"Training broke down at iteration {step:,} because {problem}; {last}; "
            "train again in another folder with a lower --recipe.schedule.peak."
        )

    def _stop(self, signal_number: int) -> NoReturn:
        folder = shlex.quote(str(self.files.path))
        raise Stopped(
            f"Stopped after iteration {self.step:,} and saved; resume with: "
            f"cellwise train {self.job.name} --out {folder} --resume",
            signal_number,
        )

    def _record(self, record: dict[str, Any]) -> None:
        self.files.append(record)
        if self.curves:
            self.curves.add(record)

    def _measure_anew(self) -> None:
        """Begins a new measurement of the speed, so that compiling, checking and saving do not count."""
        self.mark, self.marked = time.monotonic(), self.step

    def _seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.started
