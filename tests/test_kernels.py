"""One suite for every way to compute a step: values, gradients and random bits, against the oracle.

A rule is a benchmark's or nearly so, a path is one that the dispatcher may choose or the paper's formulation.
"""

import functools
from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracle
from cellwise.automaton import rollout
from cellwise.automaton.rule import FIXED
from cellwise.kernels import bits, dispatch, paper, sobel
from cellwise.kernels.dispatch import Attention, Compact, Noise, Reference, Sobel
from rules import RULES, boards_for, keys_of, lively_weights, maze_automaton, on_device

STEPS, FIRST, RATE = 3, 5, 0.7
NOISE = Noise(when=0.6, where=0.5, size=0.2, until=FIRST + 2)
BATCHES = {
    "frozen-free-mixed": ((1.0, 0.0, 0.6, 0.3), (5, 3)),
    "one-board": ((0.4,), (4, 7)),
}
"""The share of given cells of each board, and the size."""


@dataclass(frozen=True)
class Paper(Reference):
    """The paper's formulation as if it were a path."""

    name: str = "paper"

    def step(self, spec, weights, state, plan, keys, step, rate):
        b, h, w = plan.shape
        cells = jnp.arange(h * w, dtype=jnp.int32)[None]
        fire = bits.chance(bits.at_cells(bits.at_step(keys, bits.FIRE, step), cells), rate)
        return paper.step(spec, weights, state, plan, fire.reshape(b, h, w))


def path_of(name, given):
    free = int((~given).sum((1, 2)).max())
    return {
        "reference": Reference(),
        "compact": Compact(max(free, 1)),
        "attention": Attention(),
        "sobel": Sobel(),
        "rolled": Sobel(form="roll"),
        "dense": Attention("dense"),
        "shifts": Attention("shifts"),
        "paper": Paper(),
    }[name]


def runs(rule, path):
    spec = RULES[rule].automaton.step
    if path == "compact":
        return dispatch.compact_refusal(spec) is None
    if path in ("dense", "shifts"):
        return dispatch.attention_refusal(spec) is None
    if path in ("sobel", "rolled"):
        return sobel.refusal(spec) is None
    return path == "reference" or spec.perception == "attention"


CASES = [
    (rule, path, "frozen-free-mixed")
    for rule in RULES
    for path in ("reference", "compact", "dense", "shifts", "sobel", "rolled", "paper")
    if runs(rule, path)
] + [("maze-hard", "reference", "one-board"), ("maze-hard", "compact", "one-board")]
every_case = pytest.mark.parametrize(("rule", "path", "batch"), CASES)


@functools.cache
def setting(rule, batch):
    """Boards, their first state, weights, and directions in which to look at the result."""
    automaton = RULES[rule].automaton
    boards = boards_for(automaton, *BATCHES[batch])
    size = boards.tokens.shape[1:]
    weights = lively_weights(rule, size)
    spec, lay = automaton.step, automaton.layout
    state = oracle.start(spec, lay, weights["layout.tokens"], boards.tokens, boards.given, boards.keys)
    probe = np.random.default_rng(1).standard_normal((STEPS, *state.shape))
    return boards, weights, np.float32(state), np.float32(probe)


@functools.partial(jax.jit, static_argnames=("spec", "path"))
def judged(trained, state, fixed, given, keys, probe, *, spec, path):
    """A number made of the states after each step, those states, and the number's gradient."""

    def judge(trained, state):
        plan = path.plan(spec, given)
        weights = trained | fixed

        def body(state, i):
            state = rollout.one_step(spec, weights, state, plan, keys, i, path=path, rate=RATE, noise=NOISE)
            return state, state

        _, states = jax.lax.scan(body, state, FIRST + jnp.arange(STEPS, dtype=jnp.int32))
        return jnp.sum(states * probe), states

    (value, states), gradients = jax.value_and_grad(judge, argnums=(0, 1), has_aux=True)(trained, state)
    return value, states, *gradients


