"""Times the Sudoku rules on a GPU: a cell-step while thinking, and an iteration of training.

    python tools/gpu_time.py                        # writes results/gpu-time.json; minutes
    python tools/gpu_time.py --paths streamed       # without plain XLA, whose programs take long to compile
    python tools/gpu_time.py --quick                # tiny, to see that it runs; works on a CPU

Products are bf16. Everything is timed in one run, beside a large matrix product. How far states have drifted
apart from those of float32 products is told too.
"""

import argparse
import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cellwise import environment
from cellwise.automaton import layout, rollout, rule
from cellwise.automaton.flops import closed_form
from cellwise.benchmarks import BOARD_PRESETS
from cellwise.benchmarks.preset import Preset
from cellwise.files import write_text
from cellwise.kernels import bits, precision, streamed
from cellwise.kernels.dispatch import Attention, Streamed, streamed_refusal
from cellwise.kernels.dispatch import Path as Way
from cellwise.training import step
from cellwise.training.pool import Data

ROOT = Path(__file__).resolve().parents[1]
PATHS: dict[str, Way] = {"streamed": Streamed(), "attention": Attention()}
RATE = 0.8


@dataclass(frozen=True)
class Work:
    """So many boards for so many steps."""

    what: str
    preset: str
    boards: int
    steps: int


THINKING = (
    Work("thinking", "sudoku-extreme", 4096, 64),
    Work("thinking", "sudoku-ood", 8192, 64),
    Work("one board, 512 thoughts", "sudoku-extreme", 512, 2048),
    Work("one board, one thought", "sudoku-extreme", 1, 512),
)
TRAINING = (Work("training", "sudoku-ood", 256, 48), Work("training", "sudoku-extreme", 800, 96))


def seconds(run: Callable[[], Any], repetitions: int) -> tuple[float, float, float]:
    """The median, the least and the most that a run takes, after one that is not counted."""
    jax.block_until_ready(run())
    times = []
    for _ in range(repetitions):
        began = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - began)
    return statistics.median(times), min(times), max(times)


def weights_for(preset: Preset) -> dict[str, jax.Array]:
    """Weights with which a step moves the state about as much as after training."""
    spec, rng = preset.automaton.step, np.random.default_rng(5)
    scale = {"perceive.attention": 1 / 3, "perceive.value": spec.channels**-0.5}
    scale |= {"update.w_in": spec.channels**-0.5, "update.w_out": 0.4 * spec.hidden**-0.5}
    shapes = rule.trained_shapes(spec, preset.size)
    numbers = {name: scale.get(name, 0.2) * rng.standard_normal(shape) for name, shape in shapes.items()}
    return {name: jnp.asarray(np.float32(x)) for name, x in numbers.items()} | {
        "layout.tokens": jnp.asarray(preset.tokens)
    }


def boards(count: int) -> Data:
    """Numbers and given cells, as many as a Sudoku has, without its rules: time does not depend on them."""
    rng = np.random.default_rng(0)
    target = rng.integers(1, 10, (count, 9, 9)).astype(np.uint8)
    return Data(jnp.asarray(target), jnp.asarray(rng.random((count, 9, 9)) < 0.35))


def thinking(work: Work, path: Way, repetitions: int) -> dict[str, Any]:
    """How long a cell-step takes, and what became of the states."""
    preset = BOARD_PRESETS[work.preset]
    automaton, weights, given = preset.automaton, weights_for(preset), boards(work.boards)
    index = jnp.arange(work.boards, dtype=jnp.int32)
    keys = bits.trajectory_keys(0, index, index)
    inputs = jnp.where(given.given, given.target, jnp.uint8(0))
    begin = layout.start(automaton, weights, inputs, given.given, keys)

    @partial(jax.jit, static_argnames=("path", "products"))
    def think(state: jax.Array, steps: jax.Array, path: Way, products: precision.Precision) -> jax.Array:
        with precision.products(products):
            plan = path.plan(automaton.step, given.given)
            return rollout.rollout(
                automaton.step, weights, state, plan, keys, 0, steps, path=path, rate=RATE, noise=None
            )

    took = seconds(lambda: think(begin, jnp.int32(work.steps), path, "bf16"), repetitions)
    few = [think(begin, jnp.int32(8), *how) for how in ((path, "bf16"), (Attention(), "float32"))]
    cells = 81 * work.boards * work.steps
    return {
        "ms": [round(1e3 * t, 3) for t in took],
        "ns_per_cell_step": round(1e9 * took[0] / cells, 4),
        "tflops": round(closed_form(automaton.step) * cells / took[0] / 1e12, 1),
        "drift_after_8_steps": float(jnp.linalg.norm(few[0] - few[1]) / jnp.linalg.norm(few[1] - begin)),
    }


