import io
import json
import signal
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import pytest
from rich.console import Console

from cellwise.errors import ConfigError
from cellwise.model import load
from cellwise.thinking.mind import prepare
from cellwise.thinking.think import think
from cellwise.training import check, curves, interrupt, loop
from cellwise.training.folder import read_metrics
from cellwise.training.interrupt import Stopped
from tiny_job import EVERY, tiny_job
from tiny_run import (
    TIMES,
    assert_same_run,
    crash,
    happening,
    here,
    metrics,
    newest,
    raising,
    run,
    undisturbed,
)

__all__ = ["happening", "here", "undisturbed"]  # fixtures

# The iteration calls a function by the name that the newest optax deprecates.

# What a run leaves behind


def test_a_run_leaves_what_it_is_what_it_did_and_its_model(undisturbed):
    assert sorted(p.name for p in undisturbed.iterdir()) == [
        ".lock",
        "checkpoints",
        "config.json",
        "metrics.jsonl",
        "model",
    ]
    names = sorted(p.name for p in (undisturbed / "checkpoints").iterdir())
    assert names == ["step-0000010.safetensors", "step-0000012.safetensors"]

    config = json.loads((undisturbed / "config.json").read_text())
    assert (config["job"], config["seed"], config["puzzle"], config["boards"]) == ("tiny", 3, "maze", 32)
    assert config["recipe"]["schedule"]["peak"] == 1e-3
    assert config["automaton"]["step"]["channels"] == 16
    assert config["versions"]["jax"] == jax.__version__
    assert config["matmul_precision"] == "highest" and config["command"] == "cellwise train tiny"

    steps = [(record["step"], record.get("check")) for record in metrics(undisturbed)]
    logged = [(step, None) for step in range(2, 13, 2)]
    assert steps == [*logged[:3], (6, "size 5"), *logged[3:], (12, "size 5")]
    speeds = [record["iterations_per_second"] for record in read_metrics(undisturbed) if "loss" in record]
    assert max(speeds) < 100 * min(speeds)  # Compiling does not count.
    fields = {"step", "loss", "cells", "boards", "gradient", "learning_rate", "age", *TIMES}
    assert set(read_metrics(undisturbed)[0]) == fields


def test_a_run_in_stretches_is_the_run(undisturbed):
    run(minutes=1e-9)
    assert [record["step"] for record in metrics(Path("run"))] == [1, 1]
    while newest(Path("run")).step < 12:
        run(resume=True, minutes=1e-9)
    ours, theirs = newest(Path("run")).tensors, newest(undisturbed).tensors
    assert ours.keys() == theirs.keys()
    assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)


@pytest.mark.parametrize("minutes", [0, -1.0, float("nan"), float("inf")])
def test_there_are_no_minutes_like_these(minutes):
    message = f"There is no training for {minutes} minutes; choose a positive number."
    with pytest.raises(ConfigError) as caught:
        run(minutes=minutes)
    assert str(caught.value) == message and not Path("run").exists()


def test_the_model_is_the_running_average(undisturbed):
    model = load(undisturbed / "model")
    tensors = newest(undisturbed).tensors
    for name, weight in model.weights.items():
        expected = tiny_job().fixed[name] if name in tiny_job().fixed else tensors[f"average.{name}"]
        assert weight.tobytes() == expected.tobytes()
    assert not np.array_equal(tensors["average.update.w_in"], tensors["weights.update.w_in"])
    assert model.provenance["iterations"] == 12 and model.provenance["seed"] == 3
    assert model.provenance["data"] == "generated mazes of size 5"


def test_the_same_job_gives_the_same_run(undisturbed):
    run()
    assert_same_run("run", undisturbed)


def test_a_check_is_the_thought_of_the_averaged_weights(undisturbed):
    job, boards = tiny_job(), tiny_job().checks[0].boards
    mind = prepare(job.automaton, load(undisturbed / "model").weights, boards.given, 0.8, None)
    numbers = np.arange(4, dtype=np.int32)
    grid = think(mind, boards.inputs, boards.given, job.seed, numbers, 0 * numbers, 8).grid
    right = grid == boards.target
    last = metrics(undisturbed)[-1]
    assert last["cells"] == pytest.approx(right.mean()) and last["cells"] < 1
    assert last["boards"] == pytest.approx(right.all((1, 2)).mean())


