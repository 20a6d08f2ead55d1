"""Products with rounded factors: chosen explicitly, off by no more than they must, and recorded."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracle
from cellwise.automaton import rollout
from cellwise.automaton.rule import first_weights
from cellwise.benchmarks.preset import Case
from cellwise.errors import ConfigError
from cellwise.evaluation import evaluate, result_file
from cellwise.kernels import dispatch, precision
from cellwise.kernels.dispatch import Attention, Compact, Noise, Reference
from cellwise.kernels.precision import products
from cellwise.model import Model
from cellwise.puzzles.sudoku_generator import generate_easy
from cellwise.training import step
from rules import RULES, boards_for, keys_of, lively_weights, on_device
from tiny_job import tiny_job

NOISE = Noise(when=0.6, where=0.5, size=0.2)


@pytest.mark.parametrize(
    ("jax_name", "name"),
    [
        ("highest", "float32"),
        ("float32", "float32"),
        ("tensorfloat32", "tf32"),
        ("default", "tf32"),
        ("bfloat16", "bf16"),
        ("BF16_BF16_F32", "bf16"),
        (None, "tf32"),
    ],
)
def test_what_jax_was_told_is_understood(jax_name, name):
    with jax.default_matmul_precision(jax_name):
        assert precision.current() == name


@pytest.mark.parametrize("name", ["float32", "tf32", "bf16"])
def test_a_choice_reaches_the_paths(name):
    spec = RULES["sudoku-ood"].automaton.step
    with products(name):
        assert precision.current() == name
        assert dispatch.exact_products() == (name == "float32")
        assert Attention().call(spec, (2, 9, 9, 128), 0.8, None).precision == name
    assert precision.current() == "float32"


def test_a_precision_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError) as caught, products("fp8"):
        pass
    assert str(caught.value) == "The precision cannot be 'fp8'; choose float32, tf32 or bf16."


class Learnt:
    """Errors, states and gradients of a few steps."""

    def __init__(self, rule, path, chosen, steps=4, judged="all", first=None):
        automaton, _, _ = RULES[rule]
        spec = automaton.step
        boards = boards_for(automaton, (0.5, 0.2, 1.0), (5, 4))
        weights, state = lively_weights(rule, (5, 4)), None
        begin = oracle.start(
            spec, automaton.layout, weights["layout.tokens"], boards.tokens, boards.given, boards.keys
        )
        state = jnp.asarray(np.float32(begin))
        channel, width = automaton.layout.write_first, automaton.layout.write
        target = 0.2 * np.random.default_rng(3).standard_normal((*begin.shape[:3], width))
        first = jnp.asarray([0, 3, 7], jnp.int32) if first is None else first

        @functools.partial(jax.grad, argnums=(0, 1), has_aux=True)
        def judge(weights, state):
            plan = path.plan(spec, jnp.asarray(boards.given))
            how = {"path": path, "rate": 0.7, "noise": NOISE, "channel": channel, "judged": judged}
            errors, end = rollout.learn(
                spec, weights, state, plan, keys_of(boards), first, steps, jnp.float32(target), **how
            )
            return 100 * jnp.sum(errors) + jnp.sum(end * state), (errors, end)

        with products(chosen):
            (self.weights, self.state), (errors, end) = jax.jit(judge)(on_device(weights), state)
        self.errors, self.end = np.asarray(errors), np.asarray(end)


def distance(found, wanted):
    return np.linalg.norm(np.float64(found) - wanted) / np.linalg.norm(wanted)


CASES = [(rule, form) for rule in ("sudoku-ood", "shared-swiglu") for form in ("dense", "shifts")]


@functools.cache
def believed(rule, judged="all"):
    return Learnt(rule, Reference(), "float32", judged=judged)


@pytest.mark.parametrize(("rule", "form"), CASES)
def test_learning_is_that_of_step_after_step(rule, form):
    judged = "all" if form == "dense" else "last"
    wanted = believed(rule, judged)
    found = Learnt(rule, Attention(form, unroll=2 if form == "dense" else 1), "float32", judged=judged)
    np.testing.assert_allclose(found.errors, wanted.errors, rtol=1e-5)
    np.testing.assert_allclose(found.end, wanted.end, atol=1e-5)
    for name, slope in {**wanted.weights, "state": wanted.state}.items():
        got = found.state if name == "state" else found.weights[name]
        np.testing.assert_allclose(got, slope, atol=1e-5 * float(jnp.abs(slope).max()), err_msg=name)


@pytest.mark.parametrize(("rule", "form"), CASES)
def test_bfloat16_stays_near_float32(rule, form):
    # A factor is off by 2⁻⁹ at most, and a step's errors partly cancel; states have units of length one.
    wanted, found = believed(rule), Learnt(rule, Attention(form), "bf16")
    assert found.end.dtype == np.float32 and 1e-4 < distance(found.end, wanted.end) < 2e-2
    assert distance(found.errors, wanted.errors) < 2e-2
    for name, slope in {**wanted.weights, "state": wanted.state}.items():
        got = found.state if name == "state" else found.weights[name]
        if name == "layout.tokens":
            continue
        assert got.dtype == jnp.float32
        # Hidden numbers next to zero may change sides, and their gradient with them.
        assert distance(got, np.float64(slope)) < 0.1, name


@pytest.mark.parametrize("unroll", [3, 100])
def test_unrolling_changes_nothing_but_the_program(unroll):
    wanted = Learnt("sudoku-ood", Attention("shifts", 1), "float32", steps=6)
    found = Learnt("sudoku-ood", Attention("shifts", unroll), "float32", steps=6)
    np.testing.assert_allclose(found.errors, wanted.errors, rtol=1e-6)
    for name in wanted.weights:
        slope = np.asarray(wanted.weights[name])
        np.testing.assert_allclose(found.weights[name], slope, atol=1e-5 * np.abs(slope).max())


@functools.partial(jax.jit, static_argnames=("spec", "path"))
def rolled(weights, state, given, keys, first, steps, *, spec, path):
    plan = path.plan(spec, given)
    return rollout.rollout(spec, weights, state, plan, keys, first, steps, path=path, rate=0.7, noise=NOISE)


@pytest.mark.parametrize("form", ["dense", "shifts"])
def test_every_board_may_think_from_its_own_step_for_its_own_time(form):
    automaton, _, _ = RULES["sudoku-ood"]
    spec, boards = automaton.step, boards_for(automaton, (0.5, 0.2, 0.0), (5, 4))
    weights = lively_weights("sudoku-ood", (5, 4))
    begin = oracle.start(
        spec, automaton.layout, weights["layout.tokens"], boards.tokens, boards.given, boards.keys
    )
    state, given, keys = jnp.float32(begin), jnp.asarray(boards.given), keys_of(boards)
    first, steps = jnp.array([3, 0, 9], jnp.int32), jnp.array([0, 5, 2], jnp.int32)
    arrays = (on_device(weights), state, given, keys)
    wanted = rolled(*arrays, first, steps, spec=spec, path=Reference())
    for unroll in (1, 3):
        found = rolled(*arrays, first, steps, spec=spec, path=Attention(form, unroll))
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    np.testing.assert_array_equal(found[0], state[0])
    # The same for all, and more than are written out at a time.
    wanted = rolled(*arrays, first, jnp.int32(5), spec=spec, path=Reference())
    found = rolled(*arrays, first, jnp.int32(5), spec=spec, path=Attention(form, 3))
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_rates_of_cells_are_taken_in_one_go():
    automaton, _, _ = RULES["sudoku-ood"]
    spec, boards = automaton.step, boards_for(automaton, (0.5, 0.2), (5, 4))
    weights, keys = on_device(lively_weights("sudoku-ood", (5, 4))), keys_of(boards)
    state = jnp.float32(np.random.default_rng(0).standard_normal((2, 5, 4, 128)))
    rates = jnp.float32(np.random.default_rng(1).random((2, 5, 4)))

    @functools.partial(jax.jit, static_argnames="path")
    def go(path):
        return rollout.rollout(
            spec, weights, state, jnp.asarray(boards.given), keys, 0, 3, path=path, rate=rates
        )

    np.testing.assert_allclose(go(Attention()), go(Reference()), atol=1e-5)


def test_the_paths_of_mazes_multiply_no_worse_than_asked():
    wanted = Learnt("maze-ood", Compact(20), "float32")
    for chosen in ("tf32", "bf16"):  # On a CPU there is nothing to round.
        found = Learnt("maze-ood", Compact(20), chosen)
        np.testing.assert_array_equal(found.end, wanted.end)


def test_thoughts_and_results_say_how_exact_they_were():
    automaton, _, _ = RULES["sudoku-ood"]
    weights = {name: np.asarray(array) for name, array in lively_weights("sudoku-ood", (9, 9)).items()}
    model = Model("sudoku-ood", "sudoku", automaton, weights, size=(9, 9))
    case = Case("easy", 4, 2, lambda n: generate_easy(n, 1), "two easy Sudokus")
    rows = {chosen: evaluate(model, case, precision=chosen) for chosen in ("float32", "bf16")}
    assert [row["precision"] for row in rows.values()] == ["float32", "bf16"]
    assert rows["float32"]["path"] == "attention"
    gap = abs(rows["bf16"]["mean_confidence"] - rows["float32"]["mean_confidence"])
    assert 0 < gap < 1e-2
    one, both = ([rows["float32"]], list(rows.values()))
    assert result_file("sudoku-ood", model, "", one)["matmul_precision"] == "highest"
    assert result_file("sudoku-ood", model, "", both)["matmul_precision"] == "highest, bfloat16"
    boards = generate_easy(1, 1).inputs
    exact, rounded = (model.solve(boards, steps=4, precision=one) for one in ("float32", "bf16"))
    assert exact.confidence[0] != rounded.confidence[0]


def test_a_recipe_says_how_exact_and_training_obeys(monkeypatch):
    seen = []
    real = step.rollout.learn

    def watched(*arguments, **options):
        seen.append(precision.current())
        return real(*arguments, **options)

    monkeypatch.setattr(step.rollout, "learn", watched)
    job = tiny_job()
    job = dataclasses.replace(job, recipe=dataclasses.replace(job.recipe, precision="tf32"))
    data = step.Data(jnp.asarray(job.boards.target), jnp.asarray(job.boards.given))
    fixed = {name: jnp.asarray(array) for name, array in job.fixed.items()}
    first = first_weights(job.automaton.step, job.size, job.seed)
    weights = {name: jnp.asarray(array) for name, array in first.items()}
    begin = step.first_run(job.recipe, job.automaton, fixed, weights, data, job.seed)
    options = {"recipe": job.recipe, "automaton": job.automaton, "path": Reference()}
    jax.eval_shape(functools.partial(step.iterate.__wrapped__, **options), begin, fixed, data, jnp.uint32(3))
    assert set(seen) == {"tf32"}
