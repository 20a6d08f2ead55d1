"""Learning from pairs: it learns, what it learns from is what it should, and a run survives being stopped."""

import dataclasses
import json
import signal
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from cellwise import api, benchmarks
from cellwise.automaton import rule
from cellwise.benchmarks import arc
from cellwise.cli.arguments import parse
from cellwise.cli.train import Train
from cellwise.errors import CellwiseError, ConfigError, DataError, PuzzleError, RunError
from cellwise.kernels import bits
from cellwise.kernels.dispatch import Reference
from cellwise.model import load
from cellwise.puzzles.arc_canvas import PAD
from cellwise.puzzles.arc_held_out import HELD_OUT
from cellwise.tasks import learn, pretrain
from cellwise.tasks.shelves import Laid, draw, shelve
from cellwise.training.folder import RunFolder, read_metrics
from cellwise.training.interrupt import Stopped
from tiny_tasks import AUTOMATON, RECIPE, RULES, TOKENS, tiny_pair_job, tiny_pairs

QUIET = Console(quiet=True)
SHORT_WINDOW = {"first": 3, "learned": 3}
SHORT = dataclasses.replace(
    RECIPE, steps=8, batch=4, rollout=4, learned=4, schedule=dataclasses.replace(RECIPE.schedule, warmup=2)
)


def run(folder, recipe=SHORT, job=None, **options):
    every = {"log_every": 2, "save_every": 3, "check_every": 100} | options
    return pretrain.train(job or tiny_pair_job(recipe), folder, console=QUIET, **every)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    model = run(folder, dataclasses.replace(RECIPE, steps=150), log_every=50, save_every=150, check_every=150)
    return folder, model


def test_tiny_tasks_are_learnt_and_told_apart(learnt):
    """The rules contradict each other, so that only the context can tell which is wanted."""
    folder, _ = learnt
    checks = [record for record in read_metrics(folder) if record.get("check")]
    assert checks[-1]["boards"] >= 0.8 and checks[-1]["tasks"] >= 0.8


def test_contexts_that_were_not_learnt_tell_nothing(learnt):
    """With random contexts the same automaton knows next to nothing: what it learnt is in them."""
    _, model = learnt
    job = tiny_pair_job(dataclasses.replace(RECIPE, steps=150))
    shuffled = np.roll(model.weights["context.vectors"], 1, axis=0)
    weights = {name: jnp.asarray(array) for name, array in model.weights.items()}
    right, _ = pretrain.answer_check(job, job.checks[0], weights)
    wrong, _ = pretrain.answer_check(job, job.checks[0], weights | {"context.vectors": jnp.asarray(shuffled)})
    assert right >= 0.8 and wrong <= 0.4


def test_the_model_is_a_model_folder(learnt):
    folder, model = learnt
    again = load(folder / "model")
    assert again.puzzle == "arc" and again.automaton == AUTOMATON and again.pace.base == 6
    assert again.provenance["contexts"] == list(RULES) and again.provenance["iterations"] == 150
    for name, array in model.weights.items():
        np.testing.assert_array_equal(again.weights[name], array)
    with pytest.raises(PuzzleError) as caught:
        again.solve(np.zeros((3, 3), np.uint8))
    assert str(caught.value) == (
        "tiny must learn a task before it can solve it; hand the task to `cellwise adapt`."
    )


def tensors(folder):
    [*_, (_, path)] = RunFolder(folder).checkpoint_files()
    from safetensors import numpy as safetensors

    return safetensors.load(path.read_bytes())


def test_a_stopped_run_goes_on_as_if_nothing_had_happened(tmp_path, monkeypatch):
    run(tmp_path / "whole")
    real, calls = pretrain.iterate, []

    def counted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 4:
            signal.raise_signal(signal.SIGINT)
        return real(*args, **kwargs)

    monkeypatch.setattr(pretrain, "iterate", counted)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(Stopped) as stopped:
        run(tmp_path / "parts")
    assert str(stopped.value) == (
        "Stopped after iteration 4 and saved; resume with: "
        f"cellwise train tiny --out {tmp_path / 'parts'} --resume"
    )
    run(tmp_path / "parts", resume=True)
    whole, parts = tensors(tmp_path / "whole"), tensors(tmp_path / "parts")
    assert whole.keys() == parts.keys() and any("mu" in name for name in whole)
    for name, array in whole.items():
        np.testing.assert_array_equal(parts[name], array, err_msg=name)
    losses = [
        [record["loss"] for record in read_metrics(tmp_path / name) if "loss" in record]
        for name in ("whole", "parts")
    ]
    assert losses[0] == losses[1] and len(losses[0]) == 4


