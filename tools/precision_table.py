"""What rounded products cost: the same weights and the same thoughts in float32, TF32 and bfloat16.

    python tools/precision_table.py sudoku-ood --model runs/sudoku-ood/model
    python tools/precision_table.py maze-ood --case "size 59" --boards 1000

Each row has the boards that are right in every cell with their interval, how many boards have the same answer
as in float32, and the boards that only one of the two solves, which is what the comparison turns on: where
they are about as many, the difference is luck. Writes results/precision-BENCHMARK.json.
"""

import argparse
import json
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np
from rich.console import Console
from rich.table import Table

from cellwise import environment
from cellwise.benchmarks import BENCHMARKS
from cellwise.errors import CellwiseError
from cellwise.evaluation import scored
from cellwise.files import write_text
from cellwise.kernels.precision import Precision
from cellwise.model import Model, load
from cellwise.puzzles.board import Boards
from cellwise.thinking.mind import prepare
from cellwise.thinking.think import think

ROOT = Path(__file__).resolve().parents[1]
Row = dict[str, Any]


def compared(model: Model, boards: Boards, steps: int, seed: int) -> list[Row]:
    """A row for each precision, float32 first."""
    inputs, restore = model.prepared(boards.inputs)
    given, numbers = model.given(inputs), np.arange(len(inputs), dtype=np.int32)
    rows: list[Row] = []
    answers: dict[str, np.ndarray] = {}
    for precision in get_args(Precision):
        mind = prepare(model.automaton, model.weights, given, model.fire_rate, None, precision)
        puzzles = (inputs, given, seed, numbers, np.zeros_like(numbers))
        think(mind, *puzzles, 1)  # Compiles.
        began = time.perf_counter()
        grid = restore(think(mind, *puzzles, steps).grid)
        seconds = time.perf_counter() - began
        answers[precision] = grid
        exact = answers["float32"]
        right, right_exact = ((one == boards.target).all((1, 2)) for one in (grid, exact))
        rows.append(
            {
                "precision": precision,
                "path": mind.path.name,
                **scored(model, boards.inputs, boards.target, grid),
                "same_answer": float((grid == exact).all((1, 2)).mean()),
                "solved_only_by_this": int((right & ~right_exact).sum()),
                "solved_only_by_float32": int((right_exact & ~right).sum()),
                "seconds": round(seconds, 3),
                "nanoseconds_per_cell_step": round(1e9 * seconds / (inputs.size * steps), 3),
            }
        )
    return rows


def table(title: str, rows: list[Row]) -> Table:
    """The rows for a person."""
    view = Table(title=title, box=None, header_style="bold", title_justify="left")
    for head in ("precision", "right, %", "95 %", "same answer, %", "only this", "only float32", "ns"):
        view.add_column(head, justify="left" if head == "precision" else "right")
    for row in rows:
        low, high = row["board_accuracy_95"]
        view.add_row(
            row["precision"],
            f"{100 * row['board_accuracy']:.2f}",
            f"{100 * low:.1f}–{100 * high:.1f}",
            f"{100 * row['same_answer']:.2f}",
            str(row["solved_only_by_this"]),
            str(row["solved_only_by_float32"]),
            f"{row['nanoseconds_per_cell_step']:.3g}",
        )
    return view


def main() -> int:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("benchmark", choices=list(BENCHMARKS))
    parser.add_argument("--model", help="a model's name or folder; the benchmark's own unless given")
    parser.add_argument("--case", help="the benchmark's first unless given")
    parser.add_argument("--boards", type=int, default=1000)
    parser.add_argument("--steps", type=int, help="the case's unless given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--result", type=Path, help="results/precision-BENCHMARK.json unless given")
    asked = parser.parse_args()
    benchmark = BENCHMARKS[asked.benchmark]
    cases = {case.name: case for case in (*benchmark.cases, *benchmark.more)}
    if asked.case is not None and asked.case not in cases:
        parser.error(f"{asked.benchmark} has no case {asked.case!r}; choose one of: {', '.join(cases)}.")
    case = cases[asked.case] if asked.case else benchmark.cases[0]
    try:
        model = load(asked.model or benchmark.model)
        steps, boards = asked.steps or case.steps, case.boards(asked.boards)
        rows = compared(model, boards, steps, asked.seed)
    except CellwiseError as error:
        print(error, file=sys.stderr)
        return 2
    document = {
        "benchmark": f"precision-{benchmark.name}",
        "command": shlex.join(["python", "tools/precision_table.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).date().isoformat(),
        "device": environment.device(),
        "commit": environment.commit(),
        "versions": environment.versions(),
        "model": model.name,
        "model_provenance": model.provenance,
        "data": case.source,
        "boards": len(boards),
        "steps": steps,
        "seed": asked.seed,
        "rows": rows,
    }
    out = asked.result or ROOT / "results" / f"precision-{benchmark.name}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, json.dumps(document, indent=1) + "\n")
    console = Console()
    console.print(table(f"{model.name}, {len(boards):,} boards of {case.source}, {steps} steps", rows))
    console.print(f"Written to {out}.", soft_wrap=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
