"""The cell: parameters, first states, reading answers, and rollouts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracle
from cellwise.automaton import layout, rollout, rule
from cellwise.automaton.layout import Layout
from cellwise.kernels.dispatch import Compact, Noise, Reference
from rules import (
    ARC,
    MAZE_HARD,
    MAZE_OOD,
    RULES,
    SUDOKU_EXTREME,
    SUDOKU_OOD,
    boards_for,
    keys_of,
    lively_weights,
    maze_automaton,
    on_device,
)


@pytest.mark.parametrize(
    ("automaton", "size", "trained", "fixed"),
    [
        (MAZE_OOD, None, 10_420, 64),
        (MAZE_HARD, None, 41_284, 160),
        (SUDOKU_OOD, (9, 9), 159_760, 320),
        (SUDOKU_EXTREME, (9, 9), 602_768, 320),
        # The method's total for ARC has these tensors besides step embeddings, task vectors and head.
        (ARC, None, 3 * 2048 * 512 + 2 * 2048 + 512 + 32 * 16 * 512 + 32 * 9, 12 * 32),
    ],
)
def test_parameter_counts_to_the_unit(automaton, size, trained, fixed):
    assert rule.count(automaton.step, size) == trained
    shapes = rule.all_shapes(automaton, size)
    assert sum(int(np.prod(shape)) for shape in shapes.values()) == trained + fixed
    assert shapes.keys() - set(rule.FIXED) == rule.trained_shapes(automaton.step, size).keys()


@pytest.mark.parametrize(("automaton", "size"), [(MAZE_HARD, None), (SUDOKU_OOD, (9, 9)), (ARC, None)])
def test_first_weights_perceive_at_unit_scale_and_change_almost_nothing(automaton, size):
    weights = rule.first_weights(automaton.step, size, seed=3)
    shapes = rule.trained_shapes(automaton.step, size)
    assert {name: weight.shape for name, weight in weights.items()} == shapes
    spreads = {"perceive.kernels": 1 / 3, "perceive.attention": 1 / 3}
    spreads["perceive.value"] = automaton.step.channels**-0.5
    for name, weight in weights.items():
        wanted = 0.0 if ".b_" in name else spreads.get(name, 1e-3)
        assert weight.dtype == np.float32
        assert weight.std() == pytest.approx(wanted, rel=4 / np.sqrt(2 * weight.size)), name
        assert abs(weight.mean()) <= 4 * wanted / np.sqrt(weight.size), name
    again, other = (rule.first_weights(automaton.step, size, seed=seed) for seed in (3, 4))
    assert all((again[name] == weights[name]).all() for name in weights)
    assert (other["update.w_in"] != weights["update.w_in"]).any()


def test_token_vectors_are_orthonormal_and_depend_on_the_seed():
    vectors = layout.orthonormal_tokens(10, 32, seed=0)
    assert vectors.shape == (10, 32) and vectors.dtype == np.float32
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(10), atol=1e-6)
    assert np.abs(vectors - layout.orthonormal_tokens(10, 32, seed=1)).max() > 0.1


@pytest.mark.parametrize("name", RULES)
def test_first_states(name):
    automaton, tokens, _ = RULES[name]
    boards = boards_for(automaton, (0.5, 0.0, 1.0), (3, 5))
    inputs = np.where(boards.given, boards.tokens, 0).astype(np.uint8)
    start = jax.jit(layout.start, static_argnums=0)
    weights = {"layout.tokens": jnp.asarray(tokens)}
    state = start(automaton, weights, jnp.asarray(inputs), jnp.asarray(boards.given), keys_of(boards))
    wanted = oracle.start(automaton.step, automaton.layout, tokens, inputs, boards.given, boards.keys)
    np.testing.assert_allclose(state, wanted, atol=3e-6)
    if automaton.step.unit is None:
        spread = np.asarray(state)[~boards.given].std()
        assert spread == pytest.approx(automaton.layout.spread, rel=0.1)
        np.testing.assert_array_equal(np.asarray(state)[boards.given], tokens[inputs[boards.given]])


def read(lay, tokens, state):
    weights = {"layout.tokens": jnp.asarray(tokens)}
    grid, confidence = jax.jit(layout.read, static_argnums=0)(lay, weights, jnp.asarray(state))
    return np.asarray(grid), np.asarray(confidence)


@pytest.mark.parametrize("name", RULES)
def test_answers_are_read_as_the_method_says(name):
    automaton, tokens, _ = RULES[name]
    lay = automaton.layout
    rng = np.random.default_rng(0)
    state = rng.standard_normal((2, 3, 4, automaton.step.channels)).astype(np.float32)
    state[0, 0, 0] = 0
    grid, confidence = read(lay, tokens, state)
    for place in np.ndindex(2, 3, 4):
        out = np.float64(state[place][lay.write_first : lay.write_first + lay.write])
        vectors = np.float64(tokens[:, : lay.write])
        if lay.head == "distance":
            fit = [1 / (1 + np.linalg.norm(out - v)) for v in vectors]
        else:
            fit = [out @ v / ((np.linalg.norm(out) + 1e-6) * (np.linalg.norm(v) + 1e-6)) for v in vectors]
        assert grid[place] == np.argmax(fit)
        assert confidence[place] == pytest.approx(max(fit), abs=1e-6)


def test_ties_go_to_the_lowest_token_and_certainty_is_one():
    lay = Layout(tokens=3, read=2, write=2, head="distance", spread=0.1)
    tokens = np.float32([[1, 0], [0, 1], [0, 1]])
    state = np.float32([[[[0.5, 0.5], [0, 1], [1, 0]]]])
    grid, confidence = read(lay, tokens, state)
    assert grid.tolist() == [[[0, 1, 0]]]
    np.testing.assert_allclose(confidence, [[[1 / (1 + np.sqrt(0.5)), 1, 1]]], rtol=1e-6)


def test_targets_are_the_first_components_of_token_vectors():
    lay, tokens = RULES["maze-hard"].automaton.layout, RULES["maze-hard"].tokens
    target = jnp.asarray(np.uint8([[[0, 1, 2, 3, 4]]]))
    vectors = layout.target_vectors(lay, {"layout.tokens": jnp.asarray(tokens)}, target)
    assert vectors.tolist() == [[[[0, 0, 0], [0, 0, 1], [1, 0, -1], [0, -1, 1], [0, 1, 1]]]]


class TestRollout:
    """Many steps, in a small maze rule."""

    automaton = RULES["maze-ood"].automaton
    boards = boards_for(automaton, (0.5, 0.3), (4, 5))
    run = staticmethod(jax.jit(rollout.rollout, static_argnums=0, static_argnames=("path", "rate", "noise")))

    def after(self, state, first, steps, noise=None, path=Reference(), boards=boards):  # noqa: B008
        state, given, keys = jnp.asarray(state), jnp.asarray(boards.given), keys_of(boards)
        plan = jax.jit(path.plan, static_argnums=0)(self.automaton.step, given)
        weights = on_device(lively_weights("maze-ood", None))
        return np.asarray(
            self.run(
                self.automaton.step,
                weights,
                state,
                plan,
                keys,
                jnp.int32(first),
                jnp.int32(steps),
                path=path,
                rate=0.8,
                noise=noise,
            )
        )

    def first(self):
        spec, lay = self.automaton.step, self.automaton.layout
        state = oracle.start(
            spec, lay, RULES["maze-ood"].tokens, self.boards.tokens, self.boards.given, self.boards.keys
        )
        return np.float32(state)

    @pytest.mark.parametrize("path", [Reference(), Compact(20)], ids=lambda path: path.name)
    def test_a_rollout_in_parts_is_the_whole(self, path):
        noise, state = Noise(0.5, 0.5, 0.2, until=5), self.first()
        whole = self.after(state, 0, 7, noise, path)
        middle = self.after(state, 0, 3, noise, path)
        np.testing.assert_array_equal(self.after(middle, 3, 4, noise, path), whole)
        assert np.abs(self.after(middle, 0, 4, noise, path) - whole).max() > 1e-2
        np.testing.assert_array_equal(self.after(state, 0, 0, noise, path), state)

    def test_noise_stops_when_told(self):
        state, noise = self.first(), Noise(1.0, 1.0, 0.2, until=2)
        with_noise = self.after(state, 0, 2, noise)
        without = self.after(state, 0, 2, Noise(1.0, 0.0, 0.2))
        assert np.abs(with_noise - without).max() > 0.1
        calm = self.after(with_noise, 2, 3, Noise(0.0, 1.0, 0.2))
        np.testing.assert_array_equal(self.after(with_noise, 2, 3, noise), calm)

    def test_the_compact_path_goes_the_same_way(self):
        noise, state = Noise(0.5, 0.5, 0.2, until=5), self.first()
        reference = self.after(state, 0, 7, noise)
        compact = self.after(state, 0, 7, noise, Compact(20))
        np.testing.assert_allclose(compact, reference, rtol=1e-4, atol=1e-4)


def test_automata_are_values():
    first, second = (maze_automaton(16, 128, 0.15, 4, 2, padding="wrap") for _ in range(2))
    assert first == second and hash(first) == hash(second)
