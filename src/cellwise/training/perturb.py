"""What happens to states before an iteration: a new board without warning, damage, noise."""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, PRNGKeyArray

from ..automaton.layout import Automaton
from ..kernels.reference import frozen_entries, normalise
from .pool import Batch, Data, take
from .recipe import Recipe


def swap(
    recipe: Recipe, automaton: Automaton, batch: Batch, donors: Batch | Data, key: PRNGKeyArray
) -> Batch:
    """Gives some states another board: its tokens are loaded, everything else stays as it is.

    Tokens of the old board that are not part of the new one remain in their cells as ordinary state.
    """
    when, which = jax.random.split(key)
    b = len(batch.age)
    swapped = jax.random.bernoulli(when, recipe.swap, (b,))
    index = jax.random.randint(which, (b,), 0, len(donors.target))
    donor = take(donors, index)  # type: ignore[arg-type]
    wide = swapped[:, None, None]
    given = jnp.where(wide, donor.given, batch.given)
    tokens = (jnp.arange(automaton.step.channels) < automaton.layout.read)[None, None, None]
    loaded = wide[..., None] & donor.given[..., None] & tokens
    return Batch(
        state=jnp.where(loaded, donor.state, batch.state),
        target=jnp.where(wide, donor.target, batch.target),
        given=given,
        age=jnp.where(swapped, 0, batch.age),
    )


def discs(key: PRNGKeyArray, boards: int, count: int, size: tuple[int, int]) -> Bool[Array, "b h w"]:
    """The union of `count` random discs on each board.

    In coordinates from -1 to 1 along each side, centres are uniform in the middle half, radii in 0.1 … 0.4.
    """
    where, how_big = jax.random.split(key)
    centre = jax.random.uniform(where, (boards, count, 2), minval=-0.5, maxval=0.5)
    radius = jax.random.uniform(how_big, (boards, count), minval=0.1, maxval=0.4)
    y = jnp.linspace(-1.0, 1.0, size[0])[None, None, :, None]
    x = jnp.linspace(-1.0, 1.0, size[1])[None, None, None, :]
    square = (y - centre[..., 0, None, None]) ** 2 + (x - centre[..., 1, None, None]) ** 2
    return jnp.any(square < radius[..., None, None] ** 2, axis=1)


def disturb(recipe: Recipe, automaton: Automaton, batch: Batch, key: PRNGKeyArray) -> Batch:
    """Damages some states, kicks some, and brings their units back to length one."""
    hit, place, when, where, how = jax.random.split(key, 5)
    state, spec = batch.state, automaton.step
    b, h, w, _ = state.shape
    free = ~frozen_entries(spec, batch.given)
    damaged = jax.random.bernoulli(hit, recipe.damage, (b, 1, 1)) & discs(place, b, recipe.discs, (h, w))
    state = jnp.where(damaged[..., None] & free, recipe.damage_fill, state)
    if recipe.noise_before:
        noise = recipe.noise
        kicked = jax.random.bernoulli(when, noise.when, (b, 1, 1, 1))
        kicked = kicked & jax.random.bernoulli(where, noise.where, (b, h, w, 1))
        kick = noise.size * jax.random.normal(how, state.shape)
        state = state + jnp.where(kicked & free, kick, 0.0)
    return batch._replace(state=normalise(spec, state))
