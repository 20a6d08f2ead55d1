"""`cellwise solve`: everything bad that can be handed over, and the one sentence it gets."""

import io
from pathlib import Path

import pytest

from cellwise.cli import solve as command
from cellwise.cli.solve import COMMANDS
from cellwise.errors import ConfigError, FileError, ModelError, PuzzleError
from cellwise.puzzles import sudoku
from solving import CLUES, oracle, refusal, solve_by, terminal, untrained

__all__ = ["oracle", "terminal"]  # fixtures


def test_every_command_is_listed_and_explains_itself(capsys):
    assert list(COMMANDS) == ["maze", "sudoku", "visual-sudoku", "arc"]
    for name, kind in COMMANDS.items():
        with pytest.raises(SystemExit) as caught:
            solve_by(name, "--help")
        assert caught.value.code == 0
        assert kind.__doc__.split("\n")[0] in " ".join(capsys.readouterr().out.split())


_FIRE = "choose one of: paper, frugal, or write RATE or RATE,DORMANT,ABOVE[,REACH], such as 0.8,0.4,0.95."

REFUSALS = {
    ("--fire", "often"): (ConfigError, f"--fire cannot be 'often'; {_FIRE}"),
    ("--fire", "0.8,0.4"): (ConfigError, f"--fire cannot be '0.8,0.4'; {_FIRE}"),
    ("--fire", "0.8,0.4,0.95,0.5"): (ConfigError, f"--fire cannot be '0.8,0.4,0.95,0.5'; {_FIRE}"),
    ("--fire", "0.8,1.4,0.95"): (
        ConfigError,
        "Cells cannot fire at 0.8, or 1.4 when surer than 0.95 with reach 0; choose rates up to 1, the first "
        "above 0, a confidence up to 1, and reach 0 or 1.",
    ),
    ("--fire", "nan"): (
        ConfigError,
        "Cells cannot fire at nan, or nan when surer than 1 with reach 0; choose rates up to 1, the first "
        "above 0, a confidence up to 1, and reach 0 or 1.",
    ),
    ("--save", "a.txt"): (
        ConfigError,
        "Cannot tell from the name a.txt what to save; let it end in .gif, .mp4, .json, .png, .svg or .pdf.",
    ),
    ("--watch", "--trials", 2): (ConfigError, "--watch shows a single trial; leave out --trials 2."),
    ("--save", "a.gif", "--trials", 3): (
        ConfigError,
        "--save a.gif shows a single trial; leave out --trials 3.",
    ),
    ("--watch", "--prune", 2): (ConfigError, "--watch shows a single trial; leave out --prune 2."),
    ("--watch", "--until-verified"): (
        ConfigError,
        "--watch shows a single trial; leave out --until-verified.",
    ),
    ("--watch", "--budget", "5s"): (ConfigError, "--watch shows a single trial; leave out --budget 5s."),
    ("--trials", 0): (
        ConfigError,
        "The number of trials cannot be 0; choose a whole number from 1 to 2147483647.",
    ),
    ("--budget", "0s"): (ConfigError, "The budget cannot be 0.0 seconds; choose more than 0, such as 10."),
    ("--budget", "soon"): (ConfigError, "--budget cannot be 'soon'; write it as 10s, 500ms or 2m."),
    ("--prune", 3): (ConfigError, "The pruning factor cannot be 3; choose one of 1, 2, 4, 8."),
    ("--size", 9, "--prune", 4, "--trials", 7): (
        ConfigError,
        "Pruning by 4 halves the trials 3 times and leaves none of 7; choose at least 8 trials or a smaller "
        "pruning factor.",
    ),
    ("--noise", -1): (ConfigError, "The noise cannot be -1; choose a size from 0 to 100, such as 0.3."),
    ("--noise", "nan"): (ConfigError, "The noise cannot be nan; choose a size from 0 to 100, such as 0.3."),
    ("--seed", -1): (ConfigError, "The seed cannot be -1; choose a whole number from 0 to 4294967295."),
    ("--siez", 9): (
        ConfigError,
        "cellwise solve knows no '--siez'; did you mean --size?",
    ),
    ("--size", "nine"): (
        ConfigError,
        "--size cannot be 'nine'; write it as `--size INT`, see `cellwise solve --help`.",
    ),
    ("--save", "file/a.png"): (
        FileError,
        "Cannot write file/a.png: a part of the path is a file, not a folder; check the path.",
    ),
    ("--save", "folder.png"): (FileError, "Cannot write folder.png: it is a folder; name a file."),
    ("#" * 10_001 + "\n#S" + "." * 9_997 + "G#\n" + "#" * 10_001,): (
        PuzzleError,
        "The maze has 3 x 10,001 cells; use one of at most 2,003 cells a side.",
    ),
    ("  \n  ",): (
        PuzzleError,
        "The maze is empty; use # for walls, . or space for free cells, S and G for start and goal, "
        "* for the path.",
    ),
    ("#####\n#S#G#\n#####",): (
        PuzzleError,
        "The goal at row 2, column 4 cannot be reached from the start at row 2, column 2; "
        "open a wall between them.",
    ),
    ("#####\n#S.G\n#####",): (
        PuzzleError,
        "Line 2 of the maze has 4 characters where most have 5; make all lines equally long, with . for "
        "free cells if an editor strips spaces at the end.",
    ),
    ("#####\n#SSG#\n#####",): (
        PuzzleError,
        "The maze has 3 endpoints; mark exactly one start and one goal.",
    ),
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
    Path("file").write_text("")
    Path("folder.png").mkdir()
    kind, message = REFUSALS[words]
    assert refusal(kind, "maze", *words) == message


def test_an_even_size(oracle):
    assert refusal(PuzzleError, "maze", "####\n#SG#\n####\n####") == (
        "The maze has 4 x 4 cells, but rooms and walls alternate in the mazes this model knows; "
        "use an odd number of rows and of columns."
    )


@pytest.mark.parametrize("steps", [0, -3])
@pytest.mark.parametrize("option", [(), ("--watch",)], ids=str)
def test_steps_below_one(tmp_path, steps, option):
    untrained("maze").save(tmp_path / "model")
    message = refusal(
        ConfigError, "maze", "--size", 5, "--model", tmp_path / "model", "--steps", steps, *option
    )
    assert message == (f"The number of steps cannot be {steps}; choose a whole number from 1 to 2147483647.")


def test_a_typing_mistake_in_81_cells_is_named(oracle):
    oracle.puzzle = "sudoku"
    assert refusal(PuzzleError, "sudoku", "x" + sudoku.to_text(CLUES)[1:]) == (
        "The Sudoku contains 'x' at line 1, character 1; "
        "write digits 1-9 and '.', '0', '_' or '*' for an empty cell."
    )
    assert refusal(PuzzleError, "sudoku", "12") == (
        "The Sudoku has 2 cells; write exactly 81, with '.' for each empty one."
    )


def test_a_sudoku_is_refused_before_a_model_is_looked_for():
    text = sudoku.to_text(CLUES)
    for wrong, message in (
        (text[:80], "The Sudoku has 80 cells; write exactly 81, with '.' for each empty one."),
        (
            "55" + text[2:],
            "The Sudoku repeats the digit 5 in row 1; remove or correct one of the clues, for instance at "
            "row 1, column 2.",
        ),
        ("531" + text[3:], "The Sudoku has no solution; check its clues for a typing mistake."),
        (
            "." * 81,
            "The Sudoku has several solutions with its 0 clues; add clues until only one is left.",
        ),
    ):
        assert refusal(PuzzleError, "sudoku", wrong, "--model", "nowhere") == message


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
