"""Running a study: job after job, each on disk before the next begins."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from .. import environment
from ..errors import NotYetError
from .result import write
from .study import Measured, Result, Study

Say = Callable[[str], None]


def run(study: Study, result: Result, path: Path, seconds: float, say: Say = lambda sentence: None) -> Result:
    """The result with the jobs that it lacked, as many as can begin within so many seconds.

    The file at `path` is written after every job, so whatever stops this loses one job at most.
    """
    began, missing = time.perf_counter(), study.missing(result)
    commit, versions, device = environment.commit(), environment.versions(), environment.device()
    for number, job in enumerate(missing, 1):
        if time.perf_counter() - began > seconds:
            say(f"{len(missing) - number + 1} of {len(missing)} jobs are left; the same command goes on.")
            break
        started = time.perf_counter()
        try:
            row = study.measure(result.settings, job)
        except NotYetError as error:
            say(f"{number} of {len(missing)}, not run: {described(job)}. {error}")
            continue
        taken = time.perf_counter() - started
        today = datetime.now(UTC).date().isoformat()
        done = Measured(job, row, round(taken, 2), today, device, commit, versions)
        result = replace(result, done=(*result.done, done))
        write(path, result)
        say(f"{number} of {len(missing)}, {taken:.0f} s: {described(job)}")
    return result


def described(job: dict) -> str:
    """A job in a few words."""
    return ", ".join(f"{name} {value}" for name, value in job.items()) or "everything"
