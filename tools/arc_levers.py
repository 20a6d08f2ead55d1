"""How fast learning from pairs is here, and what each of its levers is worth for the same time.

    python tools/arc_levers.py --speed --out out/levers.json             # seconds an iteration, share of peak
    python tools/arc_levers.py --minutes 1.5 --out out/levers.json       # every lever, so long each
    python tools/arc_levers.py --minutes 3 --only base window chunk      # some of them

Every run has a cosine of its own over its time: its speed is measured first, and its number of iterations is
what the minutes allow. Compared is the share of tests of known tasks that are right at the end, all tasks
having been trained on; nothing here knows an evaluation task.
"""

import argparse
import dataclasses
import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
from rich.console import Console

from cellwise import environment
from cellwise.api import find_preset
from cellwise.automaton import rule
from cellwise.automaton.flops import closed_form
from cellwise.benchmarks.preset import PairPreset
from cellwise.files import write_json
from cellwise.kernels.dispatch import Attention, Reference
from cellwise.kernels.dispatch import Path as StepPath
from cellwise.kernels.precision import Precision, products
from cellwise.tasks import pretrain
from cellwise.tasks.job import PairJob
from cellwise.tasks.learn import path_for
from cellwise.tasks.recipe import PairRecipe
from cellwise.tasks.shelves import shares, shelve
from cellwise.tasks.step import first_run, iterate
from cellwise.training.folder import read_metrics

Remember = Literal["steps", "products"]

LEVERS: dict[str, dict[str, Any]] = {
    "base": {},
    "one-canvas": {"canvases": (32,), "small": 0.0},
    "all-alike": {"small": 0.0},
    "smaller-still": {"small": 1.5},
    "window": {"learned": 16, "window": "random"},
    "chunk": {"learned": 16, "window": "end"},
    "short": {"rollout": 20, "learned": 20},
    "large-batch": {"batch": 512},
    "small-batch": {"batch": 128},
    "local-clock": {"clock": "local"},
    "kept-clock": {"clock": "global-kept"},
    "by-pair": {"judge": "pairs"},
    "float32": {"precision": "float32"},
    "hot": {"schedule__peak": 6e-3},
    "cool": {"schedule__peak": 1.5e-3},
}
"""What is changed in the preset's recipe."""


