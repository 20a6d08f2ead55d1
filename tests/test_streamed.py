"""Rules with attention in one launch, against the oracle and against the same roundings step after step.

Each test runs twice: the kernel's own source on a CPU (`emulated.py`), in every run of the suite, and the
compiled kernel on a GPU with `tools/gpu_test.py`.
"""

import re
import shutil
import subprocess
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emulated
import launches
import oracle
import rules
from cellwise.automaton import rollout
from cellwise.bench.paths import PRECISIONS, contending, told_apart
from cellwise.kernels import dispatch, launch, nvrtc, reference, streamed
from cellwise.kernels.dispatch import Attention, Noise, Reference, Streamed
from launches import FIRST, MIXED, NOISE, RATE, STEPS, learned, on_cpu, rolled
from rules import Rule, boards_for, keys_of, lively_weights, on_device, sudoku_automaton

SMALL = sudoku_automaton(64, 8, 128)
RULES = {
    "small": Rule(SMALL, rules.orthonormal_tokens(10, 32, 0), True),
    "small shared": Rule(SMALL, rules.orthonormal_tokens(10, 32, 0), False),
    "sudoku-ood": rules.RULES["sudoku-ood"],
    "sudoku-extreme": Rule(rules.SUDOKU_EXTREME, rules.orthonormal_tokens(10, 32, 0), True),
}
CASES = {
    # A board for each block; several boards, of which the last tile has work for one warpgroup only; zeros
    # beyond; one tile; the rules of the benchmarks. Last: what is judged when learning.
    "small, a board each": ("small", {}, (9, 9), 8, "all"),
    "small, boards together": ("small", {}, (6, 8), 1, "last"),
    "small, shared, zeros beyond": ("small shared", {"padding": "zero"}, (4, 5), 1, "all"),
    "small, all frozen": ("small", {"frozen": 64}, (3, 4), 2, "last"),
    "sudoku-ood": ("sudoku-ood", {}, (5, 6), 2, "all"),
    "sudoku-extreme": ("sudoku-extreme", {}, (3, 5), 1, "last"),
    # The same with one warpgroup in each of two blocks of a multiprocessor.
    "small, small blocks": ("small", {}, (6, 8), 1, "last"),
    "sudoku-ood, small blocks": ("sudoku-ood", {}, (5, 6), 2, "all"),
    "sudoku-extreme, small blocks": ("sudoku-extreme", {}, (3, 5), 1, "last"),
}
LEARNING = [name for name in CASES if name not in ("small, a board each", "small, all frozen")]


@pytest.fixture(params=["emulated", pytest.param("gpu", marks=pytest.mark.gpu)])
def machine(request, monkeypatch):
    """Where kernels run; the tests of emulated ones need a C++ compiler."""
    if request.param == "gpu":
        if reason := launch.hopper_refusal():
            pytest.fail(f"these tests were asked for, but {reason}")
        emulated.count(monkeypatch)
    elif emulated.COMPILER is None:
        pytest.skip("there is no C++ compiler (g++ or clang++) to build the emulated kernels with")
    else:
        emulated.install(monkeypatch)
    emulated.launches.clear()
    with jax.default_matmul_precision("bfloat16"):
        yield request.param
    assert emulated.launches, "no kernel ran, so nothing was tested"


@pytest.fixture(params=CASES)
def case(request, machine, monkeypatch):
    """A rule, boards, weights and a first state, small enough for the oracle."""
    name, change, size, multiprocessors, judged = CASES[request.param]
    monkeypatch.setattr(streamed, "GROUPS", 1 if "small blocks" in request.param else 2)
    for compiled in (rolled, learned):
        compiled.clear_cache()  # For other blocks, perhaps.
    monkeypatch.setattr(launch, "multiprocessors", lambda: multiprocessors)
    case = made(monkeypatch, name, size, change)
    case.judged = judged
    return case


def made(monkeypatch, name, size, change=(), shares=MIXED):
    monkeypatch.setitem(rules.RULES, name, RULES[name])
    automaton = RULES[name].automaton
    automaton = replace(automaton, step=replace(automaton.step, **dict(change)))
    return Case(automaton, boards_for(automaton, shares, size), lively_weights(name, size))


