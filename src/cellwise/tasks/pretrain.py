"""Learning from pairs from the first iteration to the last, in as many stretches as it takes.

The folder is that of every other run; see `training/folder.py`.
"""

import hashlib
import json
import math
import shlex
import time
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path
from rich.console import Console

from .. import environment
from ..automaton import rule
from ..config import to_json
from ..errors import RunError
from ..model import Model, Pace
from ..puzzles.arc_canvas import Placement, answer_bounds, question, smallest
from ..training import folder as folders
from ..training.folder import FORMAT, Checkpoint, RunFolder, Tensors, digest_of
from ..training.interrupt import Stopped, deferred
from ..training.progress import Display, say
from ..training.tensors import first_infinite
from .answer import answer_all
from .job import PairCheck, PairJob
from .learn import path_for
from .shelves import shares, shelve
from .step import Report, Run, first_run, iterate

SETTLED = ("job", "seed", "recipe", "automaton", "pairs_sha256", "fixed_sha256")
"""What determines every number of a run; it cannot change when a run is resumed."""


def train(
    job: PairJob,
    folder: Path,
    *,
    resume: bool = False,
    log_every: int = 25,
    save_every: int = 500,
    check_every: int = 500,
    minutes: float | int | None = None,
    console: Console | None = None,
    command: str | None = None,
) -> Model:
    """Trains a job in a folder of its own and returns the model with the averaged weights.

    After `minutes` it saves and returns what it has; `resume` goes on as if nothing had happened.
    """
    console = console or Console(stderr=True)
    config = _describe(job, command or f"cellwise train {job.name}")
    if resume:
        old = folders.read_config(folder)
        for name in SETTLED:
            if old.get(name) != config[name]:
                raise RunError(
                    f"Cannot resume {folder}: its {name} differs from what was asked for; "
                    "use the run's own or choose another folder."
                )
        config = old
    elif folders.holds_run(folder):
        raise RunError(f"{folder} already holds a run; continue it with --resume or choose another folder.")
    with folders.opened(folder) as files, jax.default_matmul_precision("highest"):
        if not resume:
            folders.write_config(folder, config)
        session = _Session(job, files, config, console)
        session.go_on(log_every, save_every, check_every, minutes)
        return session.model()


