"""Many steps in one launch, against the oracle and against step after step.

Each test runs twice: the kernel's own source on a CPU (`emulated.py`), in every run of the suite, and the
compiled kernel on a GPU with `tools/gpu_test.py`.
"""

import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emulated
import launches
import oracle
from cellwise.automaton import rollout
from cellwise.kernels import dispatch, launch, nvrtc, resident
from cellwise.kernels.dispatch import Compact, Noise, Resident
from launches import FIRST, MIXED, NOISE, RATE, STEPS, on_cpu
from rules import MAZE_HARD, MAZE_OOD, RULES, boards_for, keys_of, lively_weights, maze_automaton, on_device

CASES = {
    # A block for each board and less than a tile; several tiles by turns; clusters of blocks.
    "maze-ood, one tile": ("maze-ood", {}, (5, 9), 8),
    "maze-ood, tiles, zeros beyond": ("maze-ood", {"padding": "zero"}, (7, 9), 4),
    "maze-ood, clusters": ("maze-ood", {}, (13, 9), 64),
    "maze-hard, tiles": ("maze-hard", {}, (3, 8), 4),
    "maze-hard, clusters": ("maze-hard", {}, (5, 13), 64),
}


@pytest.fixture(params=["emulated", pytest.param("gpu", marks=pytest.mark.gpu)])
def machine(request, monkeypatch):
    """Where kernels run; the tests of emulated ones need a C++ compiler."""
    if request.param == "gpu":
        if reason := launch.refusal():
            pytest.fail(f"these tests were asked for, but {reason}")
        emulated.count(monkeypatch)
    elif emulated.COMPILER is None:
        pytest.skip("there is no C++ compiler (g++ or clang++) to build the emulated kernels with")
    else:
        emulated.install(monkeypatch)
    emulated.launches.clear()
    yield request.param
    assert emulated.launches, "no kernel ran, so nothing was tested"


@pytest.fixture(params=CASES)
def case(request, machine, monkeypatch):
    """A rule, boards, weights and a first state, small enough for the oracle."""
    name, change, size, multiprocessors = CASES[request.param]
    monkeypatch.setattr(launch, "multiprocessors", lambda: multiprocessors)
    automaton = RULES[name].automaton
    automaton = replace(automaton, step=replace(automaton.step, **change))
    return Case(automaton, boards_for(automaton, MIXED, size), lively_weights(name, size))


class Case(launches.Case):
    channel = 1

    @property
    def free(self):
        return max(1, int((~self.boards.given).sum((1, 2)).max()))

    def believed(self, judged="all"):
        """What learning finds step after step, on a CPU."""
        with on_cpu():
            return self.learned(Compact(self.free), judged)


def test_states_are_those_of_the_oracle(case):
    found = case.rolled(Resident(case.free))
    weights = oracle.float64(case.weights)
    for i, (first, steps) in enumerate(zip(FIRST, STEPS, strict=True)):
        one = slice(i, i + 1)
        begin = np.float64(case.state[one])
        how = (case.boards.given[one], case.boards.keys[one], first, steps, RATE, NOISE)
        believed = [begin, *oracle.rollout(case.spec, weights, begin, *how)]
        np.testing.assert_allclose(found[one], believed[-1], atol=1e-5)
    assert np.abs(found - case.state).max() > 0.1, "nothing happened, so nothing was tested"


@pytest.mark.parametrize("judged", ["all", "last"])
def test_learning_is_that_of_step_after_step(case, judged):
    wanted = case.believed(judged)
    errors, end, of_weights, of_state = case.learned(Resident(case.free), judged)
    np.testing.assert_allclose(errors, wanted[0], rtol=1e-5)
    np.testing.assert_allclose(end, wanted[1], atol=1e-5)
    for name, slope in {**wanted[2], "state": wanted[3]}.items():
        found = of_state if name == "state" else of_weights[name]
        assert float(jnp.abs(slope).max()) > 1e-2, name
        np.testing.assert_allclose(found, slope, atol=1e-5 * float(jnp.abs(slope).max()), err_msg=name)
    assert (np.asarray(of_state)[case.boards.given] == 0).all()


