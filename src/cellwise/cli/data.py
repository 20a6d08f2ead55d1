"""`cellwise data`: list, fetch, make and verify the datasets."""

import dataclasses
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from ..puzzles import store
from ..puzzles.recipe import MazeHardMade, MazeOodMade, SudokuEasyMade, SudokuHardMade
from .arguments import option
from .console import Console

_WIDE = 120  # columns of a terminal that has room for descriptions
_MARKS = {"ready": "green", "partial": "yellow", "sound": "green", "missing": "yellow", "damaged": "red"}


@dataclass(frozen=True)
class List:
    """Shows every dataset, whether it is on this machine and what it may be used for."""

    json: bool = False
    """Print JSON instead of a table."""

    def run(self) -> int:
        """Prints the table."""
        entries = store.listing()
        if self.json:
            _print_json({"folder": str(store.data_folder()), "datasets": entries})
            return 0
        console = Console()
        columns = ["dataset", "state", "boards", "train on", "test on"]
        table = _table(*columns, *(["about"] if console.width >= _WIDE else []))
        for entry in entries:
            boards = f"{entry.boards:,}" if entry.boards else ""
            splits = [", ".join(names) for names in (entry.trainable, entry.test_only)]
            cells = [entry.name, _mark(entry.state), boards, *splits, entry.about]
            table.add_row(*cells[: len(table.columns)])
        console.print(table)
        console.print(f"\nData folder: {store.data_folder()}", soft_wrap=True, highlight=False)
        return 0


@dataclass(frozen=True)
class Fetch:
    """Downloads a dataset, or copies it from a folder, and checks every board of it."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """A dataset of `cellwise data list`."""
    split: Annotated[str | None, option("SPLIT", "all")] = None
    """Only the files of this split."""
    size: Annotated[int | None, option("SIZE", "all")] = None
    """Only the file of this maze size."""
    from_: Annotated[
        Path | None, tyro.conf.arg(name="from", metavar="DIR", help_behavior_hint="(default: the publisher)")
    ] = None
    """Copy from this folder instead of downloading."""

    def run(self) -> int:
        """Brings the files and prints where they are."""
        if self.from_ is None:
            paths = store.fetch(self.name, self.split, self.size)
        else:
            paths = store.import_from(self.name, self.from_, self.split, self.size)
        for path in paths:
            print(path)
        return 0


@dataclass(frozen=True)
class Make:
    """Generates a dataset on this machine; the same arguments give the same boards."""

    recipe: Annotated[
        Annotated[MazeOodMade, tyro.conf.subcommand(MazeOodMade.name)]
        | Annotated[MazeHardMade, tyro.conf.subcommand(MazeHardMade.name)]
        | Annotated[SudokuEasyMade, tyro.conf.subcommand(SudokuEasyMade.name)]
        | Annotated[SudokuHardMade, tyro.conf.subcommand(SudokuHardMade.name)],
        tyro.conf.arg(name=""),
    ]

    def run(self) -> int:
        """Makes the boards and prints where they are."""
        print(store.make(self.recipe))
        return 0


@dataclass(frozen=True)
class Verify:
    """Compares the stored files with the SHA-256 recorded when they came; exits with 1 if one differs."""

    name: Annotated[tyro.conf.Positional[str | None], option("NAME", "all that are here")] = None
    """A dataset of `cellwise data list`."""
    json: bool = False
    """Print JSON instead of a table."""

    def run(self) -> int:
        """Prints a line for each file."""
        entries = {entry.name: entry for entry in store.listing()}
        here = [entry.name for entry in entries.values() if entry.recorded]
        findings = {name: store.verify(name) for name in ([self.name] if self.name else here)}
        if self.json:
            _print_json(findings)
        else:
            table = _table("dataset", "file", "state", "boards", "from")
            for name, found in findings.items():
                for one in found:
                    table.add_row(name, one.file, _mark(one.state), f"{one.boards:,}", one.source)
            Console().print(table if findings else "No dataset is on this machine yet.")
        bad = [name for name, found in findings.items() if any(one.state != "sound" for one in found)]
        for name in bad:
            print(f"cellwise: {name} is damaged or incomplete; {entries[name].obtain}.", file=sys.stderr)
        return int(bool(bad))


COMMANDS = {"list": List, "fetch": Fetch, "make": Make, "verify": Verify}

Data = (
    Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Fetch, tyro.conf.subcommand("fetch")]
    | Annotated[Make, tyro.conf.subcommand("make")]
    | Annotated[Verify, tyro.conf.subcommand("verify")]
)


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        prose = column in ("about", "from")
        table.add_column(column, justify="right" if column == "boards" else "left", no_wrap=not prose)
    return table


def _mark(state: str) -> str:
    colour = _MARKS.get(state)
    return f"[{colour}]{state}[/]" if colour else state


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, default=dataclasses.asdict))
