"""Trains a maze preset from several seeds and measures every one of them, so that luck shows.

    python tools/seeds.py --out runs/maze-ood                  # seeds 0 to 4; runs/maze-ood/seed-N/model

Each seed is trained as `cellwise train PRESET --seed N` does. Then it is measured on validation mazes, by
which a seed may be chosen to be shipped, and on test mazes, by which none may be. A run that was interrupted
goes on where it stopped when the command is given again. Writes results/maze-ood-seeds.json.
"""

import argparse
import ast
import json
import shlex
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from cellwise import environment, train
from cellwise.benchmarks import PRESETS, maze_ood
from cellwise.benchmarks.preset import Case
from cellwise.evaluation import Row, evaluate
from cellwise.files import write_text
from cellwise.kernels.precision import JAX_NAMES
from cellwise.model import Model, load
from cellwise.puzzles.maze_generator import generate
from cellwise.training import folder

ROOT = Path(__file__).resolve().parents[1]
KEPT = (
    "case",
    "data",
    "boards",
    "steps",
    "board_accuracy",
    "board_accuracy_95",
    "optimal",
    "valid",
    "seconds",
)


def validation(size: int) -> Case:
    """Mazes of a size that are neither trained nor tested on."""
    seed = maze_ood.VALIDATION_SEED
    return replace(
        maze_ood.sized(size),
        name=f"validation, size {size}",
        boards=lambda n: generate(size, n, seed),
        source=f"generated mazes of size {size}, generator seed {seed}",
    )


def trained(preset: str, seed: int, out: Path, overrides: dict[str, Any]) -> tuple[Model, float]:
    """The model of one seed and the seconds that its training took, with compilation and checks."""
    run = out / f"seed-{seed}"
    began = time.monotonic()
    if not (folder.holds_run(run) and folder.is_complete(run)):
        train(preset, run, seed, resume=folder.holds_run(run), save_every=2_500, **overrides)
    return load(run / "model"), time.monotonic() - began


def override(text: str) -> tuple[str, Any]:
    """`schedule__peak=1e-3` as a name and a value."""
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def main() -> None:
    """Trains, measures, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--preset", default="maze-ood", choices=[n for n in PRESETS if PRESETS[n].puzzle == "maze"]
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--cases", nargs="+", default=["59:1000", "201:40"], metavar="SIZE:MAZES")
    parser.add_argument("--validate", nargs="*", default=["59:200", "201:12"], metavar="SIZE:MAZES")
    parser.add_argument(
        "--set", type=override, nargs="*", default=[], metavar="FIELD=VALUE", dest="overrides"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--result", type=Path, default=ROOT / "results" / "maze-ood-seeds.json")
    asked = parser.parse_args()
    console = Console()

    kinds = {"rows": (asked.cases, maze_ood.sized), "validation": (asked.validate, validation)}
    document = {
        "command": shlex.join(["python", "tools/seeds.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).date().isoformat(),
        "device": environment.device(),
        "commit": environment.commit(),
        "matmul_precision": JAX_NAMES["float32"],
        "versions": environment.versions(),
        "training": [],
        **{kind: [] for kind in kinds},
    }
    for seed in asked.seeds:
        model, seconds = trained(asked.preset, seed, asked.out, dict(asked.overrides))
        iterations = model.provenance["iterations"]
        document["training"].append({"seed": seed, "iterations": iterations, "seconds": round(seconds, 1)})
        for kind, (cases, make) in kinds.items():
            for size, mazes in (map(int, case.split(":")) for case in cases):
                row: Row = evaluate(model, make(size), limit=mazes)
                document[kind].append({"seed": seed} | {name: row[name] for name in KEPT})
                console.print(
                    f"seed {seed}, {row['case']}: {100 * row['board_accuracy']:.2f} % of {mazes}, "
                    f"{row['seconds']:.1f} s"
                )
        asked.result.parent.mkdir(parents=True, exist_ok=True)
        write_text(asked.result, json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
