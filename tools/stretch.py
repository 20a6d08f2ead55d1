"""Trains a preset for some minutes, leaves what is needed to go on elsewhere, and goes on from there.

    python tools/stretch.py sudoku-ood --minutes 9 --out stretch           # from the beginning
    python tools/stretch.py sudoku-ood --minutes 9 --out stretch           # again: goes on
    python tools/stretch.py sudoku-ood --minutes 9 --from old --out new    # goes on from another folder
    python tools/stretch.py --export stretch --model runs/sudoku-ood       # the best model and the last

Three small files are all there is to carry: `carry.safetensors` (weights, moments, averages; under 16 MB
for every preset), `curve.jsonl` (loss and checks of all stretches) and `curve.png`, its picture. The pool of
states is left behind and filled anew, so a run in stretches is not the run that `cellwise train` makes.

The first stretch fixes the recipe and its number of iterations. `--steps` in a later one makes the run longer
or shorter: the schedule is then that of the new length. What is kept as `best` is the average of the weights
when the last check of the preset, which is its validation, had the best mean over three looks.
"""

import argparse
import json
import math
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from safetensors import numpy as safetensors
from safetensors import safe_open

from cellwise import environment
from cellwise.api import changed
from cellwise.automaton import rule
from cellwise.benchmarks import BOARD_PRESETS
from cellwise.config import from_json, to_json
from cellwise.files import write_bytes
from cellwise.kernels import dispatch
from cellwise.kernels.precision import JAX_NAMES, products
from cellwise.model import Model
from cellwise.puzzles.equivalence import fingerprints
from cellwise.training.check import most_free, solve_check
from cellwise.training.job import Job
from cellwise.training.pool import Data
from cellwise.training.recipe import Recipe
from cellwise.training.step import Run, first_run, iterate
from cellwise.training.tensors import from_tensors, to_tensors

CARRY, CURVE, PICTURE = "carry.safetensors", "curve.jsonl", "curve.png"
LIMIT = 16 * 2**20
WRITE_EVERY = 90.0
"""Seconds between two writes, so that little is lost if the machine goes away."""
MEAN_OF = 3
"""Single checks swing, so the best is chosen by the mean of so many."""


def described(job: Job, preset: str) -> dict[str, Any]:
    """What a later stretch takes over."""
    return {"preset": preset, "seed": job.seed, "recipe": to_json(job.recipe)}


class Stretch:
    """A run between two machines."""

    def __init__(self, job: Job, about: dict[str, Any], folder: Path, records: list[dict[str, Any]]) -> None:
        self.job, self.about, self.folder, self.records = job, about, folder, records
        self.fixed = {name: jnp.asarray(array) for name, array in job.fixed.items()}
        self.data = Data(jnp.asarray(job.boards.target), jnp.asarray(job.boards.given))
        self.best: dict[str, np.ndarray] = {}

    def begin(self, tensors: dict[str, np.ndarray] | None) -> Run:
        """The run as it was carried, with a pool of fresh states; or one that begins."""
        job = self.job
        first = rule.first_weights(job.automaton.step, job.size, job.seed)
        weights = {name: jnp.asarray(weight) for name, weight in first.items()}
        step = 0 if tensors is None else int(tensors["step"])
        # Other boards fill the pool in every stretch.
        seed = (job.seed + 1_000_003 * step) % 2**32
        run = first_run(job.recipe, job.automaton, self.fixed, weights, self.data, seed)
        if tensors is None:
            return run
        self.best = {k.removeprefix("best."): v for k, v in tensors.items() if k.startswith("best.")}
        carried = {k: v for k, v in tensors.items() if not k.startswith("best.")}
        bare = run._replace(pool=())  # type: ignore[arg-type]
        restored = from_tensors(bare, carried)
        if restored is None:
            raise SystemExit("The carried file belongs to another automaton; begin anew in another folder.")
        return restored._replace(pool=run.pool)

    def write(self, run: Run) -> None:
        """The three files, each replaced as a whole."""
        bare = run._replace(pool=())  # type: ignore[arg-type]
        tensors = to_tensors(bare) | {f"best.{name}": array for name, array in self.best.items()}
        if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
            raise SystemExit(
                f"Training broke down before iteration {int(run.step):,}; go on from the last files with a "
                "lower --set schedule__peak, or begin anew."
            )
        data = safetensors.save(tensors, {"stretch": json.dumps(self.about)})
        if len(data) > LIMIT:
            raise SystemExit(f"{CARRY} would have {len(data):,} bytes, more than the {LIMIT:,} allowed.")
        write_bytes(self.folder / CARRY, data)
        lines = "".join(json.dumps(record) + "\n" for record in self.records)
        write_bytes(self.folder / CURVE, lines.encode())
        draw(self.records, self.folder / PICTURE, self.about["preset"])

    def check(self, run: Run, console: Console) -> None:
        """Solves the boards of the checks and keeps the weights if they are the best so far."""
        for check in self.job.checks:
            cells, boards = solve_check(self.job, check, run.average | self.fixed)
            self.records.append(
                {"step": int(run.step), "check": check.name, "cells": cells, "boards": boards}
            )
            console.print(f"{int(run.step):,}: {check.name} {100 * boards:.1f} % of boards")
        marks = means(self.records, self.job.checks[-1].name, upto=MEAN_OF) if self.job.checks else []
        if marks and marks[-1] >= max(marks):
            # Copies, because the next iteration uses the memory again.
            self.best = {name: np.array(weight) for name, weight in run.average.items()}
            self.about["best_step"] = int(run.step)


