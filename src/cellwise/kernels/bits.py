"""Randomness as a function: every random bit of a cell is a hash of where and when it is used.

A trajectory has a key made from (seed, board, trial); a bit inside it is addressed by (purpose, step, cell,
channel). Nothing is carried from one step to the next, so a trial gives the same trajectory in any batch,
chunk or order, and the same few lines of uint32 arithmetic give the same bits in every kernel and in the
web page. The mixing function is the two-round multiply-xorshift `lowbias32` found by Christopher Wellons'
hash prospector; it is bijective and its avalanche bias is below 2e-4.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int32, UInt32

GOLDEN = np.uint32(0x9E3779B9)
START, FIRE, NOISE_WHEN, NOISE_WHERE, NOISE = (np.uint32(n) for n in range(1, 6))

Keys = UInt32[Array, " b"]
Step = Int32[Array, ""] | Int32[Array, " b"] | int
Rate = float | int | Float32[Array, "b h w"]
"""How likely a cell is to fire: one number, or one for each cell."""


def mix(word: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """A bijection of 32-bit words in which every input bit flips every output bit half of the time."""
    word = word ^ (word >> 16)
    word = word * np.uint32(0x7FEB352D)
    word = word ^ (word >> 15)
    word = word * np.uint32(0x846CA68B)
    return word ^ (word >> 16)


def fold(key: UInt32[Array, "*shape"], word: UInt32[Array, "*#shape"] | np.uint32) -> UInt32[Array, "*shape"]:
    """A new key from a key and a word; order matters, so (1, 2) and (2, 1) give different keys."""
    word = jnp.broadcast_to(word, key.shape)
    return jax.lax.platform_dependent(key, word, cpu=_fold_in_a_loop, default=_fold)


def _fold(key: UInt32[Array, "*shape"], word: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    return mix(mix(key + GOLDEN) ^ word)


def _fold_in_a_loop(key: UInt32[Array, "*shape"], word: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """The same as `_fold`, as a loop, which XLA does not fuse with what comes before and after.

    Fused, several folds are one long chain of `x ^ (x >> n)`, in which every word is used twice. LLVM's loop
    vectoriser walks such a chain without remembering where it was, so each use doubles its time: to minutes
    for one small program.
    """

    def turn(i: Array, key: Array) -> Array:
        first = i == 0
        return mix(key + jnp.where(first, GOLDEN, np.uint32(0))) ^ jnp.where(first, word, np.uint32(0))

    return jax.lax.fori_loop(0, 2, turn, key)


def trajectory_keys(
    seed: int | UInt32[Array, ""], boards: Int32[Array, " b"], trials: Int32[Array, " b"]
) -> Keys:
    """The key of each trajectory; `boards` and `trials` number them within the run.

    An array can hold only seeds below 2³²; it gives the keys that the same number as an `int` gives.
    """
    low, high = (seed & 0xFFFFFFFF, seed >> 32) if isinstance(seed, int) else (seed, 0)
    key = fold(jnp.broadcast_to(jnp.asarray(low, jnp.uint32), boards.shape), np.uint32(high & 0xFFFFFFFF))
    return fold(fold(key, boards.astype(jnp.uint32)), trials.astype(jnp.uint32))


def at_step(keys: Keys, purpose: np.uint32, step: Step) -> Keys:
    """The keys for one purpose at one step, which may differ from board to board."""
    return fold(fold(keys, purpose), jnp.asarray(step).astype(jnp.uint32).reshape(-1))


def at_cells(keys: Keys, cells: Int32[Array, "#b n"]) -> UInt32[Array, "b n"]:
    """One word for each cell; `cells` are raster indices within a board."""
    return mix(keys[:, None] + cells.astype(jnp.uint32) * GOLDEN)


def chance(
    words: UInt32[Array, "*shape"], rate: float | int | Float32[Array, "*shape"]
) -> Bool[Array, "*shape"]:
    """True with probability `rate`, decided on 24 bits so that no float rounding is involved in the bits."""
    if isinstance(rate, float | int):
        return (words >> 8) < np.uint32(np.round(np.float32(rate) * np.float32(2**24)))
    return (words >> 8) < jnp.round(rate * 2**24).astype(jnp.uint32)


def normals(words: UInt32[Array, "b n"], channels: int) -> Float32[Array, "b n {channels}"]:
    """Standard normal numbers for each cell and channel, from the words of the cells.

    One hashed word serves two channels (Box-Muller on two 16-bit uniforms), so the largest is 4.85.
    """
    pairs = jnp.arange((channels + 1) // 2, dtype=jnp.uint32) * GOLDEN
    both = jnp.stack(_two_normals(mix(words[:, :, None] + pairs[None, None, :])), axis=-1)
    return both.reshape(*words.shape, -1)[:, :, :channels]


def uniforms(words: UInt32[Array, "b n"], channels: int) -> Float32[Array, "b n {channels}"]:
    """Numbers between -1 and 1 for each cell and channel, from the words of the cells; two of one hash."""
    pairs = jnp.arange((channels + 1) // 2, dtype=jnp.uint32) * GOLDEN
    word = mix(words[:, :, None] + pairs[None, None, :])
    both = jnp.stack([word >> 16, word & np.uint32(0xFFFF)], axis=-1).astype(jnp.float32)
    return ((both + 0.5) * np.float32(2**-15) - 1).reshape(*words.shape, -1)[:, :, :channels]


def normals_channels_first(words: UInt32[Array, "n b"], channels: int) -> Float32[Array, "{channels} n b"]:
    """The same numbers with the channels first."""
    pairs = jnp.arange((channels + 1) // 2, dtype=jnp.uint32) * GOLDEN
    both = jnp.stack(_two_normals(mix(words[None] + pairs[:, None, None])), axis=1)
    return both.reshape(-1, *words.shape)[:channels]


def _two_normals(word: UInt32[Array, "*shape"]) -> tuple[Float32[Array, "*shape"], Float32[Array, "*shape"]]:
    high = ((word >> 16).astype(jnp.float32) + 0.5) * np.float32(2**-16)
    turn = (word & np.uint32(0xFFFF)).astype(jnp.float32) * np.float32(2 * np.pi * 2**-16)
    radius = jnp.sqrt(-2.0 * jnp.log(high))
    return radius * jnp.cos(turn), radius * jnp.sin(turn)
