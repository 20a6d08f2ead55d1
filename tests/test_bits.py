"""The random bits: exact words, good statistics, and the same in any batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracle
from cellwise.kernels import bits
from oracle import FIRE, NOISE


def keys_of(seed, boards, trials):
    return bits.trajectory_keys(seed, jnp.asarray(boards, jnp.int32), jnp.asarray(trials, jnp.int32))


def words_of(seed, boards, trials, purpose, step, cells):
    """The word of every cell as NumPy integers."""
    keys = bits.at_step(keys_of(seed, boards, trials), np.uint32(purpose), step)
    return np.asarray(bits.at_cells(keys, jnp.arange(cells, dtype=jnp.int32)[None]))


def test_words_never_change():
    # These words are part of the models: with others, every recorded trajectory would be a different one.
    assert [int(bits.mix(jnp.uint32(word))) for word in (0, 1, 2**32 - 1)] == [0, 0x688990C0, 0x6768824A]
    assert np.asarray(keys_of(0, [0, 1], [0, 0])).tolist() == [0x3AD67DA8, 0x00DABAE3]
    assert words_of(1, [2], [3], FIRE, 4, 3)[0].tolist() == [0xD9BB1D1F, 0xE3ACE935, 0xBE76D5F3]


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 123456789012345678, -1])
def test_words_equal_those_of_whole_number_arithmetic(seed):
    boards, trials, steps = [0, 7, 2**31 - 1], [0, 511, 3], [0, 5, 13000]
    keys = bits.at_step(keys_of(seed, boards, trials), bits.NOISE, jnp.array(steps, jnp.int32))
    words = np.asarray(bits.at_cells(keys, jnp.array([[0, 1, 41208]], jnp.int32)))
    for i, (board, trial, step) in enumerate(zip(boards, trials, steps, strict=True)):
        key = oracle.at_step(oracle.trajectory(seed, board, trial), NOISE, step)
        assert words[i].tolist() == [oracle.at_cell(key, cell) for cell in (0, 1, 41208)]


def test_every_input_bit_flips_every_output_bit_half_of_the_time():
    words = jnp.asarray(np.random.default_rng(0).integers(0, 2**32, 1 << 14, np.uint32))
    one_bit = jnp.asarray(np.uint32(1) << np.arange(32, dtype=np.uint32))
    flips = np.asarray(bits.mix(words[:, None]) ^ bits.mix(words[:, None] ^ one_bit[None]))
    rate = np.unpackbits(flips.view(np.uint8).reshape(len(words), 32, 4), axis=2, bitorder="little").mean(0)
    assert np.abs(rate - 0.5).max() < 5.5 * 0.5 / np.sqrt(len(words))


def test_a_bijection_on_samples():
    words = jnp.arange(1 << 16, dtype=jnp.uint32) * np.uint32(65537)
    assert len(np.unique(np.asarray(bits.mix(words)))) == 1 << 16


def test_words_do_not_depend_on_the_batch():
    boards, trials = np.repeat(np.arange(6), 4), np.tile(np.arange(4), 6)
    whole = words_of(9, boards, trials, FIRE, 17, 50)
    order = np.random.default_rng(0).permutation(24)
    assert (words_of(9, boards[order], trials[order], FIRE, 17, 50) == whole[order]).all()
    for i in (0, 5, 23):
        assert (words_of(9, boards[[i]], trials[[i]], FIRE, 17, 50) == whole[[i]]).all()
    some = jnp.array([[7, 3, 49]], jnp.int32)
    keys = bits.at_step(keys_of(9, boards, trials), bits.FIRE, 17)
    assert (np.asarray(bits.at_cells(keys, some)) == whole[:, [7, 3, 49]]).all()


def test_boards_may_be_at_different_steps():
    apart = [words_of(5, [board], [0], FIRE, step, 20)[0] for board, step in enumerate([3, 0, 8])]
    keys = bits.at_step(keys_of(5, [0, 1, 2], [0, 0, 0]), bits.FIRE, jnp.array([3, 0, 8], jnp.int32))
    together = np.asarray(bits.at_cells(keys, jnp.arange(20, dtype=jnp.int32)[None]))
    assert (together == np.stack(apart)).all()


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.8, 1.0])
def test_the_share_of_cells_that_fire(rate):
    words = jnp.asarray(words_of(3, np.arange(100), np.zeros(100), FIRE, 2, 2500))
    fired = np.asarray(bits.chance(words, rate))
    assert abs(fired.mean() - rate) <= 4 * np.sqrt(rate * (1 - rate) / fired.size)
    assert (np.asarray(bits.chance(words, jnp.full(words.shape, rate, jnp.float32))) == fired).all()


def test_words_are_unrelated_along_every_axis():
    boards = np.arange(32)

    def uniform(words):
        return words / 2.0**32 - 0.5

    steps = np.stack([uniform(words_of(0, boards, 0 * boards, FIRE, step, 900)) for step in range(16)])
    trials = np.stack([uniform(words_of(0, boards, 0 * boards + t, FIRE, 0, 900)) for t in range(16)])
    seeds = np.stack([uniform(words_of(s, boards, 0 * boards, FIRE, 0, 900)) for s in range(16)])
    purposes = np.stack([uniform(words_of(0, boards, 0 * boards, p, 0, 900)) for p in range(1, 6)])
    pairs = {
        "neighbours in a row": (steps[..., 1:], steps[..., :-1]),
        "neighbours in a column": (steps[..., 30:], steps[..., :-30]),
        "boards": (steps[:, 1:], steps[:, :-1]),
        "steps": (steps[1:], steps[:-1]),
        "trials": (trials[1:], trials[:-1]),
        "seeds": (seeds[1:], seeds[:-1]),
        "purposes": (purposes[1:], purposes[:-1]),
    }
    for what, (a, b) in pairs.items():
        correlation = (a * b).mean() / (a.std() * b.std())
        assert abs(correlation) < 4.5 / np.sqrt(a.size), what


def test_close_seeds_differ_as_much_as_far_ones():
    base = words_of(1000, [0], [0], FIRE, 0, 4096)[0]
    for k in range(64):
        other = words_of(1000 ^ (1 << k), [0], [0], FIRE, 0, 4096)[0]
        differing = np.unpackbits((base ^ other).view(np.uint8)).mean()
        assert abs(differing - 0.5) < 5 * 0.5 / np.sqrt(32 * 4096), k


def test_normal_numbers_are_normal():
    keys = bits.at_step(keys_of(0, np.arange(64), np.zeros(64)), bits.NOISE, 0)
    words = bits.at_cells(keys, jnp.arange(400, dtype=jnp.int32)[None])
    x = np.asarray(jax.jit(bits.normals, static_argnums=1)(words, 15), np.float64)
    assert x.shape == (64, 400, 15)
    n = x.size
    assert abs(x.mean()) < 4 / np.sqrt(n)
    assert abs(x.var() - 1) < 4 * np.sqrt(2 / n)
    assert abs((x**3).mean()) < 4 * np.sqrt(15 / n)
    assert abs((x**4).mean() - 3) < 4 * np.sqrt(96 / n)
    assert 4 < np.abs(x).max() < 4.86
    between = np.corrcoef(x.reshape(-1, 15).T) - np.eye(15)
    assert np.abs(between).max() < 4.5 / np.sqrt(64 * 400)
    # The two numbers made of one word share its radius; they must not share its square.
    squares = np.corrcoef((x.reshape(-1, 15) ** 2).T) - np.eye(15)
    assert np.abs(squares).max() < 5 / np.sqrt(64 * 400)


def test_normal_numbers_are_those_of_the_formula():
    key = oracle.at_step(oracle.trajectory(4, 1, 2), NOISE, 6)
    words = words_of(4, [1], [2], NOISE, 6, 30)
    got = np.asarray(bits.normals(jnp.asarray(words), 7))[0]
    want = [[oracle.normal(oracle.at_cell(key, cell), c) for c in range(7)] for cell in range(30)]
    np.testing.assert_allclose(got, want, atol=3e-6)


def test_no_compiled_loop_mixes_words_of_more_than_one_fold():
    """LLVM takes exponentially long for long chains of mixing, so folds must not be fused on a CPU."""

    def words(seed, boards, step):
        keys = bits.trajectory_keys(seed, boards, boards)
        return bits.at_cells(bits.at_step(keys, bits.FIRE, step), jnp.arange(81, dtype=jnp.int32)[None])

    compiled = jax.jit(words).lower(jnp.uint32(1), jnp.arange(4, dtype=jnp.int32), jnp.int32(5)).compile()
    loops = [part.count(" xor(") for part in compiled.as_text().split("\n}\n")]
    assert max(loops) <= 9 < sum(loops), "a fold mixes twice, three times x ^ (x >> n) each"
