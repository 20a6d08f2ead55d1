"""The ways to run a rule that are compared: all that can run here, and the paper's own."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from ..kernels import bits, paper
from ..kernels.bits import Keys, Rate, Step
from ..kernels.dispatch import Attention, Path, Reference, runnable
from ..kernels.precision import Precision
from ..kernels.reference import State
from ..kernels.spec import StepSpec, Weights

PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bf16")


@dataclass(frozen=True)
class Paper(Reference):
    """The paper's formulation as if it were a path: attention projects all neighbours of every cell."""

    name: str = "paper"

    def step(
        self, spec: StepSpec, weights: Weights, state: State, plan: Array, keys: Keys, step: Step, rate: Rate
    ) -> State:
        """One step of every cell."""
        b, h, w = plan.shape
        words = bits.at_cells(bits.at_step(keys, bits.FIRE, step), jnp.arange(h * w, dtype=jnp.int32)[None])
        fire = bits.chance(words, rate if isinstance(rate, float | int) else rate.reshape(b, -1))
        return paper.step(spec, weights, state, plan, fire.reshape(b, h, w))


def contending(spec: StepSpec, free: int, variants: bool) -> list[Path]:
    """The paths to compare for boards with at most so many free cells, the plainest first."""
    paths: list[Path] = list(reversed(runnable(spec, free)))
    if spec.perception == "attention":
        paths.insert(0, Paper())
    if variants and any(isinstance(path, Attention) for path in paths):
        for form in ("dense", "shifts"):
            paths += [Attention(form, unroll, f"attention, {form}, {unroll}") for unroll in (1, 8, 48)]
    return paths


def told_apart(path: Path, precisions: Sequence[Precision]) -> list[Precision]:
    """Those of the precisions that make a difference to a path on this device."""
    known = {"float32"} if jax.default_backend() == "cpu" else {"float32", "tf32"}
    return [one for one in precisions if one in known or (one == "bf16" and has_bf16(path))]


def has_bf16(path: Path) -> bool:
    """Whether a path multiplies bfloat16; the others take TF32 instead, or float32 on a CPU."""
    return getattr(path, "bf16", False)
