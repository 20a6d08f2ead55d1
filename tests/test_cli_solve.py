"""`cellwise solve`: answers, puzzles and files."""

import io
import json
from dataclasses import asdict

import numpy as np
import pytest
from PIL import Image

from cellwise.automaton import rule
from cellwise.automaton.firing import Firing
from cellwise.automaton.layout import Automaton, Layout
from cellwise.benchmarks import maze_ood
from cellwise.cli import solve as command
from cellwise.kernels.dispatch import Noise
from cellwise.model import Frame, Model
from cellwise.puzzles import maze_text, sudoku
from cellwise.puzzles.maze import START
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.maze_path import judge, label_bfs
from cellwise.puzzles.sudoku_solver import solve
from cellwise.report.picture import picture, save_picture
from solving import CLUES, MAZE, Oracle, oracle, run, solve_by, terminal, told, untrained

__all__ = ["oracle", "terminal"]  # fixtures


# ---- answers ---------------------------------------------------------------------------------------------


def test_a_solved_maze_is_printed_and_verified(capsys, oracle):
    status, out, err = told(capsys, "maze", maze_text.to_text(MAZE))
    assert status == 0
    answer = maze_text.parse(out)
    assert judge(MAZE[None], None, answer[None]).valid.all()
    assert err.splitlines() == [
        "Verified: the marked cells are a path from start to goal.",
        "6 steps in 0.0 s; mean confidence 1.00, least 1.00.",
    ]
    assert oracle.asked == [(325, 1, 0, None)]


def test_a_solved_sudoku(capsys, oracle):
    oracle.puzzle = "sudoku"
    status, out, err = told(capsys, "sudoku", sudoku.to_text(CLUES))
    assert (status, out) == (0, sudoku.pretty(solve(CLUES)) + "\n")
    assert err.startswith("Verified: every row, column and box holds each digit once.\n")


