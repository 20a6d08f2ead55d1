import io
import json
from pathlib import Path

import numpy as np
import pytest
import tyro
from PIL import Image

from cellwise.automaton import rule
from cellwise.automaton.layout import Automaton, Layout, orthonormal_tokens
from cellwise.benchmarks import maze_ood
from cellwise.cli import solve as command
from cellwise.cli.solve import COMMANDS, Solve
from cellwise.errors import CellwiseError, ConfigError, FileError, ModelError, PuzzleError
from cellwise.kernels.dispatch import Noise
from cellwise.kernels.spec import StepSpec
from cellwise.model import Frame, Model, Solution
from cellwise.puzzles import maze_text, sudoku
from cellwise.puzzles.maze import START
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.maze_path import judge, label_bfs
from cellwise.puzzles.sudoku_solver import solve
from cellwise.report.picture import picture, save_picture

MAZE = generate(5, 1, 3).inputs[0]
CLUES = sudoku.parse("53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79")


def untrained(puzzle: str) -> Model:
    """A real model whose cells have learned nothing."""
    if puzzle == "sudoku":
        automaton = Automaton(
            StepSpec(
                channels=16, perception="attention", heads=4, hidden=8, padding="zero", frozen=16, unit=16
            ),
            Layout(tokens=10, read=16, write=16, head="cosine", spread=1.0),
        )
        fixed, size = orthonormal_tokens(10, 16, 0), (9, 9)
    else:
        automaton, fixed, size = maze_ood.AUTOMATON, maze_ood.token_vectors(), None
    weights = {**rule.first_weights(automaton.step, size, 0), "layout.tokens": fixed}
    return Model(f"untrained-{puzzle}", puzzle, automaton, weights, size)


class Oracle(Model):
    """Knows the answer at step `at`; before that its cells are unsure and say that all is empty."""

    at = 6

    def answer(self, board):
        return solve(board) if self.puzzle == "sudoku" else label_bfs(board)

    def solve(self, boards, steps=None, trials=1, seed=0, noise=None, tell=None):
        self.asked.append((steps, trials, seed, noise))
        batch, restore = self.prepared(boards)
        grid = restore(np.stack([self.answer(board) for board in batch]))
        sure = np.ones(grid.shape, np.float32)
        return Solution(grid, sure.mean((1, 2)), np.ones(1, bool), np.array([self.at], np.int32), sure)

    def watch(self, board, steps=None, every=1, seed=0, noise=None):
        self.asked.append((steps, every, seed, noise))
        for step in range(0, steps + 1, every):
            ready = step >= self.at
            grid = self.answer(board) if ready else board.copy()
            yield Frame(step, grid, np.full(board.shape, 1.0 if ready else 0.4, np.float32))


@pytest.fixture
def oracle(monkeypatch):
    """Puts the oracle in place of whatever model is asked for."""

    def loaded(name):
        model = Oracle(**vars(untrained(loaded.puzzle)))
        object.__setattr__(model, "asked", loaded.asked)
        return model

    loaded.asked, loaded.puzzle = [], "maze"
    monkeypatch.setattr(command, "load", loaded)
    return loaded


@pytest.fixture(autouse=True)
def terminal(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)


def run(capsys, *words: object) -> tuple[int, str]:
    status = tyro.cli(Solve, args=[str(word) for word in words]).run()
    return status, capsys.readouterr().out


def refusal(kind: type[CellwiseError], *words: object) -> str:
    with pytest.raises(kind) as caught:
        tyro.cli(Solve, args=[str(word) for word in words]).run()
    return str(caught.value)


# ---- answers ---------------------------------------------------------------------------------------------


def test_a_solved_maze_is_printed_and_verified(capsys, oracle):
    status, out = run(capsys, "maze", maze_text.to_text(MAZE))
    text, verdict, numbers = out.rstrip("\n").rsplit("\n", 2)
    assert status == 0
    answer = maze_text.parse(text)
    assert judge(MAZE[None], None, answer[None]).valid.all()
    assert verdict == "Verified: the marked cells are a path from start to goal."
    assert numbers == "6 steps in 0.0 s; mean confidence 1.00, 100% of the open cells settled."
    assert oracle.asked == [(325, 1, 0, None)]


def test_a_solved_sudoku(capsys, oracle):
    oracle.puzzle = "sudoku"
    status, out = run(capsys, "sudoku", sudoku.to_text(CLUES))
    assert status == 0
    assert out.startswith(
        sudoku.pretty(solve(CLUES)) + "\nVerified: every row, column and box holds each digit once.\n"
    )


