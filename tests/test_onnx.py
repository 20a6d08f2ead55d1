"""A step as an ONNX graph does in onnxruntime what the definition does here."""

import json
import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import rules
from cellwise import onnx_step
from cellwise.cli.main import main
from cellwise.errors import ConfigError
from cellwise.kernels import reference
from cellwise.model import Model, Pace, load
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.maze_path import judge

runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

PUZZLES = {
    "maze-ood": "maze",
    "maze-hard": "directed-maze",
    "sudoku-ood": "sudoku",
    "shared-swiglu": "sudoku",
    "visual": "visual-sudoku",
}


def model_of(name, size):
    rule = rules.RULES[name]
    weights = rules.lively_weights(name, size)
    return Model(name, PUZZLES[name], rule.automaton, weights, size if rule.placed else None, 0.8, Pace())


def session(model):
    data = onnx_step.graph(model).SerializeToString()
    return runtime.InferenceSession(data, providers=["CPUExecutionProvider"])


def both(model, run, boards, size, seed=0):
    spec = model.automaton.step
    rng = np.random.default_rng(seed)
    state = rng.standard_normal((boards, *size, spec.channels)).astype(np.float32)
    state = np.asarray(reference.normalise(spec, jnp.asarray(state)))
    given, fire = rng.random((2, boards, *size)) < np.array([0.4, 0.8])[:, None, None, None]
    wanted = reference.step(spec, rules.on_device(model.weights), *map(jnp.asarray, (state, given, fire)))
    (found,) = run.run(["next"], {"state": state, "given": given, "fire": fire})
    return found, np.asarray(wanted)


@pytest.mark.parametrize("name", rules.RULES)
def test_every_rule_steps_alike(name):
    model = model_of(name, (9, 9))
    found, wanted = both(model, session(model), 2, (9, 9))
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    assert np.abs(found).max() > 0.5


def test_one_file_takes_boards_of_any_number_and_size():
    model = load("maze-ood")
    run = session(model)
    for boards, size in [(1, (3, 3)), (3, (11, 7)), (1, (61, 61))]:
        found, wanted = both(model, run, boards, size)
        np.testing.assert_allclose(found, wanted, atol=5e-5)


def test_the_file_says_what_it_is(tmp_path, capsys):
    path = tmp_path / "step.onnx"
    assert main(["export", "onnx", str(path)]) == 0
    assert capsys.readouterr().err == f"Wrote {path}: one step of maze-ood, ONNX opset 17.\n"
    assert path.stat().st_size < 60_000
    run = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    about = run.get_modelmeta().custom_metadata_map
    model = load("maze-ood")
    assert json.loads(about["cellwise.name"]) == "maze-ood"
    assert np.array_equal(json.loads(about["cellwise.tokens"]), model.weights["layout.tokens"])
    assert [given.name for given in run.get_inputs()] == ["state", "given", "fire"]


def test_without_the_package_there_is_a_sentence(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ConfigError) as refusal:
        onnx_step.graph(load("maze-ood"))
    assert str(refusal.value) == (
        'Writing an ONNX file needs the package onnx; install it with `pip install "cellwise[onnx]"`.'
    )
    assert main(["export", "onnx", str(tmp_path / "x.onnx")]) == 2
    assert not (tmp_path / "x.onnx").exists()


def test_the_example_of_the_page_solves_a_maze(tmp_path, monkeypatch):
    page = (Path(__file__).resolve().parents[1] / "docs" / "play.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    onnx_step.save(load("maze-ood"), "maze-ood.onnx")
    mazes = generate(9, 1, seed=3)
    names = {"board": mazes.inputs[0]}
    exec(example, names)
    assert judge(mazes.inputs, None, names["answer"][None].astype(np.uint8)).valid[0]