def means(records: list[dict[str, Any]], check: str, upto: int) -> list[float]:
    """Running means of the share of boards in a check over the last `upto` looks."""
    shares = [record["boards"] for record in records if record.get("check") == check]
    return [float(np.mean(shares[max(0, i + 1 - upto) : i + 1])) for i in range(len(shares))]


def train(stretch: Stretch, run: Run, until: float, every: int, console: Console) -> Run:
    """Iterates until the clock says so or the recipe ends; checks and writes on the way."""
    job, step = stretch.job, int(run.step)
    path = dispatch.choose(job.automaton.step, most_free(job.boards), job.recipe.precision)
    how = {"recipe": job.recipe, "automaton": job.automaton, "path": path}
    advance = partial(iterate, fixed=stretch.fixed, data=stretch.data, seed=jnp.uint32(job.seed), **how)
    stretch.records.append(
        {"step": step, "begins": datetime.now(UTC).isoformat(timespec="seconds")}
        | {"device": environment.device(), "commit": environment.commit(), "path": path.name}
        | {"versions": environment.versions()}
    )
    if step >= job.recipe.steps:
        return run
    marked, mark, wrote = step, time.monotonic(), time.monotonic()
    reports, compiled = [], False
    spare = 0.0  # Twice what a check and a write took, so that the next ones end in time.
    while step < job.recipe.steps and time.monotonic() + spare < until:
        run, report = advance(run)
        step += 1
        reports.append(report)
        jax.block_until_ready(reports[-2:][0])
        if not compiled:
            console.print(f"compiled and first iteration: {time.monotonic() - mark:.1f} s, {path.name}")
            compiled, marked, mark = True, step, time.monotonic()
        if step % every == 0 or step == job.recipe.steps:
            losses = np.array([float(np.asarray(one.loss)) for one in reports])
            if not np.isfinite(losses).all():
                raise SystemExit(f"Training broke down before iteration {step:,}: the loss is not finite.")
            seconds = time.monotonic() - mark
            stretch.records.append(
                {
                    "step": step,
                    "loss": float(losses.mean()),
                    "boards_in_batch": float(np.asarray(report.boards)),
                }
                | {"seconds": round(seconds, 2), "iterations": step - marked}
            )
            reports, pause = [report], time.monotonic()
            stretch.check(run, console)
            if pause - wrote > WRITE_EVERY:
                stretch.write(run)
                wrote = time.monotonic()
            spare = max(spare, 2 * (time.monotonic() - pause))
            marked, mark = step, time.monotonic()
    jax.block_until_ready(run.step)
    return run


def override(text: str) -> tuple[str, Any]:
    """`schedule__peak=1e-3` as a name and a value; what is no number is a word."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def draw(records: list[dict[str, Any]], path: Path, title: str) -> None:
    """All stretches in one picture: the loss below, the checks above, a line where a stretch begins."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    names = dict.fromkeys(record["check"] for record in records if "check" in record)
    for name in names:
        seen = [record for record in records if record.get("check") == name]
        above.plot([r["step"] for r in seen], [100 * r["boards"] for r in seen], ".-", label=name)
    losses = [record for record in records if "loss" in record]
    below.plot([r["step"] for r in losses], [r["loss"] for r in losses])
    for record in records:
        if "begins" in record:
            above.axvline(record["step"], color="0.8", zorder=0)
            below.axvline(record["step"], color="0.8", zorder=0)
    above.set(title=title, ylabel="boards right, %", ylim=(0, 100))
    below.set(xlabel="iteration", ylabel="loss")
    if losses:
        below.set_yscale("log")
    if names:
        above.legend()
    figure.savefig(path, dpi=110)


