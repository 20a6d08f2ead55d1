import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tiny_job
from cellwise import api, benchmarks
from cellwise.benchmarks.preset import Preset
from cellwise.cli.arguments import parse
from cellwise.cli.train import Train
from cellwise.errors import ConfigError, RunError
from cellwise.model import Pace
from cellwise.training.folder import read_config, read_metrics
from cellwise.training.recipe import Recipe

# The iteration calls a function by the name that the newest optax deprecates.

JOB = tiny_job.tiny_job()
PRESETS = {
    name: Preset(
        name=name,
        about=about,
        puzzle="maze",
        automaton=JOB.automaton,
        tokens=tiny_job.TOKENS,
        recipe=tiny_job.RECIPE,
        boards=lambda: (JOB.boards, JOB.provenance),
        checks=lambda: JOB.checks,
        pace=Pace(),
    )
    for name, about in {"tiny": "Very small mazes", "tiny-too": "The same again", "huge": "Not here"}.items()
}
SMALL = ["--seed", "3", "--log-every", "2", "--save-every", "5", "--check-every", "6"]
PROGRAM = """
import signal, sys, time
from cellwise import benchmarks
from cellwise.cli.arguments import parse
from cellwise.cli.train import Train
from cellwise.training import loop
from test_train_cli import PRESETS

def slow(*args, **kwargs):
    time.sleep(0.05)
    return iterate(*args, **kwargs)

iterate, loop.iterate = loop.iterate, slow
benchmarks.PRESETS = PRESETS
signal.signal(signal.SIGINT, signal.default_int_handler)  # In case the tests run in the background.
sys.exit(parse(Train, "cellwise train", sys.argv[1:]).run())
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(benchmarks, "PRESETS", PRESETS, raising=False)


def parsed(*words) -> Train:
    return parse(Train, "cellwise train", [str(word) for word in words])


@pytest.fixture
def asked(monkeypatch):
    """What `api.train` would be called with."""
    calls = []
    monkeypatch.setattr(api, "train", lambda *args, **options: calls.append((args, options)))
    return calls


def test_options_reach_the_training(asked):
    assert parsed("tiny", "--out", "here", "--seed", 5, "--resume", "--tensorboard").run() == 0
    every = {"log_every": 25, "save_every": 500, "check_every": 500}
    assert asked.pop() == (("tiny", Path("here"), 5, True), {**every, "tensorboard": True})


def words(name: str, value) -> list[str]:
    return ["--recipe." + name.replace("__", "."), str(value)]


OTHERS = {
    "clip": 2.0,
    "beta1": 0.5,
    "beta2": 0.5,
    "weight_decay": 0.5,
    "average": 0.5,
    "steps": 7,
    "schedule__first": 0.5,
    "schedule__peak": 0.5,
    "schedule__last": 0.5,
    "schedule__warmup": 5,
    "schedule__shape": "linear",
    "batch": 4,
    "pool": 12,
    "fresh": 2,
    "rollout": 16,
    "chunk": 4,
    "supervise": "last",
    "fire_rate": 0.5,
    "noise__when": 0.5,
    "noise__where": 0.5,
    "noise__size": 0.5,
    "noise__until": 3,
    "noise_before": False,
    "damage": 0.5,
    "discs": 3,
    "damage_fill": 1.0,
    "swap": 0.5,
    "swap_from": "data",
    "write_back": "rollout",
    "augment": "none",
    "augment_per": "batch",
    "bands": "tied",
    "loss_scale": "sum",
    "precision": "bf16",
    "microbatch": 4,
}


def leaves(recipe: Recipe):
    return dict(api.recipe_fields(recipe))


def test_every_field_of_a_recipe_can_be_changed(asked):
    assert list(OTHERS) == list(leaves(tiny_job.RECIPE))
    for name, value in OTHERS.items():
        assert parsed("tiny", *words(name, value)).run() == 0
        (_, options) = asked.pop()
        assert {k: v for k, v in options.items() if "_every" not in k and k != "tensorboard"} == {name: value}


@pytest.mark.parametrize("name", OTHERS)
def test_a_change_changes_one_field(name):
    others = {"batch": 4} if name == "microbatch" else {}
    if name == "batch":
        others = {"microbatch": 4}
    recipe = api.changed(tiny_job.RECIPE, {name: OTHERS[name], **others})
    before, after = leaves(tiny_job.RECIPE), leaves(recipe)
    assert after == before | {name: OTHERS[name]} | others
    assert before[name] != after[name]


def test_parts_can_be_changed_as_a_whole():
    schedule = tiny_job.Schedule(1e-4, 1e-4, 1e-4, 1)
    assert api.changed(tiny_job.RECIPE, {"schedule": schedule}).schedule == schedule


def test_help_explains_the_numbers(capsys):
    with pytest.raises(SystemExit) as caught:
        parsed("--help")
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--recipe.steps INT How many times the weights are updated. (default: the preset's)" in text
    assert "--recipe.schedule.shape constant|cosine|linear" in text
    assert "--recipe.noise-before True|False" in text
    assert "The learning rate: a straight line from" in text
    assert "--recipe.beta1 FLOAT Adam's memory of the gradient. (default: the preset's)" in text


def test_list_shows_every_preset(capsys):
    assert parsed("--list").run() == 0
    assert capsys.readouterr().out.splitlines() == [
        "preset    iterations  about           ",
        "tiny              12  Very small mazes",
        "tiny-too          12  The same again  ",
        "huge              12  Not here        ",
    ]


@pytest.mark.parametrize(
    ("asked_for", "message"),
    [
        (["tyni"], "There is no preset 'tyni'; did you mean tiny?"),
        (["sudoku"], "There is no preset 'sudoku'; choose one of: tiny, tiny-too, huge."),
        ([], "Name a preset to train: tiny, tiny-too, huge."),
        (
            ["tiny", "--recipe.batch", "99"],
            "This recipe cannot be trained: batch must be between 1 and pool.",
        ),
        (["tiny", "--seed", "-1"], "The seed cannot be -1; choose a whole number from 0 to 4294967295."),
        (
            ["tiny", "--log-every", "0"],
            "The interval to log cannot be 0; choose a whole number from 1 to 2147483647.",
        ),
        (
            ["tiny", "--recipe.stpes", "3"],
            "cellwise train knows no '--recipe.stpes'; did you mean --recipe.steps?",
        ),
        (
            ["tiny", "--recipe.steps", "few"],
            "--recipe.steps cannot be 'few'; write it as `--recipe.steps INT`, see `cellwise train --help`.",
        ),
        (
            ["tiny", "--recipe.schedule.shape", "round"],
            "--recipe.schedule.shape cannot be 'round'; choose one of: constant, cosine, linear.",
        ),
        (["tiny", "--resume"], "There is no run in runs/tiny to resume; leave out --resume to start one."),
    ],
)
def test_refusals(asked_for, message):
    with pytest.raises((ConfigError, RunError)) as caught:
        parsed(*asked_for).run()
    assert str(caught.value) == message
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"schedule__peek": 1},
            "There is no recipe field 'schedule__peek'; "
            "did you mean schedule__peak or schedule__shape or schedule__warmup?",
        ),
        ({"steps__peak": 1}, "There is no recipe field 'steps__peak'; did you mean schedule__peak or steps?"),
        ({"steps": "many"}, "The recipe: steps must be a whole number, not 'many'."),
        ({"schedule__peak": float("nan")}, "The recipe: schedule: peak must be a finite number, not 'nan'."),
        ({"schedule": 3}, "The recipe: schedule must be an object, not '3'."),
        ({"bands": "loose"}, "The recipe: bands must be one of free, tied, not 'loose'."),
    ],
)
def test_changes_that_make_no_sense(changes, message):
    with pytest.raises(ConfigError) as caught:
        api.train("tiny", **changes)
    assert str(caught.value) == message


def test_an_unknown_field_with_no_likeness_lists_all():
    with pytest.raises(ConfigError) as caught:
        api.train("tiny", qqq=1)
    assert str(caught.value) == f"There is no recipe field 'qqq'; choose one of: {', '.join(OTHERS)}."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule__peak": 1e300}, "its learning rates must be between 0 and 1"),
        ({"schedule__first": -1.0}, "its learning rates must be between 0 and 1"),
        ({"steps": 2**40}, "steps and rollout are too large"),
        ({"rollout": 2**40, "chunk": 2**40}, "steps and rollout are too large"),
        ({"clip": 0.0}, "clip must be positive"),
        ({"beta1": 1.0}, "beta1 and beta2 must be in [0, 1)"),
        ({"beta2": -0.1}, "beta1 and beta2 must be in [0, 1)"),
        ({"weight_decay": -1.0}, "weight_decay must be in [0, 1]"),
        ({"discs": -1}, "discs must be between 0 and 100"),
        ({"damage_fill": 1e300}, "damage_fill must be between -100 and 100"),
        ({"augment": "sudoku"}, "augment by sudoku needs boards of 9 x 9"),
        ({"pool": 10**9}, "its pool needs 2,921 GiB"),
    ],
    ids=str,
)
def test_recipes_that_would_break_down_are_refused_before_anything_is_written(changes, message):
    with pytest.raises(ConfigError) as caught:
        api.train("tiny", **changes)
    assert str(caught.value) == f"This recipe cannot be trained: {message}; change that number."
    assert not Path("runs").exists()


@pytest.mark.parametrize("changes", [{"noise__when": 2.0}, {"noise__size": -1.0}], ids=str)
def test_noise_that_cannot_be(changes):
    with pytest.raises(ConfigError, match="The noise cannot be Noise"):
        api.train("tiny", **changes)
    assert not Path("runs").exists()


def test_train_by_command_then_resume_with_nothing_but_the_folder(capsys):
    """The recipe and the seed of a run are remembered, and the tiny run is one that is compiled already."""
    assert parsed("tiny", *SMALL, "--recipe.clip", "1").run() == 0
    folder = Path("runs/tiny")
    config = read_config(folder)
    assert config["command"] == "cellwise train tiny --seed 3 --recipe.clip 1.0"
    assert config["seed"] == 3 and config["recipe"]["clip"] == 1.0
    assert [record["step"] for record in read_metrics(folder)] == [2, 4, 6, 6, 8, 10, 12, 12]
    assert (
        json.loads((folder / "model/config.json").read_text())["provenance"]["command"] == config["command"]
    )
    assert parsed("tiny", "--resume").run() == 0
    assert capsys.readouterr().err.splitlines()[-1] == (
        "tiny is complete: 12 iterations, model in runs/tiny/model"
    )
    with pytest.raises(RunError) as caught:
        parsed("tiny", "--resume", "--recipe.clip", "2").run()
    assert str(caught.value) == (
        "Cannot resume runs/tiny: recipe.clip is 1.0 there and 2.0 here; "
        "use the run's value or choose another folder."
    )
    with pytest.raises(RunError, match=r"job is tiny there and tiny-too here"):
        parsed("tiny-too", "--out", folder, "--resume").run()


def test_a_call_returns_the_model():
    model = api.train("tiny", out="a", seed=3, log_every=2, save_every=5, check_every=6)
    assert model.name == "tiny" and model.provenance["command"] == "cellwise train tiny --seed 3"
    assert api.train("tiny", out="a", resume=True).weights.keys() == model.weights.keys()


def test_ctrl_c_in_a_terminal(tmp_path_factory):
    environment = tiny_job.environment(tmp_path_factory.getbasetemp())
    command = [sys.executable, "-c", PROGRAM, "tiny", "--out", "my run", *SMALL, "--save-every", "1"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(Path("my run/checkpoints").glob("step-*")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    saved = max(Path("my run/checkpoints").glob("step-*"))
    step = int(saved.stem.removeprefix("step-"))
    assert process.returncode == 130
    assert errors.splitlines()[-1] == (
        f"Stopped after iteration {step} and saved; resume with: cellwise train tiny --out 'my run' --resume"
    )
    assert 0 < step < 12 and "Traceback" not in errors
    assert parsed("tiny", "--out", "my run", "--resume").run() == 0
    assert read_metrics(Path("my run"))[-1]["step"] == 12
