"""A run while a process is at it: iterations, checkpoints, checks, and an end that loses nothing."""

import math
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32
from rich.console import Console

from ..config import MOST_SEED
from ..errors import ConfigError, RunError
from ..kernels.precision import products
from ..model import Model
from . import folder as folders
from .curves import Curves, summary_writer
from .folder import Checkpoint, RunFolder, Tensors
from .interrupt import Stopped, deferred
from .progress import Display, say
from .settings import first_difference, identity, moved, up_to_date
from .tensors import first_infinite, from_tensors, to_tensors

Record = dict[str, Any]


class SpoiltError(Exception):
    """The run has come to a state from which there is no point in going on."""

    def __init__(self, problem: str, step: int) -> None:
        super().__init__(problem)
        self.problem, self.step = problem, step


class Session(ABC):
    """What one process does of a run: everything from the newest checkpoint on.

    A job has a name, a seed, a recipe with a number of steps, and fixed arrays; its kind of data is the
    business of subclasses.
    """

    def __init__(self, job: Any, files: RunFolder, config: Record, console: Console) -> None:
        self.job, self.files, self.config, self.console = job, files, config, console
        self.step, self.seconds_before, self.started = 0, 0.0, time.monotonic()
        self.reports: list[Any] = []  # Those that were not looked at yet.
        self.fixed = {name: jnp.asarray(array) for name, array in job.fixed.items()}
        self.curves: Curves | None = None
        self.state = self._restored()

    @abstractmethod
    def first(self) -> Any:
        """The state before the first iteration."""

    @abstractmethod
    def iteration(self) -> tuple[Callable[[Any], tuple[Any, Any]], str]:
        """What makes the next state and its report of a state, and what it learns from, in words."""

    @abstractmethod
    def checked(self) -> Iterator[Record]:
        """What each check of the job finds, with its name as `check`."""

    @abstractmethod
    def model(self) -> Model:
        """The averaged weights as they are now."""

    def more(self) -> Record:
        """What a record of this kind of run says besides."""
        return {}

    def trouble(self, report: Any) -> str | None:
        """What is wrong with an iteration, if anything."""
        for name in ("loss", "gradient"):
            if not math.isfinite(getattr(report, name)):
                return f"the {name} is {getattr(report, name)}"
        return None

    def recover(self, problem: str, step: int) -> None:
        """Brings the run back to where all was well, or ends it, which is all that most runs can do."""
        self._give_up(problem, step)

    def restored(self, tensors: Tensors) -> Any | None:
        """The state with these arrays; None if they belong to something else."""
        return from_tensors(jax.eval_shape(self.first), tensors)

    def averaged(self) -> dict[str, Float32[np.ndarray, "..."]]:
        """The arrays of the model, fixed ones included."""
        return {name: np.array(weight) for name, weight in (self.state.average | self.fixed).items()}

    def go_on(
        self,
        log_every: int,
        save_every: int,
        check_every: int,
        minutes: float | int | None,
        tensorboard: bool,
    ) -> bool:
        """Trains to the end, or as long as there is time; whether it came to the end."""
        total = self.job.recipe.steps
        advance, about = self.iteration()
        begins = f"goes on after iteration {self.step:,}" if self.step else "begins"
        say(
            self.console, f"{self.job.name} {begins}: {total:,} iterations, {about}, folder {self.files.path}"
        )
        self.curves = Curves(self.files.path / "tensorboard", self.step) if tensorboard else None
        self.display = Display(self.console, self.job.name, self.step, total)
        self.started = time.monotonic()
        end = math.inf if minutes is None else self.started + 60 * minutes
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
                    late = time.monotonic() >= end
                    if compiling and not self._due(log_every) and not late:
                        self._measure_anew()
                    compiling = False
                    try:
                        if self._due(log_every) or late:
                            self._log()
                        if self._due(check_every) and not late:
                            self._check()
                        if self._due(save_every) or wish.signal or late:
                            self._save()
                    except SpoiltError as spoilt:
                        self.recover(spoilt.problem, spoilt.step)
                    if late:  # What is learnt is safe before it is looked at.
                        self._check()
                    if wish.signal and self.step < total:
                        raise Stopped(self._resume_with(), wish.signal)
                    if late:
                        break
        finally:
            if self.curves:
                self.curves.close()
        if self.step < total:
            say(self.console, self._resume_with())
        return self.step == total

    def _restored(self) -> Any:
        """The state at the newest whole checkpoint, or at the beginning."""
        checkpoint, damaged = self.files.newest(identity(self.config))
        for path in damaged:
            say(self.console, f"{path} is damaged, so the run goes on from the checkpoint before it")
        self.files.cut_metrics(checkpoint.step if checkpoint else 0)
        if checkpoint is None:
            return self.first()
        self.step, self.seconds_before = checkpoint.step, checkpoint.seconds
        state = self.restored(checkpoint.tensors)
        if state is None:
            raise RunError(
                f"{self.files.path} was made by another version of cellwise; train again in another folder."
            )
        return state

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
        for found in self.checked():
            record = {"step": self.step} | found | {"seconds": self._seconds()}
            self._record(record)
            self.display.tell_check(record)
        self._measure_anew()

    def _save(self) -> None:
        """Writes a checkpoint and the model, if all numbers are finite."""
        if self.reports:
            self._look()
        tensors = to_tensors(self.state)
        if name := first_infinite(tensors):
            raise SpoiltError(f"{name} is not finite", self.step)
        self.files.save(Checkpoint(self.step, self._seconds(), identity(self.config), tensors))
        self.files.replace_model(self.model().save)
        self._measure_anew()

    def _look(self) -> Any:
        """Fetches the reports since the last look and returns the newest, if all of them are finite."""
        reports = jax.device_get(self.reports)
        self.reports.clear()
        for step, report in enumerate(reports, self.step - len(reports) + 1):
            if problem := self.trouble(report):
                raise SpoiltError(problem, step)
        return reports[-1]

    def _give_up(self, problem: str, step: int) -> NoReturn:
        saved = self.files.checkpoint_files()
        last = f"the last good checkpoint is {saved[-1][1]}" if saved else "there is no checkpoint yet"
        raise RunError(
            f"Training broke down at iteration {step:,} because {problem}; {last}; "
            "train again in another folder with a lower --recipe.schedule.peak."
        )

    def _resume_with(self) -> str:
        folder = shlex.quote(str(self.files.path))
        return (
            f"Stopped after iteration {self.step:,} and saved; resume with: "
            f"cellwise train {self.job.name} --out {folder} --resume"
        )

    def _record(self, record: Record) -> None:
        record |= self.more()
        self.files.append(record)
        if self.curves:
            self.curves.add(record)

    def _measure_anew(self) -> None:
        """Begins a new measurement of the speed, so that compiling, checking and saving do not count."""
        self.mark, self.marked = time.monotonic(), self.step

    def _seconds(self) -> float:
        """The time of all stretches, compiling and checking included."""
        return self.seconds_before + time.monotonic() - self.started


