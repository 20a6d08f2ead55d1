"""AdamW with clipping, the learning-rate schedule, and the running average of the weights."""

import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Float32, Int32

from .recipe import Recipe, Schedule


def learning_rate(schedule: Schedule, steps: int, step: Int32[Array, ""]) -> Float32[Array, ""]:
    """The learning rate of update `step`, counted from 0."""
    t = jnp.asarray(step, jnp.float32)
    rise = jnp.clip(t / max(schedule.warmup, 1), 0.0, 1.0)
    done = jnp.clip((t - schedule.warmup) / max(steps - schedule.warmup, 1), 0.0, 1.0)
    fall = {
        "constant": jnp.zeros_like(done),
        "linear": done,
        "cosine": 0.5 - 0.5 * jnp.cos(jnp.pi * done),
    }[schedule.shape]
    before = schedule.first + (schedule.peak - schedule.first) * rise
    after = schedule.peak + (schedule.last - schedule.peak) * fall
    return jnp.where(t < schedule.warmup, before, after)


def optimiser(recipe: Recipe) -> optax.GradientTransformation:
    """Clip by the global norm, then AdamW with decay on every trained array."""
    return optax.chain(
        optax.clip_by_global_norm(recipe.clip),
        optax.adamw(
            lambda count: learning_rate(recipe.schedule, recipe.steps, jnp.asarray(count)),
            b1=recipe.beta1,
            b2=recipe.beta2,
            weight_decay=recipe.weight_decay,
        ),
    )