@functools.cache
def computed(rule, path, batch):
    boards, weights, state, probe = setting(rule, batch)
    trained = on_device({name: array for name, array in weights.items() if name not in FIXED})
    fixed = on_device({name: array for name, array in weights.items() if name in FIXED})
    return judged(
        trained,
        jnp.asarray(state),
        fixed,
        jnp.asarray(boards.given),
        keys_of(boards),
        jnp.asarray(probe),
        spec=RULES[rule].automaton.step,
        path=path_of(path, boards.given),
    )


def believed(rule, batch, weights=None, state=None):
    """The states that the oracle finds."""
    boards, usual, begin, _ = setting(rule, batch)
    weights = oracle.float64(usual) if weights is None else weights
    begin = np.float64(begin) if state is None else state
    spec = RULES[rule].automaton.step
    return np.stack(
        oracle.rollout(spec, weights, begin, boards.given, boards.keys, FIRST, STEPS, RATE, NOISE)
    )


@functools.cache
def slopes(rule, batch):
    """For each trained array and the free state: a direction, and the oracle's slope along it."""
    boards, weights, state, probe = setting(rule, batch)
    spec, rng, found = RULES[rule].automaton.step, np.random.default_rng(2), {}
    weights, epsilon = oracle.float64(weights), 1e-6

    def slope(shifted):
        ahead, behind = (np.sum(believed(rule, batch, *shifted(s)) * probe) for s in (epsilon, -epsilon))
        return (ahead - behind) / (2 * epsilon)

    for name in weights.keys() - set(FIXED):
        direction = rng.standard_normal(weights[name].shape)
        found[name] = (
            direction,
            slope(lambda s, n=name, d=direction: (weights | {n: weights[n] + s * d}, np.float64(state))),
        )
    frozen = boards.given[..., None] & (np.arange(spec.channels) < spec.frozen)
    direction = rng.standard_normal(state.shape) * ~frozen
    found["state"] = (direction, slope(lambda s: (weights, np.float64(state) + s * direction)))
    return found


@every_case
def test_states_are_those_of_the_oracle(rule, path, batch):
    _, states, _, _ = computed(rule, path, batch)
    wanted = believed(rule, batch)
    np.testing.assert_allclose(np.asarray(states), wanted, atol=1e-5)
    assert np.abs(wanted[-1] - setting(rule, batch)[2]).max() > 0.1, "nothing happened, so nothing was tested"


@every_case
def test_gradients_are_slopes_of_the_oracle(rule, path, batch):
    _, _, of_weights, of_state = computed(rule, path, batch)
    for name, (direction, slope) in slopes(rule, batch).items():
        gradient = np.float64(of_state if name == "state" else of_weights[name])
        # Normal directions see about the gradient's norm, of which single precision keeps five digits.
        assert abs((gradient * direction).sum() - slope) < 3e-5 * np.linalg.norm(gradient), name
        assert np.linalg.norm(gradient) > 1e-2, name


@pytest.mark.parametrize(("rule", "path", "batch"), [case for case in CASES if case[1] != "reference"])
def test_gradients_are_those_of_the_reference(rule, path, batch):
    value, _, of_weights, of_state = computed(rule, path, batch)
    wanted_value, _, wanted_weights, wanted_state = computed(rule, "reference", batch)
    assert float(value) == pytest.approx(float(wanted_value), abs=1e-3)
    for name, wanted in {**wanted_weights, "state": wanted_state}.items():
        gradient = of_state if name == "state" else of_weights[name]
        np.testing.assert_allclose(gradient, wanted, atol=1e-5 * float(jnp.abs(wanted).max()), err_msg=name)


@every_case
def test_frozen_entries_neither_change_nor_pass_gradients(rule, path, batch):
    _, states, _, of_state = computed(rule, path, batch)
    boards, _, begin, _ = setting(rule, batch)
    spec = RULES[rule].automaton.step
    frozen = np.broadcast_to(boards.given[..., None] & (np.arange(spec.channels) < spec.frozen), begin.shape)
    drift = np.abs(np.asarray(states) - begin)[:, frozen].max(initial=0)
    assert drift <= (2e-6 if spec.unit and not spec.first_unit else 0)
    assert (np.asarray(of_state)[frozen] == 0).all()


