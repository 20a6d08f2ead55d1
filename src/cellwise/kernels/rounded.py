"""The step with the factors of its products in bfloat16, which tensor cores multiply twice as fast.

Sums, the state, units and the gradients of weights stay float32. What a step makes on its way, the perceived
numbers and the hidden layer, takes half of the memory.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import BFloat16, Float32

from . import reference
from .bits import Keys, Rate, Step
from .dispatch import Reference, fired
from .reference import State
from .spec import OFFSETS, StepSpec, Weights


@dataclass(frozen=True)
class Rounded(Reference):
    """Every cell, by rounded products."""

    name: str = "rounded"

    def step(
        self, spec: StepSpec, weights: Weights, state: State, plan: Array, keys: Keys, step: Step, rate: Rate
    ) -> State:
        """One step of every cell."""
        fire = fired(plan, keys, step, rate)
        frozen = reference.frozen_entries(spec, plan)
        # Rounded here and not once for all steps, so that the gradients of all steps are added in float32.
        factors = {name: weight.astype(jnp.bfloat16) for name, weight in weights.items() if _is_factor(name)}
        held = jnp.where(frozen, jax.lax.stop_gradient(state), state)
        change = update(spec, weights, factors, perceive(spec, weights, factors, held))
        change = jnp.where(fire[..., None] & ~frozen, change, 0.0)
        return reference.advance(spec, held, change)


def refusal(spec: StepSpec) -> str | None:
    """Why a rule cannot be run like this, or None."""
    if spec.perception != "attention" or spec.padding == "token":
        return "it knows attention on boards that wrap or end in zeros"
    return None


def _is_factor(name: str) -> bool:
    return name.startswith(("perceive.value", "update.w_"))


def perceive(
    spec: StepSpec, weights: Weights, factors: dict[str, BFloat16[Array, "..."]], state: State
) -> BFloat16[Array, "b h w c"]:
    """What every cell perceives, as `reference.perceive` has it."""
    b, h, w, c = state.shape
    projected = product(state.astype(jnp.bfloat16), factors["perceive.value"].reshape(c, c).T)
    edge = ((0, 0), (1, 1), (1, 1), (0, 0))
    padded = jnp.pad(projected, edge, mode="wrap" if spec.padding == "wrap" else "constant")
    # One number for each channel, so that heads need no axis of their own.
    attention = jnp.repeat(weights["perceive.attention"], c // spec.heads, axis=-2)
    total = jnp.zeros((b, h, w, c), jnp.float32)
    for n, (dy, dx) in enumerate(OFFSETS):
        near = padded[:, 1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w].astype(jnp.float32)
        total = total + near * attention[..., n].reshape(
            (1, h, w, c) if attention.ndim == 4 else (1, 1, 1, c)
        )
    return total.astype(jnp.bfloat16)


def update(
    spec: StepSpec,
    weights: Weights,
    factors: dict[str, BFloat16[Array, "..."]],
    z: BFloat16[Array, "b h w c"],
) -> Float32[Array, "b h w c"]:
    """The change that a cell proposes for itself, as `reference.update` has it."""

    def layer(x: Array, matrix: Array, bias: str) -> Float32[Array, "b h w k"]:
        return product(x, matrix).astype(jnp.float32) + weights[bias][None, None, None]

    hidden = layer(z, factors["update.w_in"], "update.b_in")
    if spec.update == "swiglu":
        hidden = jax.nn.swish(layer(z, factors["update.w_gate"], "update.b_gate")) * hidden
    else:
        hidden = jax.nn.relu(hidden)
    return layer(hidden.astype(jnp.bfloat16), factors["update.w_out"].T, "update.b_out")


def product(x: BFloat16[Array, "b h w k"], matrix: BFloat16[Array, "k l"]) -> BFloat16[Array, "b h w l"]:
    """A product that is summed in float32; whatever precision is asked for, its factors have no more."""
    return jnp.matmul(x, matrix, precision=jax.lax.Precision.DEFAULT)
