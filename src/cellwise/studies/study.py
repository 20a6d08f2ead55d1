"""What a study is, and what a run of it has found so far."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from matplotlib.figure import Figure

Scale = Literal["quick", "full"]

Settings = Any
"""A frozen dataclass of numbers, strings, tuples and such dataclasses; each study has its own."""

Job = dict[str, Any]
"""What tells one part of a run from the others: a few names with numbers or strings."""

Row = dict[str, Any]
"""What was seen, as JSON: numbers, strings, lists, dictionaries."""


@dataclass(frozen=True)
class Comparison:
    """A number of the paper beside ours, in words; `None` where the paper has none or we have not measured.

    `note` says in what ours differs, if it does.
    """

    what: str
    paper: str | None
    ours: str | None
    note: str = ""


@dataclass(frozen=True)
class Measured:
    """One job that is done: what was seen, and where, when, by which code and for how long."""

    job: Job
    row: Row
    seconds: float
    date: str
    device: str
    commit: str | None
    versions: dict[str, str]


@dataclass(frozen=True)
class Result:
    """A run of a study as its file holds it, whole or not; `command` is what makes it anew."""

    study: str
    scale: Scale
    settings: Settings
    command: str
    data: str
    done: tuple[Measured, ...] = ()

    def row(self, **job: Any) -> Row | None:
        """What was seen in the first job that has these values, or None if that was not run."""
        return next(iter(self.rows(**job)), None)

    def rows(self, **job: Any) -> list[Row]:
        """What was seen in all jobs that have these values."""
        return [one.row for one in self.done if job.items() <= one.job.items()]


@dataclass(frozen=True)
class Study:
    """A claim of the paper and how to measure it again; the package's docstring has the rest.

    `data(settings)` says in a few words on what is measured, with its seeds. `inches` is the size of the
    figure, and `alt` its content for who cannot see it; a study without a `draw` has a table only. `here`
    says what cellwise does that the paper does not, and how to read the numbers.
    """

    name: str
    title: str
    claim: str
    quick: Settings
    full: Settings
    data: Callable[[Settings], str]
    jobs: Callable[[Settings], list[Job]]
    measure: Callable[[Settings, Job], Row]
    compare: Callable[[Result], list[Comparison]]
    draw: Callable[[Result, Figure], None] | None = None
    here: str = ""
    alt: str = ""
    inches: tuple[float, float] = (9.0, 4.0)

    def settings(self, scale: Scale) -> Settings:
        """The settings of a scale."""
        return self.quick if scale == "quick" else self.full

    def missing(self, result: Result) -> list[Job]:
        """The jobs of a run that are not done yet."""
        done = [one.job for one in result.done]
        return [job for job in self.jobs(result.settings) if job not in done]