def test_colours_in_a_terminal(capsys, oracle, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    _, out, err = told(capsys, "maze", maze_text.to_text(MAZE))
    assert "▀" in out and "\x1b[1;32mVerified\x1b[0m: the marked" in err


@pytest.mark.parametrize("puzzle", ["maze", "directed-maze", "sudoku"])
@pytest.mark.parametrize("option", [(), ("--watch",), ("--trials", "2")], ids=str)
def test_an_untrained_model_solves_nothing(capsys, tmp_path, puzzle, option):
    if puzzle == "directed-maze":
        automaton = Automaton(
            maze_ood.AUTOMATON.step, Layout(tokens=5, read=16, write=2, head="distance", spread=0.15)
        )
        tokens = np.vstack([maze_ood.token_vectors(), np.zeros((1, 16), np.float32)])
        weights = {**rule.first_weights(automaton.step, None, 0), "layout.tokens": tokens}
        model = Model("untrained-directed-maze", "directed-maze", automaton, weights)
    else:
        model = untrained(puzzle)
    model.save(tmp_path / "model")
    kind, text = (
        ("sudoku", sudoku.to_text(CLUES)) if puzzle == "sudoku" else ("maze", maze_text.to_text(MAZE))
    )
    status, _, err = told(capsys, kind, text, "--model", tmp_path / "model", "--steps", "4", *option)
    assert status == 1
    wrong = {
        "sudoku": "some row, column or box lacks a digit",
    }.get(puzzle, "the marked cells are no path from start to goal")
    time = "4 steps, watched for " if option == ("--watch",) else "4 steps in "
    assert f"Not solved: {wrong}; try more --steps or --trials.\n{time}" in err


def test_watching_says_the_same_as_not_watching(capsys, tmp_path):
    untrained("maze").save(tmp_path / "model")
    arguments = (
        "maze",
        maze_text.to_text(MAZE),
        "--model",
        tmp_path / "model",
        "--steps",
        "5",
        "--noise",
        "0.3",
        "--json",
    )
    _, plain = run(capsys, *arguments)
    _, watched = run(capsys, *arguments, "--watch")
    plain, watched = json.loads(plain), json.loads(watched)
    assert plain.pop("seconds") >= 0 and watched.pop("seconds") >= 0
    assert plain == watched


def test_json_is_one_object_and_nothing_else(capsys, oracle, tmp_path):
    status, out = run(
        capsys,
        "maze",
        maze_text.to_text(MAZE),
        "--json",
        "--seed",
        3,
        "--noise",
        0.5,
        "--save",
        tmp_path / "a.png",
    )
    summary = json.loads(out)
    assert status == 0 and summary.pop("seconds") >= 0
    assert summary == {
        "cellwise": command.__version__,
        "model": "untrained-maze",
        "puzzle": "maze",
        "board": maze_text.to_text(MAZE),
        "seed": 3,
        "trials": 1,
        "most_steps": 325,
        "noise": {"when": 0.1, "where": 0.3, "size": 0.5, "until": 81},
        "answer": maze_text.to_text(label_bfs(MAZE)),
        "verified": True,
        "confidence": 1.0,
        "least_confidence": 1.0,
        "steps": 6,
    }
    assert oracle.asked == [(325, 1, 3, Noise(0.1, 0.3, 0.5, until=81))]


def test_a_thought_that_is_followed_ends_soon_after_a_right_answer(capsys, oracle):
    status, out = run(capsys, "maze", maze_text.to_text(MAZE), "--watch", "--steps", "100", "--json")
    assert (status, json.loads(out)["steps"]) == (0, Oracle.at + 16)
    assert oracle.asked == [(100, 1, 0, None)]


def test_a_thought_is_followed_at_no_more_than_400_moments(capsys, oracle, tmp_path):
    run(capsys, "maze", maze_text.to_text(MAZE), "--steps", "4001", "--save", tmp_path / "a.json")
    assert oracle.asked == [(4001, 11, 0, None)]


def test_an_interruption_while_watching_is_passed_on(oracle, monkeypatch):
    def interrupted(self, board, *arguments, **more):
        yield Frame(0, board, np.ones(board.shape, np.float32))
        raise KeyboardInterrupt

    monkeypatch.setattr(Oracle, "watch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        solve_by("maze", "--size", "5", "--watch")


# ---- puzzles ---------------------------------------------------------------------------------------------


def board_of(capsys, *words) -> np.ndarray:
    return maze_text.parse(json.loads(run(capsys, "maze", *words, "--json")[1])["board"])


def test_a_maze_is_generated_if_none_is_given(capsys, oracle):
    np.testing.assert_array_equal(board_of(capsys), generate(59, 1, 0).inputs[0])
    np.testing.assert_array_equal(
        board_of(capsys, "--size", 7, "--puzzle-seed", 5), generate(7, 1, 5).inputs[0]
    )


def test_every_way_to_hand_over_a_maze(capsys, oracle, tmp_path, monkeypatch):
    text = maze_text.to_text(MAZE)
    (tmp_path / "maze.txt").write_text(text)
    save_picture(picture(MAZE), tmp_path / "maze.PNG")
    (tmp_path / "..#").write_text(text)  # a file whose name could be a maze
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    for argument in (text, text.replace("\n", ""), "maze.txt", "maze.PNG", "..#", "-"):
        np.testing.assert_array_equal(board_of(capsys, argument), MAZE)


def test_a_solved_maze_is_solved_again(capsys, oracle):
    np.testing.assert_array_equal(board_of(capsys, maze_text.to_text(label_bfs(MAZE))), MAZE)


def test_endpoints_of_a_directed_maze_keep_their_names(capsys, oracle, tmp_path):
    oracle.puzzle = "directed-maze"
    maze = MAZE.copy()
    maze[tuple(np.argwhere(maze == START)[0])] = (
        4  # The goal comes first, so that order cannot pass for name.
    )
    save_picture(picture(maze), tmp_path / "maze.png")
    for argument in (maze_text.to_text(maze), "maze.png"):
        board = json.loads(run(capsys, "maze", argument, "--json")[1])["board"]
        assert board == maze_text.to_text(maze)


@pytest.mark.parametrize("form", [sudoku.to_text, sudoku.pretty])
def test_every_way_to_hand_over_a_sudoku(capsys, oracle, tmp_path, monkeypatch, form):
    oracle.puzzle = "sudoku"
    (tmp_path / "puzzle.txt").write_text(form(CLUES))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(form(CLUES).encode())))
    for argument in (form(CLUES), "puzzle.txt", "-"):
        summary = json.loads(run(capsys, "sudoku", argument, "--json")[1])
        assert (summary["board"], summary["answer"]) == (sudoku.to_text(CLUES), sudoku.to_text(solve(CLUES)))


