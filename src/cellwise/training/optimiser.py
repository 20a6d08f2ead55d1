"""AdamW with clipping, the learning-rate schedule, and the running average of the weights."""

from typing import Protocol, runtime_checkable

import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float32, Int32

from .recipe import Schedule


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


@runtime_checkable
class Training(Protocol):
    """What a recipe of any kind says of the updates."""

    @property
    def steps(self) -> int:
        """How many."""
        ...

    @property
    def schedule(self) -> Schedule:
        """The learning rate."""
        ...

    @property
    def clip(self) -> float:
        """The largest norm of a gradient."""
        ...

    @property
    def beta1(self) -> float:
        """Adam's memory of the gradient."""
        ...

    @property
    def beta2(self) -> float:
        """Adam's memory of its square."""
        ...

    @property
    def weight_decay(self) -> float:
        """Decoupled decay of every trained number."""
        ...


def optimiser(recipe: Training, memory: DTypeLike | None = None) -> optax.GradientTransformation:
    """Clip by the global norm, then AdamW with decay on every trained array.

    `memory` is the type of its memory of the gradient, that of the gradient unless told otherwise.
    """
    return optax.chain(
        optax.clip_by_global_norm(recipe.clip),
        optax.adamw(
            lambda count: learning_rate(recipe.schedule, recipe.steps, jnp.asarray(count)),
            b1=recipe.beta1,
            b2=recipe.beta2,
            weight_decay=recipe.weight_decay,
            mu_dtype=memory,
        ),
    )
