"""Cells that know the time, against the same in float64 and plain loops; the size of the ARC automaton."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracle
from cellwise.automaton import clock, layout, rule
from cellwise.automaton.flops import step_flops
from cellwise.automaton.layout import Automaton
from cellwise.benchmarks import arc
from cellwise.kernels import bits
from cellwise.kernels.dispatch import Reference
from cellwise.kernels.rounded import Rounded
from tiny_tasks import AUTOMATON, TOKENS

KEYS = tuple(oracle.trajectory(5, board, 0) for board in range(2))
SIZE, RATE = (4, 3), 0.6


def lively(automaton, seed=5):
    """Weights with which a step moves the state about as much as after training."""
    rng = np.random.default_rng(seed)
    spec = automaton.step
    sizes = {
        "perceive.attention": 1 / 3,
        "perceive.value": spec.channels**-0.5,
        "update.w_in": spec.channels**-0.5,
        "update.w_gate": spec.channels**-0.5,
        "update.w_out": 0.4 * spec.hidden**-0.5,
    }
    shapes = rule.trained_shapes(spec, None) | rule.table_shapes(automaton)
    arrays = {name: sizes.get(name, 0.3) * rng.standard_normal(shape) for name, shape in shapes.items()}
    return {name: np.float32(array) for name, array in arrays.items()} | {"layout.tokens": TOKENS}


def reading(kind):
    assert AUTOMATON.clock is not None
    return dataclasses.replace(AUTOMATON, clock=dataclasses.replace(AUTOMATON.clock, reading=kind))


def inputs(seed=0):
    return np.random.default_rng(seed).integers(0, 12, (2, *SIZE)).astype(np.uint8)


def first_state(automaton, weights, contexts=(1, 2)):
    context = jnp.asarray(weights["context.vectors"][np.array(contexts)])
    keys = jnp.asarray(np.array(KEYS, np.uint32))
    given = jnp.ones((2, *SIZE), bool)
    return layout.start(automaton, as_jax(weights), jnp.asarray(inputs()), given, keys, context)


def as_jax(weights):
    return {name: jnp.asarray(array) for name, array in weights.items()}


def expected(automaton, weights, state, steps):
    """Section by section what the method says a step with a clock is."""
    spec, time, weights = automaton.step, automaton.clock, oracle.float64(weights)
    state, fired = np.asarray(state, np.float64), np.zeros((2, *SIZE), int)
    for step in range(steps):
        fire = oracle.fire_mask(KEYS, step, SIZE, RATE)
        told = state.copy()
        for b, y, x in np.ndindex(fired.shape):
            now = fired[b, y, x] if time.reading == "local" else step
            told[b, y, x, time.first :] += weights["clock.vectors"][min(now, time.ticks - 1)]
        out = np.zeros_like(state)
        for b, y, x in np.ndindex(fired.shape):
            cell = told[b, y, x].copy()
            if fire[b, y, x]:
                change = oracle.update(spec, weights, oracle.perceive(spec, weights, told[b], y, x))
                cell[spec.frozen :] += change[spec.frozen :]
                fired[b, y, x] += 1
            elif time.reading != "global-kept":
                cell = state[b, y, x]
            out[b, y, x] = oracle.normalise(spec, cell)
        state = out
    return state


@pytest.mark.parametrize("kind", ["local", "global", "global-kept"])
def test_steps_with_a_clock_are_those_of_the_method(kind):
    automaton = reading(kind)
    weights = lively(automaton)
    state = first_state(automaton, weights)
    now = clock.advance(
        automaton,
        as_jax(weights),
        clock.begin(state),
        jnp.ones((2, *SIZE), bool),
        jnp.asarray(np.array(KEYS, np.uint32)),
        0,
        8,  # more than there are vectors
        path=Reference(),
        rate=RATE,
    )
    wanted = expected(automaton, weights, state, 8)
    np.testing.assert_allclose(now.state, wanted, atol=2e-5)
    assert np.array_equal(now.state[..., :16], state[..., :16]), "tokens never change"


def test_readings_differ_and_agree_while_all_cells_fire():
    ends = {}
    for rate in (RATE, 1.0):
        for kind in ("local", "global", "global-kept"):
            automaton = reading(kind)
            weights = lively(automaton)
            keys = jnp.asarray(np.array(KEYS, np.uint32))
            now = clock.begin(first_state(automaton, weights))
            given = jnp.ones((2, *SIZE), bool)
            how = {"path": Reference(), "rate": rate}
            now = clock.advance(automaton, as_jax(weights), now, given, keys, 0, 4, **how)
            ends[rate, kind] = np.asarray(now.state)
    assert np.abs(ends[RATE, "local"] - ends[RATE, "global"]).max() > 0.01
    assert np.abs(ends[RATE, "global-kept"] - ends[RATE, "global"]).max() > 0.01
    np.testing.assert_allclose(ends[1.0, "local"], ends[1.0, "global"], atol=1e-6)
    np.testing.assert_allclose(ends[1.0, "local"], ends[1.0, "global-kept"], atol=1e-6)


def test_the_first_state_is_token_context_zeros_and_noise():
    weights = lively(AUTOMATON)
    state = np.asarray(first_state(AUTOMATON, weights))
    np.testing.assert_array_equal(state[..., :16], TOKENS[inputs()])
    context = oracle.normalise(
        dataclasses.replace(AUTOMATON.step, first_unit=0, channels=16),
        np.float64(weights["context.vectors"][2]),
    )
    np.testing.assert_allclose(state[1, ..., 16:32], np.broadcast_to(context, (*SIZE, 16)), atol=1e-6)
    assert (state[..., 32:48] == 0).all(), "the answer starts as nothing"
    word = oracle.at_cell(oracle.at_step(KEYS[1], oracle.START, 0), 5)
    noise = np.array([0.1 * oracle.normal(word, c) for c in range(64)])
    np.testing.assert_allclose(state[1, 1, 2, 48:], oracle.normalise(AUTOMATON.step, noise)[48:], atol=1e-5)


def test_the_answer_is_read_by_the_learned_map():
    weights = lively(AUTOMATON)
    state = first_state(AUTOMATON, weights) + 0.3
    scores = np.asarray(layout.scores(AUTOMATON.layout, as_jax(weights), state))
    out = np.float64(state[..., 32:48]) @ np.float64(weights["head.w"]).T + weights["head.b"]
    share = np.exp(out) / np.exp(out).sum(-1, keepdims=True)
    np.testing.assert_allclose(scores, share, atol=1e-5)
    grid, sure = layout.read(AUTOMATON.layout, as_jax(weights), state)
    np.testing.assert_array_equal(grid, share.argmax(-1))
    np.testing.assert_allclose(sure, share.max(-1), atol=1e-5)


def test_the_gradient_of_a_lookup_is_that_of_indexing():
    rng = np.random.default_rng(0)
    vectors = jnp.asarray(rng.standard_normal((5, 3)), jnp.float32)
    times = jnp.asarray(rng.integers(0, 5, (2, 4, 4)), jnp.int32)
    g = jnp.asarray(rng.standard_normal((2, 4, 4, 3)), jnp.float32)
    value, back = jax.vjp(lambda v: clock.lookup(v, times), vectors)
    plain, plain_back = jax.vjp(lambda v: v[times], vectors)
    np.testing.assert_array_equal(value, plain)
    np.testing.assert_allclose(back(g)[0], plain_back(g)[0], atol=1e-5)


def test_parameters_of_the_papers_automaton_to_the_unit():
    assert rule.count_all(arc.ARC.automaton, None) == 3_484_844
    shapes = rule.all_shapes(arc.ARC.automaton, None)
    assert sum(int(np.prod(shape)) for shape in shapes.values()) == 3_484_844 + 384


def test_flops_of_the_papers_automaton():
    assert step_flops(arc.ARC.automaton, (32, 32), "paper") == pytest.approx(1.1302e10, rel=0.01)
    assert step_flops(arc.ARC.automaton, (32, 32)) == pytest.approx(6.99e9, rel=0.01)


def test_the_small_automaton_costs_a_quarter():
    small, large = (step_flops(preset.automaton, (32, 32)) for preset in (arc.ARC_SMALL, arc.ARC))
    assert small == pytest.approx(large / 4, rel=0.05)


def one_step(path, automaton=AUTOMATON):
    weights = lively(automaton)
    state = first_state(automaton, weights)
    keys = bits.trajectory_keys(0, jnp.arange(2, dtype=jnp.int32), jnp.zeros(2, jnp.int32))
    given = jnp.ones((2, *SIZE), bool)

    def end(weights, state):
        moved = path.step(automaton.step, weights, state, path.plan(automaton.step, given), keys, 0, RATE)
        return jnp.sum(jnp.sin(3 * moved)), moved

    trained = {name: jnp.asarray(array) for name, array in weights.items()}
    (_, moved), gradient = jax.jit(jax.value_and_grad(end, argnums=(0, 1), has_aux=True))(trained, state)
    return np.asarray(moved), jax.tree.map(np.asarray, gradient)


def test_rounded_products_stay_close():
    """Eight bits of a factor are an error of 2^-9; sums of many such errors grow like a root."""
    exact, exact_gradient = one_step(Reference())
    rounded, rounded_gradient = one_step(Rounded())
    assert rounded.dtype == np.float32
    assert 0 < np.abs(rounded - exact).max() < 0.02
    np.testing.assert_array_equal(rounded[..., :16], exact[..., :16])
    for name, wanted in exact_gradient[0].items():
        if name.startswith(("update", "perceive")):
            error = np.linalg.norm(rounded_gradient[0][name] - wanted) / np.linalg.norm(wanted)
            assert error < 0.02, name
            assert rounded_gradient[0][name].dtype == np.float32
    error = np.linalg.norm(rounded_gradient[1] - exact_gradient[1]) / np.linalg.norm(exact_gradient[1])
    assert error < 0.02


def test_rounded_products_know_their_rules():
    from cellwise.kernels import rounded
    from rules import MAZE_HARD, SUDOKU_OOD

    assert rounded.refusal(AUTOMATON.step) is None and rounded.refusal(SUDOKU_OOD.step) is None
    assert rounded.refusal(MAZE_HARD.step) == "it knows attention on boards that wrap or end in zeros"


def test_an_automaton_without_a_clock_takes_plain_steps():
    plain = Automaton(AUTOMATON.step, AUTOMATON.layout)
    weights = lively(AUTOMATON)
    state = first_state(AUTOMATON, weights)
    keys = jnp.asarray(np.array(KEYS, np.uint32))
    given = jnp.ones((2, *SIZE), bool)
    now = clock.tick(plain, as_jax(weights), clock.begin(state), given, keys, 3, path=Reference(), rate=RATE)
    wanted = Reference().step(plain.step, as_jax(weights), state, given, keys, 3, RATE)
    np.testing.assert_array_equal(now.state, wanted)


@pytest.mark.slow
def test_a_path_for_whole_rollouts_takes_single_steps_with_a_clock_as_well():
    from cellwise.kernels.dispatch import Attention

    weights = lively(AUTOMATON)
    keys = jnp.asarray(np.array(KEYS, np.uint32))
    given = jnp.ones((2, *SIZE), bool)
    ends = [
        clock.advance(
            AUTOMATON,
            as_jax(weights),
            clock.begin(first_state(AUTOMATON, weights)),
            path.plan(AUTOMATON.step, given),
            keys,
            0,
            4,
            path=path,
            rate=RATE,
        ).state
        for path in (Reference(), Attention())
    ]
    np.testing.assert_allclose(*ends, atol=2e-5)