def test_the_path_is_chosen_for_the_board_with_most_free_cells():
    boards = tiny_job().boards
    assert check.most_free(boards) == max(int((~given).sum()) for given in boards.given)


# Interruptions


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_and_resumed_equals_one_that_was_not(number, undisturbed, happening):
    for n, resume, after in ((3, False, 3), (4, True, 7)):
        happening(n, raising(number))
        with pytest.raises(Stopped) as stopped:
            run("my run", resume)
        assert str(stopped.value) == (
            f"Stopped after iteration {after} and saved; resume with: "
            "cellwise train tiny --out 'my run' --resume"
        )
        assert stopped.value.status == 128 + number
        assert newest("my run").step == load("my run/model").provenance["iterations"] == after
        assert signal.getsignal(number) == (
            signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        )
    _, text = run("my run", resume=True)
    assert text.startswith("tiny goes on after iteration 7: 12 iterations, ")
    assert_same_run("my run", undisturbed)


def test_a_stop_in_the_last_iteration_changes_nothing(undisturbed, happening):
    happening(12, raising(signal.SIGINT))
    run()
    assert_same_run("run", undisturbed)


@pytest.mark.parametrize(("n", "saved"), [(3, None), (9, 5), (12, 10)])
def test_a_run_that_crashed_goes_on_from_its_last_checkpoint(n, saved, undisturbed, happening):
    happening(n, crash)
    with pytest.raises(RuntimeError, match="power cut"):
        run()
    assert (newest("run").step if saved else None) == saved
    assert metrics("run")[-1]["step"] == (n - 1) // 2 * 2
    happening(0, crash)
    run(resume=True)
    assert_same_run("run", undisturbed)


def test_a_wish_is_heard_once_and_the_second_ends_the_program():
    heard = []
    with interrupt.deferred(lambda: heard.append(1)) as wish:
        assert wish.signal is None
        signal.raise_signal(signal.SIGINT)
        assert wish.signal == signal.SIGINT and heard == [1]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert wish.signal == signal.SIGINT


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupt.deferred(lambda: None) as wish:
            signal.raise_signal(signal.SIGINT)
        assert wish.signal is None and signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_run_in_another_thread_leaves_signals_alone(undisturbed):
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert_same_run("run", undisturbed)


def test_a_stop_is_no_error():
    assert not issubclass(Stopped, Exception)


# What one sees


def test_plain_lines_now_and_then():
    _, text = run()
    lines = text.splitlines()
    assert lines[0].startswith("tiny begins: 12 iterations, 1,348 numbers, 32 boards, ")
    assert lines[0].endswith("(compact), folder run")
    shown = [line.split()[1].removesuffix(":") for line in lines[1:-1]]
    assert shown == ["2/12", "6/12", "12/12", "12/12"]
    assert lines[1].startswith("tiny 2/12  loss ") and lines[1].endswith(" left")
    assert lines[-3].endswith("  0:00:00 left")
    assert lines[2].startswith("tiny 6/12  size 5: boards ")
    assert lines[-1] == "tiny is complete: 12 iterations, model in run/model"


def test_a_live_line_in_a_terminal():
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
    loop.train(tiny_job(), Path("run"), console=console, **EVERY)
    text = console.file.getvalue()
    assert "tiny 12/12" in text and "loss " in text and "left" in text
    assert "tiny 6/12  size 5: boards " in text
    assert "tiny 2/12  loss" not in text


def test_tensorboard_files():
    reader = pytest.importorskip("tensorboardX.proto.event_pb2", reason="tensorboardX is not installed")
    run(tensorboard=True)
    (path,) = Path("run/tensorboard").iterdir()
    data, tags = path.read_bytes(), set()
    while data:
        size = int.from_bytes(data[:8], "little")
        event = reader.Event.FromString(data[12 : 12 + size])
        tags |= {(value.tag, event.step) for value in event.summary.value}
        data = data[16 + size :]
    assert {("training/loss", 2), ("training/boards", 12), ("size_5/cells", 6)} <= tags


def test_tensorboard_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ConfigError) as caught:
        run(tensorboard=True)
    assert str(caught.value) == (
        'TensorBoard files need the package tensorboardX; run pip install "cellwise[tensorboard]".'
    )
    assert not Path("run").exists()
    with pytest.raises(ConfigError):
        curves.Curves(Path("curves"), 0)
