"""How long a person waits on a machine without a GPU: until a hard Sudoku is verified, and for an ARC task.

    python tools/laptop.py sudoku --model runs/sudoku-extreme/model      # 100 boards of sudoku-extreme-dev
    python tools/laptop.py arc                                           # arc-small's size, untrained
    python tools/laptop.py arc --model runs/arc-small/model --rollouts 2

A Sudoku counts from the moment it is handed over, the model being loaded and its program compiled, until
the rules accept an answer; one that is not solved within the budget counts as longer than all others. What is
done is in the result file, and the same command goes on with the rest. ARC's times are those of one question
in all 51 guises on each size of canvas; they do not depend on what the weights are.

Beside the time on the clock stands the processor time of all cores, because a busy machine makes people wait
longer than the work takes; `load` is that of the machine when a row began.
"""

import argparse
import json
import os
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from cellwise import environment
from cellwise.automaton import rule
from cellwise.benchmarks.arc import ARC_SMALL
from cellwise.errors import ConfigError
from cellwise.files import write_json
from cellwise.model import Model, Pace, load
from cellwise.puzzles import store
from cellwise.puzzles.arc import Pair, Task
from cellwise.puzzles.arc_canvas import room
from cellwise.puzzles.board import Boards
from cellwise.puzzles.sudoku_generator import generate_easy
from cellwise.tasks.adapt import AdaptRecipe
from cellwise.tasks.adapted import SIDES, adapted, ask
from cellwise.training.folder import digest_of


class Stopwatch:
    """Seconds on the clock and of all cores since it was made, and how busy the machine was then."""

    def __init__(self):
        self.load = round(os.getloadavg()[0], 2)
        self._clock, self._cores = time.monotonic(), time.process_time()

    def row(self) -> dict[str, float]:
        return {
            "seconds": round(time.monotonic() - self._clock, 3),
            "processor_seconds": round(time.process_time() - self._cores, 3),
            "load": self.load,
        }


def sudoku(
    model: Model, boards: Boards, budget: float, trials: int, document: dict[str, Any], out: Path
) -> None:
    """A row for every board that has none yet, written as soon as it is known."""
    if model.puzzle != "sudoku":
        raise ConfigError(f"{model.name} does not solve Sudokus; name another model with --model.")
    # Compiles the program; a board that nobody tests on.
    model.solve(generate_easy(1, 5).inputs, trials=trials, until_verified=True, budget=1)
    for number in range(len(document["rows"]), len(boards)):
        watch = Stopwatch()
        solution = model.solve(
            boards.inputs[number], trials=trials, seed=number, until_verified=True, budget=budget
        )
        document["rows"].append(
            watch.row()
            | {
                "board": number,
                "difficulty": int(boards.difficulty[number]),
                "verified": bool(solution.verified[0]),
                "steps_taken": int(solution.steps_taken or 0),
            }
        )
        document["summary"] = summary(document["rows"])
        write_json(out, document)
        print(json.dumps(document["rows"][-1]), flush=True)
    print(json.dumps(document["summary"]))


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The share of boards that were solved, and the median time, None if it is longer than the budget."""
    good = [row["verified"] for row in rows]

    def median(name: str) -> float | None:
        ordered = sorted(row[name] if row["verified"] else np.inf for row in rows)
        middle = float(np.mean([ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]]))
        return round(middle, 3) if np.isfinite(middle) else None

    return {
        "boards": len(rows),
        "solved": sum(good) / len(rows),
        "median_seconds": median("seconds"),
        "median_processor_seconds": median("processor_seconds"),
    }


def untrained() -> Model:
    """A model of arc-small's size that has learnt nothing."""
    automaton = ARC_SMALL.automaton
    arrays = rule.first_weights(automaton.step, None, 0) | rule.first_tables(automaton, 0)
    recipe = ARC_SMALL.recipe
    weights = arrays | {"layout.tokens": ARC_SMALL.tokens}
    return Model("untrained", "arc", automaton, weights, None, recipe.fire_rate, Pace(recipe.rollout, 0.0))


def task_of(side: int) -> Task:
    """A task whose grids fill a canvas."""
    rng, longest = np.random.default_rng(side), room(side)
    demo, asked = (rng.integers(0, 10, (longest, longest)).astype(np.uint8) for _ in range(2))
    return Task(f"side-{side}", (Pair(demo, demo),), (asked,))


def arc(model: Model, rollouts: int, document: dict[str, Any], out: Path) -> None:
    """A row for every size of canvas: the first call, which compiles, and the second."""
    if model.puzzle != "arc":
        raise ConfigError(f"{model.name} does not learn tasks; name another model with --model.")
    contexts = {"context.vectors": jnp.zeros((51, model.automaton.layout.context), jnp.float32)}
    for side in SIDES:
        task = task_of(side)
        learnt = adapted(model, task, contexts, AdaptRecipe(), seed=0)
        rows = []
        for _ in range(2):
            watch = Stopwatch()
            ask(learnt, task, rollouts)
            rows.append(watch.row())
        first, second = rows
        document["rows"].append(second | {"canvas": side, "rollouts": 51 * rollouts, "first": first})
        write_json(out, document)
        print(json.dumps(document["rows"][-1]), flush=True)


def begun(out: Path, settled: dict[str, Any]) -> dict[str, Any]:
    """The result file so far if it was begun in the same way on the same device, or a new one."""
    if out.exists():
        document = json.loads(out.read_text())
        if all(document.get(name) == value for name, value in settled.items()):
            return document
        raise ConfigError(f"{out} has other measurements; choose another file with --out.")
    return settled | {
        "command": shlex.join(["python", "tools/laptop.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": environment.commit(),
        "versions": environment.versions(),
        "rows": [],
    }


def main() -> None:
    """Measures and writes after every row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["sudoku", "arc"])
    parser.add_argument("--model", default="", help="a model folder or name; for arc none is needed")
    parser.add_argument("--limit", type=int, default=100, help="boards")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for a board")
    parser.add_argument("--trials", type=int, default=16, help="trials side by side")
    parser.add_argument("--rollouts", type=int, default=1, help="for each of the 51 guises")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.what == "sudoku" and not asked.model:
        parser.error("sudoku needs a trained --model")
    model = load(asked.model) if asked.model else untrained()
    settled: dict[str, Any] = {
        "what": asked.what,
        "model": model.name,
        "model_sha256": digest_of(model.weights),
        "device": environment.device(),
    }
    out = asked.out or Path("results") / f"laptop-{asked.what}.json"
    if asked.what == "arc":
        out.unlink(missing_ok=True)
        arc(model, asked.rollouts, begun(out, settled), out)
        return
    settled |= {"budget": asked.budget, "trials": asked.trials, "data": "sudoku-extreme-dev test"}
    boards = store.load("sudoku-extreme-dev", "test", limit=asked.limit)
    sudoku(model, boards, asked.budget, asked.trials, begun(out, settled), out)


if __name__ == "__main__":
    main()