def _describe(job: PairJob, command: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "command": command,
        "job": job.name,
        "puzzle": "arc",
        "seed": job.seed,
        "recipe": to_json(job.recipe),
        "automaton": to_json(job.automaton),
        "pairs": len(job.pairs),
        "pairs_sha256": digest_of(
            {
                "task": job.pairs.task,
                "shapes": job.pairs.shapes,
                "starts": job.pairs.starts,
                "cells": job.pairs.cells,
            }
        ),
        "fixed_sha256": digest_of(job.fixed),
        "provenance": job.provenance,
        "versions": environment.versions(),
        "commit": environment.commit(),
        "device": environment.device(),
        "matmul_precision": job.recipe.precision,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _identity(config: dict[str, Any]) -> str:
    settled = {name: config[name] for name in SETTLED}
    return hashlib.sha256(json.dumps(settled, sort_keys=True).encode()).hexdigest()


class _Session:
    """What one process does of a run: everything from the newest checkpoint on."""

    def __init__(self, job: PairJob, files: RunFolder, config: dict[str, Any], console: Console) -> None:
        self.job, self.files, self.config, self.console = job, files, config, console
        self.step, self.seconds_before = 0, 0.0
        self.reports: list[Report] = []
        self.fixed = {name: jnp.asarray(array) for name, array in job.fixed.items()}
        self.path = path_for(job.automaton.step, job.recipe.precision)
        self.state = self._restored()
        self.started = time.monotonic()

    def go_on(self, log_every: int, save_every: int, check_every: int, minutes: float | int | None) -> None:
        """Trains to the end, or as long as there is time."""
        job, total = self.job, self.job.recipe.steps
        shelves = shelve(job.pairs, job.recipe.canvases)
        advance = partial(
            iterate,
            fixed=self.fixed,
            shelves=shelves,
            seed=jnp.uint32(job.seed),
            recipe=job.recipe,
            automaton=job.automaton,
            path=self.path,
        )
        counts = shares(shelves, job.recipe.batch, job.recipe.small)
        self._introduce(", ".join(f"{n} of {s.side}" for s, n in zip(shelves, counts, strict=True)))
        self.display = Display(self.console, job.name, self.step, total)
        end = math.inf if minutes is None else self.started + 60 * minutes
        saved, compiling = self.step, True
        self._measure_anew()
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
                if self._due(log_every) or late:
                    self._log()
                if self._due(save_every) or wish.signal or late:
                    self._save()
                    saved = self.step
                if self._due(check_every) or (late and self.step < total):
                    self._check()
                if wish.signal and self.step < total:
                    raise Stopped(self._resume_with(), wish.signal)
                if late:
                    break
        if self.step < total:
            say(self.console, self._resume_with())
        else:
            if saved < total:
                self._save()
            say(self.console, f"{job.name} is complete: {total:,} iterations, model in {self.files.model}")

    def model(self) -> Model:
        """The averaged weights as they are now."""
        job, config = self.job, self.config
        about = ("command", "seed", "device", "commit", "matmul_precision", "date", "versions", "recipe")
        return Model(
            name=job.name,
            puzzle="arc",
            automaton=job.automaton,
            weights={name: np.array(weight) for name, weight in (self.state.average | self.fixed).items()},
            size=None,
            fire_rate=job.recipe.fire_rate,
            pace=Pace(base=job.recipe.rollout, per_cell=0.0),
            provenance={name: config[name] for name in about}
            | {"iterations": self.step, "contexts": list(job.pairs.names)}
            | job.provenance,
        )

    def _restored(self) -> Run:
        """The state at the newest whole checkpoint, or at the beginning."""
        job = self.job
        arrays = rule.first_weights(job.automaton.step, None, job.seed)
        arrays |= rule.first_tables(job.automaton, job.seed)
        begin = partial(first_run, job.recipe, {name: jnp.asarray(a) for name, a in arrays.items()})
        checkpoint, damaged = self.files.newest(_identity(self.config))
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

    def _introduce(self, batch: str) -> None:
        job = self.job
        begins = f"goes on after iteration {self.step:,}" if self.step else "begins"
        say(
            self.console,
            f"{job.name} {begins}: {job.recipe.steps:,} iterations, {rule.count_all(job.automaton, None):,} "
            f"numbers, {len(job.pairs):,} pairs, canvases in a batch: {batch}, "
            f"{jax.devices()[0].device_kind} ({self.path.name}), folder {self.files.path}",
        )

    def _due(self, every: int) -> bool:
        return self.step % every == 0 or self.step == self.job.recipe.steps

    def _log(self) -> None:
        report = self._look()
        record: dict[str, Any] = {"step": self.step}
        record |= {name: float(value) for name, value in report._asdict().items()}
        speed = (self.step - self.marked) / max(time.monotonic() - self.mark, 1e-9)
        record |= self._cost() | {"iterations_per_second": speed, "pairs": self.step * self.job.recipe.batch}
        self.files.append(record)
        self.display.tell(record)
        self._measure_anew()

    def _check(self) -> None:
        for check in self.job.checks:
            right, tasks = answer_check(self.job, check, self.state.average | self.fixed)
            record: dict[str, Any] = {"step": self.step, "check": check.name, "boards": right, "tasks": tasks}
            self.files.append(record | self._cost())
            self.display.say(f"{self.step:,}  {check.name}: pairs {right:.1%}  tasks {tasks:.1%}")
        self._measure_anew()

    def _save(self) -> None:
        """Writes a checkpoint and the model, if all numbers are finite."""
        if self.reports:
            self._look()
        tensors = to_tensors(self.state)
        if name := first_infinite(tensors):
            self._give_up(f"{name} is not finite", self.step)
        seconds = self._cost()["seconds"]
        self.files.save(Checkpoint(self.step, seconds, _identity(self.config), tensors))
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
        raise RunError(
            f"Training broke down at iteration {step:,} because {problem}; "
            "train again in another folder with a lower --recipe.schedule.peak."
        )

    def _resume_with(self) -> str:
        folder = shlex.quote(str(self.files.path))
        return (
            f"Stopped after iteration {self.step:,} and saved; resume with: "
            f"cellwise train {self.job.name} --out {folder} --resume"
        )

    def _measure_anew(self) -> None:
        self.mark, self.marked = time.monotonic(), self.step

    def _cost(self) -> dict[str, float]:
        """The time of all stretches, compiling and checking included, and what it comes to on all devices."""
        seconds = self.seconds_before + time.monotonic() - self.started
        return {"seconds": seconds, "device_minutes": seconds * jax.device_count() / 60}


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


def to_tensors(run: Run) -> Tensors:
    """Every array of a run by its name; bfloat16 as the bits it consists of, which NumPy knows."""
    leaves, _ = tree_flatten_with_path(jax.device_get(run))
    arrays = {keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in leaves}
    return {name: a.view(np.uint16) if a.dtype == ml_dtypes.bfloat16 else a for name, a in arrays.items()}


def from_tensors(like: Run, tensors: Tensors) -> Run | None:
    """A run of the form of `like`, whose leaves have only a shape and a type; None if the form differs."""
    leaves, form = tree_flatten_with_path(like)
    expected = {keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
    if tensors.keys() != expected.keys():
        return None
    arrays = []
    for name, leaf in expected.items():
        array = tensors[name]
        if leaf.dtype == ml_dtypes.bfloat16 and array.dtype == np.uint16:
            array = array.view(ml_dtypes.bfloat16)
        if (array.shape, array.dtype) != (leaf.shape, leaf.dtype):
            return None
        arrays.append(jnp.array(array, copy=True))
    return form.unflatten(arrays)
