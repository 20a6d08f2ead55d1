"""Measuring: a model on the boards of a benchmark, by the paper's protocol, as a result that can be kept.

Every trial thinks for exactly the stated number of steps. Of several trials the one the cells are surest of
is the answer (conf@K), never the one that happens to be right.
"""

import dataclasses
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np

from . import environment
from .automaton.flops import step_flops
from .benchmarks.preset import Case
from .config import MOST_SEED, to_json, whole_number
from .kernels.dispatch import Noise
from .kernels.precision import JAX_NAMES, Precision
from .model import Model, check_noise
from .puzzles.maze_path import judge
from .thinking.think import Rest, prepare, think

Row = dict[str, Any]


def evaluate(
    model: Model,
    case: Case,
    *,
    steps: int | None = None,
    trials: int = 1,
    limit: int | None = None,
    seed: int = 0,
    noise: Noise | None = None,
    rest: Rest | None = None,
    tell: Callable[[int, int], None] | None = None,
    precision: Precision = "float32",
) -> Row:
    """Measures one case; with `rest`, a thought that is over is not thought on.

    `tell(trajectories, steps)` is called as work gets done.
    """
    steps = whole_number("The number of steps", case.steps if steps is None else steps, 1)
    trials = whole_number("The number of trials", trials, 1)
    count = whole_number("The limit", case.count if limit is None else limit, 1)
    seed = whole_number("The seed", seed, 0, MOST_SEED)
    check_noise(noise)
    boards = case.boards(count)
    inputs, restore = model.prepared(boards.inputs)
    given, n = model.given(inputs), len(inputs)
    mind = prepare(model.automaton, model.weights, given, model.fire_rate, noise, precision)
    numbers = np.arange(n, dtype=np.int32)
    grid, best = np.zeros(inputs.shape, np.uint8), np.full(n, -np.inf, np.float32)
    taken = 0
    began = time.perf_counter()
    for trial in range(trials):
        answers = think(mind, inputs, given, seed, numbers, np.full(n, trial, np.int32), steps, rest, tell)
        taken += int(answers.steps.sum())
        sure = answers.cells.mean((1, 2))
        better = sure > best
        grid[better], best[better] = answers.grid[better], sure[better]
    seconds = time.perf_counter() - began
    return {
        "case": case.name,
        "data": case.source,
        "boards": n,
        "steps": steps,
        "trials": trials,
        "seed": seed,
        "noise": to_json(noise),
        "stopped_at_rest": to_json(rest),
        "mean_steps_taken": round(taken / (n * trials), 1),
        "path": mind.path.name,
        "precision": precision,
        **scored(model, boards.inputs, boards.target, restore(grid)),
        "mean_confidence": float(best.mean()),
        "seconds": round(seconds, 2),
        "nanoseconds_per_cell_step": round(1e9 * seconds / (inputs[0].size * taken), 2),
        **{
            f"flops_per_board_{formulation}": step_flops(model.automaton, inputs.shape[1:], formulation)
            * steps
            * trials
            for formulation in ("cellwise", "paper")
        },
    }


def scored(model: Model, inputs: np.ndarray, target: np.ndarray, grid: np.ndarray) -> Row:
    """Accuracy by cell and by board; for mazes also how many answers are valid and optimal."""
    exact = (grid == target).all((1, 2))
    row: Row = {
        "cell_accuracy": float((grid == target).mean()),
        "board_accuracy": float(exact.mean()),
        "board_accuracy_95": list(interval(int(exact.sum()), len(exact))),
    }
    if model.puzzle != "sudoku":
        verdict = judge(inputs, target, grid)
        row |= {"optimal": float(verdict.optimal.mean()), "valid": float(verdict.valid.mean())}
    return row


def interval(successes: int, total: int) -> tuple[float, float]:
    """Wilson's 95 % interval for a share of successes; sensible also at 0 % and 100 %."""
    z, p = 1.959964, successes / total
    middle = (p + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    low = 0.0 if successes == 0 else middle - half
    high = 1.0 if successes == total else middle + half
    return round(low, 5), round(high, 5)


def result_file(benchmark: str, model: Model, command: str, rows: list[Row]) -> dict[str, Any]:
    """What is written to disk: the rows with all that is needed to measure them again."""
    return {
        "benchmark": benchmark,
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "model": model.name,
        "model_provenance": model.provenance,
        "automaton": dataclasses.asdict(model.automaton),
        "fire_rate": model.fire_rate,
        "device": environment.device(),
        "commit": environment.commit(),
        "matmul_precision": ", ".join(dict.fromkeys(JAX_NAMES[row["precision"]] for row in rows)),
        "versions": environment.versions(),
        "rows": rows,
    }
