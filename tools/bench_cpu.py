"""Cellwise beside CAX on the CPU: how fast the Maze-OOD rule steps and learns, every contender in one run.

    make bench                                           # several minutes; leave the machine alone meanwhile
    python tools/bench_cpu.py --quick --out bench.json   # seconds; proves only that everything runs

A cell-step is one step of one cell of a board, walls included, for every contender alike. Where walls are
frozen, our compact path skips them, so each row also gives the rate per free cell, and there are rows of the
same path on boards without walls. All contenders see float32 and all cores; they take turns, so that a slow
minute of the machine hits all of them.
"""

import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jax import Array
from rich.console import Console
from rich.table import Table

from cellwise.automaton import layout, rollout
from cellwise.automaton.flops import closed_form
from cellwise.automaton.rule import first_weights
from cellwise.benchmarks.maze_ood import AUTOMATON, token_vectors
from cellwise.errors import CellwiseError
from cellwise.files import write_json
from cellwise.kernels import bits
from cellwise.kernels.dispatch import Path as KernelPath
from cellwise.kernels.dispatch import Reference, choose
from cellwise.kernels.spec import Weights
from cellwise.puzzles.maze_generator import generate
from cellwise.thinking.mind import prepare
from cellwise.thinking.think import think

SPEC, LAYOUT = AUTOMATON.step, AUTOMATON.layout
FIRE_RATE = 0.8
NO_CAX = 'CAX is left out because it is not installed; get it with: pip install -e ".[bench]"'
SAME_AS_PAPER = "The paper's formulation has no row of its own: for shared kernels it is the reference path."


@dataclass(frozen=True)
class Scale:
    """How much is measured: boards with `size` + 2 cells a side, and repetitions of everything."""

    size: int
    boards: int
    steps: int
    learn_boards: int
    learn_steps: int
    repetitions: int
    matrix: int


FULL = Scale(size=59, boards=64, steps=40, learn_boards=8, learn_steps=50, repetitions=5, matrix=2048)
QUICK = Scale(size=9, boards=4, steps=3, learn_boards=2, learn_steps=3, repetitions=2, matrix=128)


@dataclass(frozen=True)
class Contender:
    """Something to measure; `run` returns when all is computed. `computed` cells cost arithmetic a step."""

    name: str
    boards: str
    free: int
    computed: int
    run: Callable[[], Any]


@dataclass(frozen=True)
class Boards:
    """Boards with the same number of free cells and everything that thinking about them needs."""

    name: str
    inputs: np.ndarray
    given: np.ndarray
    target: np.ndarray

    @property
    def free(self) -> int:
        """How many cells can change, on all boards together."""
        return int((~self.given).sum())

    @property
    def most_free(self) -> int:
        """The most free cells on one board."""
        return int((~self.given).sum((1, 2)).max())


def mazes(size: int, count: int) -> Boards:
    """Generated mazes, whose walls and endpoints are frozen."""
    made = generate(size, count, seed=0)
    return Boards(f"mazes of size {size}", made.inputs, made.given, made.target)


def without_walls(boards: Boards) -> Boards:
    """Boards of the same size on which nothing is frozen."""
    return Boards("nothing frozen", boards.inputs, np.zeros_like(boards.given), boards.target)


def rule() -> dict[str, np.ndarray]:
    """The rule as it is before training."""
    return first_weights(SPEC, None, seed=0) | {"layout.tokens": token_vectors()}


def start(boards: Boards, weights: Weights) -> tuple[Array, Array]:
    """The states before the first step, and the keys of their random bits."""
    numbers = jnp.arange(len(boards.inputs), dtype=jnp.int32)
    keys = bits.trajectory_keys(0, numbers, jnp.zeros_like(numbers))
    begin = jax.jit(layout.start, static_argnums=0)
    return begin(AUTOMATON, weights, jnp.asarray(boards.inputs), jnp.asarray(boards.given), keys), keys


