"""The step as the paper computes it: attention projects all nine neighbours of every cell, and the zeros of
fixed kernels are multiplied as well.

Nobody runs this; it is what the paper counts, and `reference` must agree with it in output.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float32

from . import reference
from .reference import State
from .spec import SOBEL, StepSpec, Weights, beyond_edge


def step(
    spec: StepSpec,
    weights: Weights,
    state: State,
    given: Bool[jax.Array, "b h w"],
    fire: Bool[jax.Array, "b h w"],
) -> State:
    """The state after one step, as `reference.step` has it."""
    frozen = reference.frozen_entries(spec, given)
    state = jnp.where(frozen, jax.lax.stop_gradient(state), state)
    change = reference.update(spec, weights, perceive(spec, weights, state))
    return reference.advance(spec, state, jnp.where(fire[..., None] & ~frozen, change, 0.0))


def perceive(spec: StepSpec, weights: Weights, state: State) -> Float32[jax.Array, "b h w z"]:
    """What every cell perceives, in the paper's order of operations; learned kernels have one order only."""
    if spec.perception in ("kernels", "self-attention"):
        return reference.perceive(spec, weights, state)
    b, h, w, c = state.shape
    around = reference.neighbours(reference.pad(spec, state, beyond_edge(spec, weights)))
    if spec.perception == "sobel":
        slopes = [sum(k * x for k, x in zip(kernel, around, strict=True)) for kernel in SOBEL]
        return jnp.concatenate([jnp.asarray(slope) for slope in slopes], axis=-1)
    value = weights["perceive.value"].reshape(c, c)
    attention = weights["perceive.attention"]
    attention = jnp.broadcast_to(attention, (h, w, *attention.shape[-2:]))
    heads = [(near @ value.T).reshape(b, h, w, spec.heads, -1) for near in around]
    z = sum(attention[None, :, :, :, n, None] * heads[n] for n in range(9))
    return jnp.asarray(z).reshape(b, h, w, c)
