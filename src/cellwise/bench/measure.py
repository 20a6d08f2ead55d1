"""Measuring: contenders take turns, so that a slow minute of the machine hits all of them."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ..kernels.precision import Precision, products

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Contender:
    """Something to measure; `run` returns when all is computed.

    `flops` is the arithmetic of one run: that of the cells which the contender computes, a backward pass
    counted as two forward ones.
    """

    name: str
    precision: Precision
    boards: str
    cells: int
    free: int
    steps: int
    flops: float
    run: Callable[[], Any]


class Outcome(dict[int, list[float]]):
    """The seconds of every run of each contender, by its number; `failed` says why some could not run."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: dict[int, str] = {}


def measure(contenders: list[Contender], repetitions: int, tell: Tell = lambda _: None) -> Outcome:
    """Runs each contender once to compile, then all of them in turns."""
    outcome = Outcome()
    for number, contender in enumerate(contenders):
        tell(f"{_called(contender)}: compiling")
        try:
            contender.run()
            outcome[number] = []
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            outcome.failed[number] = "it needs more memory than the device has"
    for repetition in range(repetitions):
        for number, seconds in outcome.items():
            tell(f"{_called(contenders[number])}: run {repetition + 1} of {repetitions}")
            began = time.perf_counter()
            contenders[number].run()
            seconds.append(time.perf_counter() - began)
    return outcome


def _called(contender: Contender) -> str:
    return f"{contender.name}, {contender.precision}, {contender.boards}"


def matrix_product(side: int, precision: Precision, repetitions: int) -> dict[str, Any]:
    """What the machine can do: FLOP/s of a big matrix product."""
    kind = jnp.bfloat16 if precision == "bf16" else jnp.float32
    a = jnp.ones((side, side), kind)
    with products(precision):
        product = jax.jit(jnp.matmul).lower(a, a).compile()
    runs = 1 if jax.default_backend() == "cpu" else 20

    def run() -> None:
        jax.block_until_ready([product(a, a) for _ in range(runs)])

    alone = Contender("matrix product", precision, "", 0, 0, 0, 2.0 * runs * side**3, run)
    rates = sorted(alone.flops / second for second in measure([alone], repetitions)[0])
    return {"side": side, "flops_per_second": statistics.median(rates), "min": rates[0], "max": rates[-1]}