def test_rounded_factors_stay_within_their_bound(case):
    # Factors of TF32 have eleven bits, so a product is off by 2⁻¹¹ at most and a sum of them by much less.
    exact = case.rolled(Resident(case.free))
    with jax.default_matmul_precision("tensorfloat32"):
        rounded = case.rolled(Resident(case.free))
        _, _, of_weights, of_state = case.learned(Resident(case.free))
    assert "1" in [dict(kernel.definitions)["PASSES"] for kernel in emulated.launches]
    error = np.linalg.norm(rounded - exact) / np.linalg.norm(exact)
    assert 1e-7 < error < 5e-4
    wanted = case.believed()
    for name, slope in {**wanted[2], "state": wanted[3]}.items():
        found = of_state if name == "state" else of_weights[name]
        # Hidden numbers next to zero may change sides, and their gradient with them.
        assert np.linalg.norm(found - slope) < 2e-2 * np.linalg.norm(slope), name


@pytest.mark.parametrize("rate", [0.8, 1, 1e-3])
def test_cells_fire_where_the_oracle_says(machine, rate):
    automaton = maze_automaton(8, 64, 0.15, 4, 2, padding="zero")
    boards = boards_for(automaton, MIXED, (5, 7), seed=3)
    shapes = {"kernels": (4, 9), "w_in": (32, 64), "b_in": (64,), "w_out": (8, 64)}
    room = {"kernels": "perceive"}
    weights = {f"{room.get(n, 'update')}.{n}": np.zeros(shape, np.float32) for n, shape in shapes.items()}
    weights |= {"update.b_out": np.ones(8, np.float32), "layout.tokens": np.zeros((4, 8), np.float32)}
    small = Case(automaton, boards, weights)
    small.state = np.zeros((4, 5, 7, 8), np.float32)
    counts = small.rolled(Resident(35), rate=rate, noise=None)
    assert (counts == counts[..., :1]).all()
    for i, (first, steps) in enumerate(zip(FIRST, STEPS, strict=True)):
        key = boards.keys[i : i + 1]
        fired = sum(oracle.fire_mask(key, s, (5, 7), rate)[0] for s in range(first, first + steps))
        np.testing.assert_array_equal(counts[i, ..., 0], fired * ~boards.given[i])


def test_noise_is_that_of_step_after_step(machine):
    noise, automaton = Noise(when=0.9, where=0.5, size=0.3, until=8), RULES["maze-ood"].automaton
    boards = boards_for(automaton, (0.1, 0.2, 0.3, 0.4), (5, 7), seed=3)
    weights = {name: 0 * array for name, array in lively_weights("maze-ood", (5, 7)).items()}
    still = Case(automaton, boards, weights)
    kicked = still.rolled(Resident(35), noise=noise) - still.state
    for i, (first, steps) in enumerate(zip(FIRST, STEPS, strict=True)):
        key = boards.keys[i : i + 1]
        kicks = np.zeros((5, 7, 16))
        for step in range(first, first + steps):
            kicks += oracle.kick(key, step, (5, 7), 16, noise)[0]
        np.testing.assert_allclose(kicked[i], kicks * ~boards.given[i, ..., None], atol=1e-6)
    assert (kicked != 0).sum() > 100


def test_a_board_may_be_alone_or_without_free_cells(machine):
    automaton = RULES["maze-ood"].automaton
    for share in (1.0, 0.5):
        alone = Case(automaton, boards_for(automaton, (share,), (4, 3)), lively_weights("maze-ood", (4, 3)))
        found, wanted = alone.rolled(Resident(alone.free)), alone.rolled(Compact(alone.free))
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        assert (found == alone.state).all() == (share == 1.0)


def test_boards_do_not_feel_each_other(machine):
    automaton = RULES["maze-ood"].automaton
    many = Case(automaton, boards_for(automaton, MIXED, (5, 9)), lively_weights("maze-ood", (5, 9)))
    together = many.rolled(Resident(many.free))
    for i in range(4):
        alone = many.rolled(Resident(many.free), boards=slice(i, i + 1))
        np.testing.assert_array_equal(alone, together[i : i + 1])


