"""The front door: finding commands, one sentence for what is wrong, and the exit status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cellwise.benchmarks import BENCHMARKS
from cellwise.cli import main as front
from cellwise.errors import PuzzleError


def run(capsys, *words):
    status = front.main(list(words))
    out, err = capsys.readouterr()
    return status, out, err


def test_help_names_every_command(capsys):
    status, out, _ = run(capsys, "--help")
    assert status == 0
    assert all(name in out for name in front.COMMANDS)


def test_no_command_shows_help_and_fails(capsys):
    status, out, _ = run(capsys)
    assert status == 2 and "usage: cellwise COMMAND" in out


def test_the_version(capsys):
    assert run(capsys, "--version") == (0, "cellwise 0.1.0\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evl"], "There is no command 'evl'; did you mean eval?"),
        (
            ["xyz"],
            "There is no command 'xyz'; choose one of: "
            "solve, play, train, adapt, eval, bench, flops, study, report, export, data, info.",
        ),
        (["eval", "maze"], "There is no benchmark 'maze'; did you mean maze-ood or maze-hard?"),
        (
            ["eval", "maze-ood", "--model", "nowhere"],
            "There is no model 'nowhere'; name a folder or one of: maze-ood, sudoku-ood.",
        ),
        (
            ["eval", "maze-ood", "--size", "10"],
            "There are no mazes of size 10; choose an odd size from 3 to 1,001.",
        ),
        (
            ["eval", "maze-hard", "--model", "maze-ood"],
            "maze-hard consists of mazes with a start and a goal, but maze-ood solves mazes; "
            "choose another model with --model.",
        ),
        (
            ["eval"],
            "Name a benchmark to measure: maze-ood, maze-hard, sudoku-ood, sudoku-extreme, "
            "arc-held-out, arc-agi-1, visual-sudoku-4x4, visual-sudoku-9x9.",
        ),
        (
            ["eval", "maze-ood", "--case", "braided"],
            "There is no case of maze-ood 'braided'; did you mean braided-59?",
        ),
        (["eval", "maze-ood", "--trails", "3"], "cellwise eval knows no '--trails'; did you mean --trials?"),
        (["eval", "maze-ood", "--limit"], "--limit lacks a value; see `cellwise eval --help`."),
        (
            ["eval", "maze-ood", "--noise", "2", "0", "1", "1"],
            "The noise cannot be Noise(when=2.0, where=0.0, size=1.0, until=None); choose chances `when` and "
            "`where` from 0 to 1 and a `size` from 0 to 100.",
        ),
        (
            ["eval", "maze-ood", "--noise", "1", "0", "1", "7"],
            "The share of noisy steps cannot be 7.0; choose one from 0 to 1.",
        ),
        (
            ["eval", "maze-ood", "--noise", "1", "0", "1", "x"],
            "--noise cannot be '1 0 1 x'; write it as `--noise BOARD CELL SIZE SHARE`, "
            "see `cellwise eval --help`.",
        ),
        (
            ["eval", "maze-ood", "--noise", "nan", "0.3", "0.1", "0.25"],
            "The noise cannot be Noise(when=nan, where=0.3, size=0.1, until=None); choose chances `when` and "
            "`where` from 0 to 1 and a `size` from 0 to 100.",
        ),
        (
            ["eval", "maze-ood", "--noise", "0.1", "0.3", "0.1", "nan"],
            "The share of noisy steps cannot be nan; choose one from 0 to 1.",
        ),
        (
            ["eval", "maze-ood", "--kicks", "paper", "--noise", "0.1", "0.3", "0.1", "0.25"],
            "--noise and --kicks are two ways to say the same; leave out one.",
        ),
        (
            ["eval", "maze-ood", "--trials", "0"],
            "The number of trials cannot be 0; choose a whole number from 1 to 2147483647.",
        ),
        (
            ["eval", "maze-ood", "--steps", "-5"],
            "The number of steps cannot be -5; choose a whole number from 1 to 2147483647.",
        ),
        (
            ["eval", "maze-ood", "--depths", "5000"],
            "A depth cannot be 5000; choose a whole number from 1 to 300.",
        ),
        (
            ["eval", "maze-ood", "--trials", "4", "--prune", "8"],
            "Pruning by 8 halves the trials 7 times and leaves none of 4; choose at least 128 trials or a "
            "smaller pruning factor.",
        ),
        (
            ["eval", "sudoku-ood", "--model", "maze-ood"],
            "sudoku-ood consists of Sudokus, but maze-ood solves mazes; choose another model with --model.",
        ),
        (["eval", "maze-ood", "--out", "/"], "Cannot write /: it is a folder; name a file."),
        (
            ["eval", "maze-ood", "--size", "9", "--limit", "0"],
            "The limit cannot be 0; choose a whole number from 1 to 2147483647.",
        ),
    ],
)
def test_bad_input_gets_one_sentence_and_status_2(capsys, words, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *words)
    assert (status, out, err) == (2, "", f"cellwise: {message}\n")


def test_an_interrupt_is_quiet(capsys, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(front, "_run", interrupted)
    assert run(capsys, "solve") == (130, "", "cellwise: stopped.\n")


def test_our_own_defects_are_not_hidden(monkeypatch):
    def broken(_):
        raise ZeroDivisionError

    monkeypatch.setattr(front, "_run", broken)
    with pytest.raises(ZeroDivisionError):
        front.main([])


def test_eval_writes_a_result_file_and_a_table(capsys, tmp_path):
    out = tmp_path / "r" / "result.json"
    words = ["eval", "maze-ood", "--size", "9", "--limit", "4", "--steps", "60", "--out", str(out)]
    status, printed, _ = run(capsys, *words)
    assert status == 0 and "size 9" in printed and str(out) in printed.replace("\n", "")
    row = json.loads(out.read_text())["rows"][0]
    assert (row["boards"], row["steps"], row["stopped_at_rest"]) == (4, 60, None)


def test_eval_prints_json_and_nothing_else(capsys, tmp_path):
    out = tmp_path / "result.json"
    words = ["eval", "maze-ood", "--size", "9", "--limit", "4", "--steps", "60", "--json", "--out", str(out)]
    status, printed, _ = run(capsys, *words)
    assert status == 0
    assert json.loads(printed) == json.loads(out.read_text())


def test_eval_measures_cases_that_are_asked_for(capsys, tmp_path):
    out = tmp_path / "result.json"
    words = ["--case", "braided-59", "dead-ends-59", "--size", "9", "--case", "size 13"]
    words += ["--limit", "2", "--steps", "8", "--out", str(out)]
    assert run(capsys, "eval", "maze-ood", *words)[0] == 0
    rows = json.loads(out.read_text())["rows"]
    assert [row["case"] for row in rows] == ["size 9", "braided-59", "dead-ends-59", "size 13"]
    assert all({"board_accuracy", "optimal", "valid"} <= row.keys() for row in rows)


def test_eval_lists_every_case(capsys):
    status, out, _ = run(capsys, "eval", "--list")
    assert status == 0
    for benchmark in BENCHMARKS.values():
        assert all(case.name in out for case in (*benchmark.cases, *benchmark.more))


def test_a_result_that_cannot_be_written_is_said_in_one_sentence(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    target = str(tmp_path / "file" / "result.json")
    words = ["eval", "maze-ood", "--size", "9", "--limit", "1", "--steps", "1", "--out", target]
    status, _, err = run(capsys, *words)
    assert status == 2 and err.count("\n") == 1 and "a part of the path is a file" in err


def test_info_says_which_path_runs_which_model(capsys):
    status, out, _ = run(capsys, "info", "--json")
    facts = json.loads(out)
    maze = next(model for model in facts["models"] if model["name"] == "maze-ood")
    assert status == 0 and maze["parameters"] == 10_420
    assert maze["paths"][:3] == [
        {"path": "resident", "reason": "it needs an NVIDIA GPU"},
        {"path": "awake", "reason": "it gains where few cells fire, and here all fire alike"},
        {"path": "compact", "reason": None},
    ]


def test_a_reader_that_leaves_early_is_no_error():
    command = [sys.executable, "-m", "cellwise", "--help"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    ) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        complaint = process.stderr.read()
    assert (process.returncode, complaint) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
@pytest.mark.parametrize("buffering", ["", "1"])
@pytest.mark.parametrize("word", ["--version", "--help"])
def test_output_to_a_full_disk(word, buffering):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cellwise", word],
            stdout=full,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONUNBUFFERED": buffering},
            text=True,
        )
    assert (done.returncode, done.stderr) == (
        2,
        "cellwise: The output cannot be written because the disk is full; free some space.\n",
    )


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("RESOURCE_EXHAUSTED: Out of memory")], ids=repr
)
def test_too_little_memory_is_said_in_one_sentence(capsys, monkeypatch, error):
    def exhausted(_):
        raise error

    monkeypatch.setattr(front, "_run", exhausted)
    message = "cellwise: There is not enough memory for this; ask for fewer or smaller boards.\n"
    assert run(capsys, "solve") == (2, "", message)


def test_a_puzzle_error_is_an_error_for_people():
    assert issubclass(PuzzleError, front.CellwiseError)
