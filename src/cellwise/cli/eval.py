"""`cellwise eval`: measure a model on a benchmark."""

import json
import shlex
import sys
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import tyro
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ..benchmarks import BENCHMARKS, PICTURE_BENCHMARKS, TASK_BENCHMARKS
from ..benchmarks.preset import Benchmark, Case
from ..config import whole_number
from ..errors import ConfigError
from ..evaluation import Row, evaluate, result_file
from ..files import check_writable, write_json
from ..kernels.dispatch import Noise
from ..kernels.precision import Precision
from ..model import Model, check_noise, load
from ..names import nearest
from ..thinking import outcomes
from ..thinking.pruning import Pruning
from ..thinking.schedule import PAPER, RELEASED, Schedule
from ..thinking.think import Rest
from . import eval_pictures, eval_tasks
from .arguments import firing, option
from .console import Console

T = TypeVar("T")
_Several = Annotated[tuple[tuple[T, ...], ...], tyro.conf.UseAppendAction]
"""Several values after one option, which may itself be repeated."""

_SOLVED = {
    "maze": "mazes",
    "directed-maze": "mazes with a start and a goal",
    "sudoku": "Sudokus",
    "arc": "ARC tasks",
    "visual-sudoku": "drawn Sudokus",
}
_ALL = [*BENCHMARKS, *TASK_BENCHMARKS, *PICTURE_BENCHMARKS]


