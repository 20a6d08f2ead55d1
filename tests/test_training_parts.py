"""What an iteration is made of: learning rate, optimiser, recipe, drawing of boards, swap, damage, noise."""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from cellwise.errors import ConfigError
from cellwise.kernels.dispatch import Noise
from cellwise.training import perturb, pool
from cellwise.training.optimiser import learning_rate, optimiser
from cellwise.training.pool import Batch, Data
from cellwise.training.recipe import Recipe, Schedule
from rules import MAZE_OOD, sudoku_automaton

QUIET = Noise(0.0, 0.0, 0.0)
CONSTANT = Schedule(1e-3, 1e-3, 1e-3, 0)
BASE = Recipe(steps=10, schedule=CONSTANT, batch=4, pool=8, fresh=2, rollout=4, chunk=2, microbatch=2)
SUDOKU = sudoku_automaton(64, 4, 16)


class TestLearningRate:
    @pytest.mark.parametrize(
        ("schedule", "steps", "values"),
        [
            (Schedule(4e-4, 4e-4, 4e-4, 100), 5_000, {0: 4e-4, 50: 4e-4, 100: 4e-4, 4_999: 4e-4}),
            (Schedule(1e-3, 5e-4, 5e-4, 5_000), 20_000, {0: 1e-3, 2_500: 7.5e-4, 5_000: 5e-4, 19_999: 5e-4}),
            (
                Schedule(1e-3, 1e-4, 1e-4, 3_000),
                150_000,
                {0: 1e-3, 1_500: 5.5e-4, 3_000: 1e-4, 149_999: 1e-4},
            ),
            (
                Schedule(1e-3, 1e-4, 1e-4, 5_000),
                250_000,
                {0: 1e-3, 2_500: 5.5e-4, 5_000: 1e-4, 249_999: 1e-4},
            ),
        ],
        ids=["maze-ood", "maze-hard", "sudoku-ood", "sudoku-extreme"],
    )
    def test_released_schedules(self, schedule, steps, values):
        for step, value in values.items():
            assert float(learning_rate(schedule, steps, jnp.int32(step))) == pytest.approx(value, rel=1e-6)

    @pytest.mark.parametrize("ends", [(1e-3, 5e-4, 5e-4), (0.0, 2e-3, 0.0), (1e-4, 1e-3, 1e-5)])
    def test_cosine_is_that_of_optax(self, ends):
        first, peak, last = ends
        wanted = optax.warmup_cosine_decay_schedule(first, peak, 100, 1000, end_value=last)
        for step in (0, 1, 50, 99, 100, 101, 550, 999, 1000, 2000):
            found = learning_rate(Schedule(first, peak, last, 100, "cosine"), 1000, jnp.int32(step))
            with jax.numpy_dtype_promotion("standard"):
                assert float(found) == pytest.approx(float(wanted(step)), rel=1e-5, abs=1e-9), step

    def test_linear_goes_straight_to_its_end(self):
        schedule = Schedule(0.0, 1.0, 0.2, 10, "linear")
        rates = [float(learning_rate(schedule, 20, jnp.int32(step))) for step in (0, 5, 10, 15, 20, 25)]
        np.testing.assert_allclose(rates, [0, 0.5, 1, 0.6, 0.2, 0.2], rtol=1e-6)

    def test_no_warmup_begins_at_the_peak(self):
        assert float(learning_rate(Schedule(9.0, 1.0, 1.0, 0), 10, jnp.int32(0))) == 1.0


