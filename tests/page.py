"""What the tests of the page share: models, a server in this process, and pages that must not complain."""

import base64
import contextlib
import importlib
import sys
import threading
from pathlib import Path

import numpy as np

import rules
from cellwise.automaton.layout import Automaton
from cellwise.kernels.dispatch import Noise
from cellwise.model import Model, Pace
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.sudoku_generator import generate_easy
from cellwise.thinking.mind import prepare
from cellwise.web.pages import choose, files
from cellwise.web.server import Server

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
browser = importlib.import_module("browser")

NO_GPU = "No available adapters."
"""What Chromium itself logs where there is no GPU; the page says so in its own way."""


def sudoku_model(name, automaton: Automaton, lively=1.0, digit=0):
    """A Sudoku model nobody trained: random weights, and cells that turn towards a digit."""
    spec = automaton.step
    rng = np.random.default_rng(5)

    def normal(scale, *shape):
        return np.float32(scale * rng.standard_normal(shape))

    tokens = rules.orthonormal_tokens(10, 32, 0)
    drift = np.zeros(spec.channels, np.float32)
    drift[:32] = 0.05 * tokens[digit] if digit else 0
    weights = {
        "perceive.attention": normal(1 / 3, 9, 9, spec.heads, 9),
        "perceive.value": normal(spec.channels**-0.5, spec.heads, spec.channels // spec.heads, spec.channels),
        "update.w_in": normal(spec.channels**-0.5, spec.channels, spec.hidden),
        "update.b_in": normal(0.2, spec.hidden),
        "update.w_out": normal(0.4 * lively * spec.hidden**-0.5, spec.channels, spec.hidden),
        "update.b_out": normal(0.2 * lively, spec.channels) + drift,
        "layout.tokens": tokens,
    }
    return Model(name, "sudoku", automaton, weights, (9, 9), 0.8, Pace(64, 0.0))


def directed_model(name):
    """A model nobody trained of the kind that tells start from goal and imagines walls beyond the edge."""
    weights = dict(rules.lively_weights("maze-hard", None))
    weights["update.w_out"] = weights["update.w_out"] * np.float32(0.05)
    return Model(name, "directed-maze", rules.MAZE_HARD, weights, None, 0.8, Pace(64, 0.0))


def fives():
    """A model that says five wherever nothing is given, and so solves Sudokus that lack only their fives."""
    return sudoku_model("fives", rules.SUDOKU_OOD, lively=0.0, digit=5)


def without_fives():
    """A Sudoku with a single solution that lacks only its fives, and the solution."""
    target = generate_easy(1, seed=3).target[0]
    return np.where(target == 5, 0, target).astype(np.uint8), target


def golden(model, steps=200, noise: Noise | None = None, size=21):
    """A board, and the state and the grid that Python gets to on it with seed 5."""
    boards = generate_easy(1, seed=3) if model.puzzle == "sudoku" else generate(size, 1, seed=4)
    batch, _ = model.prepared(boards.inputs)
    given, zero = model.given(batch), np.zeros(1, np.int32)
    mind = prepare(model.automaton, model.weights, given, model.fire_rate, noise)
    thought = mind.advance(mind.begin(batch, given, 5, zero, zero), 0, steps)
    return batch[0], np.asarray(thought.state)[0], mind.read(thought)[0][0]


def models_to_compare():
    """Every model that comes with the package and runs on the page, and other kinds of rule."""
    return [
        *choose(()),
        directed_model("two-ends"),
        sudoku_model("sudoku-128", rules.SUDOKU_OOD),
        sudoku_model("sudoku-256", rules.SUDOKU_EXTREME),
    ]


@contextlib.contextmanager
def served(models=(), change=None):
    """The address of a page with these models; `change` may spoil its files."""
    pages = files(models)
    if change:
        change(pages)
    server = Server(pages, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.address
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def opened(browser, address, scene="", **view):
    """A page that is ready; it must log no error and ask nobody else for anything."""
    page = browser.page(**({"still": True} | view))
    try:
        page.open(f"{address}{scene}")
        yield page
        complaints = [words for words in page.complaints() if words != NO_GPU]
        assert not complaints, complaints
        elsewhere = [url for url in page.requests() if not url.startswith(("blob:", address))]
        assert not elsewhere, elsewhere
    finally:
        page.close()


def numbers(page, expression, kind=np.float32):
    """A typed array of the page."""
    words = page.js(
        f"""(async () => {{
          const array = await ({expression});
          const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
          let text = "";
          for (let i = 0; i < bytes.length; i += 8192) {{
            text += String.fromCharCode(...bytes.subarray(i, i + 8192));
          }}
          return btoa(text);
        }})()"""
    )
    return np.frombuffer(base64.b64decode(words), kind)


def board(tab):
    """The board and what the cells say of it."""
    height, width = tab.js("[cellwise.board.height, cellwise.board.width]")
    shape = (height, width)
    inputs = numbers(tab, "cellwise.board.inputs", np.uint8).reshape(shape)
    return inputs, numbers(tab, "cellwise.frame.grid", np.uint8).reshape(shape)


def at(tab, *cells):
    """Where the middles of some cells (row, column) are on the screen."""
    left, top, width, height = tab.box("#board")
    rows, columns = tab.js("[cellwise.board.height, cellwise.board.width]")
    return [(left + (x + 0.5) / columns * width, top + (y + 0.5) / rows * height) for y, x in cells]
