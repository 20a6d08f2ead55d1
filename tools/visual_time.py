"""How long an iteration of learning from pictures takes and how much memory, every way to compute it.

    python tools/visual_time.py visual-sudoku-4x4
    python tools/visual_time.py visual-sudoku-256 --set chunk=64 segment=8 --out visual-time.json

The ways: `plain`, the definition differentiated by JAX, and `pad` and `roll`, the path with a gradient by
hand and its two ways to compute slopes. `--ways` picks some; one that does not fit in memory says so. Digits
are random, because their looks do not matter here, so no dataset is needed.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cellwise import environment
from cellwise.api import changed
from cellwise.automaton import picture, rule
from cellwise.automaton.flops import closed_form
from cellwise.benchmarks import PICTURE_PRESETS
from cellwise.benchmarks.preset import PicturePreset
from cellwise.kernels.dispatch import Path as Way
from cellwise.kernels.dispatch import Reference, Sobel
from cellwise.puzzles.sudoku_four import generate_four
from cellwise.puzzles.sudoku_generator import generate_easy
from cellwise.visual.draw import Data
from cellwise.visual.recipe import PictureRecipe
from cellwise.visual.step import first_run, iterate

WAYS: dict[str, Way] = {"pad": Sobel(), "roll": Sobel(form="roll"), "plain": Reference()}


def stand_ins(preset: PicturePreset) -> tuple[Data, dict[str, jax.Array]]:
    """A few boards, and random pictures for their digits."""
    cells, digit = picture.places(preset.automaton.layout)
    boards = generate_four(64, 0) if cells == 4 else generate_easy(64, 0)
    table = np.random.default_rng(0).random((cells + 1, 20, digit**2), np.float32)
    table[0] = 0
    fixed = {"layout.tokens": jnp.asarray(table.mean(1))}
    return Data(jnp.asarray(boards.inputs), jnp.asarray(boards.target), jnp.asarray(table)), fixed


def measure(preset: PicturePreset, recipe: PictureRecipe, way: str, repetitions: int) -> dict[str, Any]:
    """Seconds for an iteration and the memory that it needs besides its data."""
    data, fixed = stand_ins(preset)
    first = rule.first_weights(preset.automaton.step, None, 0)
    weights = {name: jnp.asarray(array) for name, array in first.items()}
    run = first_run(recipe, preset.automaton, weights, data, 0)
    how: dict[str, Any] = {"recipe": recipe, "automaton": preset.automaton, "path": WAYS[way]}
    begin = time.monotonic()
    compiled = iterate.lower(run, fixed, data, jnp.uint32(0), **how).compile()
    compiling = time.monotonic() - begin
    memory = compiled.memory_analysis()
    run, report = compiled(run, fixed, data, jnp.uint32(0))
    jax.block_until_ready(report.loss)
    seconds = []
    for _ in range(repetitions):
        begin = time.monotonic()
        run, report = compiled(run, fixed, data, jnp.uint32(0))
        jax.block_until_ready((run.step, report.loss))
        seconds.append(time.monotonic() - begin)
    each = float(np.median(seconds))
    side = picture.canvas(preset.automaton.layout)
    operations = 3 * closed_form(preset.automaton.step) * recipe.batch * recipe.chunk * side**2
    return {
        "preset": preset.name,
        "way": way,
        "precision": recipe.precision,
        "batch": recipe.batch,
        "chunk": recipe.chunk,
        "segment": recipe.segment,
        "compile_s": round(compiling, 1),
        "iteration_ms": 1e3 * each,
        "ns_per_cell_step": 1e9 * each / (recipe.batch * recipe.chunk * side**2),
        "tflops": operations / each / 1e12,
        "temporary_gib": memory.temp_size_in_bytes / 2**30 if memory else None,
        "loss": float(report.loss),
    }


def main() -> int:
    """Measures one way after the other and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("preset", choices=PICTURE_PRESETS)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=NUMBER", help="recipe fields")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--out", type=Path, help="a result file")
    words = parser.parse_args()
    preset = PICTURE_PRESETS[words.preset]
    changes = {name: json.loads(number) for name, number in (word.split("=", 1) for word in words.set)}
    recipe = changed(preset.recipe, changes)
    rows = []
    for way in words.ways:
        try:
            rows.append(measure(preset, recipe, way, words.repetitions))
        except Exception as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            rows.append({"preset": preset.name, "way": way, "problem": "does not fit in memory"})
        print(json.dumps(rows[-1]), flush=True)
    if words.out:
        about = {"device": environment.device(), "versions": environment.versions(), "rows": rows}
        words.out.parent.mkdir(parents=True, exist_ok=True)
        words.out.write_text(json.dumps(about, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
