"""`cellwise study`: the paper's claims measured again, one by one."""

import json
import shlex
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table

from ..errors import ConfigError
from ..files import check_writable
from ..studies import figure, find, studies
from ..studies import result as files
from ..studies.run import run
from ..studies.study import Result, Scale
from .arguments import option
from .console import Console

FOLDER = Path("results/studies")

_Name = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="STUDY")]
_Folder = Annotated[Path, tyro.conf.arg(metavar="DIR")]


@dataclass(frozen=True)
class List:
    """Shows every study and how much of it has been measured."""

    results: _Folder = FOLDER
    """The folder with the result files."""
    json: bool = False
    """Print JSON instead of a table."""

    def run(self) -> int:
        """Prints the table."""
        entries = []
        for study in studies():
            entry: dict[str, Any] = {"study": study.name, "title": study.title}
            for scale in ("quick", "full"):
                result = files.read(files.path_of(self.results, study.name, scale), study)
                settings = study.settings(scale) if result is None else result.settings
                jobs = len(study.jobs(settings))
                entry[scale] = {"jobs": jobs, "done": 0 if result is None else len(result.done)}
            entries.append(entry)
        if self.json:
            print(json.dumps(entries, indent=2))
            return 0
        table = Table("study", "quick", "full", "about", box=None, header_style="bold", pad_edge=False)
        for entry in entries:
            counts = [f"{entry[scale]['done']} of {entry[scale]['jobs']}" for scale in ("quick", "full")]
            table.add_row(entry["study"], *counts, entry["title"])
        Console().print(table)
        return 0


@dataclass(frozen=True)
class Run:
    """Measures a study, or goes on where it was stopped; every finished job is in the result file at once.

    For instance `cellwise study run adaptive-firing --quick`.
    """

    study: _Name
    """A study of `cellwise study list`."""
    quick: bool = False
    """The small version, minutes on a laptop; without it, the one that wants a GPU."""
    model: Annotated[str | None, option("NAME|DIR", "what the study says")] = None
    """Another model."""
    out: _Folder = FOLDER
    """The folder for the result file."""
    minutes: Annotated[float | None, option("MINUTES", "none")] = None
    """Begin no job after so long; the same command goes on later."""
    anew: bool = False
    """Throw away what has been measured before."""

    def run(self) -> int:
        """Measures, telling what is done; exits with 1 if jobs are left."""
        study = find(self.study)
        scale: Scale = "quick" if self.quick else "full"
        settings = study.settings(scale)
        words = ["cellwise", "study", "run", study.name] + (["--quick"] if self.quick else [])
        if self.model is not None:
            if "model" not in {field.name for field in fields(settings)}:
                raise ConfigError(f"{study.name} has no model of its own; leave out --model.")
            settings = replace(settings, model=self.model)
            words += ["--model", self.model]
        path = files.path_of(self.out, study.name, scale)
        check_writable(path)
        console = Console(stderr=True)

        def say(sentence: str) -> None:
            console.print(sentence, soft_wrap=True, markup=False, highlight=False)

        result = files.begun(path, study, scale, settings, shlex.join(words), self.anew)
        if result.done:
            say(f"{path} has {len(result.done)} jobs already.")
        result = run(study, result, path, float("inf") if self.minutes is None else 60 * self.minutes, say)
        compare(result)
        return 1 if study.missing(result) else 0


@dataclass(frozen=True)
class Draw:
    """Draws the figure of a study from its result file."""

    study: _Name
    """A study of `cellwise study list`."""
    path: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="PICTURE")]
    """The .svg, .png or .pdf to write."""
    quick: bool = False
    """The result of the small version."""
    results: _Folder = FOLDER
    """The folder with the result files."""

    def run(self) -> int:
        """Draws it and says where."""
        study = find(self.study)
        if study.draw is None:
            raise ConfigError(f"{study.name} has a table and no figure; see it with `cellwise report`.")
        scale: Scale = "quick" if self.quick else "full"
        source = files.path_of(self.results, study.name, scale)
        result = files.read(source, study)
        if result is None:
            raise ConfigError(
                f"There is no {source}; measure it with `cellwise study run {study.name}"
                f"{' --quick' if self.quick else ''}`."
            )
        figure.save(figure.make(study, result), self.path)
        Console(stderr=True).print(f"Drawn to {self.path}.", soft_wrap=True, highlight=False)
        return 0


COMMANDS = {"list": List, "run": Run, "draw": Draw}

Study = (
    Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Run, tyro.conf.subcommand("run")]
    | Annotated[Draw, tyro.conf.subcommand("draw")]
)


def compare(result: Result) -> None:
    """Prints the paper's numbers beside ours."""
    table = Table("", "paper", "here", box=None, header_style="bold", pad_edge=False)
    for one in find(result.study).compare(result):
        table.add_row(one.what, one.paper or "–", one.ours or "not run")
    Console().print(table)
