"""Where the time of a training iteration goes: the kernels that a GPU ran, the longest first.

    python tools/gpu_profile.py sudoku-ood --set precision=bf16
    python tools/gpu_profile.py sudoku-extreme --set precision=bf16 batch=396 fresh=79 pool=1584
    python tools/gpu_profile.py maze-laptop --quick     # to see that it runs; a CPU has nothing to list

The weights are those with which a run begins. Nothing is written: this is to find out what to work on, and
numbers to show come from `cellwise bench`.
"""

import argparse
import gzip
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from cellwise.api import changed
from cellwise.automaton import rule
from cellwise.benchmarks import BOARD_PRESETS
from cellwise.kernels import dispatch
from cellwise.training import step
from cellwise.training.check import most_free
from cellwise.training.pool import Data
from stretch import override


@dataclass(frozen=True)
class Kernels:
    """Milliseconds that a GPU was busy, and launches, by the kernel's name."""

    busy: Counter[str]
    launches: Counter[str]


def iterations(preset: str, overrides: dict[str, Any]) -> tuple[str, Callable[[], Any]]:
    """The path that is taken, and a function that makes one more iteration of a run."""
    job = BOARD_PRESETS[preset].job(changed(BOARD_PRESETS[preset].recipe, overrides), 0)
    fixed = {name: jnp.asarray(array) for name, array in job.fixed.items()}
    data = Data(jnp.asarray(job.boards.target), jnp.asarray(job.boards.given))
    first = rule.first_weights(job.automaton.step, job.size, job.seed)
    weights = {name: jnp.asarray(weight) for name, weight in first.items()}
    path = dispatch.choose(job.automaton.step, most_free(job.boards), job.recipe.precision)
    run = step.first_run(job.recipe, job.automaton, fixed, weights, data, job.seed)

    def one_more() -> Any:
        nonlocal run
        how = {"recipe": job.recipe, "automaton": job.automaton, "path": path}
        run, report = step.iterate(run, fixed, data, jnp.uint32(job.seed), **how)
        return report

    return path.name, one_more


def kernels(folder: Path) -> Kernels:
    """What JAX's profiler wrote about the streams of a GPU."""
    busy, launches = Counter[str](), Counter[str]()
    for file in folder.glob("plugins/profile/*/*.trace.json.gz"):
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
        named = [event for event in events if event.get("ph") == "M"]
        devices = {e["pid"]: e["args"]["name"] for e in named if e["name"] == "process_name"}
        threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in named if e["name"] == "thread_name"}
        for event in events:
            where = (event.get("pid"), event.get("tid"))
            on_gpu = "GPU" in devices.get(where[0], "") and "Stream" in threads.get(where, "")
            if event.get("ph") == "X" and on_gpu:
                busy[event["name"]] += event["dur"] / 1e3
                launches[event["name"]] += 1
    return Kernels(busy, launches)


def main() -> None:
    """Compiles, times, profiles, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("preset", choices=BOARD_PRESETS)
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE", help="recipe fields")
    parser.add_argument("--top", type=int, default=14, help="kernels to list")
    parser.add_argument("--quick", action="store_true", help="one iteration instead of ten")
    asked = parser.parse_args()
    path, one_more = iterations(asked.preset, dict(map(override, asked.set)))
    began = time.perf_counter()
    jax.block_until_ready(one_more())
    print(f"{asked.preset} by the path {path}, compiled in {time.perf_counter() - began:.1f} s", flush=True)
    count = 1 if asked.quick else 10
    began = time.perf_counter()
    jax.block_until_ready([one_more() for _ in range(count)])
    print(f"an iteration takes {1e3 * (time.perf_counter() - began) / count:.2f} ms", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(one_more())
        found = kernels(Path(folder))
    print(f"a GPU was busy for {sum(found.busy.values()):.2f} ms in {sum(found.launches.values())} launches")
    for name, milliseconds in found.busy.most_common(asked.top):
        print(f"{milliseconds:9.3f} ms {found.launches[name]:5d}  {name[:90]}")


if __name__ == "__main__":
    main()
