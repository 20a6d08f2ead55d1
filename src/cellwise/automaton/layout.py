"""What the channels of a cell mean: how a puzzle becomes a state and a state becomes an answer."""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, UInt8

from ..kernels import bits, reference
from ..kernels.bits import Keys
from ..kernels.reference import State
from ..kernels.spec import StepSpec, Weights


@dataclass(frozen=True)
class Layout:
    """How tokens and channels correspond.

    Token vectors are the rows of `layout.tokens`, fixed and `read` wide: a given cell starts with its vector
    in channels `0:read`. The answer is read from channels `write_first:write_first + write`, by the nearest
    vector (`distance`) or the most parallel one (`cosine`), compared on their first `write` components, or
    by a learned map to a score for each token (`linear`). Everything else starts as normal noise of size
    `spread`.

    With `picture`, token vectors are square pictures, and each cell of the automaton is a pixel of a drawn
    board that has as many places along a side as there are digits; see `picture.py`.

    With `contexts`, one of so many learned vectors, the rows of `context.vectors`, starts in the `context`
    channels after the token of every cell, to tell all cells of a board what to do. The answer then starts
    as zeros, and only what comes after it as noise.
    """

    tokens: int
    read: int
    write: int
    head: Literal["distance", "cosine", "linear", "picture"]
    spread: float
    write_first: int = 0
    context: int = 0
    contexts: int = 0


@dataclass(frozen=True)
class Clock:
    """Learned vectors, the rows of `clock.vectors`, that tell a cell what time it is.

    Before a cell looks around, the vector of its time is added to its channels from `first` on. With
    `local` a cell's time is how often it has fired, with `global` how many steps there were; a cell that
    does not fire forgets the vector again, but keeps it with `global-kept`. After `ticks` the last vector
    stays.
    """

    ticks: int
    first: int
    reading: Literal["local", "global", "global-kept"] = "local"


@dataclass(frozen=True)
class Automaton:
    """A rule and its layout, everything about an automaton but its numbers."""

    step: StepSpec
    layout: Layout
    clock: Clock | None = None


def start(
    automaton: Automaton,
    weights: Weights,
    inputs: UInt8[Array, "b h w"],
    given: Bool[Array, "b h w"],
    keys: Keys,
    context: Float32[Array, "b k"] | None = None,
) -> State:
    """The state before the first step: noise, with the token vectors in the given cells, and the context."""
    spec, layout = automaton.step, automaton.layout
    b, h, w = inputs.shape
    cells = jnp.arange(h * w, dtype=jnp.int32)[None]
    words = bits.at_cells(bits.at_step(keys, bits.START, 0), cells)
    state = layout.spread * bits.normals(words, spec.channels).reshape(b, h, w, spec.channels)
    if context is not None:
        state = jnp.where(jnp.arange(spec.channels) < layout.write_first + layout.write, 0.0, state)
        everywhere = jnp.broadcast_to(context[:, None, None, :], (b, h, w, layout.context))
        state = state.at[..., layout.read : layout.read + layout.context].set(everywhere)
    vectors = weights["layout.tokens"][inputs]
    vectors = jnp.pad(vectors, ((0, 0), (0, 0), (0, 0), (0, spec.channels - layout.read)))
    loaded = given[..., None] & (jnp.arange(spec.channels) < layout.read)[None, None, None]
    return reference.normalise(spec, jnp.where(loaded, vectors, state))


def answer_channels(layout: Layout, state: Float32[Array, "*b c"]) -> Float32[Array, "*b k"]:
    """The channels in which the answer is written."""
    return state[..., layout.write_first : layout.write_first + layout.write]


def target_vectors(
    layout: Layout, weights: Weights, target: UInt8[Array, "b h w"]
) -> Float32[Array, "b h w k"]:
    """What the answer channels should hold."""
    return weights["layout.tokens"][target][..., : layout.write]


def scores(layout: Layout, weights: Weights, state: Float32[Array, "*b c"]) -> Float32[Array, "*b v"]:
    """How well each token fits: in (0, 1] by distance, in [-1, 1] by cosine, a probability if `linear`."""
    if layout.head == "linear":
        return jax.nn.softmax(logits(layout, weights, state), axis=-1)
    out = answer_channels(layout, state)
    table = weights["layout.tokens"][:, : layout.write]
    if layout.head == "distance":
        gaps = out[..., None, :] - table.reshape((1,) * (out.ndim - 1) + table.shape)
        return 1.0 / (1.0 + jnp.sqrt(jnp.sum(gaps * gaps, axis=-1)))
    lengths = jnp.sqrt(jnp.sum(out * out, axis=-1, keepdims=True)) + 1e-6
    unit = table / (jnp.sqrt(jnp.sum(table * table, axis=-1, keepdims=True)) + 1e-6)
    return (out / lengths) @ unit.T


def logits(layout: Layout, weights: Weights, state: Float32[Array, "*b c"]) -> Float32[Array, "*b v"]:
    """The scores of the learned map, of which the softmax is taken."""
    out = answer_channels(layout, state)
    bias = weights["head.b"].reshape((1,) * (out.ndim - 1) + (layout.tokens,))
    return out @ weights["head.w"].T + bias


def read(
    layout: Layout, weights: Weights, state: Float32[Array, "b h w c"]
) -> tuple[UInt8[Array, "b h w"], Float32[Array, "b h w"]]:
    """The token each cell says (ties to the lowest) and how sure it is."""
    fit = scores(layout, weights, state)
    return jnp.argmax(fit, axis=-1).astype(jnp.uint8), jnp.max(fit, axis=-1)


def orthonormal_tokens(tokens: int, width: int, seed: int) -> Float32[np.ndarray, "v k"]:
    """Token vectors at right angles: the first columns of a random rotation."""
    gaussian = np.random.default_rng(seed).standard_normal((width, width))
    return np.ascontiguousarray(np.linalg.qr(gaussian)[0].T[:tokens], np.float32)