@pytest.mark.parametrize("rule", RULES)
def test_boards_do_not_feel_each_other(rule):
    # The same program on the same boards in another order gives the same numbers, bit for bit.
    boards, weights, state, probe = setting(rule, "frozen-free-mixed")
    order = np.array([2, 0, 3, 1])
    trained = on_device({name: array for name, array in weights.items() if name not in FIXED})
    fixed = on_device({name: array for name, array in weights.items() if name in FIXED})
    path = dispatch.choose(RULES[rule].automaton.step, int((~boards.given).sum((1, 2)).max()), "float32")
    _, states, _, _ = judged(
        trained,
        jnp.asarray(state[order]),
        fixed,
        jnp.asarray(boards.given[order]),
        keys_of(boards)[order],
        jnp.asarray(probe[:, order]),
        spec=RULES[rule].automaton.step,
        path=path,
    )
    expected = np.asarray(computed(rule, path.name, "frozen-free-mixed")[1])
    np.testing.assert_array_equal(np.asarray(states), expected[:, order])


@functools.partial(jax.jit, static_argnames=("spec", "path", "rate"))
def stepped(weights, state, given, keys, step, rates, *, spec, path, rate):
    plan = path.plan(spec, given)
    return path.step(spec, weights, state, plan, keys, step, rates if rate is None else rate)


@functools.partial(jax.jit, static_argnames=("spec", "path", "noise"))
def kicked(state, given, keys, step, *, spec, path, noise):
    return path.kick(spec, state, path.plan(spec, given), keys, step, noise)


@functools.partial(jax.jit, static_argnames=("spec", "path", "rate", "noise"))
def rolled(weights, state, given, keys, steps, *, spec, path, rate=0.8, noise=None):
    plan = path.plan(spec, given)
    return rollout.rollout(spec, weights, state, plan, keys, 0, steps, path=path, rate=rate, noise=noise)


class TestRandomBits:
    """Which cells fire and how they are kicked, seen from outside, for the two paths and the oracle."""

    automaton = maze_automaton(6, 4, 0.15, 4, 2, padding="zero")
    boards = boards_for(automaton, (0.5, 0.0, 1.0, 0.9), (5, 7), seed=3)
    capacity = int((~boards.given).sum((1, 2)).max())
    paths: ClassVar = [Reference(), Compact(capacity), Compact(35)]

    def fired(self, path, rate, step):
        """Where a rule fires that adds one to each channel."""
        shapes = {
            "perceive.kernels": (4, 9),
            "update.w_in": (24, 4),
            "update.b_in": (4,),
            "update.w_out": (6, 4),
        }
        weights = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        state = stepped(
            on_device(weights | {"update.b_out": np.ones(6, np.float32)}),
            jnp.asarray(np.zeros((4, 5, 7, 6), np.float32)),
            jnp.asarray(self.boards.given),
            keys_of(self.boards),
            step,
            None if isinstance(rate, float | int) else rate,
            spec=self.automaton.step,
            path=path,
            rate=rate if isinstance(rate, float | int) else None,
        )
        assert (np.asarray(state) == np.asarray(state)[..., :1]).all()
        return np.asarray(state)[..., 0] == 1

    @pytest.mark.parametrize("path", paths, ids=lambda path: f"{path}")
    def test_cells_fire_where_the_oracle_says(self, path):
        rate = 0.8
        for step in (0, 9):
            wanted = oracle.fire_mask(self.boards.keys, step, (5, 7), rate) & ~self.boards.given
            np.testing.assert_array_equal(self.fired(path, rate, jnp.int32(step)), wanted)

    @pytest.mark.parametrize("path", paths[:2], ids=lambda path: path.name)
    def test_all_cells_fire_at_rate_one(self, path):
        np.testing.assert_array_equal(self.fired(path, 1, jnp.int32(0)), ~self.boards.given)

    @pytest.mark.parametrize("path", paths[:2], ids=lambda path: path.name)
    def test_each_cell_may_have_its_own_rate(self, path):
        rate = np.random.default_rng(0).choice(np.float32([0, 0.4, 1]), (4, 5, 7))
        masks = {r: oracle.fire_mask(self.boards.keys, 2, (5, 7), r) for r in (0.0, 0.4, 1.0)}
        wanted = np.select([rate == np.float32(r) for r in masks], list(masks.values())) & ~self.boards.given
        np.testing.assert_array_equal(self.fired(path, jnp.asarray(rate), jnp.int32(2)), wanted)

    @pytest.mark.parametrize("path", paths[:2], ids=lambda path: path.name)
    def test_each_board_may_be_at_its_own_step(self, path):
        steps = [4, 0, 7, 2]
        masks = [
            oracle.fire_mask((key,), s, (5, 7), 0.6)[0]
            for key, s in zip(self.boards.keys, steps, strict=True)
        ]
        found = self.fired(path, 0.6, jnp.array(steps, jnp.int32))
        np.testing.assert_array_equal(found, np.stack(masks) & ~self.boards.given)

    def test_kicks_are_the_same_bits_on_every_path(self):
        noise = Noise(when=0.7, where=0.5, size=0.3, until=6)
        given, keys = jnp.asarray(self.boards.given), keys_of(self.boards)
        zeros = jnp.asarray(np.zeros((4, 5, 7, 6), np.float32))
        free, kicks = ~self.boards.given[..., None], 0
        for step in (0, 3, 5, 6):
            found = [
                np.asarray(
                    kicked(
                        zeros, given, keys, jnp.int32(step), spec=self.automaton.step, path=path, noise=noise
                    )
                )
                for path in self.paths
            ]
            wanted = oracle.kick(self.boards.keys, step, (5, 7), 6, noise) * free
            np.testing.assert_allclose(found[0], wanted, atol=1e-6)
            np.testing.assert_array_equal(found[1], found[0])
            np.testing.assert_array_equal(found[2], found[0])
            kicks += (wanted != 0).sum()
        assert kicks > 100


