"""`cellwise eval`: measure a model on a benchmark."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ..benchmarks import BENCHMARKS
from ..benchmarks.preset import Benchmark, Case
from ..errors import ConfigError
from ..evaluation import Row, evaluate, result_file
from ..files import write_json
from ..kernels.dispatch import Noise
from ..model import Model, load
from ..names import nearest
from ..thinking.think import Rest


@dataclass(frozen=True)
class Eval:
    """Measure a model on a benchmark and write the result file.

    Every trial thinks for the full number of steps; of several, the one the cells are surest of counts.
    """

    benchmark: tyro.conf.Positional[str]
    """maze-ood, maze-hard, sudoku-ood or sudoku-extreme."""
    model: str | None = None
    """Name of a shipped model or a model folder; the benchmark's own by default."""
    size: tuple[int, ...] = ()
    """Board sizes to measure, where the benchmark has several."""
    steps: int | None = None
    """Steps to think; the benchmark's by default."""
    trials: int = 1
    """Independent trials for each board."""
    noise: tuple[float, float, float, float] | None = None
    """Kicks while thinking: chance for a board, chance for a cell, size, share of the steps with kicks."""
    rest: bool = False
    """Stop a thought that is over, in which no number would change by more than 1e-5; saves time."""
    limit: int | None = None
    """Measure only the first so many boards."""
    seed: int = 0
    """Another seed, another set of random thoughts."""
    out: Path | None = None
    """Where the result file goes; results/BENCHMARK.json in this folder by default."""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print the result as JSON and nothing else."""

    def run(self) -> int:
        """Measures, prints and writes."""
        if self.benchmark not in BENCHMARKS:
            raise ConfigError(nearest("benchmark", self.benchmark, BENCHMARKS))
        benchmark = BENCHMARKS[self.benchmark]
        cases = self._cases(benchmark)
        model = load(self.model or benchmark.model)
        rows = []
        console = Console(stderr=self.as_json)
        for case in cases:
            rows.append(self._measure(model, case))
            if not self.as_json:
                console.print(table(benchmark.name, rows) if case is cases[-1] else _line(rows[-1]))
        command = " ".join(["cellwise", *sys.argv[1:]])
        result = result_file(benchmark.name, model, command, rows)
        out = self.out or Path("results") / f"{benchmark.name}.json"
        write_json(out, result)
        if self.as_json:
            print(json.dumps(result))
        else:
            console.print(f"Written to {out}.", soft_wrap=True)
        return 0

    def _cases(self, benchmark: Benchmark) -> tuple[Case, ...]:
        if not self.size:
            return benchmark.cases
        if benchmark.sized is None:
            raise ConfigError(f"{benchmark.name} has boards of one size only; leave out --size.")
        return tuple(benchmark.sized(size) for size in self.size)

    def _measure(self, model: Model, case: Case) -> Row:
        steps = self.steps or case.steps
        noise = None
        if self.noise is not None:
            when, where, size, share = self.noise
            if not (0 <= when <= 1 and 0 <= where <= 1 and 0 <= share <= 1 and size >= 0):
                raise ConfigError("Noise needs two chances, a size and a share; only the size may exceed 1.")
            noise = Noise(when, where, size, until=int(share * steps))
        total = (self.limit or case.count) * self.trials * steps
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        console = Console(stderr=True)
        quiet = not console.is_terminal
        with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
            task = progress.add_task(f"{case.name}, {steps} steps", total=total)
            return evaluate(
                model,
                case,
                steps=self.steps,
                trials=self.trials,
                limit=self.limit,
                seed=self.seed,
                noise=noise,
                rest=Rest() if self.rest else None,
                tell=lambda _, steps: progress.advance(task, steps),
            )


def _line(row: Row) -> str:
    return f"{row['case']}: {100 * row['board_accuracy']:.2f} % of {row['boards']:,} boards"


def table(title: str, rows: list[Row]) -> Table:
    """The rows as a person wants to see them; FLOPs are those of one board, ours and the paper's count.

    Fits a terminal of 80 columns.
    """
    maze = "valid" in rows[0]
    view = Table(title=title, box=None, header_style="bold", title_justify="left", pad_edge=False)
    heads = ["case", "boards", "steps", "right\n95 %", "cells"]
    for head in [*heads, *(["optimal", "valid"] if maze else []), "time", "FLOPs\npaper's"]:
        view.add_column(head, justify="left" if head == "case" else "right", no_wrap=True)
    for row in rows:
        low, high = row["board_accuracy_95"]
        cells = [row["case"], f"{row['boards']:,}", f"{row['steps']:,}"]
        cells += [f"{100 * row['board_accuracy']:.2f}\n{100 * low:.1f}–{100 * high:.1f}"]
        cells += [f"{100 * row['cell_accuracy']:.2f}"]
        cells += [f"{100 * row['optimal']:.2f}", f"{100 * row['valid']:.2f}"] if maze else []
        flops = (f"{row[f'flops_per_board_{name}']:.2e}".replace("e+", "e") for name in ("cellwise", "paper"))
        view.add_row(*cells, f"{row['seconds']:.0f} s", "\n".join(flops))
    return view
