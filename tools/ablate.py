"""Decides between recipes for Sudoku-OOD: each choice alone, at a small and equal budget.

    python tools/ablate.py                       # all variants: results/ablations.json, docs/ablations.md
    python tools/ablate.py --only base tied      # some of them
    python tools/ablate.py --tables              # only the page, from the result file

Every variant differs from `base` in what its line says and in nothing else: as many iterations, the same
boards, the same seeds, the same looks at the same validation boards (hard ones that nobody tests on). What is
in the result file is not measured again. `--together` trains all seeds of a variant as one vectorised
program, which pays where one run does not fill the device.
"""

import argparse
import json
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from cellwise import environment
from cellwise.api import changed
from cellwise.automaton import rule
from cellwise.benchmarks import sudoku_ood
from cellwise.benchmarks.preset import Preset
from cellwise.config import to_json
from cellwise.files import write_json, write_text
from cellwise.kernels import dispatch
from cellwise.kernels.precision import products
from cellwise.training.check import most_free, solve_check
from cellwise.training.job import Check, Job
from cellwise.training.pool import Data
from cellwise.training.step import Run, first_run, iterate

ROOT = Path(__file__).resolve().parents[1]
DEPTHS = (48, 256, 1024)
LOOKS = 6


@dataclass(frozen=True)
class Variant:
    """One way to train. `recipe` and `rule` are what it changes in the base."""

    name: str
    question: str
    about: str
    recipe: dict[str, Any] = field(default_factory=dict)
    rule: dict[str, Any] = field(default_factory=dict)


def _peak(name: str, peak: float) -> Variant:
    return Variant(name, "learning rate", f"cosine from {peak:g} to 0", {"schedule__peak": peak})


_RATE = "learning rate"
_FLAT = {"schedule__shape": "constant"}
VARIANTS = (
    Variant(
        "base", "", "cosine from 0.002, own symmetry for each board, free bands, as the released code else"
    ),
    _peak("peak-5e-4", 5e-4),
    _peak("peak-1e-3", 1e-3),
    _peak("peak-4e-3", 4e-3),
    Variant(
        "released-rate",
        _RATE,
        "the released reading: from 0.001 down to 0.0001, then constant",
        _FLAT | {"schedule__first": 1e-3, "schedule__peak": 1e-4, "schedule__last": 1e-4},
    ),
    Variant(
        "constant",
        _RATE,
        "warm-up, then 0.001 to the end",
        _FLAT | {"schedule__peak": 1e-3, "schedule__last": 1e-3},
    ),
    Variant("per-batch", "symmetry", "one symmetry for the whole batch", {"augment_per": "batch"}),
    Variant("tied", "symmetry", "one order of lines for all bands", {"bands": "tied"}),
    Variant("batch-tied", "symmetry", "both, as released", {"augment_per": "batch", "bands": "tied"}),
    Variant("no-tangent", "tangent projection", "units are only renormalised", rule={"tangent": False}),
    Variant("sum", "loss", "squared errors summed over the answer's channels", {"loss_scale": "sum"}),
    Variant("fill-0", "damage", "damage leaves zeros instead of ones", {"damage_fill": 0.0}),
    Variant("tf32", "precision", "products rounded to TensorFloat-32", {"precision": "tf32"}),
    Variant("bf16", "precision", "products rounded to bfloat16", {"precision": "bf16"}),
)