class TestLongRollouts:
    """The acceptance checks that need many steps."""

    def end(self, rule, steps, noise, path):
        """First and last state, and which entries are frozen, of a rule that changes its state gently."""
        automaton, tokens, _ = RULES[rule]
        spec = automaton.step
        boards = boards_for(automaton, (0.5, 0.3), (5, 5))
        weights = lively_weights(rule, (5, 5))
        weights = weights | {name: 0.02 * weights[name] for name in ("update.w_out", "update.b_out")}
        begin = oracle.start(spec, automaton.layout, tokens, boards.tokens, boards.given, boards.keys)
        state, given = jnp.asarray(np.float32(begin)), jnp.asarray(boards.given)
        end = rolled(
            on_device(weights),
            state,
            given,
            keys_of(boards),
            jnp.int32(steps),
            spec=spec,
            path=path,
            noise=noise,
        )
        frozen = boards.given[..., None] & (np.arange(spec.channels) < spec.frozen)
        return np.float32(begin), np.asarray(end), np.broadcast_to(frozen, begin.shape)

    @pytest.mark.parametrize(
        ("rule", "path", "bound"),
        [
            ("maze-ood", Reference(), 0),
            ("maze-hard", Compact(25), 0),
            ("sudoku-ood", Reference(), 2e-6),
        ],
    )
    def test_frozen_entries_stay_through_noise(self, rule, path, bound):
        begin, end, frozen = self.end(rule, 1000, Noise(0.1, 0.2, 0.15), path)
        change = np.abs(end - begin)
        assert change[frozen].max() <= bound
        assert change[~frozen].max() > 0.1

    def test_units_have_length_one_except_after_noise(self):
        for noise, still_one in ((None, True), (Noise(1.0, 1.0, 0.1), False)):
            _, end, _ = self.end("sudoku-ood", 7, noise, Reference())
            lengths = np.linalg.norm(np.float64(end).reshape(-1, 4, 32), axis=-1)
            # Exactly, 1 - 1e-6 / |x + d|; single precision adds some 1e-7.
            assert (np.abs(lengths - (1 - 1e-6)) <= 1e-6).all() == still_one

    def test_walls_all_around_make_padding_irrelevant(self):
        automaton, vectors, _ = RULES["maze-ood"]
        boards = boards_for(automaton, (0.4, 0.3), (7, 6))
        ring = np.ones((7, 6), bool)
        ring[1:-1, 1:-1] = False
        tokens, given = np.where(ring, 2, boards.tokens).astype(np.uint8), boards.given | ring
        begin = np.float32(
            oracle.start(automaton.step, automaton.layout, vectors, tokens, given, boards.keys)
        )
        weights = on_device(lively_weights("maze-ood", (7, 6)))
        wrapped, walled = (
            np.asarray(
                rolled(
                    weights,
                    jnp.asarray(begin),
                    jnp.asarray(given),
                    keys_of(boards),
                    jnp.int32(50),
                    spec=replace(automaton.step, **padding),
                    path=Reference(),
                )
            )
            for padding in ({"padding": "wrap"}, {"padding": "token", "padding_token": 2})
        )
        free = ~np.broadcast_to(given[..., None], begin.shape)
        np.testing.assert_array_equal(wrapped[free], walled[free])
        assert np.isfinite(wrapped).all() and np.abs(wrapped - begin)[free].max() > 0.1