# ---- files -----------------------------------------------------------------------------------------------


def test_saving_every_form_at_once(capsys, oracle, tmp_path):
    names = ["a.gif", "a.json", "a.png"]
    saves = [word for name in names for word in ("--save", tmp_path / name)]
    status, _, err = told(capsys, "maze", maze_text.to_text(MAZE), "--steps", 50, "--seed", 9, *saves)
    assert status == 0
    assert err.endswith("".join(f"Saved {tmp_path / name}.\n" for name in names))
    with Image.open(tmp_path / "a.gif") as film:
        assert film.n_frames == 2
    saved = json.loads((tmp_path / "a.json").read_text())
    assert (saved["model"], saved["seed"], saved["most_steps"]) == ("untrained-maze", 9, 50)
    assert [frame["step"] for frame in saved["frames"]] == list(range(Oracle.at + 16 + 1))
    np.testing.assert_array_equal(maze_text.parse(saved["frames"][-1]["grid"]), label_bfs(MAZE))
    with Image.open(tmp_path / "a.png") as image:
        np.testing.assert_array_equal(image, picture(label_bfs(MAZE)))


def test_a_saved_trace_is_enough_to_think_the_thought_again(capsys, tmp_path):
    model = untrained("maze")
    model.save(tmp_path / "model")
    words = ["maze", "--size", 5, "--steps", 5, "--seed", 2, "--noise", 0.4, "--model", tmp_path / "model"]
    run(capsys, *words, "--save", tmp_path / "a.json")
    saved = json.loads((tmp_path / "a.json").read_text())
    trace = model.trace(
        maze_text.parse(saved["board"]),
        saved["most_steps"],
        seed=saved["seed"],
        noise=Noise(**saved["noise"]),
    )
    assert [frame["step"] for frame in saved["frames"]] == trace.steps.tolist()
    assert [frame["grid"] for frame in saved["frames"]] == [maze_text.to_text(grid) for grid in trace.grid]


def test_a_sudoku_film(capsys, oracle, tmp_path):
    oracle.puzzle = "sudoku"
    run(capsys, "sudoku", sudoku.to_text(CLUES), "--save", tmp_path / "a.gif")
    with Image.open(tmp_path / "a.gif") as film:
        film.seek(film.n_frames - 1)
        np.testing.assert_array_equal(film.convert("RGB"), picture(solve(CLUES), clues=CLUES, scale=33))


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("paper", Firing(0.8, 0.4, 0.95)),
        ("frugal", Firing(1.0, 0.1, 0.95, 1)),
        ("0.5", Firing(0.5, 0.5, 1.0)),
        ("0.9,0.2,0.8", Firing(0.9, 0.2, 0.8)),
        ("0.9, 0.2, 0.8, 1", Firing(0.9, 0.2, 0.8, 1)),
    ],
)
def test_ways_to_fire_reach_the_model(capsys, oracle, words, wanted):
    status, out = run(capsys, "maze", maze_text.to_text(MAZE), "--fire", words, "--json")
    assert status == 0 and oracle.more["firing"] == wanted
    assert json.loads(out)["firing"] == asdict(wanted)


def test_without_a_way_to_fire_nothing_is_said_of_it(capsys, oracle):
    _, out = run(capsys, "maze", maze_text.to_text(MAZE), "--json")
    assert oracle.more["firing"] is None and "firing" not in json.loads(out)