class Rounded(Reference):
    """The definition with factors rounded where the kernel rounds them, and gradients as if they were not."""

    def step(self, spec, weights, state, plan, keys, step, rate):
        b, h, w, c = state.shape
        fire = dispatch.bits.chance(
            dispatch.bits.at_cells(
                dispatch.bits.at_step(keys, dispatch.bits.FIRE, step),
                jnp.arange(h * w, dtype=jnp.int32)[None],
            ),
            rate,
        )
        frozen = reference.frozen_entries(spec, plan)
        state = jnp.where(frozen, jax.lax.stop_gradient(state), state)
        values = rounded(exactly(rounded(state), rounded(weights["perceive.value"].reshape(c, c)).T))
        as_they_are = jnp.eye(c, dtype=jnp.float32).reshape(weights["perceive.value"].shape)
        with jax.default_matmul_precision("highest"):
            z = reference.perceive(spec, weights | {"perceive.value": as_they_are}, values)
        hidden = (
            exactly(rounded(z), rounded(weights["update.w_in"])) + weights["update.b_in"][None, None, None]
        )
        change = exactly(rounded(jax.nn.relu(hidden)), rounded(weights["update.w_out"]).T)
        change = change + weights["update.b_out"][None, None, None]
        change = jnp.where(fire.reshape(b, h, w, 1) & ~frozen, change, 0.0)
        return reference.advance(spec, state, change)


def exactly(a, b):
    return jnp.matmul(a, b, precision="highest")


def rounded(x):
    return x + jax.lax.stop_gradient(x.astype(jnp.bfloat16).astype(jnp.float32) - x)


class Case(launches.Case):
    def believed(self, judged):
        """What learning finds step after step, on a CPU."""
        with on_cpu():
            return self.learned(Rounded(), judged)


def test_states_are_those_of_the_oracle_but_for_rounding(case):
    found = case.rolled(Streamed())
    with on_cpu():
        same = case.rolled(Rounded())
    # Sums are taken in another order, so numbers half way between two bf16 numbers may go to the other one.
    np.testing.assert_allclose(found, same, atol=1e-3)
    assert np.linalg.norm(found - same) < 5e-4 * np.linalg.norm(same)
    weights = oracle.float64(case.weights)
    for i, (first, steps) in enumerate(zip(FIRST, STEPS, strict=True)):
        one = slice(i, i + 1)
        begin = np.float64(case.state[one])
        how = (case.boards.given[one], case.boards.keys[one], first, steps, RATE, NOISE)
        believed = [begin, *oracle.rollout(case.spec, weights, begin, *how)][-1]
        assert np.linalg.norm(found[one] - believed) < 2e-3 * np.linalg.norm(believed)
    moved = np.abs(found - case.state).max()
    assert moved < 1e-5 if case.spec.frozen == case.spec.channels and case.boards.given.all() else moved > 0.1


@pytest.mark.parametrize("case", LEARNING, indirect=True)
def test_learning_is_that_of_step_after_step(case):
    wanted = case.believed(case.judged)
    errors, end, of_weights, of_state = case.learned(Streamed(), case.judged)
    np.testing.assert_allclose(errors, wanted[0], rtol=1e-3)
    np.testing.assert_allclose(end, wanted[1], atol=1e-3)
    for name, slope in {**wanted[2], "state": wanted[3]}.items():
        found = of_state if name == "state" else of_weights[name]
        assert float(jnp.abs(slope).max()) > 1e-2, name
        # Gradients have eight bits on their way back, as factors have; and hidden numbers next to zero may
        # change sides, and their gradient with them.
        assert np.linalg.norm(found - slope) < 2e-2 * np.linalg.norm(slope), name
    frozen = case.boards.given[..., None] & (np.arange(case.spec.channels) < case.spec.frozen)
    assert (np.asarray(of_state)[frozen] == 0).all()


def still(monkeypatch, size, shares=MIXED):
    """A case whose rule changes nothing."""
    case = made(monkeypatch, "small", size, shares=shares)
    case.weights = {name: 0 * array for name, array in case.weights.items()}
    return case


@pytest.mark.parametrize("rate", [0.8, 1, 1e-3])
def test_cells_fire_where_the_oracle_says(machine, monkeypatch, rate):
    case = still(monkeypatch, (5, 7))
    # Units that point along their first channel turn to the second one when their cell fires, and never back.
    case.weights["update.b_out"] = np.tile(np.float32([0, 1] + [0] * 30), 2)
    case.state = np.tile(np.float32([1] + [0] * 31), (4, 5, 7, 2))
    found = case.rolled(Streamed(), rate=rate, noise=None)
    for i, (first, steps) in enumerate(zip(FIRST, STEPS, strict=True)):
        key = case.boards.keys[i : i + 1]
        fired = sum(oracle.fire_mask(key, s, (5, 7), rate)[0] for s in range(first, first + steps))
        np.testing.assert_array_equal(found[i, ..., 33] > 0, np.greater(fired, 0) & np.ones((5, 7), bool))
        np.testing.assert_array_equal(found[i, ..., 1] > 0, np.greater(fired, 0) & ~case.boards.given[i])
        angles = np.array([oracle_angle(n) for n in range(4)])
        np.testing.assert_allclose(found[i, ..., 33], angles[fired * np.ones((5, 7), int)], atol=1e-6)


