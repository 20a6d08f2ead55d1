"""The tool that measures what a person waits for: it counts what is not solved, and goes on where it was."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import page
from cellwise.errors import ConfigError
from cellwise.puzzles.board import Boards
from cellwise.puzzles.sudoku_generator import generate_easy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
laptop = importlib.import_module("laptop")


def row(seconds, verified=True):
    return {"seconds": seconds, "processor_seconds": 2 * seconds, "verified": verified}


def test_what_is_not_solved_counts_as_longest():
    rows = [row(1.0), row(9.0, verified=False), row(3.0)]
    assert laptop.summary(rows) == {
        "boards": 3,
        "solved": pytest.approx(2 / 3),
        "median_seconds": 3.0,
        "median_processor_seconds": 6.0,
    }
    assert laptop.summary([row(1.0), row(3.0)])["median_seconds"] == 2.0
    assert laptop.summary([row(1.0), row(0.1, verified=False)])["median_seconds"] is None


@pytest.fixture
def boards(monkeypatch):
    """A board that lacks only its fives, which the model can add, and one that it cannot solve."""
    board, target = page.without_fives()
    other = generate_easy(1, seed=9)
    boards = Boards(
        np.stack([target, other.target[0]]), np.stack([board > 0, other.given[0]]), np.array([1, 2], np.int32)
    )
    monkeypatch.setattr(laptop.store, "load", lambda name, split, limit: boards[:limit])
    return boards


def run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["laptop.py", *words])
    laptop.main()


def test_boards_are_timed_and_done_ones_kept(boards, monkeypatch, tmp_path, capsys):
    page.fives().save(tmp_path / "fives")
    out = tmp_path / "times.json"
    words = [
        "sudoku",
        "--model",
        str(tmp_path / "fives"),
        "--budget",
        "1",
        "--trials",
        "2",
        "--out",
        str(out),
    ]
    run(monkeypatch, *words, "--limit", "1")
    first = json.loads(out.read_text())
    assert [one["verified"] for one in first["rows"]] == [True] and first["summary"]["solved"] == 1.0
    run(monkeypatch, *words, "--limit", "2")
    second = json.loads(out.read_text())
    assert second["rows"][0] == first["rows"][0]
    assert [one["verified"] for one in second["rows"]] == [True, False]
    assert second["rows"][1]["seconds"] >= 0.9 and second["summary"]["solved"] == 0.5
    with pytest.raises(ConfigError) as caught:
        run(monkeypatch, *words, "--limit", "2", "--budget", "2")
    assert str(caught.value) == f"{out} has other measurements; choose another file with --out."


def test_models_of_another_puzzle_are_refused(boards, monkeypatch, tmp_path):
    words = ["--model", "maze-ood", "--out", str(tmp_path / "times.json")]
    with pytest.raises(ConfigError, match="maze-ood does not solve Sudokus; name another model"):
        run(monkeypatch, "sudoku", *words)
    with pytest.raises(ConfigError, match="maze-ood does not learn tasks; name another model"):
        run(monkeypatch, "arc", *words)


def test_times_of_a_task_are_those_of_all_its_guises(monkeypatch, tmp_path):
    from cellwise.automaton import rule
    from cellwise.model import Model, Pace
    from test_task_view import AUTOMATON, TOKENS

    arrays = rule.first_weights(AUTOMATON.step, None, 0) | rule.first_tables(AUTOMATON, 0)
    model = Model("tiny", "arc", AUTOMATON, arrays | {"layout.tokens": TOKENS}, None, 0.9, Pace(2, 0.0))
    model.save(tmp_path / "tiny")
    monkeypatch.setattr(laptop, "SIDES", (12,))
    out = tmp_path / "times.json"
    run(monkeypatch, "arc", "--model", str(tmp_path / "tiny"), "--out", str(out))
    (times,) = json.loads(out.read_text())["rows"]
    assert times["canvas"] == 12 and times["rollouts"] == 51
    assert 0 < times["seconds"] < times["first"]["seconds"]
