"""Runs of the tiny job, what can happen to them, and how to compare what comes out."""

import io
import signal
from pathlib import Path

import pytest
from rich.console import Console

from cellwise.model import load
from cellwise.training import loop, settings
from cellwise.training.folder import Checkpoint, RunFolder, read_config, read_metrics
from tiny_job import EVERY, tiny_job

TIMES = {"seconds", "iterations_per_second"}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Relative paths keep the messages short."""
    monkeypatch.chdir(tmp_path)


def run(path="run", resume=False, job=None, **options):
    """Trains and returns the model with what was printed."""
    console = Console(file=io.StringIO(), width=300)
    model = loop.train(job or tiny_job(), Path(path), resume=resume, console=console, **EVERY | options)
    return model, console.file.getvalue()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The folder of a run that nothing happened to."""
    path = tmp_path_factory.mktemp("undisturbed") / "run"
    loop.train(tiny_job(), path, console=Console(file=io.StringIO()), **EVERY)
    return path


def newest(path) -> Checkpoint:
    checkpoint, damaged = RunFolder(Path(path)).newest(settings.identity(read_config(Path(path))))
    assert checkpoint and not damaged
    return checkpoint


def metrics(path):
    return [{k: v for k, v in record.items() if k not in TIMES} for record in read_metrics(Path(path))]


def assert_same_run(path, other):
    """Every array of the final state, every metric but the times, and the model are equal to the last bit."""
    a, b = newest(path), newest(other)
    assert a.step == b.step and a.tensors.keys() == b.tensors.keys()
    for name in a.tensors:
        assert a.tensors[name].dtype == b.tensors[name].dtype
        assert a.tensors[name].tobytes() == b.tensors[name].tobytes(), name
    assert metrics(path) == metrics(other)
    x, y = load(Path(path) / "model").weights, load(Path(other) / "model").weights
    assert all(x[name].tobytes() == y[name].tobytes() for name in x | y)


@pytest.fixture
def happening(monkeypatch):
    """Lets something happen during the n-th iteration that is computed from now on."""
    real = loop.iterate
    monkeypatch.setattr(loop, "iterate", real)

    def install(n, what):
        count = 0

        def iterate(state, **kwargs):
            nonlocal count
            count += 1
            result = real(state, **kwargs)
            return what(result) if count == n else result

        monkeypatch.setattr(loop, "iterate", iterate)

    return install


def raising(number):
    def what(result):
        signal.raise_signal(number)
        return result

    return what


def crash(result):
    raise RuntimeError("power cut")