def oracle_angle(times):
    """How far a unit has turned when it was pushed sideways by one so many times."""
    x, y = 1.0, 0.0
    for _ in range(times):
        along = y
        x, y = x - along * x, y + 1 - along * y
        x, y = np.array([x, y]) / (np.hypot(x, y) + 1e-6)
    return y


def test_noise_is_that_of_the_oracle(machine, monkeypatch):
    noise, case = Noise(when=0.9, where=0.5, size=0.3, until=8), still(monkeypatch, (5, 7))
    found = case.rolled(Streamed(), noise=noise)
    weights, kicked = oracle.float64(case.weights), 0
    for i, (first, steps) in enumerate(zip(FIRST, STEPS, strict=True)):
        one = slice(i, i + 1)
        begin = np.float64(case.state[one])
        how = (case.boards.given[one], case.boards.keys[one], first, steps, RATE, noise)
        believed = [begin, *oracle.rollout(case.spec, weights, begin, *how)][-1]
        np.testing.assert_allclose(found[one], believed, atol=2e-6)
        kicked += (np.abs(believed - begin) > 1e-3).sum()
    assert kicked > 1000


def test_boards_do_not_feel_each_other(machine, monkeypatch):
    monkeypatch.setattr(launch, "multiprocessors", lambda: 1)
    many = made(monkeypatch, "small", (5, 9))
    together = many.rolled(Streamed())
    assert streamed.boards_each(4, 45, 1) == 4
    for i in range(4):
        alone = many.rolled(Streamed(), boards=slice(i, i + 1))
        np.testing.assert_array_equal(alone, together[i : i + 1])


@pytest.mark.parametrize(("each", "boards"), [(1, 4), (1, 3), (2, 3), (3, 4)])
def test_blocks_of_a_cluster_may_have_different_work(machine, monkeypatch, each, boards):
    """A board too few, fewer boards than its neighbour, none at all; and boards stop at different steps."""
    many = made(monkeypatch, "small", (5, 9))
    monkeypatch.setattr(launch, "multiprocessors", lambda: 1)
    together = many.rolled(Streamed())
    monkeypatch.setattr(streamed, "boards_each", lambda *_: each)
    rolled.clear_cache()  # It was compiled for other blocks.
    found = many.rolled(Streamed(), boards=slice(0, boards), noise=Noise(0.5, 0.5, 0.2, 7))
    assert emulated.launches[-1].cluster == 2
    assert (found != together[:boards]).any()
    found = many.rolled(Streamed(), boards=slice(0, boards))
    np.testing.assert_array_equal(found, together[:boards])


def test_the_order_of_threads_does_not_matter(monkeypatch):
    if emulated.COMPILER is None:
        pytest.skip("there is no C++ compiler (g++ or clang++) to build the emulated kernels with")
    emulated.install(monkeypatch, multiprocessors=1)
    one = made(monkeypatch, "small", (6, 8))
    found = []
    with jax.default_matmul_precision("bfloat16"):
        for stride in (1, 515):
            monkeypatch.setattr(emulated, "STRIDES", (stride,))
            found.append((one.rolled(Streamed()), one.learned(Streamed(), "last")))
    for other in found[1:]:
        jax.tree.map(np.testing.assert_array_equal, other, found[0])


def test_what_is_not_for_the_kernel_is_taken_step_by_step(monkeypatch):
    emulated.install(monkeypatch)
    emulated.launches.clear()
    case = made(monkeypatch, "small", (3, 4))
    np.testing.assert_array_equal(case.rolled(Streamed()), case.rolled(Attention()))
    rates = jnp.full((4, 3, 4), RATE, jnp.float32)
    with jax.default_matmul_precision("bfloat16"):
        found = rollout.rollout(
            case.spec,
            on_device(case.weights),
            jnp.asarray(case.state),
            jnp.asarray(case.boards.given),
            keys_of(case.boards),
            jnp.array(FIRST, jnp.int32),
            jnp.array(STEPS, jnp.int32),
            path=Streamed(),
            rate=rates,
            noise=NOISE,
        )
    assert np.abs(found - case.rolled(Reference())).max() < 1e-2
    assert not emulated.launches


