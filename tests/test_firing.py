"""Adaptive firing: who is dormant, the path that computes only who fires, and counting who did."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given as hypothetically
from hypothesis import settings
from hypothesis import strategies as st

import oracle
import page as web
from cellwise import Firing, load
from cellwise.automaton import firing, rollout
from cellwise.automaton.firing import FRUGAL, PAPER, bound
from cellwise.errors import ConfigError
from cellwise.kernels import awake, dispatch
from cellwise.kernels.dispatch import Awake, Compact, Noise
from cellwise.puzzles.maze_generator import generate
from cellwise.thinking.follow import continued, discs, follow, joined, wiped
from cellwise.thinking.mind import prepare
from cellwise.thinking.stream import Tasks, stream
from rules import RULES, boards_for, keys_of, lively_weights, on_device
from test_thinking import Recorder, in_crowds_of, puzzles_of

MODEL = load("maze-ood")
MAZES = generate(9, 3, seed=77)
GIVEN = MODEL.given(MAZES.inputs)


@functools.partial(jax.jit, static_argnames=("automaton", "path", "rate", "noise"))
def rolled(weights, state, given, keys, steps, *, automaton, path, rate, noise=None):
    plan = path.plan(automaton.step, given)
    how = {"path": path, "rate": bound(rate, automaton), "noise": noise}
    return rollout.rollout(automaton.step, weights, state, plan, keys, 4, steps, **how)


def setting(name, shares, size):
    automaton = RULES[name].automaton
    boards = boards_for(automaton, shares, size)
    weights = lively_weights(name, size)
    tokens = weights["layout.tokens"]
    state = oracle.start(automaton.step, automaton.layout, tokens, boards.tokens, boards.given, boards.keys)
    return automaton, boards, weights, np.float32(state)


# Who is dormant


def sure_of(layout, tokens, cell):
    """How sure a cell is, in plain float64."""
    out = cell[layout.write_first : layout.write_first + layout.write].astype(float)
    table = tokens[:, : layout.write].astype(float)
    if layout.head == "distance":
        return max(1 / (1 + np.sqrt(((out - row) ** 2).sum())) for row in table)
    return max(out @ row / np.sqrt((out @ out) * (row @ row)) for row in table)


@pytest.mark.parametrize("reach", [0, 1])
@pytest.mark.parametrize("name", ["maze-ood", "maze-hard", "sudoku-ood"])
def test_the_rates_are_as_defined(name, reach):
    automaton, _, weights, state = setting(name, (0.5, 0.9), (9, 9))
    h, w = 9, 9
    sure = [
        [[sure_of(automaton.layout, weights["layout.tokens"], cell) for cell in row] for row in board]
        for board in state
    ]
    above = float(np.quantile(sure, 0.2))
    found = bound(Firing(0.7, 0.2, above, reach), automaton).rates(on_device(weights), jnp.asarray(state))
    wraps = automaton.step.padding == "wrap"
    for b in range(len(state)):
        for y in range(h):
            for x in range(w):
                around = [
                    (y + dy, x + dx) for dy in range(-reach, reach + 1) for dx in range(-reach, reach + 1)
                ]
                if not wraps:
                    around = [(r, c) for r, c in around if 0 <= r < h and 0 <= c < w]
                dormant = all(sure[b][r % h][c % w] > above for r, c in around)
                assert float(found[b, y, x]) == pytest.approx(0.2 if dormant else 0.7)
    assert 0 < np.mean(np.isclose(found, 0.2)) < 1


@pytest.mark.parametrize("name", ["maze-ood", "maze-hard", "sudoku-ood"])
def test_a_rollout_is_the_oracle_s_with_these_rates(name):
    automaton, boards, weights, state = setting(name, (0.4, 0.7), (9, 9))
    how = Firing(0.9, 0.2, 0.6, 1)
    exact, spec, size = state.astype(np.float64), automaton.step, (9, 9)
    for step in range(4, 7):
        rates = np.asarray(bound(how, automaton).rates(on_device(weights), jnp.asarray(np.float32(exact))))
        fire = np.array(
            [
                [
                    [oracle.fires(key, step, y * 9 + x, float(rates[b, y, x])) for x in range(9)]
                    for y in range(9)
                ]
                for b, key in enumerate(boards.keys)
            ]
        )
        assert fire.shape == (2, *size)
        exact = oracle.step(spec, oracle.float64(weights), exact, boards.given, fire)
    free = int((~boards.given).sum((1, 2)).max())
    paths = dispatch.runnable(spec, free, steady=False)
    assert len(paths) >= 2
    for path in paths:
        found = rolled(
            on_device(weights),
            jnp.asarray(state),
            jnp.asarray(boards.given),
            keys_of(boards),
            3,
            automaton=automaton,
            path=path,
            rate=how,
        )
        np.testing.assert_allclose(found, exact, rtol=2e-4, atol=2e-4)


def test_a_steady_policy_is_a_rate():
    assert bound(Firing(0.7, 0.7, 0.5), MODEL.automaton) == 0.7
    assert firing.steady(0.8) and firing.steady(Firing(0.7, 0.7, 0.5)) and not firing.steady(PAPER)
    uniform = MODEL.solve(MAZES.inputs, steps=30)
    same = MODEL.solve(MAZES.inputs, steps=30, firing=Firing(0.8, 0.8, 0.2))
    assert uniform.cells.tobytes() == same.cells.tobytes()


def test_nobody_moves_if_all_are_sure_and_dormant_cells_never_fire():
    frames = MODEL.trace(MAZES.inputs[0], steps=5, firing=Firing(0.8, 0.0, -1.0))
    assert (frames.confidence == frames.confidence[0]).all()


def test_walls_do_not_keep_anybody_awake():
    """A finished maze is sure everywhere, so only `dormant` cells fire."""
    mind = prepare(MODEL.automaton, MODEL.weights, GIVEN, FRUGAL, None)
    rows = np.arange(3, dtype=np.int32)
    thought = mind.advance(mind.begin(MAZES.inputs, GIVEN, 0, rows, rows), 0, 200)
    rates = bound(FRUGAL, MODEL.automaton).rates(mind.weights, thought.state)
    assert np.allclose(rates, FRUGAL.dormant)


@pytest.mark.parametrize("how", [PAPER, FRUGAL])
def test_mazes_are_still_solved(how):
    solution = MODEL.solve(MAZES.inputs, firing=how)
    assert solution.verified.all()


def test_a_thought_is_the_same_however_it_is_batched(monkeypatch):
    seen = []
    for places, block in ((6, 6), (4, 2)):
        in_crowds_of(monkeypatch, places, block)
        mind = prepare(MODEL.automaton, MODEL.weights, GIVEN, FRUGAL, None)
        recorder = Recorder(20, 6)
        tasks = Tasks(np.repeat(np.arange(3, dtype=np.int32), 2), np.tile(np.arange(2, dtype=np.int32), 3))
        stream(mind, puzzles_of(MODEL, MAZES), tasks, 5, recorder)
        seen.append(recorder.seen)
    assert seen[0].keys() == seen[1].keys()
    for key, (grid, cells) in seen[0].items():
        assert (grid == seen[1][key][0]).all()
        np.testing.assert_allclose(cells, seen[1][key][1], atol=1e-6, err_msg=str(key))


@pytest.mark.parametrize(
    "bad",
    [
        Firing(0.0, 0.4, 0.95),
        Firing(1.2, 0.4, 0.95),
        Firing(0.8, -0.1, 0.95),
        Firing(0.8, 0.4, 2.0),
        Firing(0.8, 0.4, 0.95, 2),
    ],
)
def test_what_cannot_fire_is_refused(bad):
    with pytest.raises(ConfigError) as caught:
        MODEL.solve(MAZES.inputs, firing=bad)
    assert str(caught.value) == (
        f"Cells cannot fire at {bad.rate:g}, or {bad.dormant:g} when surer than {bad.above:g} with reach "
        f"{bad.reach}; choose rates up to 1, the first above 0, a confidence up to 1, and reach 0 or 1."
    )


# Computing only who fires


@pytest.mark.parametrize(
    ("name", "rate", "tile"),
    [("maze-ood", 0.0, 128), ("maze-ood", 0.6, 7), ("maze-hard", 0.05, 128), ("maze-hard", 1.0, 7)],
)
def test_the_firing_cells_are_enough(monkeypatch, name, rate, tile):
    monkeypatch.setattr(awake, "TILE", tile)
    automaton, boards, weights, state = setting(name, (1.0, 0.0, 0.6, 0.3), (5, 6))
    ends = [
        rolled(
            on_device(weights),
            jnp.asarray(state),
            jnp.asarray(boards.given),
            keys_of(boards),
            4,
            automaton=automaton,
            path=path,
            rate=rate,
            noise=Noise(0.5, 0.5, 0.2),
        )
        for path in (Compact(30), Awake(30, f"in tiles of {tile}"))
    ]
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-5, atol=1e-5)
    assert rate == 0.0 or np.abs(ends[1] - state).max() > 0.1


def test_a_board_without_free_cells_stays():
    automaton, boards, weights, state = setting("maze-ood", (1.0,), (3, 4))
    end = rolled(
        on_device(weights),
        jnp.asarray(state),
        jnp.asarray(boards.given),
        keys_of(boards),
        2,
        automaton=automaton,
        path=Awake(1),
        rate=1.0,
    )
    np.testing.assert_array_equal(end, state)


def test_paths_say_why_they_do_not_take_such_firing(monkeypatch):
    maze, sudoku = (RULES[name].automaton.step for name in ("maze-ood", "sudoku-ood"))
    assert dispatch.choose(maze, 47, "float32", steady=False) == Awake(47)
    assert dispatch.choose(sudoku, 47, "float32", steady=False).name == "attention"
    reasons = {one.path: one.reason for one in dispatch.verdicts(maze, steady=True)}
    assert reasons["awake"] == "it gains where few cells fire, and here all fire alike"
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    reasons = {one.path: one.reason for one in dispatch.verdicts(maze, steady=False)}
    assert reasons["awake"] == "it gains on a CPU only"
    monkeypatch.setattr(dispatch.resident, "refusal", lambda spec: None)
    monkeypatch.setattr(dispatch.streamed, "refusal", lambda spec: None)
    reasons = {one.path: one.reason for one in dispatch.verdicts(maze, steady=False)}
    assert reasons["resident"] == dispatch.ALIKE
    assert dispatch.ALIKE == "it knows one rate for all cells, and here those that are sure fire at another"
    with dispatch.precision.products("bf16"):
        reasons = {one.path: one.reason for one in dispatch.verdicts(sudoku, steady=False)}
    assert reasons["streamed"] == dispatch.ALIKE
    assert dispatch.choose(maze, 47, "float32", steady=False) == Compact(47)


# Counting


def followed(rate, looks=4, rows=None, every=5):
    rows = np.arange(3, dtype=np.int32) if rows is None else rows
    mind = prepare(MODEL.automaton, MODEL.weights, GIVEN[rows], rate, None)
    thought = mind.begin(MAZES.inputs[rows], GIVEN[rows], 0, rows, np.zeros_like(rows))
    return mind, *follow(mind, thought, GIVEN[rows], MAZES.target[rows], 0, looks, every)


def test_following_changes_nothing_and_counts_what_fired():
    mind, thought, course = followed(0.8)
    rows = np.arange(3, dtype=np.int32)
    alone = mind.advance(mind.begin(MAZES.inputs, GIVEN, 0, rows, 0 * rows), 0, 20)
    np.testing.assert_allclose(thought.state, alone.state, atol=1e-5)
    grid, _ = mind.read(thought)
    assert course.steps.tolist() == [5, 10, 15, 20]
    assert (course.solved[-1] == (grid == MAZES.target).all((1, 2))).all()
    assert (course.right[-1] == ((grid == MAZES.target) & ~GIVEN).sum((1, 2))).all()
    keys = tuple(oracle.trajectory(0, board, 0) for board in range(3))
    fires = sum(oracle.fire_mask(keys, step, GIVEN.shape[1:], 0.8).astype(int) for step in range(20))
    assert (course.activity == fires).all()
    assert (course.updates_of_all[-1] == fires.sum((1, 2))).all()
    assert (course.updates[-1] == np.where(GIVEN, 0, fires).sum((1, 2))).all()


def test_courses_are_joined_and_continued():
    _, _, whole = followed(FRUGAL)
    parts = [followed(FRUGAL, rows=np.array(rows, np.int32))[2] for rows in ([0], [1], [2])]
    for name, value in vars(joined(parts)).items():
        assert (value == getattr(whole, name)).all(), name
    mind, thought, first = followed(FRUGAL, looks=2)
    _, second = follow(mind, thought, GIVEN, MAZES.target, 10, 2, 5)
    for name, value in vars(continued(first, second)).items():
        assert (value == getattr(whole, name)).all(), name


def test_only_free_cells_in_the_discs_are_wiped():
    mind, thought, _ = followed(0.8)
    before = np.asarray(thought.state)
    where = discs(np.random.default_rng(0), 3, 2, 0.3, GIVEN.shape[1:])
    after = np.asarray(wiped(mind, thought, GIVEN, where).state)
    hit = where & ~GIVEN
    assert hit.any() and (after[hit] == 0).all() and (after[~hit] == before[~hit]).all()


@hypothetically(st.integers(0, 2**32), st.floats(0.05, 0.5), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_discs_lie_in_the_middle_and_grow_with_their_radius(seed, radius, count):
    small, large = (discs(np.random.default_rng(seed), 2, count, r, (41, 41)) for r in (radius, radius + 0.1))
    assert (large | ~small).all() and large.any()
    y, x = (np.abs(np.linspace(-1, 1, 41)[i]) for i in np.nonzero(large)[1:])
    assert max(y.max(), x.max()) <= 0.5 + radius + 0.1


# The page


@pytest.mark.skipif(web.browser.find() is None, reason="there is no Chromium here (apt install chromium)")
def test_the_page_fires_as_the_paper_does():
    from test_page_parity import THINK, think

    board = generate(21, 1, seed=4).inputs[0]
    mind = prepare(MODEL.automaton, MODEL.weights, MODEL.given(board[None]), PAPER, None)
    zero = np.zeros(1, np.int32)
    thought = mind.begin(board[None], MODEL.given(board[None]), 5, zero, zero)
    state = np.asarray(mind.advance(thought, 0, 60).state)[0]
    chromium = web.browser.Browser()
    try:
        with web.served([MODEL]) as address, web.opened(chromium, address) as tab:
            words = THINK.replace("adaptive: false", "adaptive: true")
            assert words != THINK
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("test_page_parity.THINK", words)
                found = think(tab, "maze-ood", board, steps=60)
    finally:
        chromium.close()
    assert np.abs(found - state.ravel()).max() <= 1e-3