def test_a_run_stops_when_its_time_is_over(tmp_path):
    run(tmp_path / "run", minutes=1e-9)
    records = read_metrics(tmp_path / "run")
    assert [record["step"] for record in records] == [1, 1], "a look and a check"
    assert records[0]["device_minutes"] > 0 and records[0]["pairs"] == 4
    assert (tmp_path / "run" / "model" / "config.json").exists()
    run(tmp_path / "run", resume=True)
    assert read_metrics(tmp_path / "run")[-1]["step"] == 8


def test_what_cannot_be_resumed_says_so(tmp_path):
    run(tmp_path / "run", minutes=1e-9)
    with pytest.raises(RunError) as caught:
        run(tmp_path / "run")
    assert str(caught.value) == (
        f"{tmp_path / 'run'} already holds a run; continue it with --resume or choose another folder."
    )
    with pytest.raises(RunError) as caught:
        run(tmp_path / "run", dataclasses.replace(SHORT, batch=8), resume=True)
    assert str(caught.value) == (
        f"Cannot resume {tmp_path / 'run'}: recipe.batch is {SHORT.batch} there and 8 here; "
        "use the run's value or choose another folder."
    )


def test_a_run_that_breaks_down_says_so(tmp_path):
    job = tiny_pair_job(SHORT)
    broken = dataclasses.replace(job, fixed={"layout.tokens": np.full_like(TOKENS, np.nan)})
    with pytest.raises(RunError) as caught:
        run(tmp_path / "run", job=broken)
    assert str(caught.value) == (
        "Training broke down at iteration 1 because the loss is nan; there is no checkpoint yet; "
        "train again in another folder with a lower --recipe.schedule.peak."
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"steps": 0}, "steps must be positive"),
        ({"canvases": (12,)}, "canvases must be sides from 3 to 64, the largest at least 32"),
        ({"canvases": ()}, "canvases must be sides from 3 to 64, the largest at least 32"),
        ({"learned": 9}, "learned must be between 1 and rollout"),
        ({"judged": 7}, "judged must be between 1 and learned"),
        ({"fire_rate": 0.0}, "fire_rate must be in (0, 1]"),
        ({"small": -1.0}, "small must be between 0 and 4"),
    ],
)
def test_recipes_that_cannot_be_trained(changes, problem):
    with pytest.raises(ConfigError) as caught:
        dataclasses.replace(RECIPE, **changes)
    assert str(caught.value) == f"This recipe cannot be trained: {problem}."


# The presets


def test_options_reach_the_recipe(monkeypatch):
    calls = []

    def train(job, folder, **how):
        calls.append((job, folder, how))
        return load("maze-ood")

    monkeypatch.setattr(pretrain, "train", train)
    preset = dataclasses.replace(
        arc.ARC_SMALL, pairs=lambda: (tiny_pairs(), {"data": "painted"}), checks=lambda: ()
    )
    monkeypatch.setitem(benchmarks.PRESETS, "arc-small", preset)
    words = ["arc-small", "--minutes", "2", "--recipe.canvases", "12", "32", "--recipe.schedule.peak", "0.1"]
    assert parse(Train, "cellwise train", [*words, "--recipe.window", "random"]).run() == 0
    [(job, folder, how)] = calls
    assert job.recipe == dataclasses.replace(
        arc.SMALL,
        canvases=(12, 32),
        window="random",
        schedule=dataclasses.replace(arc.SMALL.schedule, peak=0.1),
    )
    assert str(folder) == "runs/arc-small" and how["minutes"] == 2.0
    assert "--recipe.canvases 12 32" in how["command"]


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("maze-laptop", {"minutes": 0}, "There is no training for 0 minutes; choose a positive number."),
        ("arc-small", {"pool": 3}, "There is no recipe field 'pool'"),
        ("arc-small", {}, "arc-agi-1 train is not on this machine; run `cellwise data fetch arc-agi-1"),
    ],
)
def test_what_cannot_be_trained_says_so(name, options, said, tmp_path, monkeypatch):
    monkeypatch.setenv("CELLWISE_DATA", str(tmp_path))
    if "pool" in options:
        monkeypatch.setitem(
            benchmarks.PRESETS,
            name,
            dataclasses.replace(arc.ARC_SMALL, pairs=lambda: (tiny_pairs(), {}), checks=lambda: ()),
        )
    with pytest.raises(CellwiseError) as caught:
        api.train(name, tmp_path / "run", **options)
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)