def test_the_optimiser_is_clipped_adamw_with_decay_on_everything():
    recipe = replace(BASE, schedule=Schedule(0.1, 0.02, 0.02, 3), clip=1.0, weight_decay=0.5)
    rng = np.random.default_rng(0)
    names = {"perceive.kernels": (4, 9), "update.b_in": (5,)}
    weights = {name: rng.standard_normal(shape) for name, shape in names.items()}
    first, second = ({name: np.zeros(shape) for name, shape in names.items()} for _ in range(2))
    found = {name: jnp.asarray(weight, jnp.float32) for name, weight in weights.items()}
    state = optimiser(recipe).init(found)

    @jax.jit
    def update(gradient, state, weights):
        with jax.numpy_dtype_promotion("standard"):
            updates, state = optimiser(recipe).update(gradient, state, weights)
            return optax.apply_updates(weights, updates), state

    for step, size in enumerate((10.0, 0.1, 1.0, 0.01)):
        gradient = {name: size * rng.standard_normal(shape) for name, shape in names.items()}
        found, state = update({n: jnp.asarray(g, jnp.float32) for n, g in gradient.items()}, state, found)
        norm = np.sqrt(sum((g**2).sum() for g in gradient.values()))
        rate = 0.1 + (0.02 - 0.1) * min(step / 3, 1)
        for name, g in gradient.items():
            g = g * min(1, 1 / norm)
            first[name] = 0.9 * first[name] + 0.1 * g
            second[name] = 0.95 * second[name] + 0.05 * g**2
            mean, square = first[name] / (1 - 0.9 ** (step + 1)), second[name] / (1 - 0.95 ** (step + 1))
            weights[name] -= rate * (mean / (np.sqrt(square) + 1e-8) + 0.5 * weights[name])
            np.testing.assert_allclose(found[name], weights[name], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"steps": 0}, "steps must be positive"),
        ({"batch": 9}, "batch must be between 1 and pool"),
        ({"fresh": 0}, "fresh must be between 1 and batch"),
        ({"fresh": 5}, "fresh must be between 1 and batch"),
        ({"chunk": 3}, "chunk must divide rollout"),
        ({"chunk": 0}, "chunk must divide rollout"),
        ({"microbatch": 3}, "microbatch must divide batch"),
        ({"fire_rate": 0.0}, "fire_rate must be in (0, 1]"),
        ({"fire_rate": 1.1}, "fire_rate must be in (0, 1]"),
        ({"damage": -0.1}, "damage and swap must be in [0, 1]"),
        ({"swap": 1.5}, "damage and swap must be in [0, 1]"),
        ({"average": 1.0}, "average must be in [0, 1)"),
        ({"schedule": replace(CONSTANT, warmup=11)}, "schedule.warmup must be between 0 and steps"),
    ],
)
def test_recipes_that_cannot_be_trained(change, problem):
    with pytest.raises(ConfigError) as refusal:
        replace(BASE, **change)
    assert str(refusal.value) == f"This recipe cannot be trained: {problem}."