def test_colours_in_a_terminal(capsys, oracle, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    _, out = run(capsys, "maze", maze_text.to_text(MAZE))
    assert "▀" in out and "\x1b[1;32mVerified\x1b[0m: the marked" in out


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
    status, out = run(capsys, kind, text, "--model", tmp_path / "model", "--steps", "4", *option)
    assert status == 1
    wrong = {
        "sudoku": "some row, column or box lacks a digit",
    }.get(puzzle, "the marked cells are no path from start to goal")
    time = "4 steps, watched for " if option == ("--watch",) else "4 steps in "
    assert f"Not solved: {wrong}; try more --steps or --trials.\n{time}" in out


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
        "settled": 1.0,
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
    def interrupted(self, board, *arguments):
        yield Frame(0, board, np.ones(board.shape, np.float32))
        raise KeyboardInterrupt

    monkeypatch.setattr(Oracle, "watch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tyro.cli(Solve, args=["maze", "--size", "5", "--watch"]).run()


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
    status, out = run(capsys, "maze", maze_text.to_text(MAZE), "--steps", 50, "--seed", 9, *saves)
    assert status == 0
    assert out.endswith("".join(f"Saved {tmp_path / name}.\n" for name in names))
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


# ---- refusals --------------------------------------------------------------------------------------------


def test_every_command_is_listed_and_explains_itself(capsys):
    assert list(COMMANDS) == ["maze", "sudoku"]
    for name, kind in COMMANDS.items():
        with pytest.raises(SystemExit) as caught:
            tyro.cli(Solve, args=[name, "--help"])
        assert caught.value.code == 0
        assert kind.__doc__ in " ".join(capsys.readouterr().out.split())


REFUSALS = {
    ("--save", "a.txt"): (
        ConfigError,
        "Cannot tell from the name a.txt what to save; let it end in .gif, .mp4, .json or .png.",
    ),
    ("--watch", "--trials", 2): (ConfigError, "--watch shows a single trial; leave out --trials 2."),
    ("--save", "a.gif", "--trials", 3): (
        ConfigError,
        "--save a.gif shows a single trial; leave out --trials 3.",
    ),
    ("--noise", -1): (ConfigError, "The noise cannot be -1; choose a size from 0 to 100, such as 0.3."),
    ("--noise", "nan"): (ConfigError, "The noise cannot be nan; choose a size from 0 to 100, such as 0.3."),
    ("--seed", -1): (ConfigError, "The seed cannot be -1; choose a number from 0 to 4294967295."),
    ("--size", 4): (PuzzleError, "There are no mazes of size 4; choose an odd size from 3 to 1,001."),
    ("absent.txt",): (
        FileError,
        "Cannot read absent.txt: there is no such file or folder; check the path.",
    ),
    ("absent.png",): (
        FileError,
        "Cannot read absent.png: there is no such file or folder; check the path.",
    ),
    ("",): (
        PuzzleError,
        "The maze is empty; use # for walls, . or space for free cells, S and G for start and goal, "
        "* for the path.",
    ),
    ("#S#\n#.#\n###",): (
        PuzzleError,
        "The maze has only one endpoint; mark exactly one start and one goal.",
    ),
    ("#" * 900,): (PuzzleError, "The maze has no endpoints; mark exactly one start and one goal."),
    ("data.bin",): (PuzzleError, "There is no text in data.bin; write the puzzle as UTF-8 text."),
}


@pytest.mark.parametrize("words", REFUSALS, ids=lambda words: " ".join(map(str, words))[:30])
def test_what_a_maze_is_refused_for(oracle, words):
    oracle.puzzle = "directed-maze"
    Path("data.bin").write_bytes(b"\xff\xfe\x00")
    kind, message = REFUSALS[words]
    assert refusal(kind, "maze", *words) == message


@pytest.mark.parametrize("steps", [0, -3])
@pytest.mark.parametrize("option", [(), ("--watch",)], ids=str)
def test_steps_below_one(tmp_path, steps, option):
    untrained("maze").save(tmp_path / "model")
    message = refusal(
        ConfigError, "maze", "--size", 5, "--model", tmp_path / "model", "--steps", steps, *option
    )
    assert f"must be at least 1, not {steps} and " in message


def test_a_typing_mistake_in_81_cells_is_named(oracle):
    oracle.puzzle = "sudoku"
    assert refusal(PuzzleError, "sudoku", "x" + sudoku.to_text(CLUES)[1:]) == (
        "The Sudoku contains 'x' at line 1, character 1; "
        "write digits 1-9 and '.', '0', '_' or '*' for an empty cell."
    )
    assert refusal(PuzzleError, "sudoku", "12") == (
        "The Sudoku has 2 cells; write exactly 81, with '.' for each empty one."
    )


def test_standard_input_has_a_limit(oracle, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"#" * (16 * 2**20 + 1))))
    assert refusal(PuzzleError, "maze", "-") == (
        "The puzzle on standard input has more than 16,777,216 bytes; send one puzzle."
    )


def test_the_wrong_kind_of_model(oracle):
    assert refusal(ConfigError, "sudoku", sudoku.to_text(CLUES)) == (
        "untrained-maze solves mazes, not Sudokus; choose another model with --model."
    )
    oracle.puzzle = "sudoku"
    assert refusal(ConfigError, "maze") == (
        "untrained-sudoku solves Sudokus, not mazes; choose another model with --model."
    )


def test_an_unknown_model():
    assert refusal(ModelError, "maze", "--model", "nobody").startswith("There is no model 'nobody'; ")


def test_nothing_is_computed_before_the_options_are_checked(monkeypatch):
    monkeypatch.setattr(command, "load", lambda name: pytest.fail("loaded"))
    refusal(ConfigError, "maze", "--save", "a.bmp")