def test_the_training_pairs_leave_out_what_is_held_out(arc_tasks):
    arc_tasks("train")
    try:
        pairs, provenance = arc.training_pairs()
    except DataError as error:
        pytest.skip(str(error))
    held = [number for number, name in enumerate(pairs.names) if name in HELD_OUT]
    assert len(held) == 40 and len(pairs.names) == 400 and not np.isin(pairs.task, held).any()
    assert len(set(pairs.task.tolist())) == 360 and provenance["held_out"] == list(HELD_OUT)
    asked = {one.task.name for one in arc.checks()[0].known}
    assert len(asked) == 360 and not asked & set(HELD_OUT)
    assert {one.task.name for one in arc.held_out()} == set(HELD_OUT)


# The loss


def laid_and_weights(seed=0):
    (shelf,) = shelve(tiny_pairs(), RECIPE.canvases)
    arrays = rule.first_weights(AUTOMATON.step, None, seed) | rule.first_tables(AUTOMATON, seed)
    arrays = {name: 30 * array if name.startswith("update.w") else array for name, array in arrays.items()}
    weights = {name: jnp.asarray(array) for name, array in (arrays | {"layout.tokens": TOKENS}).items()}
    keys = bits.trajectory_keys(0, jnp.arange(6, dtype=jnp.int32), jnp.zeros(6, jnp.int32))
    return draw(shelf, jax.random.key(seed), 6), weights, keys


def verdict(weights, laid, keys, first=0, **changes):
    recipe = dataclasses.replace(RECIPE, **changes)
    how = {"recipe": recipe, "path": Reference()}
    judge = jax.jit(partial(learn.judge, AUTOMATON, **how))
    return judge(weights, laid, keys, jnp.int32(first))


def gradient(weights, laid, keys, first=0, **changes):
    def error(weights):
        found = verdict(weights, laid, keys, first, **changes)
        return learn.loss(found, dataclasses.replace(RECIPE, **changes))

    return jax.jit(jax.grad(error))(weights)


def test_what_lies_on_padding_is_not_judged():
    laid, weights, keys = laid_and_weights()
    found = verdict(weights, laid, keys)
    np.testing.assert_array_equal(found.cells, (np.asarray(laid.target) != PAD).sum((1, 2)))
    empty = Laid(laid.question, jnp.full_like(laid.target, PAD), laid.task)
    assert not np.asarray(verdict(weights, empty, keys).error).any()


@pytest.mark.slow
def test_the_error_is_the_mean_of_the_last_steps():
    laid, weights, keys = laid_and_weights()
    ends = [verdict(weights, laid, keys, rollout=n, learned=n, judged=1).error for n in (5, 6)]
    np.testing.assert_allclose(verdict(weights, laid, keys, judged=2).error, sum(ends) / 2, rtol=1e-4)


def test_cells_or_pairs_count_alike():
    found = learn.Verdict(*(jnp.asarray(v, jnp.float32) for v in ([2, 3], [4, 12], [4, 0], [1, 0])))
    assert float(learn.loss(found, RECIPE)) == pytest.approx(5 / 16)
    pairs = dataclasses.replace(RECIPE, judge="pairs")
    assert float(learn.loss(found, pairs)) == pytest.approx((0.5 + 0.25) / 2)


@pytest.mark.slow
def test_what_is_kept_for_the_gradient_does_not_change_it():
    laid, weights, keys = laid_and_weights()
    first, second = (gradient(weights, laid, keys, remember=kind) for kind in ("steps", "products"))
    for name in first:
        np.testing.assert_allclose(first[name], second[name], rtol=1e-3, atol=1e-6)


def test_a_short_window_still_reaches_the_context():
    """The gradient is cut where the window begins, so it is handed on to the vectors there."""
    laid, weights, keys = laid_and_weights()
    short = gradient(weights, laid, keys, first=3, learned=3, judged=1)
    whole = gradient(weights, laid, keys, learned=6, judged=1)
    a, b = (np.asarray(g["context.vectors"]).ravel() for g in (short, whole))
    assert np.abs(a).max() > 0
    assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > 0.5, "it points the same way"
    same = (verdict(weights, laid, keys, **how, judged=1).error for how in (SHORT_WINDOW, {"learned": 6}))
    np.testing.assert_allclose(*same, rtol=1e-4)


def test_metrics_are_json(learnt):
    folder, _ = learnt
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        assert json.loads(line)["step"] > 0