def run(
    kind: Callable[[Any, RunFolder, Record, Console], Session],
    job: Any,
    folder: Path,
    config: Record,
    *,
    resume: bool = False,
    log_every: int = 25,
    save_every: int = 500,
    check_every: int = 500,
    minutes: float | int | None = None,
    tensorboard: bool = False,
    console: Console | None = None,
) -> Model:
    """Trains a job in a folder of its own, as `config` describes it; returns the model with averaged weights.

    A run that was interrupted in any way goes on with `resume` as if nothing had happened: its weights and
    metrics become those of a run that was not. Ctrl-C or SIGTERM saves and raises `Stopped`; after `minutes`
    it saves and returns what it has.
    """
    if min(log_every, save_every, check_every) < 1:
        raise ConfigError("The intervals to log, save and check must be at least 1.")
    if minutes is not None and not 0 < minutes < math.inf:
        raise ConfigError(f"There is no training for {minutes} minutes; choose a positive number.")
    if not 0 <= job.seed <= MOST_SEED:
        raise ConfigError(f"The seed cannot be {job.seed}; choose one from 0 to {MOST_SEED}.")
    if tensorboard:
        summary_writer()
    console = console or Console(stderr=True)
    with _opened(folder, config, resume, console) as (files, config):
        session = kind(job, files, config, console)
        if session.step == job.recipe.steps:
            files.replace_model(session.model().save)
            complete = True
        else:
            complete = session.go_on(log_every, save_every, check_every, minutes, tensorboard)
        if complete:
            say(console, f"{job.name} is complete: {job.recipe.steps:,} iterations, model in {files.model}")
        return session.model()


@contextmanager
def _opened(
    folder: Path, config: Record, resume: bool, console: Console
) -> Iterator[tuple[RunFolder, Record]]:
    """The folder of the run and the settings it began with."""
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
        yield files, config


def _settings_of_run(folder: Path, config: Record, console: Console) -> Record:
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
