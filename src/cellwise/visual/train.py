"""Learning from pictures from the first iteration to the last, through interruptions and spikes.

The folder is that of every other run; see `training/folder.py`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from ..automaton import picture, rule
from ..kernels import dispatch
from ..model import Model
from ..training.folder import Checkpoint, RunFolder, Tensors
from ..training.session import Record, Session, run
from ..training.settings import ABOUT, describe, identity
from ..training.tensors import from_tensors, to_tensors
from .check import solve_check
from .job import PictureJob
from .step import Report, Run, first_pool, first_run, first_trend, iterate

MOST_RETURNS = 20
"""So many spikes mean that something else is wrong."""


def train(job: PictureJob, folder: Path, *, command: str | None = None, **how: Any) -> Model:
    """Trains a job in a folder of its own and returns the model with the averaged weights.

    `how` is what `training.session.run` takes besides.
    """
    return run(_OnPictures, job, folder, describe(job, command or f"cellwise train {job.name}"), **how)


class _OnPictures(Session):
    """A run that learns from pictures of boards, through a pool of states."""

    def __init__(self, job: PictureJob, files: RunFolder, config: Record, console: Console) -> None:
        self.data, self.trained_on = job.data(), job.trained_on()
        super().__init__(job, files, config, console)

    def first(self) -> Run:
        """The weights of another model, or small random ones, and a pool of newly drawn boards."""
        job = self.job
        arrays = rule.first_weights(job.automaton.step, None, job.seed)
        if job.source is not None:
            arrays = {name: job.source.weights[name] for name in arrays}
        weights = {name: jnp.asarray(array) for name, array in arrays.items()}
        return first_run(job.recipe, job.automaton, weights, self.data, job.seed)

    def iteration(self) -> tuple[Callable[[Run], tuple[Run, Report]], str]:
        """An iteration on these boards, by the fastest path; there is a checkpoint to go back to."""
        job, layout = self.job, self.job.automaton.layout
        if not self.files.checkpoint_files():
            self._keep(self.state)
        path = dispatch.choose(job.automaton.step, picture.canvas(layout) ** 2, job.recipe.precision)
        advance: Any = partial(
            iterate,
            fixed=self.fixed,
            data=self.data,
            seed=jnp.uint32(job.seed),
            recipe=job.recipe,
            automaton=job.automaton,
            path=path,
        )
        (cells, digit), side = picture.places(layout), picture.canvas(layout)
        numbers, device = rule.count(job.automaton.step, None), jax.devices()[0].device_kind
        boards = (
            f"{len(job.boards):,} boards of {cells} x {cells} digits of {digit} pixels on {side} x {side}"
        )
        return advance, f"{numbers:,} numbers, {boards}, {device} ({path.name})"

    def checked(self) -> Iterator[Record]:
        """How many validation boards are solved, drawn with digits that were never trained on."""
        for check in self.job.checks:
            cells, clues, boards = solve_check(self.job, check, self.state.average | self.fixed)
            found = {"cells": cells, "clues": clues, "boards": boards, "steps": check.steps}
            yield {"check": check.name} | found

    def more(self) -> Record:
        """What the run has cost so far, and what of the device's memory it took at most."""
        memory = jax.devices()[0].memory_stats() or {}
        used = {"memory_gib": memory["peak_bytes_in_use"] / 2**30} if "peak_bytes_in_use" in memory else {}
        return {"device_minutes": self._seconds() / 60} | used

    def trouble(self, report: Report) -> str | None:
        """What is wrong with an iteration, if anything: a loss that is no number or rises far."""
        spike, rise = self.job.recipe.spike, float(np.asarray(report.rise))
        if spike and rise > spike:
            return f"the loss rose to {rise:.1f} times what it was"
        return super().trouble(report)

    def restored(self, tensors: Tensors) -> Run | None:
        """The state with these arrays; if it came without a pool, with a new one."""
        form = jax.eval_shape(self.first)
        if any(name.startswith("pool.") for name in tensors):
            return from_tensors(form, tensors)
        begun = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), form.pool)
        empty = {f"pool.{name}": np.asarray(array) for name, array in begun._asdict().items()}
        state = from_tensors(form, tensors | empty)
        if state is None:
            return None
        pool = first_pool(
            self.job.recipe, self.job.automaton, self.data, jnp.uint32(self.job.seed), state.step
        )
        return state._replace(pool=pool, trend=first_trend())

    def recover(self, problem: str, step: int) -> None:
        """Goes back to the last good checkpoint and goes on from there with a lower learning rate.

        A checkpoint to which the run has been back before was perhaps not good after all, so the one before
        it is taken.
        """
        kept = self._kept()
        returns = max(int(state.recovery.returns) for _, state in kept) + 1 if kept else MOST_RETURNS
        if not self.job.recipe.spike or returns > MOST_RETURNS or not kept:
            self._give_up(problem, step)
        pace = min(float(state.recovery.pace) for _, state in kept) * self.job.recipe.slower
        been_there = len(kept) > 1 and int(kept[0][1].recovery.last) == kept[0][0].step
        checkpoint, state = kept[1 if been_there else 0]
        self.files.drop_after(checkpoint.step)
        recovery = state.recovery._replace(
            pace=jnp.float32(pace), last=jnp.int32(checkpoint.step), returns=jnp.int32(returns)
        )
        self.state, self.step = state._replace(recovery=recovery), checkpoint.step
        self.reports.clear()
        self.files.cut_metrics(self.step)
        self._keep(self.state)
        self._record({"step": self.step, "returned_from": step, "because": problem, "pace": pace})
        self.display.say(
            f"{step:,}: {problem}, so the run goes on from iteration {self.step:,} "
            f"with {pace:.3g} of its learning rate"
        )
        self._measure_anew()

    def model(self) -> Model:
        """The averaged weights as they are now."""
        job, config = self.job, self.config
        more = {name: config[name] for name in ("start_from",) if name in config}
        return Model(
            name=job.name,
            puzzle=job.puzzle,
            automaton=job.automaton,
            weights=self.averaged(),
            size=None,
            fire_rate=job.recipe.fire_rate,
            pace=job.pace,
            provenance={name: config[name] for name in (*ABOUT, "boards_sha256")}
            | {"iterations": self.step}
            | more
            | job.provenance,
            trained_on=self.trained_on,
        )

    def _keep(self, state: Run) -> None:
        """Writes a checkpoint without looking at what has happened since the last."""
        digest = identity(self.config)
        self.files.save(Checkpoint(self.step, self._seconds(), digest, to_tensors(state)))

    def _kept(self) -> list[tuple[Checkpoint, Run]]:
        """The checkpoints that there are with their states, newest first."""
        found = [(one, self.restored(one.tensors)) for one in self.files.whole(identity(self.config))]
        return [(one, state) for one, state in found if state is not None]
