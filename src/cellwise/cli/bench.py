"""`cellwise bench`: how fast every way to run a rule is on this machine."""

import json
import shlex
import sys
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import jax
import tyro
from rich.table import Table

from ..bench import workload as workloads
from ..bench.paths import PRECISIONS
from ..bench.run import Document, Selection, bench
from ..errors import ConfigError
from ..files import check_writable, write_json
from ..kernels.precision import Precision
from ..names import nearest
from ..report import speed
from .arguments import option
from .console import Console

T = TypeVar("T")
_Several = Annotated[tuple[tuple[T, ...], ...], tyro.conf.UseAppendAction]
"""Several values after one option, which may itself be repeated."""

RULES = tuple(dict.fromkeys(one.preset for one in (*workloads.CPU, *workloads.GPU)))
_SIDES = {"quick": 128, "cpu": 2048, "gpu": 8192}


@dataclass(frozen=True)
class Bench:
    """Measures every way to run the rules, side by side in one run: steps, gradients, training.

    Reported are medians, with all contenders taking turns, and the share of a big matrix product's speed in
    the same run. For instance `cellwise bench sudoku-ood --task forward`. Leave the machine alone meanwhile.
    """

    rules: Annotated[tyro.conf.Positional[tuple[str, ...]], option("RULE")] = ()
    """The rules to measure, by the names of their presets; all unless told otherwise."""
    task: Annotated[
        _Several[Literal["forward", "gradient", "training"]], option("TASK [TASK ...]", "all")
    ] = ()
    """What to measure of them."""
    path: Annotated[_Several[str], option("PATH [PATH ...]", "all")] = ()
    """Only these ways, such as reference, attention or cax."""
    precision: Annotated[
        tuple[tuple[Precision, ...], ...],
        tyro.conf.UseAppendAction,
        option("float32|tf32|bf16 [...]", "all on a GPU, float32 on a CPU"),
    ] = ()
    """Precisions of products; a way that does not tell two apart is measured once."""
    variants: bool = False
    """Also measure the choices that are usually made by themselves: form and unrolled steps."""
    quick: bool = False
    """Small boards, few steps: only to see that everything runs."""
    repetitions: Annotated[int, option("INT", "5")] = 5
    """Runs of each, after one to compile."""
    minutes: Annotated[float | None, option("MINUTES", "none")] = None
    """Begin nothing new after so long."""
    out: Path = Path("out/bench.json")
    """Where the result file goes; it is written anew whenever a workload is done."""
    picture: Annotated[Path | None, option("PATH", "none")] = None
    """Also draw the result, as .png, .svg or .pdf."""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print the result as JSON and nothing else."""

    def run(self) -> int:
        """Measures, prints and writes."""
        kind = "quick" if self.quick else "cpu" if jax.default_backend() == "cpu" else "gpu"
        chosen = {"quick": workloads.QUICK, "cpu": workloads.CPU, "gpu": workloads.GPU}[kind]
        selection = self._selection()
        if not any(selection.wants(one) for one in chosen):
            raise ConfigError(
                "Nothing is measured by that choice of rules and tasks on this device; "
                f"choose tasks from: {', '.join(dict.fromkeys(one.task for one in chosen))}."
            )
        check_writable(self.out)
        if self.picture is not None:
            speed.check_format(self.picture)
            check_writable(self.picture)
        command = shlex.join(["cellwise", *sys.argv[1:]])

        def keep(document: Document) -> None:
            write_json(self.out, {"benchmark": document["benchmark"], "command": command} | document)

        console = Console(stderr=self.as_json)
        seconds = float("inf") if self.minutes is None else 60 * self.minutes
        repetitions = 2 if self.quick else self.repetitions
        with console.status("preparing") as status:
            result = bench(chosen, selection, repetitions, _SIDES[kind], seconds, status.update, keep)
        keep(result)
        if self.picture is not None:
            speed.draw(result, self.picture)
        if self.as_json:
            print(json.dumps({"command": command} | result))
            return 0
        for table in tables(result):
            console.print(table)
            console.print()
        for note in result["notes"]:
            console.print(note, soft_wrap=True, markup=False, highlight=False)
        for path in (self.out, self.picture):
            if path is not None:
                console.print(f"Written to {path}.", soft_wrap=True)
        return 0

    def _selection(self) -> Selection:
        for rule in self.rules:
            if rule not in RULES:
                raise ConfigError(nearest("rule to measure", rule, dict.fromkeys(RULES)))
        if self.repetitions < 1:
            raise ConfigError(f"There cannot be {self.repetitions} repetitions; choose 1 or more.")
        precisions: tuple[Precision, ...] = PRECISIONS[:1] if jax.default_backend() == "cpu" else PRECISIONS
        if self.precision:
            precisions = tuple(one for several in self.precision for one in several)
        return Selection(
            rules=self.rules,
            tasks=tuple(chain.from_iterable(self.task)),
            paths=tuple(chain.from_iterable(self.path)),
            precisions=precisions,
            variants=self.variants,
        )


def tables(result: Document) -> list[Table]:
    """A table for each workload, 80 columns wide at most; `peak` is the share of a matrix product's speed."""
    groups: dict[tuple[Any, ...], list[Document]] = {}
    for row in result["rows"]:
        key = tuple(row[name] for name in ("rule", "task", "boards", "batch", "steps"))
        groups.setdefault(key, []).append(row)
    views = []
    for (rule, task, boards, batch, steps), rows in groups.items():
        title = f"{rule}, {task}: {batch:,} {boards}, {steps} steps"
        view = Table(title=title, box=None, header_style="bold", title_justify="left", padding=(0, 1, 0, 0))
        heads = ("contender", "precision", "ms", "spread", "ns/cell-step", "peak", "× ref", "× CAX")
        for number, head in enumerate(heads):
            view.add_column(head, justify="left" if number < 2 else "right", no_wrap=True)
        for row in rows:
            view.add_row(row["contender"], row["precision"], *_numbers(row))
        views.append(view)
    return views


def _numbers(row: Document) -> tuple[str, ...]:
    seconds, share = row["seconds"], row["share_of_matrix_product"]
    return (
        f"{1e3 * seconds['median']:.4g}",
        f"{100 * (seconds['max'] - seconds['min']) / seconds['median']:.0f} %",
        f"{row['nanoseconds_per_cell_step']:.3g}",
        "–" if share is None else f"{100 * share:.0f} %",
        *(f"{row[name]:.1f}" if name in row else "–" for name in ("times_reference", "times_cax")),
    )