def test_the_order_of_threads_does_not_matter(monkeypatch):
    if emulated.COMPILER is None:
        pytest.skip("there is no C++ compiler (g++ or clang++) to build the emulated kernels with")
    emulated.install(monkeypatch, multiprocessors=64)
    automaton = RULES["maze-hard"].automaton
    one = Case(automaton, boards_for(automaton, MIXED, (5, 8)), lively_weights("maze-hard", (5, 8)))
    found = []
    for stride in (1, 7, 513):
        monkeypatch.setattr(emulated, "STRIDES", (stride,))
        jax.clear_caches()
        found.append((one.rolled(Resident(one.free)), one.learned(Resident(one.free))))
    for other in found[1:]:
        jax.tree.map(np.testing.assert_array_equal, other, found[0])


def test_rates_of_cells_and_large_boards_are_taken_step_by_step(monkeypatch):
    emulated.install(monkeypatch)
    emulated.launches.clear()
    automaton = RULES["maze-ood"].automaton
    case = Case(automaton, boards_for(automaton, MIXED, (5, 9)), lively_weights("maze-ood", (5, 9)))
    plan = Resident(45).plan(case.spec, jnp.asarray(case.boards.given))
    rates = jnp.full((4, 5, 9), RATE, jnp.float32)
    found = rollout.rollout(
        case.spec,
        on_device(case.weights),
        jnp.asarray(case.state),
        plan,
        keys_of(case.boards),
        jnp.array(FIRST, jnp.int32),
        jnp.array(STEPS, jnp.int32),
        path=Resident(45),
        rate=rates,
        noise=NOISE,
    )
    np.testing.assert_allclose(found, case.rolled(Compact(45)), atol=1e-6)
    assert not emulated.launches
    assert Resident(45).call(case.spec, RATE, None, keep=3).fits(4, 48)
    assert not Resident(9000).call(case.spec, RATE, None, keep=3).fits(4, 9024)


def test_rules_that_do_not_fit_are_refused_with_a_reason(monkeypatch):
    emulated.install(monkeypatch)
    step = RULES["maze-ood"].automaton.step
    assert {
        change: dispatch.resident_refusal(replace(step, **dict([change])))
        for change in (("channels", 16), ("frozen", 15), ("heads", 3), ("hidden", 40), ("hidden", 1024))
    } == {
        ("channels", 16): None,
        ("frozen", 15): "given cells keep only 15 of 16 channels, so all cells are computed",
        ("heads", 3): "it knows channels by eights, heads by twos and hidden layers by 32",
        ("hidden", 40): "it knows channels by eights, heads by twos and hidden layers by 32",
        ("hidden", 1024): "1024 × 64 weights do not fit into the registers of a block",
    }
    assert dispatch.choose(step, 47, "float32") == Resident(47)
    assert resident.shape(MAZE_OOD.step) == resident.Shape(3, 4)
    assert resident.shape(MAZE_HARD.step) == resident.Shape(1, 8)


def test_without_a_gpu_the_reason_is_given():
    assert dispatch.resident_refusal(RULES["maze-ood"].automaton.step) == "it needs an NVIDIA GPU"


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("rule", ["maze-ood", "maze-hard"])
def test_kernels_compile_for_a_gpu_that_is_not_here(rule, exact, monkeypatch):
    if reason := nvrtc.problem():
        pytest.skip(reason)
    monkeypatch.setattr(launch, "multiprocessors", lambda: 132)
    for entry in ("steps_forward", "steps_backward"):
        kernel = resident.Call(RULES[rule].automaton.step, 0.8, NOISE, exact, keep=2).kernel(entry, 32, 608)
        ptx = nvrtc.compiled(kernel.file, "sm_90", kernel.definitions)
        assert f".visible .entry {entry}(" in ptx
        assert re.search(r"^\.version 8\.0$", ptx, re.MULTILINE)
        assert "mma.sync.aligned.m16n8k8" in ptx
