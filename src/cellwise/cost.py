"""What the rows of the paper's table cost, counted again: parameters, one step, one answer.

A step is counted twice, in the paper's formulation, which is what its numbers are of, and as cellwise
computes it: with attention every cell is projected once and not once by each of its neighbours. An answer
costs the step times steps times trials. The convention is that of `automaton.flops`: nothing runs, no GPU is
asked.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from . import environment
from .automaton import rule
from .automaton.flops import Formulation, closed_form, step_flops
from .automaton.layout import Automaton, Layout
from .benchmarks import arc, maze_hard, maze_ood, sudoku_extreme, sudoku_ood
from .kernels.spec import StepSpec

Document = dict[str, Any]
Benchmark = Literal["maze-ood", "maze-hard", "sudoku-ood", "sudoku-extreme", "arc-agi-1", "visual-sudoku"]
BENCHMARKS: tuple[Benchmark, ...] = get_args(Benchmark)

_UNITS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12, "P": 1e15}
_VISUAL = Automaton(
    StepSpec(256, "sobel", heads=3, hidden=2048, padding="wrap", frozen=0, update="bare"),
    Layout(tokens=10, read=1, write=1, head="distance", spread=0.1),
)


@dataclass(frozen=True)
class Row:
    """A line of the paper's table: what is run, and the parameters and operations that the paper prints.

    `placed` gives each place of the board attention of its own; an ensemble has several `models`, which
    share the trials.
    """

    benchmark: Benchmark
    automaton: Automaton
    board: tuple[int, int]
    steps: int
    trials: int
    printed_parameters: str
    printed: str
    placed: bool = False
    models: int = 1

    def count_parameters(self) -> int:
        """How many numbers are trained, those of all models."""
        return self.models * rule.count_all(self.automaton, self.board if self.placed else None)

    def count_step(self, formulation: Formulation) -> int:
        """The operations of one step of one board."""
        if self.automaton.step.perception == "kernels":
            formulation = "cellwise"  # Both are the same.
        return _step_flops(self.automaton, self.board, formulation)


ROWS = (
    Row("maze-ood", maze_ood.AUTOMATON, (15, 15), 300, 1, "10K", "1.5B"),
    Row("maze-ood", maze_ood.AUTOMATON, (61, 61), 2_000, 1, "10K", "163.4B"),
    Row("maze-ood", maze_ood.AUTOMATON, (203, 203), 13_000, 1, "10K", "11.8T"),
    Row("maze-hard", maze_hard.AUTOMATON, (30, 30), 200, 1, "41K", "15.3B"),
    Row("maze-hard", maze_hard.AUTOMATON, (30, 30), 200, 128, "41K", "2.0T"),
    Row("sudoku-ood", sudoku_ood.AUTOMATON, (9, 9), 256, 1, "160K", "11.7B", placed=True),
    Row("sudoku-ood", sudoku_ood.AUTOMATON, (9, 9), 256, 2_048, "160K", "23.9T", placed=True),
    Row("sudoku-extreme", sudoku_extreme.AUTOMATON, (9, 9), 2_048, 1, "603K", "371.3B", placed=True),
    Row("sudoku-extreme", sudoku_extreme.AUTOMATON, (9, 9), 2_048, 512, "603K", "190.1T", placed=True),
    Row("arc-agi-1", arc.ARC.automaton, (32, 32), 64, 3_264, "3.5M", "2.4P"),
    Row("arc-agi-1", arc.ARC.automaton, (32, 32), 64, 9_792, "10.5M", "7.1P", models=3),
    Row("visual-sudoku", _VISUAL, (256, 256), 1_024, 1, "2.1M", "283.2T"),
    Row("visual-sudoku", _VISUAL, (256, 256), 3_072, 1, "2.1M", "849.5T"),
)
"""Every automaton of the table; the benchmarks' own rules on the boards that the paper counts.

A maze of size 13 has a ring of walls around it, hence 15 × 15 cells.
"""


def count(row: Row) -> Document:
    """A row as plain values, with the paper's numbers beside those counted here."""
    answers = row.steps * row.trials
    formulations: tuple[Formulation, ...] = ("paper", "cellwise")
    step = {formulation: row.count_step(formulation) for formulation in formulations}
    return {
        "benchmark": row.benchmark,
        "board": list(row.board),
        "steps": row.steps,
        "trials": row.trials,
        "parameters": row.count_parameters(),
        "step": step,
        "closed_form_of_a_cell": {f: closed_form(row.automaton.step, f) for f in formulations},
        "answer": {formulation: answers * flops for formulation, flops in step.items()},
        "printed": {"parameters": row.printed_parameters, "answer": row.printed},
    }


def table(benchmarks: tuple[str, ...] = (), tell: Callable[[str], None] = lambda _: None) -> Document:
    """The rows of these benchmarks, all by default, with what they were counted by."""
    rows = []
    for row in ROWS:
        if not benchmarks or row.benchmark in benchmarks:
            tell(f"compiling a step of {row.benchmark}, {row.board[0]} × {row.board[1]} cells")
            rows.append(count(row))
    return {
        "what": "floating-point operations of one board: XLA's CPU count of one compiled step, every cell "
        "computed, readout and random bits left out, times steps times trials",
        "versions": environment.versions(),
        "rows": rows,
    }


def amount(printed: str) -> float:
    """The number that the paper prints as, for instance, 163.4B."""
    return float(printed[:-1]) * _UNITS[printed[-1]]


def short(number: int) -> str:
    """A number of four digits in the manner of the paper: 163.1B."""
    unit = max((unit for unit, size in _UNITS.items() if number >= size), key=_UNITS.__getitem__)
    return f"{number / _UNITS[unit]:#.4g}{unit}"


_step_flops = functools.cache(step_flops)