def forward(name: str, path: KernelPath, boards: Boards, steps: int) -> Contender:
    """Many steps of all boards at once."""
    weights = {name: jnp.asarray(weight) for name, weight in rule().items()}
    state, keys = start(boards, weights)
    plan = jax.jit(path.plan, static_argnums=0)(SPEC, jnp.asarray(boards.given))
    go = jax.jit(partial(rollout.rollout, SPEC, path=path, rate=FIRE_RATE))
    return Contender(
        name,
        boards.name,
        boards.free,
        _computed(path, boards),
        lambda: jax.block_until_ready(go(weights, state, plan, keys, 0, steps)),
    )


def thinking(boards: Boards, steps: int) -> Contender:
    """What a user gets: a few boards at a time, from puzzles to answers."""
    numbers = np.arange(len(boards.inputs), dtype=np.int32)
    mind = prepare(AUTOMATON, rule(), boards.given, FIRE_RATE, None)
    trials = np.zeros_like(numbers)
    return Contender(
        "cellwise, think",
        boards.name,
        boards.free,
        _computed(mind.path, boards),
        lambda: think(mind, boards.inputs, boards.given, 0, numbers, trials, steps),
    )


def gradient(name: str, path: KernelPath, boards: Boards, steps: int) -> Contender:
    """Loss and gradient through all steps, one board at a time as training does when boards are big."""
    fixed = {"layout.tokens": jnp.asarray(token_vectors())}
    weights = {name: jnp.asarray(weight) for name, weight in first_weights(SPEC, None, seed=0).items()}
    state, keys = start(boards, fixed)
    target = layout.target_vectors(LAYOUT, fixed, jnp.asarray(boards.target))

    def loss(weights: Weights, state: Array, given: Array, target: Array, keys: Array) -> Array:
        plan = path.plan(SPEC, given)

        def learn(state: Array, i: Array) -> tuple[Array, Array]:
            state = path.step(SPEC, weights | fixed, state, plan, keys, i, FIRE_RATE)
            return state, jnp.mean((layout.answer_channels(LAYOUT, state) - target) ** 2)

        return jnp.mean(jax.lax.scan(learn, state, jnp.arange(steps, dtype=jnp.int32))[1])

    @jax.jit
    def go(weights: Weights, batch: tuple[Array, ...]) -> Any:
        blocks = jax.tree.map(lambda x: x[:, None], batch)

        def one(total: Any, block: tuple[Array, ...]) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(weights, *block)), None

        zero = (jnp.float32(0), jax.tree.map(jnp.zeros_like, weights))
        return jax.tree.map(lambda x: x / len(state), jax.lax.scan(one, zero, blocks)[0])

    batch = (state, jnp.asarray(boards.given), target, keys)
    return Contender(
        name,
        boards.name,
        boards.free,
        _computed(path, boards),
        lambda: jax.block_until_ready(go(weights, batch)),
    )


def _computed(path: KernelPath, boards: Boards) -> int:
    return boards.inputs.size if path.name == "reference" else boards.most_free * len(boards.inputs)


