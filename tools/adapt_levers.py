"""What each way to learn a task at test time is worth and costs: all weights, a part of low rank, and so on.

    python tools/adapt_levers.py --model runs/arc-small/model --folder runs/levers --minutes 9
    python tools/adapt_levers.py --model runs/arc-small/model --folder runs/levers --only base rank-4

Some of the held-out training tasks, the same for all, are learnt and answered in every way; nothing here
knows an evaluation task. What is done is kept in the folder, and the same command goes on with the rest, so
that it can be given again until all is done. Scores are those of the tasks that all ways have done so far.
`hours` is the time that the tasks of a way took, compiling included; `tasks_per_hour` is told by the speed of
learning alone, between one look at the held-out demonstration and the next, without compiling and guessing.
"""

import argparse
import dataclasses
import json
import re
import time
from pathlib import Path
from statistics import median
from typing import Any

import jax.numpy as jnp
import numpy as np

from cellwise import environment
from cellwise.benchmarks import arc
from cellwise.errors import RunError
from cellwise.files import write_json
from cellwise.model import Model, load
from cellwise.puzzles.arc import Known
from cellwise.tasks.adapt import AdaptRecipe, begin
from cellwise.tasks.score import ATTEMPTS, Guesses, score
from cellwise.tasks.solve import is_done, read_guesses, solve

LEVERS: dict[str, dict[str, Any]] = {
    "base": {},
    "rank-4": {"rank": 4},
    "rank-4-hot": {"rank": 4, "peak": 3e-3, "context_rate": 1.0},
    "rank-16-hot": {"rank": 16, "peak": 3e-3, "context_rate": 1.0},
    "cool": {"peak": 1e-4},
    "hot": {"peak": 1e-3},
    "slow-contexts": {"context_rate": 1.0},
    "short": {"steps": 200},
    "long": {"steps": 800},
    "never-stop": {"hold_out": 0},
}
"""What is changed in the recipe."""

_TOLD = re.compile(r"(\d+) tasks on (\d+): (\d+) of \d+ updates")


class Speed:
    """How many tasks an hour are learnt, from what `solve` tells after every look."""

    def __init__(self, steps: int):
        self.steps = steps
        self._last: tuple[str, int, float] | None = None
        self.seconds: list[float] = []

    def tell(self, line: str) -> None:
        found = _TOLD.match(line)
        if found is None:
            return
        tasks, side, done = found.groups()
        now = time.monotonic()
        if self._last is not None and self._last[0] == f"{tasks} on {side}" and self._last[1] < int(done):
            ahead = int(done) - self._last[1]
            self.seconds.append((now - self._last[2]) / ahead * self.steps / int(tasks))
        self._last = f"{tasks} on {side}", int(done), now

    def tasks_per_hour(self) -> float | None:
        return round(3600 / median(self.seconds), 1) if self.seconds else None


def chosen(count: int, seed: int) -> list[Known]:
    """So many of the held-out tasks, drawn once for all ways."""
    known = arc.held_out()
    order = np.random.default_rng(seed).permutation(len(known))[:count]
    return [known[i] for i in sorted(order)]


def run(
    model: Model, name: str, known: list[Known], folder: Path, minutes: float, at_once: int
) -> dict[str, Any]:
    """Learns and answers the tasks that are still missing, as far as the time allows."""
    recipe = dataclasses.replace(AdaptRecipe(), **LEVERS[name])
    out, speed = folder / name, Speed(recipe.steps)
    notes = out / "speed" / "speed.json"
    old: dict[str, Any] = json.loads(notes.read_text()) if notes.exists() else {"hours": 0.0}
    began = time.monotonic()
    tasks = [one.task for one in known]
    for _ in solve(model, tasks, recipe, out=out, at_once=at_once, minutes=minutes, tell=speed.tell):
        new = {"hours": round(old["hours"] + (time.monotonic() - began) / 3600, 4)}
        new["tasks_per_hour"] = speed.tasks_per_hour() or old.get("tasks_per_hour")
        write_json(notes, new)
        old = old | {"tasks_per_hour": new["tasks_per_hour"]}
    weights = {name: jnp.asarray(array) for name, array in model.weights.items()}
    trained = begin(model.automaton, weights, ["any"], 0, recipe).trained
    return {
        "lever": name,
        "changes": LEVERS[name],
        "trained_numbers": sum(array.size for array in trained.values()),
        "done": sum(is_done(out, task) for task in tasks),
        **(json.loads(notes.read_text()) if notes.exists() else {}),
    }


def compared(rows: list[dict[str, Any]], known: list[Known], folder: Path) -> list[dict[str, Any]]:
    """The rows with their scores on the tasks that all of them have done."""
    guesses: dict[str, Guesses] = {}
    for row in rows:
        try:
            guesses[row["lever"]] = read_guesses(folder / row["lever"])
        except RunError:
            guesses[row["lever"]] = {}
    common = [one for one in known if all(one.task.name in found for found in guesses.values())]
    for row in rows:
        row["compared"] = len(common)
        if common:
            scored = score(common, guesses[row["lever"]])
            row |= {f"pass@{n}": scored[f"pass@{n}"]["tests"] for n in ATTEMPTS}
            row["invalid"] = scored["invalid"]
    return rows


def main() -> None:
    """Goes on with every way in turn and writes what is known so far."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", required=True, help="a pre-trained model")
    parser.add_argument("--folder", type=Path, required=True, help="where guesses are kept")
    parser.add_argument("--tasks", type=int, default=12, help="of the forty held-out ones")
    parser.add_argument("--seed", type=int, default=0, help="which of them")
    parser.add_argument("--minutes", type=float, default=9.0, help="for all ways together, then again")
    parser.add_argument("--at-once", type=int, default=0, help="tasks learnt together")
    parser.add_argument("--only", nargs="*", choices=LEVERS, default=list(LEVERS))
    parser.add_argument("--out", type=Path, default=Path("out/adapt-levers.json"))
    asked = parser.parse_args()
    model, known = load(asked.model), chosen(asked.tasks, asked.seed)
    until = time.monotonic() + 60 * asked.minutes
    rows: list[dict[str, Any]] = []
    for name in asked.only:
        left = (until - time.monotonic()) / 60
        rows.append(run(model, name, known, asked.folder, left, asked.at_once))
        document = {
            "model": model.name,
            "iterations": model.provenance.get("iterations"),
            "tasks": [one.task.name for one in known],
            "device": environment.device(),
            "commit": environment.commit(),
            "versions": environment.versions(),
            "rows": compared(rows, known, asked.folder),
        }
        write_json(asked.out, document)
    for row in rows:
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