def test_a_board_without_free_cells_stays():
    automaton = RULES["maze-ood"].automaton
    boards = boards_for(automaton, (1.0,), (3, 4))
    path = dispatch.choose(automaton.step, 0, "float32")
    assert path == Compact(1)
    state = np.random.default_rng(0).standard_normal((1, 3, 4, 16)).astype(np.float32)
    after = rolled(
        on_device(lively_weights("maze-ood", (3, 4))),
        jnp.asarray(state),
        jnp.asarray(boards.given),
        keys_of(boards),
        jnp.int32(2),
        spec=automaton.step,
        path=path,
        rate=1.0,
        noise=Noise(1.0, 1.0, 1.0),
    )
    np.testing.assert_array_equal(after, state)


def test_paths_refuse_with_a_reason():
    assert [dispatch.verdicts(RULES[name].automaton.step) for name in ("maze-ood", "sudoku-ood")] == [
        [
            dispatch.Verdict("resident", "it needs an NVIDIA GPU"),
            dispatch.Verdict("awake", "it gains where few cells fire, and here all fire alike"),
            dispatch.Verdict("compact", None),
            dispatch.Verdict("streamed", "it knows attention with an MLP, not kernels with mlp"),
            dispatch.Verdict("attention", "it knows attention, not shared kernels"),
            dispatch.Verdict("sobel", "it knows fixed slopes with a bare update, not kernels with mlp"),
            dispatch.Verdict("reference", None),
        ],
        [
            *(
                dispatch.Verdict(path, "given cells keep only 32 of 128 channels, so all cells are computed")
                for path in ("resident", "awake", "compact")
            ),
            dispatch.Verdict("streamed", "it needs an NVIDIA GPU"),
            dispatch.Verdict("attention", None),
            dispatch.Verdict("sobel", "it knows fixed slopes with a bare update, not attention with mlp"),
            dispatch.Verdict("reference", None),
        ],
    ]
    maze = RULES["maze-ood"].automaton.step
    assert [
        dispatch.compact_refusal(replace(maze, **change))
        for change in ({"perception": "attention"}, {"update": "swiglu"}, {"unit": 8}, {"frozen": 15})
    ] == [
        "it knows shared kernels with an MLP, not attention with mlp",
        "it knows shared kernels with an MLP, not kernels with swiglu",
        "it does not normalise units",
        "given cells keep only 15 of 16 channels, so all cells are computed",
    ]
    assert dispatch.choose(maze, 47, "float32") == Compact(47)
    sudoku = RULES["sudoku-ood"].automaton.step
    assert [
        dispatch.attention_refusal(replace(sudoku, **change))
        for change in ({"perception": "kernels"}, {"unit": None}, {"padding": "token"}, {"update": "swiglu"})
    ] == [
        "it knows attention, not shared kernels",
        "it knows only rules that keep units at length one",
        "it knows boards that wrap or end in zeros, not those that end in a token",
        None,
    ]
    assert dispatch.choose(sudoku, 47, "float32") == Attention()
    assert dispatch.choose(replace(sudoku, unit=None), 47, "float32") == Reference()