def cax_contenders(scale: Scale) -> tuple[Contender, Contender]:
    """The same rule from the parts of CAX, as its notebooks put them together: forward and gradient.

    What differs: its kernels belong to one channel each where ours are shared by all channels; nothing can be
    frozen; what survives its cell dropout is divided by the fire rate; random bits come from JAX's generator.
    None of this changes the arithmetic of a cell. States of all steps are sown, as its notebooks do it.
    """
    from cax.core import ComplexSystem  # pyright: ignore[reportMissingImports]
    from cax.core.perceive import ConvPerceive  # pyright: ignore[reportMissingImports]
    from cax.core.update import ResidualUpdate  # pyright: ignore[reportMissingImports]
    from flax import nnx  # pyright: ignore[reportMissingImports]

    warnings.filterwarnings("ignore", "Using 'Module.sow", DeprecationWarning)

    class Maze(ComplexSystem):
        """Depthwise convolution, then a residual MLP with cell dropout."""

        def __init__(self, *, rngs: Any) -> None:
            c, z = SPEC.channels, SPEC.perceived
            self.perceive = ConvPerceive(c, z, padding="CIRCULAR", feature_group_count=c, rngs=rngs)
            self.update = ResidualUpdate(
                2, c, z, (SPEC.hidden,), cell_dropout_rate=1 - FIRE_RATE, zeros_init=True, rngs=rngs
            )

        def _step(self, state: Any, input: Any = None, *, sow: bool = False) -> Any:  # noqa: A002 its name
            state = self.update(state, self.perceive(state), input)
            if sow:
                self.sow(nnx.Intermediate, "state", state)
            return state

    @nnx.jit
    def learn(system: Any, state: Array, target: Array) -> Any:
        def loss(system: Any) -> Array:
            system(state, num_steps=scale.learn_steps, sow=True)
            states = nnx.pop(system, nnx.Intermediate)["state"].get_value()[0]
            return jnp.mean((states[..., : LAYOUT.write] - target) ** 2)

        return nnx.value_and_grad(loss)(system)

    side = scale.size + 2

    def random(seed: int, count: int, channels: int) -> Array:
        return 0.15 * jax.random.normal(jax.random.key(seed), (count, side, side, channels))

    many, few = random(0, scale.boards, SPEC.channels), random(1, scale.learn_boards, SPEC.channels)
    target = random(2, scale.learn_boards, LAYOUT.write)
    system, name = Maze(rngs=nnx.Rngs(0)), f"CAX {version('cax')}"
    return (
        Contender(
            name,
            "nothing frozen",
            many[..., 0].size,
            many[..., 0].size,
            lambda: jax.block_until_ready(system(many, num_steps=scale.steps)),
        ),
        Contender(
            name,
            "nothing frozen",
            few[..., 0].size,
            few[..., 0].size,
            lambda: jax.block_until_ready(learn(system, few, target)),
        ),
    )


def measure(contenders: list[Contender], repetitions: int, tell: Callable[[str], None]) -> list[list[float]]:
    """The seconds of every repetition of every contender, after each has run once to compile."""
    for contender in contenders:
        tell(f"warming up: {contender.name}, {contender.boards}")
        contender.run()
    seconds: list[list[float]] = [[] for _ in contenders]
    for repetition in range(repetitions):
        for contender, times in zip(contenders, seconds, strict=True):
            tell(f"repetition {repetition + 1} of {repetitions}: {contender.name}, {contender.boards}")
            began = time.perf_counter()
            contender.run()
            times.append(time.perf_counter() - began)
    return seconds


def row(task: str, contender: Contender, seconds: list[float], cells: int, steps: int) -> dict[str, Any]:
    """One measurement. FLOPs are those of the cells computed; a backward pass counts as two forward ones."""
    median = statistics.median(seconds)
    passes = 3 if task == "gradient" else 1
    flops = passes * closed_form(SPEC) * contender.computed * steps
    return {
        "task": task,
        "contender": contender.name,
        "boards": contender.boards,
        "cells": cells,
        "free_cells": contender.free,
        "steps": steps,
        "repetitions": len(seconds),
        "seconds": {"median": median, "min": min(seconds), "max": max(seconds)},
        "runs_per_second": 1 / median,
        "cell_steps_per_second": cells * steps / median,
        "free_cell_steps_per_second": contender.free * steps / median,
        "flops_per_second": flops / median,
    }


def matrix_product(side: int, repetitions: int) -> dict[str, Any]:
    """What the machine can do: FLOP/s of a big float32 matrix product."""
    a = jnp.ones((side, side), jnp.float32)
    product = jax.jit(jnp.matmul)
    contender = Contender("matrix product", "", 0, 0, lambda: jax.block_until_ready(product(a, a)))
    seconds = measure([contender], repetitions, lambda _: None)[0]
    rates = sorted(2 * side**3 / second for second in seconds)
    return {"side": side, "flops_per_second": statistics.median(rates), "min": rates[0], "max": rates[-1]}


