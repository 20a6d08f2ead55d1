"""Big boards are updated in tiles on a CPU; not one bit of a state or a gradient may depend on it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cellwise.kernels import compact, dispatch
from rules import RULES, boards_for, keys_of, lively_weights, on_device

SIZE = (71, 67)


def run(rule, tiled_from, monkeypatch):
    """The state after two steps, and the gradient of its squares for weights and first state."""
    monkeypatch.setattr(compact, "TILED_FROM", tiled_from)
    spec = RULES[rule].automaton.step
    boards = boards_for(RULES[rule].automaton, (0.4, 0.5), SIZE)
    path = dispatch.choose(spec, int((~boards.given).sum((1, 2)).max()), "float32")
    plan, keys = path.plan(spec, jnp.asarray(boards.given)), keys_of(boards)
    shape = (2, *SIZE, spec.channels)
    state = jnp.asarray(0.3 * np.random.default_rng(0).standard_normal(shape), jnp.float32)

    # A function of its own for every call, so that nothing compiled is found again.
    @jax.jit
    def steps(weights, state):
        for i in range(2):
            state = path.step(spec, weights, state, plan, keys, jnp.int32(i), 0.8)
        return state

    weights = on_device(lively_weights(rule, SIZE))
    slopes = jax.jit(jax.grad(lambda *both: jnp.sum(steps(*both) ** 2), argnums=(0, 1)))
    text = steps.lower(weights, state).as_text()
    return text, steps(weights, state), slopes(weights, state)


@pytest.mark.parametrize("rule", ["maze-ood", "maze-hard"])
def test_tiles_change_no_bit(rule, monkeypatch):
    whole_text, *whole = run(rule, 10**9, monkeypatch)
    tiled_text, *tiled = run(rule, 4096, monkeypatch)
    # Random bits are made in loops in both; the tiles are one more loop in each of the two steps.
    assert tiled_text.count("stablehlo.while") == whole_text.count("stablehlo.while") + 2
    moved = np.abs(np.asarray(whole[0])).max()
    assert np.isfinite(moved) and moved > 1
    jax.tree.map(np.testing.assert_array_equal, whole, tiled)
