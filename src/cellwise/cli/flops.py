"""`cellwise flops`: the paper's table of costs, counted again on this machine."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from .. import cost
from ..cost import Document
from ..errors import ConfigError
from ..files import check_writable, write_json
from ..names import nearest
from .arguments import option
from .console import Console


@dataclass(frozen=True)
class Flops:
    """Counts parameters and floating-point operations of the paper's table anew, from compiled steps.

    Each step is compiled for the CPU and never run, so it takes seconds on any machine. For instance
    `cellwise flops` or `cellwise flops sudoku-ood --json`.
    """

    benchmarks: Annotated[tyro.conf.Positional[tuple[str, ...]], option("BENCHMARK")] = ()
    """The benchmarks to count, all unless told otherwise."""
    out: Annotated[Path | None, option("PATH", "none")] = None
    """Also write the counts as JSON there."""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print JSON and nothing else."""

    def run(self) -> int:
        """Counts, prints and writes."""
        for name in self.benchmarks:
            if name not in cost.BENCHMARKS:
                raise ConfigError(nearest("benchmark", name, dict.fromkeys(cost.BENCHMARKS)))
        if self.out is not None:
            check_writable(self.out)
        console = Console(stderr=self.as_json)
        with console.status("preparing") as status:
            document = cost.table(self.benchmarks, status.update)
        if self.out is not None:
            write_json(self.out, document)
        if self.as_json:
            print(json.dumps(document, indent=2))
            return 0
        for view in tables(document):
            console.print(view)
            console.print()
        told = f"Counted are {document['what']}, by jaxlib {document['versions']['jaxlib']}."
        console.print(told, soft_wrap=True, highlight=False)
        if self.out is not None:
            console.print(f"Written to {self.out}.", soft_wrap=True, markup=False, highlight=False)
        return 0


def tables(document: Document) -> list[Table]:
    """One step of every rule, then every answer of the paper's table; 80 columns wide at most."""
    heads = ("benchmark", "cells", "parameters", "paper's", "ours", "share", "by hand", "ours")
    steps = _view("One step of one board; by hand: of one cell", *heads)
    heads = ("benchmark", "cells", "steps", "trials", "the paper prints", "counted", "ours")
    answers = _view("One answer: a step × steps × trials", *heads)
    seen: set[tuple[str, ...]] = set()
    for row in document["rows"]:
        who = (row["benchmark"], "×".join(map(str, row["board"])))
        step, answer, by_hand = row["step"], row["answer"], row["closed_form_of_a_cell"]
        if who not in seen:
            seen.add(who)
            counted = (*map(cost.short, step.values()), f"{step['cellwise'] / step['paper']:.2f}")
            steps.add_row(*who, f"{row['parameters']:,}", *counted, *(f"{n:,}" for n in by_hand.values()))
        effort = (f"{row['steps']:,}", f"{row['trials']:,}")
        answers.add_row(*who, *effort, row["printed"]["answer"], *map(cost.short, answer.values()))
    return [steps, answers]


def _view(title: str, *heads: str) -> Table:
    view = Table(title=title, box=None, header_style="bold", title_justify="left", padding=(0, 1, 0, 0))
    for number, head in enumerate(heads):
        view.add_column(head, justify="left" if number == 0 else "right", no_wrap=True)
    return view