def numbered(count):
    """Boards of one row that tell their number."""
    numbers = np.arange(count)
    target = np.stack([numbers // 256, numbers % 256], axis=1).astype(np.uint8)[:, None]
    return Data(jnp.asarray(target), jnp.asarray(target % 2 == 1))


class TestDrawing:
    draw = staticmethod(jax.jit(pool.draw_boards, static_argnums=(0, 3)))

    def numbers(self, data, count, seed):
        drawn = self.draw(BASE, data, jax.random.key(seed), count)
        target = np.asarray(drawn.target).astype(int)
        assert (np.asarray(drawn.given) == (target % 2 == 1)).all(), "a board lost its given cells"
        return target[:, 0, 0] * 256 + target[:, 0, 1]

    @pytest.mark.parametrize(("total", "count"), [(50, 50), (300, 20), (5003, 900), (5003, 5003)])
    def test_no_board_twice_if_there_are_enough(self, total, count):
        data, seen = numbered(total), np.zeros(total, int)
        for seed in range(30):
            numbers = self.numbers(data, count, seed)
            assert len(np.unique(numbers)) == count
            seen[numbers] += 1
        # Every board is as likely as any other, those past the last whole stratum too.
        share = count / total
        assert np.abs(seen / 30 - share).max() <= 5.5 * np.sqrt(share * (1 - share) / 30)
        for part in np.array_split(seen, 10):
            assert part.mean() / 30 == pytest.approx(share, abs=5.5 * np.sqrt(share / 30 / len(part)))

    def test_boards_come_again_if_there_are_too_few(self):
        numbers = self.numbers(numbered(5), 400, 0)
        assert (np.bincount(numbers, minlength=5) > 50).all()


def batch_of(automaton, count, size, seed, share=0.4):
    """States that are told from each other by any of their numbers."""
    rng = np.random.default_rng(seed)
    target = rng.integers(1, 4, (count, *size)).astype(np.uint8)
    state = rng.standard_normal((count, *size, automaton.step.channels))
    arrays = (np.float32(state), target, rng.random((count, *size)) < share, np.arange(count, dtype=np.int32))
    return Batch(*(jnp.asarray(array) for array in arrays))


def test_entries_are_taken_put_and_replaced():
    whole, fresh = batch_of(MAZE_OOD, 8, (2, 3), 0), batch_of(MAZE_OOD, 2, (2, 3), 1)
    index = jnp.array([6, 0, 3], jnp.int32)
    taken = pool.take(whole, index)
    assert taken.age.tolist() == [6, 0, 3]
    mixed = pool.replace_first(taken, fresh)
    after = pool.put(whole, index, mixed)
    for old, new, put in zip(whole, after, mixed, strict=True):
        np.testing.assert_array_equal(np.asarray(new)[[6, 0, 3]], put)
        np.testing.assert_array_equal(np.asarray(new)[[1, 2, 4, 5, 7]], np.asarray(old)[[1, 2, 4, 5, 7]])
    for new, put, old in zip(fresh, mixed, taken, strict=True):
        np.testing.assert_array_equal(put[:2], new)
        np.testing.assert_array_equal(put[2:], old[2:])


class TestSwap:
    batch = batch_of(SUDOKU, 200, (3, 4), 0)
    donors = batch_of(SUDOKU, 30, (3, 4), 1)
    swap = staticmethod(jax.jit(perturb.swap, static_argnums=(0, 1)))

    def swapped(self, rate):
        recipe = replace(BASE, swap=rate)
        return jax.tree.map(np.asarray, self.swap(recipe, SUDOKU, self.batch, self.donors, jax.random.key(0)))

    def test_a_swapped_state_has_a_donors_board_and_tokens_and_all_else_as_it_was(self):
        before, donors = (jax.tree.map(np.asarray, batch) for batch in (self.batch, self.donors))
        after = self.swapped(0.3)
        changed = [i for i in range(200) if not np.array_equal(after.state[i], before.state[i])]
        assert abs(len(changed) - 60) < 4.5 * np.sqrt(200 * 0.3 * 0.7)
        used = set()
        for i in range(200):
            if i not in changed:
                assert all(np.array_equal(new[i], old[i]) for new, old in zip(after, before, strict=True))
                continue
            (donor,) = [r for r in range(30) if np.array_equal(donors.target[r], after.target[i])]
            used.add(donor)
            np.testing.assert_array_equal(after.given[i], donors.given[donor])
            loaded = donors.given[donor][..., None] & (np.arange(64) < SUDOKU.layout.read)
            np.testing.assert_array_equal(
                after.state[i], np.where(loaded, donors.state[donor], before.state[i])
            )
            assert after.age[i] == 0
        assert len(used) > 15

    def test_never_and_always(self):
        never = self.swapped(0.0)
        assert all(np.array_equal(new, old) for new, old in zip(never, self.batch, strict=True))
        assert (self.swapped(1.0).age == 0).all()


class TestDisturb:
    disturb = staticmethod(jax.jit(perturb.disturb, static_argnums=(0, 1)))

    @functools.cache  # noqa: B019 one instance for each test
    def before(self, automaton):
        batch = batch_of(automaton, 300, (9, 9), 0)
        return batch._replace(state=perturb.normalise(automaton.step, batch.state))

    def disturbed(self, automaton, **changes):
        recipe = replace(BASE, **{"noise": QUIET, "damage": 0.0, "noise_before": False} | changes)
        before = self.before(automaton)
        after = self.disturb(recipe, automaton, before, jax.random.key(0))
        for field in ("target", "given", "age"):
            np.testing.assert_array_equal(getattr(after, field), getattr(before, field))
        return np.asarray(before.state), np.asarray(after.state), np.asarray(before.given)

    def free(self, automaton, given):
        """Cells of which something may change, and the entries that may."""
        frozen = given[..., None] & (np.arange(automaton.step.channels) < automaton.step.frozen)
        return ~frozen.all(-1), ~frozen

    @pytest.mark.parametrize("automaton", [MAZE_OOD, SUDOKU], ids=["maze", "sudoku"])
    def test_frozen_entries_stay(self, automaton):
        old, new, given = self.disturbed(
            automaton, damage=1.0, damage_fill=1.0, noise_before=True, noise=Noise(1.0, 1.0, 0.3)
        )
        _, entries = self.free(automaton, given)
        # Frozen units are brought to length one once more, which they had but for the rounding.
        np.testing.assert_allclose(new[~entries], old[~entries], atol=2e-6 if automaton.step.unit else 0)
        assert np.abs(new - old)[entries].min() < np.abs(new - old)[entries].max()
        assert (new[entries] != old[entries]).mean() > 0.99

    def test_damage_empties_discs_of_some_mazes(self):
        old, new, given = self.disturbed(MAZE_OOD, damage=0.3)
        cells, _ = self.free(MAZE_OOD, given)
        lost = (new == 0).all(-1)
        np.testing.assert_array_equal(new[~lost], old[~lost])
        assert not (lost & ~cells).any()
        hit = lost.any((1, 2)).sum()
        assert abs(hit - 90) < 4.5 * np.sqrt(300 * 0.3 * 0.7)

    def test_damage_makes_units_of_ones(self):
        old, new, given = self.disturbed(SUDOKU, damage=1.0, damage_fill=1.0)
        hidden = np.abs(new[..., 32:] - 32**-0.5).max(-1) < 1e-5
        tokens = np.abs(new[..., :32] - 32**-0.5).max(-1) < 1e-5
        np.testing.assert_array_equal(tokens, hidden & ~given)
        assert 0.05 < hidden.mean() < 0.3 and (hidden & given).any(), "clues lose what is hidden in them"
        np.testing.assert_allclose(new[~hidden], old[~hidden], atol=2e-6)

    def test_kicks_have_the_right_size_and_number(self):
        old, new, given = self.disturbed(
            MAZE_OOD, noise_before=True, noise=Noise(when=0.4, where=0.25, size=0.15)
        )
        change, (cells, _) = new - old, self.free(MAZE_OOD, given)
        kicked = (change != 0).any(-1)
        boards = kicked.any((1, 2))
        assert abs(boards.sum() - 120) < 4.5 * np.sqrt(300 * 0.4 * 0.6)
        where = cells[boards].sum()
        assert abs(kicked.sum() - 0.25 * where) < 4.5 * np.sqrt(where * 0.25 * 0.75)
        assert change[kicked].std() == pytest.approx(0.15, rel=0.02)
        assert abs(change[kicked].mean()) < 0.15 * 4.5 / np.sqrt(change[kicked].size)

    def test_kicks_can_be_left_to_the_rollout(self):
        old, new, _ = self.disturbed(MAZE_OOD, noise_before=False, noise=Noise(1.0, 1.0, 0.15))
        np.testing.assert_array_equal(new, old)

    def test_units_are_at_length_one_afterwards(self):
        _, new, _ = self.disturbed(SUDOKU, noise_before=True, noise=Noise(1.0, 1.0, 0.3))
        lengths = np.linalg.norm(np.float64(new).reshape(-1, 2, 32), axis=-1)
        assert np.abs(lengths - 1).max() < 3e-6


class TestDiscs:
    def test_four_discs_damage_about_fifteen_per_cent(self):
        hit = np.asarray(
            jax.jit(perturb.discs, static_argnums=(1, 2, 3))(jax.random.key(0), 4000, 4, (11, 11))
        )
        assert 0.14 < hit.mean() < 0.16
        by_place = hit.mean(0)
        assert by_place[5, 5] > 0.4 and not by_place[0].any() and not by_place[:, 10].any()
        np.testing.assert_allclose(by_place, by_place.T, atol=6 * np.sqrt(0.25 / 4000))

    def test_one_disc_is_a_disc(self):
        hit = np.asarray(
            jax.jit(perturb.discs, static_argnums=(1, 2, 3))(jax.random.key(1), 500, 1, (81, 41))
        )
        y, x = np.linspace(-1, 1, 81)[:, None], np.linspace(-1, 1, 41)[None]
        radii = []
        for disc in hit:
            centre_y, centre_x = ((disc * axis).sum() / disc.sum() for axis in (y, x))
            assert abs(centre_y) < 0.53 and abs(centre_x) < 0.53
            distance = np.hypot(y - centre_y, x - centre_x)
            # The rim is blurred by the width of a cell on each side.
            assert distance[disc].max() < distance[~disc].min() + 0.1
            radii.append(np.sqrt(disc.mean() * 4 / np.pi))
        assert 0.08 < min(radii) < 0.13 and 0.37 < max(radii) < 0.42
        assert np.mean(radii) == pytest.approx(0.25, abs=4.5 * 0.3 / np.sqrt(12 * 500))