@dataclass(frozen=True)
class Eval:
    """Measures a model on a benchmark and writes the result file.

    Every trial thinks for the full number of steps; of several, the one the cells are surest of counts.
    For instance `cellwise eval maze-ood --size 9 --limit 100` takes a minute or less.
    """

    benchmark: Annotated[tyro.conf.Positional[str | None], option("BENCHMARK")] = None
    """What to measure; --list shows all."""
    list: bool = False
    """Show the benchmarks with their cases."""
    model: Annotated[str | None, option("NAME|DIR", "the benchmark's own")] = None
    """A model that comes with the package, or the folder of your own."""
    size: Annotated[_Several[int], option("SIZE [SIZE ...]", "the benchmark's")] = ()
    """Board sizes to measure, where the benchmark has several."""
    case: Annotated[_Several[str], option("CASE [CASE ...]", "the benchmark's")] = ()
    """Cases to measure, such as braided-59."""
    steps: Annotated[int | None, option("INT", "the case's")] = None
    """Steps to think."""
    trials: int = 1
    """Independent trials for each board."""
    noise: Annotated[tuple[float, float, float, float] | None, option("BOARD CELL SIZE SHARE", "none")] = None
    """Kicks while thinking: chance for a board, chance for a cell, size, share of the steps with kicks."""
    kicks: Annotated[Literal["released", "paper"] | None, option("released|paper", "none")] = None
    """Kicks as in the pruning study: 0.1 0.2 0.3 0.25 in its released code, 0.2 0.8 0.1 0.25 in the paper."""
    fire: Annotated[str | None, option("paper|frugal|RATE[,…]", "as trained")] = None
    """Let cells that are sure fire less often: RATE,DORMANT,ABOVE such as 0.8,0.4,0.95; docs/firing.md."""
    rest: bool = False
    """Stop a thought that is over, in which no number would change by more than 1e-5; saves time."""
    precision: Precision = "float32"
    """Of matrix products; on a GPU, less of it is faster."""
    prune: Annotated[int, tyro.conf.arg(metavar="1|2|4|8")] = 1
    """Cut the steps into so many segments and halve the trials between them."""
    prune_rule: Literal["confidence", "niches"] = "confidence"
    """Who goes on: the surest, at most three alike (released), or the best of each kind first (paper)."""
    shared_start: bool = False
    """With --prune: all trials of a board begin in the same state, as in the released code."""
    until_verified: bool = False
    """A board leaves as soon as an answer obeys the rules. Fast, but not the paper's protocol."""
    depths: Annotated[_Several[int], option("STEPS [STEPS ...]", "the steps, halved again and again")] = ()
    """Also judge the answers after so many steps, for curves."""
    per_board: bool = False
    """Show a line for every board."""
    limit: Annotated[int | None, option("INT", "the case's")] = None
    """Measure only the first so many boards or tasks."""
    guesses: Annotated[_Several[Path], option("DIR [DIR ...]", "runs/BENCHMARK-guesses")] = ()
    """For tasks: where guesses are kept; without --model those in several folders are scored together."""
    seed: int = 0
    """Another seed, another set of random thoughts."""
    out: Annotated[Path | None, option("PATH", "results/BENCHMARK.json in this folder")] = None
    """Where the result file goes."""
    no_outcomes: bool = False
    """Do not keep what every trial said, from which curves are drawn and an interrupted run goes on."""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print the result as JSON and nothing else."""

    def run(self) -> int:
        """Measures, prints and writes."""
        if self.list:
            _list_benchmarks()
            return 0
        if self.benchmark is None:
            raise ConfigError(f"Name a benchmark to measure: {', '.join(_ALL)}.")
        if self.benchmark in TASK_BENCHMARKS:
            folders = list(chain.from_iterable(self.guesses))
            return eval_tasks.run(
                self.benchmark, self.model, folders, self.limit, self.seed, self.out, self.as_json
            )
        if self.benchmark in PICTURE_BENCHMARKS:
            return self._pictures(self.benchmark)
        if self.benchmark not in BENCHMARKS:
            raise ConfigError(nearest("benchmark", self.benchmark, _ALL))
        benchmark = BENCHMARKS[self.benchmark]
        cases = self._cases(benchmark)
        model = load(self.model or benchmark.model)
        if model.puzzle != benchmark.puzzle:
            raise ConfigError(
                f"{benchmark.name} consists of {_SOLVED[benchmark.puzzle]}, but {model.name} solves "
                f"{_SOLVED[model.puzzle]}; choose another model with --model."
            )
        out = self.out or Path("results") / f"{benchmark.name}.json"
        check_writable(out)
        rows = []
        console = Console(stderr=self.as_json)
        for case in cases:
            file = None if self.no_outcomes else outcomes_of(out, case.name)
            rows.append(self._measure(model, case, file))
            if file is not None and self.per_board and not self.as_json:
                console.print(board_table(outcomes.load(file)[0]))
            if not self.as_json:
                console.print(table(benchmark.name, rows) if case is cases[-1] else _line(rows[-1]))
        result = result_file(benchmark.name, model, shlex.join(["cellwise", *sys.argv[1:]]), rows)
        write_json(out, result)
        if self.as_json:
            print(json.dumps(result))
        else:
            for row in rows:
                console.print(_notes(row), end="", soft_wrap=True, highlight=False)
            console.print(f"Written to {out}.", soft_wrap=True)
        return 0

    def _pictures(self, name: str) -> int:
        """Measures on drawn boards, about each of which there is a single thought."""
        others = {
            "--size": bool(self.size),
            f"--trials {self.trials}": self.trials != 1,
            "--noise": self.noise is not None,
            "--kicks": self.kicks is not None,
            "--rest": self.rest,
            f"--prune {self.prune}": self.prune != 1,
            "--until-verified": self.until_verified,
            "--per-board": self.per_board,
            "--guesses": bool(self.guesses),
        }
        for told, given in others.items():
            if given:
                raise ConfigError(f"{name} is thought about once, to the end; leave out {told}.")
        return eval_pictures.run(
            name,
            self.model,
            list(chain.from_iterable(self.case)),
            self.steps,
            tuple(chain.from_iterable(self.depths)),
            self.limit,
            self.seed,
            self.precision,
            self.out,
            not self.no_outcomes,
            self.as_json,
        )

    def _cases(self, benchmark: Benchmark) -> tuple[Case, ...]:
        sizes, names = list(chain.from_iterable(self.size)), list(chain.from_iterable(self.case))
        if not sizes and not names:
            return benchmark.cases
        if sizes and benchmark.sized is None:
            raise ConfigError(f"{benchmark.name} has boards of one size only; leave out --size.")
        known = {case.name: case for case in (*benchmark.cases, *benchmark.more)}
        for name in names:
            if name not in known:
                raise ConfigError(nearest(f"case of {benchmark.name}", name, known))
        sized = map(benchmark.sized, sizes) if benchmark.sized else ()
        return (*sized, *(known[name] for name in names))

    def _measure(self, model: Model, case: Case, file: Path | None) -> Row:
        steps = whole_number("The number of steps", case.steps if self.steps is None else self.steps, 1)
        trials = whole_number("The number of trials", self.trials, 1)
        total = (self.limit or case.count) * trials * steps
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        console = Console(stderr=True)
        quiet = not console.is_terminal
        with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
            task = progress.add_task(f"{case.name}, {steps} steps", total=total)
            return evaluate(
                model,
                case,
                steps=steps,
                trials=trials,
                limit=self.limit,
                seed=self.seed,
                noise=self._noise(steps),
                rest=Rest() if self.rest else None,
                tell=lambda _, steps: progress.advance(task, steps),
                precision=self.precision,
                firing=None if self.fire is None else firing("--fire", self.fire),
                prune=Pruning(self.prune, self.prune_rule, shared=self.shared_start),
                until_verified=self.until_verified,
                depths=tuple(chain.from_iterable(self.depths)),
                keep=file,
                say=lambda sentence: print(f"cellwise: {sentence}.", file=sys.stderr),
            )

    def _noise(self, steps: int) -> Noise | None:
        if self.noise is not None and self.kicks is not None:
            raise ConfigError("--noise and --kicks are two ways to say the same; leave out one.")
        if self.noise is not None:
            when, where, size, share = self.noise
            check_noise(Noise(when, where, size))
            return Schedule(share, when, where, size).over(steps)
        if self.kicks is not None:
            return (RELEASED if self.kicks == "released" else PAPER).over(steps)
        return None


def outcomes_of(out: Path, case: str) -> Path:
    """Where the outcomes of a case lie, beside its result file."""
    return out.with_name(f"{out.stem}.{case.replace(' ', '-')}.npz")


def board_table(found: outcomes.Outcomes) -> Table:
    """A line for every board: how many trials were right, and what the surest said."""
    view = Table(box=None, header_style="bold", pad_edge=False)
    heads = ("board", "trials\nright", "trials\nverified", "surest", "its\nconfidence", "right from\nstep on")
    for head in heads:
        view.add_column(head, justify="right", no_wrap=True)
    chosen = found.surest()
    for place, number in enumerate(found.boards):
        trial = chosen[place]
        right, verified = (found.marks[name][place, :, -1] for name in ("right", "verified"))
        since = found.settled[place][found.settled[place] >= 0]
        view.add_row(
            f"{number:,}",
            f"{right.sum():,}",
            f"{verified.sum():,}",
            "right" if right[trial] else "wrong",
            f"{found.confidence[place, trial, -1]:.3f}",
            f"{since.min():,}" if len(since) else "–",
        )
    return view


def _notes(row: Row) -> str:
    """What a row's line in the table has no room for."""
    notes = []
    if row["trials"] > 1:
        what = "the first verified answers" if row["until_verified"] else f"conf@{row['trials']}"
        notes.append(
            f"{row['case']}: the table shows {what}; some trial obeys the rules on "
            f"{100 * row['verified']:.2f} %, and choosing by the rules "
            f"{100 * row['verified_accuracy']:.2f} % are right.\n"
        )
    if row["boards_left_out_as_trained_on"]:
        notes.append(
            f"{row['case']}: {row['boards_left_out_as_trained_on']:,} boards are left out because the model "
            "was trained on them, up to symmetry.\n"
        )
    if row["steps_saved"]:
        asked = row["boards"] * row["trials"] * row["steps"]
        notes.append(f"{row['case']}: {100 * row['steps_saved'] / asked:.1f} % of the steps were saved.\n")
    return "".join(notes)


def _list_benchmarks() -> None:
    view = Table(box=None, header_style="bold", pad_edge=False)
    for head in ("benchmark", "case", "boards", "steps", "data"):
        justify = "right" if head in ("boards", "steps") else "left"
        view.add_column(head, justify=justify, no_wrap=head != "data")
    for benchmark in BENCHMARKS.values():
        for case in (*benchmark.cases, *benchmark.more):
            view.add_row(benchmark.name, case.name, f"{case.count:,}", f"{case.steps:,}", case.source)
    for drawn in PICTURE_BENCHMARKS.values():
        for shown in (*drawn.cases, *drawn.more):
            view.add_row(drawn.name, shown.name, f"{shown.count:,}", f"{shown.steps:,}", shown.about)
    for benchmark in TASK_BENCHMARKS.values():
        view.add_row(benchmark.name, "", "", "", benchmark.about)
    console = Console()
    console.print(view)
    console.print("\nSizes of maze-ood are chosen with --size, other cases with --case.", highlight=False)


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