def test_rules_that_do_not_fit_are_refused_with_a_reason(monkeypatch):
    emulated.install(monkeypatch)
    step = rules.SUDOKU_EXTREME.step
    changes = (
        {"channels": 128},
        {"perception": "kernels"},
        {"update": "swiglu"},
        {"padding": "token"},
        {"unit": 16},
        {"tangent": False},
        {"channels": 512},
        {"hidden": 1000},
        {"frozen": 40},
        {"heads": 64},
    )
    size = "it knows 64, 128 or 256 channels, hidden layers by 128 and frozen channels by 32"
    sphere = "it knows units of 32 channels, all of them, with updates along the sphere"
    assert [streamed.refusal(replace(step, **change)) for change in changes] == [
        None,
        "it knows attention with an MLP, not kernels with mlp",
        "it knows attention with an MLP, not attention with swiglu",
        "it knows boards that wrap or end in zeros, not those that end in a token",
        sphere,
        sphere,
        size,
        size,
        size,
        "it knows heads of eight channels or a multiple of that",
    ]
    assert dispatch.choose(step, 47, "float32") == Attention()
    asked = "it rounds factors of products to bf16, which was not asked for"
    assert dispatch.streamed_refusal(step) == asked
    with jax.default_matmul_precision("bfloat16"):
        assert dispatch.streamed_refusal(step) is None
    assert dispatch.choose(step, 47, "bf16") == Streamed()


def test_the_benchmark_measures_it_with_bf16_products(monkeypatch):
    emulated.install(monkeypatch)
    paths = contending(rules.SUDOKU_EXTREME.step, 81, variants=False)
    assert [path.name for path in paths] == ["paper", "reference", "attention", "streamed"]
    assert told_apart(paths[-1], PRECISIONS) == ["bf16"]


def test_without_a_suitable_gpu_the_reason_is_given(monkeypatch):
    step = rules.SUDOKU_EXTREME.step
    assert dispatch.streamed_refusal(step) == "it needs an NVIDIA GPU"
    monkeypatch.setattr(launch, "refusal", lambda: None)
    monkeypatch.setattr(launch, "architecture", lambda: "sm_100")
    wanted = "it is made for GPUs of the Hopper generation and knows nothing of sm_100"
    assert dispatch.streamed_refusal(step) == wanted


@pytest.mark.parametrize(
    ("boards", "each"),
    [(1, 1), (132, 1), (256, 2), (512, 4), (800, 7), (4096, 11)],
)
def test_blocks_take_as_many_boards_as_keep_all_multiprocessors_busy(boards, each):
    assert streamed.boards_each(boards, 81, 132) == each


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("rule", ["small", "sudoku-ood", "sudoku-extreme"])
def test_kernels_compile_for_a_gpu_that_is_not_here(rule, groups, monkeypatch):
    monkeypatch.setattr(streamed, "GROUPS", groups)
    if reason := nvrtc.problem():
        pytest.skip(reason)
    call = streamed.Call(RULES[rule].automaton.step, (9, 9), 0.8, NOISE, keep=2, answers=(0, 32))
    for entry in ("steps_forward", "steps_backward"):
        kernel = call.kernel(entry, 2)
        assert 4 * kernel.shared_floats <= streamed.SHARED_BYTES
        ptx = nvrtc.compiled(kernel.file, "sm_90a", kernel.definitions)
        assert f".visible .entry {entry}(" in ptx
        assert re.search(r"^\.version 8\.0$", ptx, re.MULTILINE)
        assert re.search(r"^\.target sm_90a$", ptx, re.MULTILINE)
        assert "used_bytes_mask" not in ptx  # What version 8.0 does not know.
        assert "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16" in ptx


@pytest.mark.slow
@pytest.mark.parametrize("keep", [0, 2])
@pytest.mark.parametrize("rule", ["sudoku-ood", "sudoku-extreme"])
def test_products_are_not_serialised(rule, keep, tmp_path):
    assembler = shutil.which("ptxas")
    if reason := nvrtc.problem() or (
        None if assembler else "there is no ptxas, which CUDA's compiler brings"
    ):
        pytest.skip(reason)
    answers = (0, 32) if keep else None
    call = streamed.Call(RULES[rule].automaton.step, (9, 9), 0.8, NOISE, keep, answers)
    kernel = call.kernel("steps_forward", 2)
    (tmp_path / "kernel.ptx").write_text(nvrtc.compiled(kernel.file, "sm_90a", kernel.definitions))
    command = [assembler, "-v", "-arch=sm_90a", "kernel.ptx", "-o", "kernel.cubin"]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert "Potential Performance Loss" not in said
    spilled = [int(n) for n in re.findall(r"(\d+) bytes spill stores", said)]
    assert len(spilled) == (2 if keep else 1)
    assert max(spilled) < 200