def changed(recipe: PairRecipe, changes: dict[str, Any], steps: int) -> PairRecipe:
    """The recipe with a lever moved and a cosine over so many iterations."""
    peak = changes.get("schedule__peak", recipe.schedule.peak)
    schedule = dataclasses.replace(recipe.schedule, peak=peak, warmup=max(1, steps // 50))
    plain = {name: value for name, value in changes.items() if "__" not in name}
    return dataclasses.replace(recipe, steps=steps, schedule=schedule, **plain)


def step_cost(job: PairJob, recipe: PairRecipe) -> float:
    """Floating-point operations of one iteration: forward all steps, backward twice that for the learned."""
    shelves = shelve(job.pairs, recipe.canvases)
    counts = shares(shelves, recipe.batch, recipe.small)
    cells = sum(count * shelf.side**2 for shelf, count in zip(shelves, counts, strict=True))
    ahead = (recipe.rollout - recipe.learned) / (2 if recipe.window == "random" else 1)
    return closed_form(job.automaton.step) * cells * (ahead + 3 * recipe.learned)


def seconds_an_iteration(job: PairJob, recipe: PairRecipe, path: StepPath, count: int) -> tuple[float, float]:
    """Of `count` iterations after the first, and of compiling the first."""
    arrays = rule.first_weights(job.automaton.step, None, 0) | rule.first_tables(job.automaton, 0)
    fixed = {name: jnp.asarray(array) for name, array in job.fixed.items()}
    shelves = shelve(job.pairs, recipe.canvases)
    state = first_run(recipe, {name: jnp.asarray(array) for name, array in arrays.items()})
    advance = partial(iterate, recipe=recipe, automaton=job.automaton, path=path)
    began = time.monotonic()
    state, report = advance(state, fixed, shelves, jnp.uint32(0))
    jax.block_until_ready(report)
    compiled = time.monotonic() - began
    began = time.monotonic()
    for _ in range(count):
        state, report = advance(state, fixed, shelves, jnp.uint32(0))
    jax.block_until_ready(report)
    return (time.monotonic() - began) / count, compiled


WAYS: dict[str, tuple[StepPath | None, Precision, Remember]] = {
    "rounded": (None, "float32", "products"),
    "rounded-steps": (None, "float32", "steps"),
    "attention": (Attention(), "bf16", "steps"),
    "plain": (Reference(), "tf32", "products"),
}
"""Ways to compute a step: its path, the precision JAX is asked for, and what is kept for the gradient."""


def speed(job: PairJob, count: int, names: list[str]) -> list[dict[str, Any]]:
    """A row for each of these ways."""
    rows = []
    for name in names:
        path, precision, remember = WAYS[name]
        recipe = dataclasses.replace(job.recipe, remember=remember)
        path = path or path_for(job.automaton.step, "bf16")
        try:
            with products(precision):
                seconds, compiled = seconds_an_iteration(job, recipe, path, count)
        except Exception as error:  # A way that runs out of memory must not hide the others.
            rows.append({"way": name, "failed": str(error)[:200]})
        else:
            rows.append(
                {
                    "way": name,
                    "seconds": seconds,
                    "compiling": compiled,
                    "pairs_per_second": recipe.batch / seconds,
                    "teraflops": step_cost(job, recipe) / seconds / 1e12,
                }
            )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def worth(job: PairJob, name: str, minutes: float) -> dict[str, Any]:
    """One lever: how many iterations the time allows, and how good the automaton is after them."""
    trial = changed(job.recipe, LEVERS[name], 1000)
    path = path_for(job.automaton.step, trial.precision)
    seconds, _ = seconds_an_iteration(job, trial, path, 10)
    recipe = changed(job.recipe, LEVERS[name], max(20, int(60 * minutes / seconds)))
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        every: dict[str, Any] = {"log_every": 50, "save_every": recipe.steps, "check_every": recipe.steps}
        pretrain.train(dataclasses.replace(job, recipe=recipe), run, console=Console(quiet=True), **every)
        records = read_metrics(run)
    losses = [record for record in records if "loss" in record]
    return {
        "lever": name,
        "changes": LEVERS[name],
        "iterations": recipe.steps,
        "minutes": minutes,
        "pairs_per_second": recipe.batch / seconds,
        "loss": losses[-1]["loss"],
        "trained_pairs_right": losses[-1]["boards"],
        **{record["check"]: record["boards"] for record in records if "check" in record},
    }


def main() -> None:
    """Measures and writes after every row, so that a killed run has kept what it knew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--preset", default="arc-small")
    parser.add_argument("--speed", action="store_true", help="measure speeds only")
    parser.add_argument("--count", type=int, default=10, help="iterations timed")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS), help="of --speed")
    parser.add_argument("--minutes", type=float, default=1.5, help="for each lever")
    parser.add_argument("--only", nargs="*", choices=LEVERS, default=list(LEVERS))
    parser.add_argument("--out", type=Path, default=Path("out/arc-levers.json"))
    words = parser.parse_args()
    preset = find_preset(words.preset)
    if not isinstance(preset, PairPreset):
        raise SystemExit(f"{words.preset} does not learn from pairs; choose arc or arc-small.")
    job = preset.job(preset.recipe, 0)
    document: dict[str, Any] = {
        "preset": words.preset,
        "device": environment.device(),
        "commit": environment.commit(),
        "versions": environment.versions(),
        "rows": [],
    }
    if words.speed:
        document["rows"] = speed(job, words.count, words.ways)
        write_json(words.out, document)
        return
    for name in words.only:
        document["rows"].append(worth(job, name, words.minutes))
        print(json.dumps(document["rows"][-1]), flush=True)
        write_json(words.out, document)


if __name__ == "__main__":
    main()