def training(work: Work, path: Way, repetitions: int) -> dict[str, Any]:
    """How long an iteration takes, everything included."""
    preset = BOARD_PRESETS[work.preset]
    recipe = replace(
        preset.recipe,
        precision="bf16",
        batch=work.boards,
        pool=2 * work.boards,
        fresh=work.boards // 2,
        rollout=work.steps,
        chunk=work.steps,
    )
    weights = weights_for(preset)
    fixed = {"layout.tokens": weights.pop("layout.tokens")}
    data = boards(1000)
    run = step.first_run(recipe, preset.automaton, fixed, weights, data, 0)

    def iterate() -> Any:
        nonlocal run
        run, report = step.iterate(run, fixed, data, 0, recipe=recipe, automaton=preset.automaton, path=path)
        return report

    took = seconds(iterate, repetitions)
    cells = 81 * work.boards * work.steps
    loss = float(iterate().loss)
    return {
        "ms": [round(1e3 * t, 3) for t in took],
        "tflops": round(3 * closed_form(preset.automaton.step) * cells / took[0] / 1e12, 1),
        "loss": loss,
    }


def product(size: int, repetitions: int) -> float:
    """What a large matrix product makes, in TFLOP/s."""
    a, b = (jax.random.normal(jax.random.key(i), (size, size), jnp.bfloat16) for i in range(2))
    multiply = jax.jit(lambda a, b: jnp.matmul(a, b))
    return round(2 * size**3 / seconds(lambda: multiply(a, b), repetitions)[0] / 1e12, 1)


def main() -> None:
    """Times, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--paths", nargs="+", default=list(PATHS), choices=list(PATHS))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--each", type=int, help="boards to a block, instead of what is thought best")
    parser.add_argument("--quick", action="store_true", help="two boards, two steps")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "gpu-time.json")
    asked = parser.parse_args()
    if asked.each:
        streamed.boards_each = lambda boards, *_: min(boards, asked.each)
    with precision.products("bf16"):
        reason = streamed_refusal(BOARD_PRESETS["sudoku-extreme"].automaton.step)
    if reason:
        print(f"streamed does not run here: {reason}")
        asked.paths = [name for name in asked.paths if name != "streamed"]
    document: dict[str, Any] = {
        "command": shlex.join(["python", "tools/gpu_time.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).date().isoformat(),
        "device": environment.device(),
        "commit": environment.commit(),
        "versions": environment.versions(),
        "streamed_refusal": reason,
        "product_tflops": product(256 if asked.quick else 8192, 10),
        "rows": [],
    }
    print(
        f"{document['device']}, a product of bf16 matrices: {document['product_tflops']} TFLOP/s", flush=True
    )
    jobs: list[tuple[Work, Callable[[Work, Way, int], dict[str, Any]]]] = [
        *((work, thinking) for work in THINKING),
        *((work, training) for work in TRAINING),
    ]
    for work, measure in jobs:
        if asked.quick:
            work = replace(work, boards=2, steps=2)
        for name in asked.paths:
            began = time.perf_counter()
            row = {"path": name, **vars(work), **measure(work, PATHS[name], asked.repetitions)}
            document["rows"].append(row | {"wall_seconds": round(time.perf_counter() - began, 1)})
            print("  ".join(f"{key} {value}" for key, value in document["rows"][-1].items()), flush=True)
            asked.out.parent.mkdir(parents=True, exist_ok=True)
            write_text(asked.out, json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