def carried(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any], list[dict[str, Any]]]:
    """What a stretch left: its arrays, what it is, and its curve."""
    path = folder / CARRY
    if not path.exists():
        raise SystemExit(f"There is no {path}; name the folder of a stretch.")
    with safe_open(path, framework="numpy") as file:
        about = json.loads((file.metadata() or {})["stretch"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 not a mapping
    lines = (folder / CURVE).read_text().splitlines() if (folder / CURVE).exists() else []
    return tensors, about, [json.loads(line) for line in lines]


def export(folder: Path, out: Path) -> None:
    """Writes the best and the last averaged weights as model folders."""
    tensors, about, records = carried(folder)
    preset = BOARD_PRESETS[about["preset"]]
    job = preset.job(from_json(Recipe, about["recipe"], "carried recipe"), about["seed"])
    begins = [record for record in records if "begins" in record]
    command = f"python tools/stretch.py {about['preset']} --seed {about['seed']}, {len(begins)} stretches"
    for name, prefix, step in (
        ("best", "best.", about.get("best_step")),
        ("last", "average.", int(tensors["step"])),
    ):
        weights = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        if not weights:
            continue
        provenance = {
            "command": command,
            "seed": about["seed"],
            "iterations": step,
            "recipe": about["recipe"],
            "matmul_precision": JAX_NAMES[job.recipe.precision],
            "device": begins[-1]["device"] if begins else None,
            "commit": begins[-1]["commit"] if begins else None,
            "date": begins[0]["begins"] if begins else None,
            "versions": begins[-1].get("versions") if begins else None,
            **job.provenance,
        }
        Model(
            name=preset.name,
            puzzle=preset.puzzle,
            automaton=preset.automaton,
            weights={**weights, **job.fixed},
            size=preset.size,
            fire_rate=job.recipe.fire_rate,
            pace=preset.pace,
            provenance=provenance,
            trained_on=fingerprints(job.boards, sudoku=preset.puzzle == "sudoku"),
        ).save(out / name)
        print(f"{out / name}: iteration {step:,}")


def main() -> None:
    """Trains or exports."""
    began = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("preset", nargs="?", choices=BOARD_PRESETS)
    parser.add_argument("--minutes", type=float, default=9.0, help="all in all, compilation included")
    parser.add_argument("--out", type=Path, default=Path("stretch"))
    parser.add_argument("--from", type=Path, dest="source", help="folder to go on from (default: --out)")
    parser.add_argument("--steps", type=int, help="iterations of the whole run (default: the recipe's)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=500, help="iterations between two checks")
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="FIELD=VALUE", help="recipe fields, such as precision=bf16"
    )
    parser.add_argument("--export", type=Path, help="write the models of this stretch instead of training")
    parser.add_argument("--model", type=Path, default=Path("runs/stretch"), help="where --export writes them")
    asked = parser.parse_args()
    if asked.export:
        export(asked.export, asked.model)
        return
    if asked.preset is None or not asked.minutes > 0 or not math.isfinite(asked.minutes):
        parser.error("name a preset and a positive number of minutes")
    console, preset = Console(stderr=True), BOARD_PRESETS[asked.preset]
    overrides = dict(map(override, asked.set))
    if asked.steps:
        overrides["steps"] = asked.steps
    source = asked.source or asked.out
    tensors, records, before = None, [], {}
    recipe, seed = preset.recipe, asked.seed
    if (source / CARRY).exists() or asked.source:
        tensors, before, records = carried(source)
        if before["preset"] != asked.preset:
            raise SystemExit(
                f"{source} is a run of {before['preset']}, not {asked.preset}; choose another folder."
            )
        recipe = from_json(Recipe, before["recipe"], "carried recipe")
        seed = before["seed"]
    recipe = changed(recipe, overrides)
    if before and before["recipe"] != to_json(recipe):
        console.print("The recipe is changed from here on.")
    job = preset.job(recipe, seed)
    about = before | described(job, asked.preset)
    asked.out.mkdir(parents=True, exist_ok=True)
    stretch = Stretch(job, about, asked.out, records)
    with products("float32"):
        run = stretch.begin(tensors)
        first = int(run.step)
        run = train(stretch, run, began + 60 * asked.minutes - 5, asked.every, console)
        stretch.write(run)
    console.print(
        f"{int(run.step) - first:,} iterations in {time.monotonic() - began:.0f} s; {int(run.step):,} of "
        f"{recipe.steps:,} done; files in {asked.out}"
    )


if __name__ == "__main__":
    main()
