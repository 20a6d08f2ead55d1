"""The page runs the same automaton as Python: masks bit for bit, states within rounding, equal answers."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import page as web
from cellwise.kernels import bits
from cellwise.kernels.dispatch import Noise
from cellwise.puzzles.maze_generator import generate

pytestmark = pytest.mark.skipif(
    web.browser.find() is None, reason="there is no Chromium here (apt install chromium)"
)

STEPS = 200
MODELS = {model.name: model for model in web.models_to_compare()}
EMULATED_GPU = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan")

THINK = """(async () => {
  const mind = cellwise.mind, model = await cellwise.fetched(NAME);
  const running = await mind.ask("use", {model, device: DEVICE});
  if (DEVICE === "gpu" && running.why) throw new Error(running.why);
  const board = {inputs: Uint8Array.from(BOARD), height: HEIGHT, width: WIDTH};
  await mind.ask("begin", {board, seed: 5, trials: 1});
  const settings = {rate: model.rate, adaptive: false, noise: NOISE};
  await mind.ask("run", {count: STEPS, budget: 1e9, tireless: true, settings});
  const frame = await mind.ask("frame", {focus: 0, view: "answer"});
  globalThis.grid = frame.grid;
  globalThis.done = frame.steps;
  return mind.ask("state", {trial: 0});
})()"""


def think(tab, name, board, noise=0.0, device="cpu", steps=STEPS):
    height, width = board.shape
    values = {
        "NAME": name,
        "DEVICE": device,
        "BOARD": board.ravel().tolist(),
        "HEIGHT": height,
        "WIDTH": width,
    }
    words = THINK
    for key, value in (values | {"STEPS": steps, "NOISE": noise}).items():
        words = words.replace(key, json.dumps(value))
    return web.numbers(tab, words)


@pytest.fixture(scope="module")
def address():
    with web.served(MODELS.values()) as address:
        yield address


@pytest.fixture(scope="module")
def tab(address):
    chromium = web.browser.Browser()
    try:
        with web.opened(chromium, address) as tab:
            yield tab
    finally:
        chromium.close()


@pytest.mark.parametrize("name", MODELS)
def test_a_thought_is_the_same_here_and_there(tab, name):
    board, state, grid = web.golden(MODELS[name], STEPS)
    found = think(tab, name, board)
    assert tab.js("done") == STEPS
    assert np.abs(found - state.ravel()).max() <= 1e-3
    assert np.array_equal(web.numbers(tab, "grid", np.uint8), grid.ravel())


@pytest.mark.parametrize("name", MODELS)
def test_kicks_are_the_same_here_and_there(tab, name):
    model = MODELS[name]
    noise = Noise(0.1, 0.2 if model.puzzle == "sudoku" else 0.3, 0.3)
    board, state, _ = web.golden(model, 60, noise)
    assert np.abs(think(tab, name, board, 0.3, steps=60) - state.ravel()).max() <= 1e-3


def test_the_largest_rule_is_quick_enough_to_watch(tab):
    """The stated floor; results/web.json has what was measured."""
    board, _, _ = web.golden(MODELS["sudoku-256"], 1)
    think(tab, "sudoku-256", board, steps=5)
    speed = """(async () => {
      const began = performance.now();
      await cellwise.mind.ask("run", {count: 1e6, budget: 1000, tireless: true});
      const frame = await cellwise.mind.ask("frame", {focus: 0});
      return (frame.steps - 5) / (performance.now() - began) * 1000;
    })()"""
    assert tab.js(speed) >= 60


def test_the_bits_are_the_same_here_and_there(tab):
    """The masks of a whole rollout, for keys of several seeds, boards, trials and rates."""
    cells, steps = 441, 200
    for seed, board, trial, rate in [(0, 0, 0, 0.8), (5, 0, 3, 0.05), (2**32 - 1, 7, 1, 1.0), (9, 1, 0, 0.3)]:
        boards, trials = (jnp.full(steps, number, jnp.int32) for number in (board, trial))
        keys = bits.at_step(bits.trajectory_keys(seed, boards, trials), bits.FIRE, jnp.arange(steps))
        wanted = np.asarray(bits.chance(bits.at_cells(keys, jnp.arange(cells)[None]), rate))
        found = web.numbers(
            tab,
            f"""import("./engine/bits.js").then(b => {{
              const key = b.trajectoryKey({seed}, {board}, {trial}), limit = b.threshold({rate});
              return Uint8Array.from({{length: {steps * cells}}}, (_, i) =>
                b.atCell(b.atStep(key, b.FIRE, Math.floor(i / {cells})), i % {cells}) >>> 8 < limit ? 1 : 0);
            }})""",
            np.uint8,
        )
        assert np.array_equal(found, wanted.ravel())


def test_generated_mazes_are_those_of_python(tab):
    for size, number in [(9, 0), (21, 7), (59, 1), (201, 2)]:
        module = 'import("./puzzles/maze_make.js")'
        found = web.numbers(
            tab, f'{module}.then(m => m.makeMaze({size}, "perfect", {number}).inputs)', np.uint8
        )
        assert np.array_equal(found, generate(size, 1, number).inputs.ravel())


@pytest.fixture(scope="module")
def gpu_tab(address):
    """A page whose WebGPU is emulated on the CPU, which is slow but computes."""
    chromium = web.browser.Browser(*EMULATED_GPU)
    try:
        with web.opened(chromium, address) as tab:
            if not tab.js("navigator.gpu?.requestAdapter().then(adapter => !!adapter) ?? false"):
                pytest.skip("this Chromium emulates no WebGPU")
            yield tab
    finally:
        chromium.close()


@pytest.mark.parametrize(("name", "steps"), [("maze-ood", 20), ("sudoku-128", 3)])
def test_a_gpu_thinks_the_same(gpu_tab, name, steps):
    board, state, grid = web.golden(MODELS[name], steps, size=9)
    found = think(gpu_tab, name, board, device="gpu", steps=steps)
    assert np.abs(found - state.ravel()).max() <= 1e-3
    assert np.array_equal(web.numbers(gpu_tab, "grid", np.uint8), grid.ravel())


def test_a_gpu_gets_kicks_between_its_steps(gpu_tab):
    model = MODELS["maze-ood"]
    board, state, _ = web.golden(model, 12, Noise(0.1, 0.3, 0.3), size=9)
    _, calm, _ = web.golden(model, 12, size=9)
    assert np.abs(calm - state).max() > 0.1
    found = think(gpu_tab, "maze-ood", board, 0.3, device="gpu", steps=12)
    assert np.abs(found - state.ravel()).max() <= 1e-3


def test_a_lost_gpu_is_replaced(gpu_tab):
    """In the middle of a thought: the page says so and goes on from where it was."""
    gpu_tab.js("cellwise.computeOn('gpu')")
    gpu_tab.js("cellwise.steps(5)")
    before = gpu_tab.js("cellwise.frame.steps")
    gpu_tab.js("cellwise.mind.ask('lose')")
    gpu_tab.js("cellwise.steps(5)")
    gpu_tab.wait("cellwise.frame.device === 'CPU'")
    assert gpu_tab.js("cellwise.frame.steps") >= before > 0
    assert "The GPU was lost" in gpu_tab.text("#notice-text")
    gpu_tab.js("cellwise.steps(5)")
    assert gpu_tab.js("cellwise.frame.steps") > before