def bench(scale: Scale, tell: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Everything, as it is written to disk."""
    notes, rows = [SAME_AS_PAPER], []
    many, few = mazes(scale.size, scale.boards), mazes(scale.size, scale.learn_boards)
    cax = cax_contenders(scale) if find_spec("cax") else None
    if cax is None:
        notes.append(NO_CAX)

    def ours(make: Callable[..., Contender], boards: Boards, steps: int) -> list[Contender]:
        made = []
        for kind in (without_walls(boards), boards):
            for path in (Reference(), choose(SPEC, kind.most_free)):
                made.append(make(f"cellwise, {path.name}", path, kind, steps))
        return made

    walking = ours(forward, many, scale.steps)
    walking += [thinking(without_walls(many), scale.steps), thinking(many, scale.steps)]
    learning = ours(gradient, few, scale.learn_steps)
    for task, contenders, boards, steps in (
        ("forward", walking, many, scale.steps),
        ("gradient", learning, few, scale.learn_steps),
    ):
        if cax is not None:
            contenders.insert(0, cax[task == "gradient"])
        times = measure(contenders, scale.repetitions, lambda what, task=task: tell(f"{task}, {what}"))
        made = [row(task, *pair, boards.inputs.size, steps) for pair in zip(contenders, times, strict=True)]
        if cax is not None:
            for one in made:
                one["times_cax"] = made[0]["seconds"]["median"] / one["seconds"]["median"]
        rows += made
    return {
        "benchmark": "bench-cpu",
        "date": datetime.now(UTC).date().isoformat(),
        "device": cpu_name(),
        "cores": cores(),
        "precision": "float32",
        "fire_rate": FIRE_RATE,
        "versions": versions(),
        "notes": notes,
        "matrix_product": matrix_product(scale.matrix, scale.repetitions),
        "rows": rows,
    }


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_name() -> str:
    """The model of the CPU as the system calls it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or 'unknown CPU'} ({platform.machine()})"


def versions() -> dict[str, str]:
    """The versions of everything that matters to speed."""
    names = ["cellwise", "jax", "jaxlib", "numpy", *(["cax", "flax"] if find_spec("cax") else [])]
    return {"python": platform.python_version()} | {name: version(name) for name in names}


def tables(result: dict[str, Any]) -> Iterator[Table]:
    """The result for a person, a table for each task; rates in millions of cell-steps a second."""
    peak = result["matrix_product"]["flops_per_second"]
    title = f"{result['device']}, {result['cores']} cores; a matrix product reaches {peak / 1e9:.0f} GFLOP/s"
    for task in ("forward", "gradient"):
        view = Table(title=title, box=None, header_style="bold", title_justify="left", padding=(0, 1, 0, 0))
        heads = (task, "boards", "M/s", "M free/s", "runs/s", "spread", "peak", "× CAX")
        for number, head in enumerate(heads):
            view.add_column(head, justify="left" if number < 2 else "right", no_wrap=True)
        for one in result["rows"]:
            if one["task"] == task:
                view.add_row(one["contender"], one["boards"], *_numbers(one, peak))
        yield view
        title = None


def _numbers(one: dict[str, Any], peak: float) -> tuple[str, ...]:
    seconds = one["seconds"]
    return (
        f"{one['cell_steps_per_second'] / 1e6:.2f}",
        f"{one['free_cell_steps_per_second'] / 1e6:.2f}",
        f"{one['runs_per_second']:.2f}",
        f"{100 * (seconds['max'] - seconds['min']) / seconds['median']:.0f} %",
        f"{100 * one['flops_per_second'] / peak:.0f} %",
        f"{one['times_cax']:.1f}" if "times_cax" in one else "–",
    )


@dataclass(frozen=True)
class Options:
    """Measure cellwise and CAX side by side on the CPU."""

    out: Path = Path("results/bench-cpu.json")
    """Where the result file goes."""
    quick: bool = False
    """Small boards, few steps: only to see that everything runs."""


def main() -> int:
    """Measures, writes and prints."""
    options = tyro.cli(Options)
    jax.config.update("jax_platforms", "cpu")
    console = Console()
    with console.status("preparing") as status:
        result = bench(QUICK if options.quick else FULL, status.update)
    command = "python tools/bench_cpu.py" + (" --quick" if options.quick else "")
    try:
        write_json(options.out, {"benchmark": result.pop("benchmark"), "command": command} | result)
    except CellwiseError as error:
        print(error, file=sys.stderr)
        return 2
    for view in tables(result):
        console.print(view)
        console.print()
    for note in result["notes"]:
        console.print(note)
    console.print(f"Written to {options.out}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
