"""The rules of the benchmarks, written down from the method, and small boards for them to work on."""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import oracle
from cellwise.automaton import rule
from cellwise.automaton.layout import Automaton, Layout, orthonormal_tokens
from cellwise.kernels.spec import StepSpec


def maze_automaton(channels, hidden, spread, tokens, write, **padding):
    spec = StepSpec(channels, "kernels", 4, hidden, frozen=channels, **padding)
    return Automaton(spec, Layout(tokens, channels, write, "distance", spread))


def sudoku_automaton(channels, heads, hidden):
    spec = StepSpec(channels, "attention", heads, hidden, "wrap", frozen=32, unit=32)
    return Automaton(spec, Layout(10, 32, 32, "cosine", 0.15))


def shared_automaton(channels, heads, hidden, unit):
    spec = StepSpec(
        channels,
        "attention",
        heads,
        hidden,
        "zero",
        frozen=32,
        update="swiglu",
        unit=unit,
        first_unit=32,
        tangent=False,
        eps_inside=True,
    )
    return Automaton(spec, Layout(12, 32, 32, "cosine", 0.1, write_first=64))


MAZE_OOD = maze_automaton(16, 128, 0.15, 4, 2, padding="wrap")
MAZE_HARD = maze_automaton(32, 256, 0.25, 5, 3, padding="token", padding_token=2)
SUDOKU_OOD = sudoku_automaton(128, 16, 512)
SUDOKU_EXTREME = sudoku_automaton(256, 16, 1024)
ARC = shared_automaton(512, 32, 2048, 16)

VISUAL = Automaton(
    StepSpec(8, "sobel", 3, 24, "wrap", frozen=0, update="bare"), Layout(5, 8, 8, "distance", 0.3)
)

MAZE_OOD_TOKENS = np.full((4, 16), -1, np.float32)
MAZE_OOD_TOKENS[:, :2] = [[0, -1], [0, 1], [1, 0], [-1, 0]]
MAZE_HARD_TOKENS = np.full((5, 32), -1, np.float32)
MAZE_HARD_TOKENS[:, :3] = [[0, 0, 0], [0, 0, 1], [1, 0, -1], [0, -1, 1], [0, 1, 1]]


class Rule(NamedTuple):
    """An automaton, the vectors of its tokens, and whether each place has attention of its own."""

    automaton: Automaton
    tokens: np.ndarray
    placed: bool


RULES = {
    "maze-ood": Rule(MAZE_OOD, MAZE_OOD_TOKENS, False),
    "maze-hard": Rule(MAZE_HARD, MAZE_HARD_TOKENS, False),
    "sudoku-ood": Rule(SUDOKU_OOD, orthonormal_tokens(10, 32, 0), True),
    "visual": Rule(VISUAL, np.random.default_rng(3).standard_normal((5, 8), np.float32), False),
    "shared-swiglu": Rule(shared_automaton(96, 6, 40, 16), orthonormal_tokens(12, 32, 0), False),
}


class Boards(NamedTuple):
    """A batch to work on; `tokens` and `given` are NumPy, `keys` a tuple of integers."""

    tokens: np.ndarray
    given: np.ndarray
    keys: tuple[int, ...]


def boards_for(automaton, shares, size, seed=11):
    """Random boards, each with its share of given cells."""
    rng = np.random.default_rng(seed)
    count = len(shares)
    tokens = rng.integers(0, automaton.layout.tokens, (count, *size)).astype(np.uint8)
    given = rng.random((count, *size)) < np.array(shares)[:, None, None]
    return Boards(tokens, given, tuple(oracle.trajectory(seed, board, 2) for board in range(count)))


@functools.cache
def lively_weights(name, size):
    """Weights with which a step moves the state about as much as after training, unlike first weights."""
    automaton, tokens, placed = RULES[name]
    rng = np.random.default_rng(5)
    sizes = {
        "perceive.kernels": 1 / 3,
        "perceive.attention": 1 / 3,
        "perceive.value": automaton.step.channels**-0.5,
        "update.w_in": automaton.step.perceived**-0.5,
        "update.w_gate": automaton.step.perceived**-0.5,
        "update.w_out": 0.4 * automaton.step.hidden**-0.5,
    }
    shapes = rule.trained_shapes(automaton.step, size if placed else None)
    weights = {k: sizes.get(k, 0.2) * rng.standard_normal(shape) for k, shape in shapes.items()}
    return {k: np.float32(weight) for k, weight in weights.items()} | {"layout.tokens": tokens}


def on_device(arrays):
    return {name: jnp.asarray(array) for name, array in arrays.items()}


def keys_of(boards):
    """The keys of the boards as the package takes them."""
    return jnp.asarray(np.array(boards.keys, np.uint32))