def job_of(preset: Preset, variant: Variant, steps: int, batch: int | None, seed: int, data: Any) -> Job:
    """The training run of a variant."""
    sizes: dict[str, Any] = {"steps": steps, "schedule__warmup": min(500, steps // 10)}
    if batch:
        sizes |= {"batch": batch, "pool": 4 * batch, "fresh": batch // 2}
    recipe = changed(preset.recipe, sizes | variant.recipe)
    automaton = replace(preset.automaton, step=replace(preset.automaton.step, **variant.rule))
    boards, provenance, checks = data
    return Job(
        name=variant.name,
        puzzle=preset.puzzle,
        automaton=automaton,
        size=preset.size,
        fixed={"layout.tokens": preset.tokens},
        recipe=recipe,
        seed=seed,
        boards=boards,
        checks=checks,
        provenance=provenance,
        pace=preset.pace,
    )


def runs_of(jobs: list[Job], together: bool) -> Iterator[tuple[int, list[tuple[Job, Run]], float]]:
    """Trains the jobs, which differ in their seeds, and yields them at every look: step, runs, seconds."""
    if together and len(jobs) > 1:
        yield from _trained(jobs, vectorised=True)
    else:
        for job in jobs:
            yield from _trained([job], vectorised=False)


def _trained(jobs: list[Job], vectorised: bool) -> Iterator[tuple[int, list[tuple[Job, Run]], float]]:
    first = jobs[0]
    data = Data(jnp.asarray(first.boards.target), jnp.asarray(first.boards.given))
    fixed = {name: jnp.asarray(array) for name, array in first.fixed.items()}
    path = dispatch.choose(first.automaton.step, most_free(first.boards), first.recipe.precision)
    starts = []
    for job in jobs:
        weights = rule.first_weights(job.automaton.step, job.size, job.seed)
        weights = {name: jnp.asarray(weight) for name, weight in weights.items()}
        starts.append(first_run(job.recipe, job.automaton, fixed, weights, data, job.seed))
    how = {"recipe": first.recipe, "automaton": first.automaton, "path": path, "fixed": fixed, "data": data}
    one = partial(iterate, **how)
    seeds = jnp.array([job.seed for job in jobs], jnp.uint32)
    if vectorised:
        run = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
        advance = jax.jit(jax.vmap(lambda run, seed: one(run, seed=seed)), donate_argnums=0)
    else:
        run, seeds = starts[0], seeds[0]
        advance = lambda run, seed: one(run, seed=seed)  # noqa: E731
    steps, seconds = first.recipe.steps, 0.0
    looks = {steps * (i + 1) // LOOKS for i in range(LOOKS)}
    began = time.monotonic()
    for step in range(1, steps + 1):
        run, report = advance(run, seeds)
        if step == 1:  # Compilation is no training.
            jax.block_until_ready(report)
            began = time.monotonic()
        if step in looks:
            loss = np.asarray(jax.block_until_ready(report).loss)
            seconds += time.monotonic() - began
            if not np.isfinite(loss).all():
                return
            parts = (
                [jax.tree.map(lambda x, i=i: x[i], run) for i in range(len(jobs))] if vectorised else [run]
            )
            yield step, list(zip(jobs, parts, strict=True)), seconds / len(jobs)
            began = time.monotonic()


def measured(variant: Variant, jobs: list[Job], together: bool, console: Console) -> list[dict[str, Any]]:
    """A row for each seed with its curve; a run that broke down has a shorter one."""
    rows: dict[int, dict[str, Any]] = {
        job.seed: {
            "variant": variant.name,
            "question": variant.question,
            "about": variant.about,
            "seed": job.seed,
            "recipe": to_json(job.recipe),
            "rule": to_json(job.automaton.step),
            "together": together and len(jobs) > 1,
            "curve": [],
        }
        for job in jobs
    }
    with products("float32"):  # What thinks has the precision of its recipe.
        for step, runs, seconds in runs_of(jobs, together):
            for job, run in runs:
                shares = {
                    check.name: solve_check(job, check, run.average | jax.tree.map(jnp.asarray, job.fixed))[1]
                    for check in job.checks
                }
                rows[job.seed]["curve"].append({"step": step, "seconds": round(seconds, 2), **shares})
                told = ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items())
                console.print(f"{variant.name}, seed {job.seed}, {step:,}: {told}")
    return list(rows.values())


def page(document: dict[str, Any]) -> str:
    """docs/ablations.md."""
    lines = [
        "# Ablations",
        "",
        "Which choices the recipe of Sudoku-OOD rests on. Every variant differs from `base` in one thing.",
        "Boards right of the validation boards (17 to 34 clues; nobody trains or tests on them) after so",
        "many steps, with one trial; mean over the seeds, lowest to highest in brackets. Small budgets",
        "decide what to try first, not what is best in the end, and single looks swing: *middle* is the",
        "mean of the last three.",
        "",
        f"{document['iterations']:,} iterations of {document['batch']} boards, seeds "
        f"{', '.join(map(str, document['seeds']))}, {document['boards']} boards; {document['device']}, "
        f"{document['date']}, commit {document['commit']}: `{document['command']}`.",
        "",
    ]
    depths = [f"D={depth}" for depth in document["depths"]]
    lines += ["| question | variant | " + " | ".join(depths) + " | middle | seconds |"]
    lines += ["|---" * (len(depths) + 4) + "|"]
    for variant in VARIANTS:
        rows = [row for row in document["rows"] if row["variant"] == variant.name]
        if not rows:
            continue
        whole = [row for row in rows if row["curve"] and row["curve"][-1]["step"] == document["iterations"]]
        cells = [_spread([row["curve"][-1][depth] for row in whole]) for depth in depths]
        middle = [np.mean([look[depths[1]] for look in row["curve"][-3:]]) for row in whole]
        seconds = [row["curve"][-1]["seconds"] for row in whole]
        broken = f" ({len(rows) - len(whole)} of {len(rows)} broke down)" if len(whole) < len(rows) else ""
        lines.append(
            f"| {variant.question or '–'} | `{variant.name}`: {variant.about}{broken} | "
            + " | ".join([*cells, _spread(middle), f"{np.mean(seconds):.0f}" if seconds else "–"])
            + " |"
        )
    lines += ["", "Curves, D=256, mean over the seeds:", ""]
    steps = sorted({look["step"] for row in document["rows"] for look in row["curve"]})
    lines += [
        "| variant | " + " | ".join(f"{step:,}" for step in steps) + " |",
        "|---" * (len(steps) + 1) + "|",
    ]
    for variant in VARIANTS:
        rows = [row for row in document["rows"] if row["variant"] == variant.name]
        if rows:
            at = [[k[depths[1]] for row in rows for k in row["curve"] if k["step"] == step] for step in steps]
            cells = [f"{100 * np.mean(shares):.1f}" if shares else "–" for shares in at]
            lines.append(f"| `{variant.name}` | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", "Made by `tools/ablate.py`; do not edit.", ""])


def _spread(shares: list[Any]) -> str:
    if not shares:
        return "–"
    low, high = 100 * min(shares), 100 * max(shares)
    return f"{100 * np.mean(shares):.1f} ({low:.1f}–{high:.1f})" if len(shares) > 1 else f"{high:.1f}"


def main() -> None:
    """Trains, measures, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[variant.name for variant in VARIANTS])
    parser.add_argument("--steps", type=int, default=3_000)
    parser.add_argument("--batch", type=int, help="boards in one update (default: the recipe's)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--boards", type=int, default=360, help="validation boards")
    parser.add_argument("--depths", type=int, nargs=3, default=list(DEPTHS))
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--result", type=Path, default=ROOT / "results" / "ablations.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "ablations.md")
    parser.add_argument("--tables", action="store_true")
    asked = parser.parse_args()
    if asked.tables:
        write_text(asked.page, page(json.loads(asked.result.read_text())))
        return
    console, preset = Console(), sudoku_ood.SUDOKU_OOD
    boards, provenance = preset.boards()
    validation = sudoku_ood.BENCHMARK.more[0].boards(asked.boards)
    checks = tuple(Check(f"D={depth}", validation, depth) for depth in asked.depths)
    document = {
        "command": shlex.join(["python", "tools/ablate.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).date().isoformat(),
        "device": environment.device(),
        "commit": environment.commit(),
        "versions": environment.versions(),
        "iterations": asked.steps,
        "batch": asked.batch or preset.recipe.batch,
        "seeds": asked.seeds,
        "boards": len(validation),
        "depths": asked.depths,
        "rows": [],
    }
    if asked.result.exists():
        old = json.loads(asked.result.read_text())
        same = ("iterations", "batch", "boards", "depths")
        if any(old[name] != document[name] for name in same):
            raise SystemExit(f"{asked.result} has another budget; remove it or name another with --result.")
        document["rows"] = old["rows"]
    for variant in VARIANTS:
        done = {row["seed"] for row in document["rows"] if row["variant"] == variant.name}
        seeds = [seed for seed in asked.seeds if seed not in done]
        if (asked.only and variant.name not in asked.only) or not seeds:
            continue
        data = boards, provenance, checks
        jobs = [job_of(preset, variant, asked.steps, asked.batch, seed, data) for seed in seeds]
        document["rows"] += measured(variant, jobs, asked.together, console)
        asked.result.parent.mkdir(parents=True, exist_ok=True)
        write_json(asked.result, document)
        write_text(asked.page, page(document))


if __name__ == "__main__":
    main()
