"""Drawn boards as states and one iteration of learning from them, beside NumPy and plain formulas."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cellwise.automaton import picture, rule
from cellwise.automaton.flops import closed_form, step_flops
from cellwise.automaton.layout import Automaton, Layout
from cellwise.benchmarks import PICTURE_PRESETS
from cellwise.errors import ConfigError
from cellwise.kernels import bits
from cellwise.kernels.dispatch import Reference, Sobel, choose, verdicts
from cellwise.kernels.precision import products
from cellwise.kernels.spec import StepSpec
from cellwise.puzzles.digits import prototypes
from cellwise.puzzles.visual_sudoku import canvas_side, place, read, render
from cellwise.visual import draw, step
from cellwise.visual.draw import Data
from tiny_visual import AUTOMATON, RECIPE, SIDE, boards, digits, tiny_picture_job

LAYOUT, PATH = AUTOMATON.layout, Sobel()


def keys(count, seed=0):
    return bits.trajectory_keys(seed, jnp.arange(count, dtype=jnp.int32), jnp.zeros(count, jnp.int32))


def data():
    return tiny_picture_job().data()


def lively(seed=0, channels=12, hidden=32):
    """Weights with which a step moves the state about as much as after training."""
    rng = np.random.default_rng(seed)
    w_in = rng.standard_normal((3 * channels, hidden)) * (3 * channels) ** -0.5
    w_out = 0.3 * rng.standard_normal((channels, hidden)) * hidden**-0.5
    return {"update.w_in": jnp.asarray(w_in, jnp.float32), "update.w_out": jnp.asarray(w_out, jnp.float32)}


# The rule


def test_the_papers_rule_has_its_numbers():
    spec = PICTURE_PRESETS["visual-sudoku-paper"].automaton.step
    assert rule.count(spec, None) == 2_097_152
    assert rule.trained_shapes(spec, None) == {"update.w_in": (768, 2048), "update.w_out": (256, 2048)}


def test_a_step_costs_what_the_paper_counts():
    """On a part of the canvas, because counting compiles; a cell costs the same everywhere."""
    automaton = PICTURE_PRESETS["visual-sudoku-paper"].automaton
    each = step_flops(automaton, (16, 16)) / 256
    assert each * 256**2 == pytest.approx(2.7596e11, rel=0.005)
    assert closed_form(automaton.step) == pytest.approx(each, rel=0.005)


def test_the_first_step_changes_nothing():
    weights = rule.first_weights(AUTOMATON.step, None, 0)
    assert not weights["update.w_out"].any()
    assert weights["update.w_in"].std() == pytest.approx((2 / (36 + 32)) ** 0.5, rel=0.1)


def test_its_path_is_chosen_and_the_others_say_why_not():
    assert choose(AUTOMATON.step, 1, "bf16") == Sobel()
    assert {one.path: one.reason for one in verdicts(AUTOMATON.step)} == {
        "resident": "given cells keep only 0 of 12 channels, so all cells are computed",
        "compact": "given cells keep only 0 of 12 channels, so all cells are computed",
        "awake": "given cells keep only 0 of 12 channels, so all cells are computed",
        "streamed": "it knows attention with an MLP, not sobel with bare",
        "attention": "it knows attention, not fixed slopes",
        "sobel": None,
        "reference": None,
    }
    zero = dataclasses.replace(AUTOMATON.step, padding="zero")
    assert choose(zero, 1, "bf16") == Reference()
    reasons = {one.path: one.reason for one in verdicts(zero)}
    assert reasons["sobel"] == "it knows boards that wrap"


def slope_of(precision, path=PATH):
    """Loss and gradient of a few steps; bfloat16 is emulated on a CPU."""
    weights, solution = lively(), jnp.asarray(boards(3).solutions)
    state = 0.3 * jax.random.normal(jax.random.key(1), (3, 16, 16, 12))
    wanted = step.target(RECIPE, AUTOMATON, fixed(), data(), solution, jax.random.key(0))
    learn = jax.jit(partial(step.think, recipe=RECIPE, automaton=AUTOMATON, path=path))
    with products(precision):
        return jax.jit(jax.value_and_grad(lambda w: learn(w, state, wanted, keys(3))[0]))(weights)


def fixed():
    return {"layout.tokens": jnp.asarray(prototypes(digits(), 4).reshape(5, -1))}


def test_rounded_products_give_nearly_the_same_gradient():
    exact, _ = slope_of("float32")
    (rounded, gradient), (_, wanted) = slope_of("bf16"), slope_of("float32", Reference())
    assert float(rounded) != float(exact) and float(rounded) == pytest.approx(float(exact), rel=0.02)
    for name, slope in wanted.items():
        error = np.linalg.norm(np.asarray(gradient[name] - slope)) / np.linalg.norm(np.asarray(slope))
        assert 0 < error < 0.05, name


def test_what_is_computed_again_does_not_change_the_gradient():
    state = 0.3 * jax.random.normal(jax.random.key(1), (2, 16, 16, 12))
    wanted = jnp.zeros((2, 16, 16))

    def slope(segment):
        recipe = dataclasses.replace(RECIPE, chunk=8, judged=3, segment=segment)
        think = partial(step.think, recipe=recipe, automaton=AUTOMATON, path=Sobel())
        return jax.jit(jax.value_and_grad(lambda w: think(w, state, wanted, keys(2))[0]))(lively())

    (loss, kept), (same, again) = slope(0), slope(4)
    assert float(loss) == pytest.approx(float(same), rel=1e-6)
    for name in kept:
        np.testing.assert_allclose(kept[name], again[name], rtol=1e-4, atol=1e-7)


def test_channels_that_drift_away_cost_something():
    state = jnp.zeros((1, 16, 16, 12)).at[0, 0, 0, 5].set(-7.0).at[0, 3, 3, 2].set(2.9)
    still = {name: jnp.zeros_like(weight) for name, weight in lively().items()}
    for overflow in (0.0, 0.5):
        recipe = dataclasses.replace(RECIPE, overflow=overflow)
        think = partial(step.think, recipe=recipe, automaton=AUTOMATON, path=Sobel())
        loss, _ = think(still, state, jnp.zeros((1, 16, 16)), keys(1))
        assert float(loss) == pytest.approx(overflow * 4.0**2 / state.size)


def test_only_the_last_steps_and_the_board_are_judged():
    state = 0.5 * jax.random.normal(jax.random.key(1), (1, 16, 16, 12))
    still = {name: jnp.zeros_like(weight) for name, weight in lively().items()}
    wanted = jnp.zeros((1, 16, 16)).at[:, 12:].set(7.0)  # Beyond the board, which has twelve pixels a side.
    think = partial(step.think, recipe=RECIPE, automaton=AUTOMATON, path=Sobel())
    loss, _ = think(still, state, wanted, keys(1))
    assert float(loss) == pytest.approx(float(jnp.mean(state[:, :12, :12, 0] ** 2)), rel=1e-5)


# Drawing


def test_the_canvas_is_that_of_the_puzzles():
    assert picture.canvas(LAYOUT) == canvas_side(4, SIDE) == 16
    tiles = np.random.default_rng(0).random((2, 4, 4, SIDE, SIDE), np.float32)
    laid = picture.lay(LAYOUT, jnp.asarray(tiles.reshape(2, 4, 4, -1)))
    np.testing.assert_array_equal(laid, place(tiles))
    np.testing.assert_array_equal(picture.cut(LAYOUT, laid), tiles.reshape(2, 4, 4, -1))


def test_reading_is_that_of_the_puzzles():
    some = boards(30)
    image = render(some.solutions, digits(seed=4), np.random.default_rng(0))
    image += np.random.default_rng(1).normal(0, 0.3, image.shape).astype(np.float32)
    means = prototypes(digits(), 4)
    found = picture.read(LAYOUT, {"layout.tokens": jnp.asarray(means.reshape(5, -1))}, jnp.asarray(image))
    np.testing.assert_array_equal(found, read(image, means))
    assert 0.5 < np.mean(found == some.solutions) < 1


def test_first_states_are_drawn():
    some = boards(40)
    puzzle = jnp.asarray(some.puzzles)
    state = np.asarray(draw.draw_state(AUTOMATON, data(), puzzle, jax.random.key(0), keys(40)))
    assert np.abs(state[..., 1:]).max() <= 0.1 and state[..., 1:].std() == pytest.approx(
        0.1 / 3**0.5, rel=0.02
    )
    assert not state[:, 12:, :, 0].any() and not state[:, :, 12:, 0].any()
    tiles = np.asarray(picture.cut(LAYOUT, jnp.asarray(state[..., 0])))
    images = digits().images.reshape(-1, 9)
    known = {tile.tobytes(): label for tile, label in zip(images, digits().labels, strict=True)}
    clues = some.puzzles > 0
    assert [known[tile.tobytes()] for tile in tiles[clues]] == some.puzzles[clues].tolist()
    assert 0.05 < np.abs(tiles[~clues]).max() <= 0.1
    assert len({tile.tobytes() for tile in tiles[clues]}) > 60, "digits are drawn independently"
    other = np.asarray(draw.draw_state(AUTOMATON, data(), puzzle, jax.random.key(1), keys(40)))
    assert np.mean(other[..., 0] != state[..., 0]) > 0.1


def test_targets_are_means_or_drawn_independently():
    solution = jnp.asarray(boards(20).solutions)
    draws = dataclasses.replace(RECIPE, target="draw")
    mean = step.target(RECIPE, AUTOMATON, fixed(), data(), solution, jax.random.key(0))
    np.testing.assert_array_equal(picture.read(LAYOUT, fixed(), mean), solution)
    some = data()
    draw_one = jax.jit(lambda key: step.target(draws, AUTOMATON, fixed(), some, solution, key))
    made = [draw_one(jax.random.key(n)) for n in range(200)]
    assert not np.array_equal(made[0], made[1])
    np.testing.assert_allclose(np.mean(made, axis=0), mean, atol=0.06)


def test_symmetries_keep_puzzles_and_solutions_together():
    from cellwise.puzzles.sudoku_generator import generate_easy

    easy = generate_easy(5, 0)
    table = jnp.zeros((10, 1, 4))
    some = Data(jnp.asarray(easy.inputs), jnp.asarray(easy.target), table)
    puzzle, solution = (np.asarray(a) for a in draw.draw_boards(some, "sudoku", jax.random.key(0), 12))
    assert ((puzzle == 0) | (puzzle == solution)).all() and (puzzle == 0).any()
    assert (np.sort(solution, axis=1) == np.arange(1, 10)[:, None]).all()
    assert not any((solution[0] == known).all() for known in easy.target)


# An iteration


ONE_FRESH = dataclasses.replace(RECIPE, fresh=1)


def begun(recipe):
    return step.first_run(recipe, AUTOMATON, lively(), data(), 3)


def iterated(run, recipe):
    advance = partial(step.iterate, recipe=recipe, automaton=AUTOMATON, path=Sobel())
    return advance(jax.tree.map(jnp.array, run), fixed(), data(), jnp.uint32(3))


def test_states_return_to_the_pool_older():
    before, _ = iterated(begun(ONE_FRESH), ONE_FRESH)
    after, report = iterated(before, ONE_FRESH)
    changed = np.asarray(jnp.any(before.pool.state != after.pool.state, axis=(1, 2, 3)))
    assert changed.sum() == ONE_FRESH.batch and len(changed) == ONE_FRESH.pool
    ages, old = np.asarray(after.pool.age), np.asarray(before.pool.age)
    grown = ages[changed] == old[changed] + 1
    assert grown.sum() >= 3 and (ages[changed][~grown] == 1).all()
    assert (ages[~changed] == old[~changed]).all()
    assert float(report.rise) == 1, "in the beginning nothing is a spike"
    assert float(report.age) == pytest.approx(ages[changed].mean() - 1)


def test_states_past_healing_are_replaced():
    run = begun(ONE_FRESH)
    bad = run.pool.state.at[::2].set(jnp.nan).at[1::2, 0, 0, 0].set(1e3)
    run = run._replace(pool=run.pool._replace(state=bad, age=jnp.full(8, 9, jnp.int32)))
    after, report = iterated(run, ONE_FRESH)
    assert np.isfinite(float(report.loss))
    assert sorted(np.asarray(after.pool.age)) == [1, 1, 1, 1, 9, 9, 9, 9]


@pytest.mark.slow
def test_a_whole_thought_needs_no_pool():
    recipe = dataclasses.replace(RECIPE, pool=4, batch=4, fresh=4)
    before, _ = iterated(begun(recipe), recipe)
    after, _ = iterated(before, recipe)
    assert (np.asarray(after.pool.age) == 1).all()


def test_only_grown_states_are_damaged():
    job = tiny_picture_job()
    recipe = dataclasses.replace(
        RECIPE, damage=1.0, grown=3, noise=dataclasses.replace(RECIPE.noise, when=0.0)
    )
    pool = step.first_pool(recipe, AUTOMATON, job.data(), jnp.uint32(0))
    batch = pool._replace(age=jnp.array([0, 2, 3, 4, 9, 1, 3, 0], jnp.int32))
    hurt = step.disturb(recipe, batch, jax.random.key(0), keys(8))
    gone = np.asarray(jnp.all(hurt.state == 0, axis=-1) & ~jnp.all(pool.state == 0, axis=-1))
    assert (gone.any((1, 2)) == (np.asarray(batch.age) >= 3)).all() and gone.mean() < 0.3


def test_noise_kicks_as_often_as_it_says():
    recipe = dataclasses.replace(RECIPE, damage=0.0, noise=dataclasses.replace(RECIPE.noise, when=1.0))
    batch = step.first_pool(recipe, AUTOMATON, data(), jnp.uint32(0))
    moved = np.asarray(step.disturb(recipe, batch, jax.random.key(0), keys(8)).state - batch.state)
    kicked = moved.any(-1)
    assert kicked.mean() == pytest.approx(recipe.noise.where, abs=0.02)
    assert moved[kicked].std() == pytest.approx(recipe.noise.size, rel=0.05)


def test_the_trend_tells_a_spike_from_one_bad_batch():
    def rise(losses):
        trend = step.first_trend()
        for loss in losses:
            trend = step.followed(trend, jnp.float32(loss))
        return float(trend.recent / trend.usual)

    calm = [1.0, 0.9, 1.1] * 40
    assert rise(calm) == pytest.approx(1, abs=0.05)
    assert 1 < rise([*calm, 50.0]) < RECIPE.spike, "one alone may be chance"
    assert rise([*calm, *[9.0] * 25]) > RECIPE.spike
    assert rise(np.geomspace(1, 1e-3, 500)) < 1, "learning is no spike"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"steps": 0}, "steps must be positive"),
        ({"batch": 9}, "batch must be between 1 and pool"),
        ({"fresh": 0}, "fresh must be between 1 and batch"),
        ({"judged": 5}, "judged must be between 1 and chunk"),
        ({"segment": 3}, "segment must divide chunk"),
        ({"spike": 0.5}, "spike must be 0 or above 1"),
        ({"settle": -1}, "settle must not be negative"),
        ({"slower": 0.0}, "slower must be in (0, 1]"),
        ({"fire_rate": 0.0}, "fire_rate must be in (0, 1]"),
        ({"damage": 2.0}, "damage must be in [0, 1]"),
    ],
)
def test_recipes_that_cannot_be_trained(changes, problem):
    with pytest.raises(ConfigError) as caught:
        dataclasses.replace(RECIPE, **changes)
    assert str(caught.value) == f"This recipe cannot be trained: {problem}."


def test_jobs_whose_parts_do_not_fit():
    large = Automaton(AUTOMATON.step, Layout(5, 16, 16, "picture", 0.1))
    for changes, message in (
        (
            {"automaton": large},
            "tiny draws 4 x 4 digits of 4 pixels, not 4 x 4 of 3; use other boards and digits.",
        ),
        (
            {"recipe": dataclasses.replace(RECIPE, augment="sudoku")},
            "This recipe cannot be trained: augment by sudoku needs boards of 9 x 9; change that number.",
        ),
        (
            {"recipe": dataclasses.replace(RECIPE, pool=2**27)},
            "This recipe cannot be trained: its pool needs 1,536 GiB; change that number.",
        ),
    ):
        with pytest.raises(ConfigError) as caught:
            dataclasses.replace(tiny_picture_job(), **changes)
        assert str(caught.value) == message


def test_every_preset_fits_its_canvas():
    for preset in PICTURE_PRESETS.values():
        (cells, digit), spec = picture.places(preset.automaton.layout), preset.automaton.step
        assert cells in (4, 9) and 28 % digit == 0
        assert spec == StepSpec(spec.channels, "sobel", 3, spec.hidden, "wrap", frozen=0, update="bare")
