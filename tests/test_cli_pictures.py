"""`cellwise solve visual-sudoku` and `cellwise eval visual-sudoku-…`: answers, files and refusals."""

import json

import numpy as np
import pytest
from PIL import Image

from cellwise.cli.arguments import parse
from cellwise.cli.eval import Eval
from cellwise.errors import CellwiseError, ConfigError, DataError, ModelError, PuzzleError
from cellwise.puzzles import sudoku
from cellwise.puzzles.sudoku_four import generate_four
from cellwise.puzzles.sudoku_generator import generate_easy
from cellwise.puzzles.visual_sudoku import pretty, to_text
from cellwise.thinking import outcomes
from handwriting import drawing
from pictures import handwritten, model
from solving import refusal, terminal, told

__all__ = ["handwritten", "terminal"]  # fixtures

FOUR, NINE = generate_four(1, 1), generate_easy(1, 1)


@pytest.fixture
def still(tmp_path):
    """A model whose cells keep the picture as it is."""
    model(side=14).save(tmp_path / "still")
    return tmp_path / "still"


@pytest.fixture
def picture(tmp_path):
    def save(puzzle, name="board.png", **how):
        Image.fromarray(drawing(puzzle, **how)).save(tmp_path / name)
        return tmp_path / name

    return save


def measured(capsys, *words):
    status = parse(Eval, "cellwise eval", [str(word) for word in words]).run()
    return status, *capsys.readouterr()


def eval_refusal(kind: type[CellwiseError], *words):
    with pytest.raises(kind) as caught:
        parse(Eval, "cellwise eval", [str(word) for word in words]).run()
    return str(caught.value)


# ---- solve -----------------------------------------------------------------------------------------------


def test_a_picture_that_obeys_the_rules(capsys, still, picture):
    path = picture(FOUR.target[0], lines=2, margin=4)
    status, out, err = told(capsys, "visual-sudoku", path, "--model", still)
    assert (status, out) == (0, pretty(FOUR.target[0]) + "\n")
    first, second = err.splitlines()
    assert first == (
        "Obeys the rules: every row, column and box holds each digit once. Compare the clues with your "
        "picture: nobody but the cells has read them."
    )
    assert second.startswith("4 steps in ")


def test_boards_of_nine(capsys, tmp_path, picture):
    model(9, 14).save(tmp_path / "nine")
    status, out, _ = told(capsys, "visual-sudoku", picture(NINE.target[0]), "--model", tmp_path / "nine")
    assert (status, out) == (0, sudoku.pretty(NINE.target[0]) + "\n")


def test_a_picture_that_is_not_solved(capsys, still, picture):
    path = picture(FOUR.inputs[0])
    status, out, err = told(capsys, "visual-sudoku", path, "--model", still, "--steps", 2)
    assert status == 1
    clues = FOUR.given[0]
    read = [digit for digit in out if digit in ".1234"]
    assert [digit for digit, clue in zip(read, clues.ravel(), strict=True) if clue] == [
        str(digit) for digit in FOUR.inputs[0][clues]
    ]
    assert err.splitlines()[0] == (
        "Not solved: some row, column or box lacks a digit; try more --steps or another --seed."
    )
    assert err.splitlines()[1].startswith("2 steps in ")


def test_a_board_that_is_drawn_here(capsys, still, handwritten):
    status, out, err = told(capsys, "visual-sudoku", "--model", still, "--json", "--puzzle-seed", 3)
    assert status == 1 and not err and handwritten == ["eval"]
    value = json.loads(out)
    assert value["picture"] == "drawn here, number 3" and value["clues_kept"] is True
    assert value["obeys_rules"] is False and value["steps"] == 4 and value["model"] == "still"
    wanted = generate_four(4, 1, "eval").inputs[3]
    assert all(
        said == str(digit) for said, digit in zip(value["answer"], wanted.ravel(), strict=True) if digit
    )
    assert value["clues"] == (wanted > 0).sum() and value["clues_that_first_looked_different"] == []


def test_clues_that_change_are_named(capsys, tmp_path, picture):
    model(side=14, moving=0.2).save(tmp_path / "moving")
    path = picture(FOUR.target[0])
    words = ("visual-sudoku", path, "--model", tmp_path / "moving", "--steps", 60)
    status, out, _ = told(capsys, *words, "--json")
    value = json.loads(out)
    changed = value["clues_that_first_looked_different"]
    assert status == 1 and value["clues_kept"] is None and value["picture"] == str(path) and changed
    one, place = changed[0], 4 * (changed[0]["row"] - 1) + changed[0]["column"] - 1
    assert one["looked_like"] == FOUR.target[0].flat[place]
    assert value["answer"][place] == (".1234"[one["is"]])
    assert one["is"] != one["looked_like"]
    _, _, err = told(capsys, *words)
    shown = f"row {one['row']}, column {one['column']}: {one['is'] or 'none'}, but looked like"
    assert err.splitlines()[1].startswith(f"Look at these first ({shown}")


def test_the_same_seed_thinks_the_same_thought(capsys, tmp_path, picture):
    model(side=14, moving=0.02).save(tmp_path / "moving")
    words = (
        "visual-sudoku",
        picture(FOUR.inputs[0]),
        "--model",
        tmp_path / "moving",
        "--steps",
        30,
        "--json",
    )
    runs = [json.loads(told(capsys, *words, "--seed", seed)[1]) for seed in (1, 1, 2)]
    assert runs[0]["confidence"] == runs[1]["confidence"] != runs[2]["confidence"]


def test_thoughts_are_saved(capsys, tmp_path, still, picture):
    files = [tmp_path / name for name in ("film.gif", "end.png", "trace.json")]
    words = [word for path in files for word in ("--save", path)]
    _, _, err = told(capsys, "visual-sudoku", picture(FOUR.target[0]), "--model", still, *words)
    assert err.splitlines()[2:] == [f"Saved {path}." for path in files]
    trace = json.loads(files[2].read_text())
    assert [moment["step"] for moment in trace["frames"]] == [0, 1, 2, 3, 4]
    assert trace["frames"][-1]["grid"] == to_text(FOUR.target[0]) == trace["answer"]
    with Image.open(files[1]) as end:
        assert end.width == end.height > 600


def test_a_board_that_is_drawn_here_can_be_handed_over_again(capsys, tmp_path, still, handwritten):
    words = ("visual-sudoku", "--model", still, "--puzzle-seed", 2, "--json")
    drawn = json.loads(told(capsys, *words, "--save-board", "board.png")[1])
    again = json.loads(told(capsys, "visual-sudoku", "board.png", "--model", still, "--json")[1])
    puzzle = generate_four(3, 1, "eval").inputs[2].ravel()
    assert again["picture"] == "board.png" and again["clues"] == drawn["clues"] == (puzzle > 0).sum()
    for value in (drawn, again):
        assert all(said == str(d) for said, d in zip(value["answer"], puzzle, strict=True) if d)


@pytest.mark.parametrize(
    ("words", "kind", "said"),
    [
        (
            ("--save", "film.avi"),
            ConfigError,
            "Cannot tell from the name film.avi what to save; let it end in .gif, .mp4, .json or .png.",
        ),
        (
            ("--save-board", "board.gif"),
            ConfigError,
            "A board is saved as .png; let board.gif end like that.",
        ),
        (
            ("--steps", "0"),
            ConfigError,
            "The number of steps cannot be 0; choose a whole number from 1 to 2147483647.",
        ),
        (
            ("--seed", "-1"),
            ConfigError,
            "The seed cannot be -1; choose a whole number from 0 to 4294967295.",
        ),
        (
            ("--puzzle-seed", "20000"),
            ConfigError,
            "The puzzle seed cannot be 20000; choose a whole number from 0 to 10000.",
        ),
        (
            ("none.png",),
            CellwiseError,
            "Cannot read none.png: there is no such file or folder; check the path.",
        ),
    ],
)
def test_what_cannot_be_done(still, handwritten, words, kind, said):
    assert refusal(kind, "visual-sudoku", "--model", still, *words) == said


def test_pictures_are_refused_before_any_thought(still, tmp_path, picture):
    path = picture(FOUR.target[0])
    pixels = np.asarray(Image.open(path))
    Image.fromarray(np.stack([pixels, pixels, 255 - pixels], 2)).save(path)
    assert refusal(PuzzleError, "visual-sudoku", path, "--model", still) == (
        f"{path} has colours; hand over a grey picture."
    )


def test_models_of_another_kind(tmp_path, still, picture):
    path = picture(FOUR.target[0])
    assert refusal(ConfigError, "visual-sudoku", path, "--model", "maze-ood") == (
        "maze-ood does not think about pictures; choose another with --model."
    )
    assert refusal(ModelError, "visual-sudoku", path) == (
        "No model for drawn Sudokus comes with this version; train one, as docs/visual.md says, and name its "
        "folder with --model."
    )
    for puzzle in ("maze", "sudoku"):
        text = "S.G" if puzzle == "maze" else sudoku.to_text(NINE.inputs[0])
        assert refusal(ConfigError, puzzle, text, "--model", still) == (
            "still solves pictures; hand it one by `cellwise solve visual-sudoku`."
        )


def test_no_digits_on_this_machine(still, tmp_path, monkeypatch):
    monkeypatch.setenv("CELLWISE_DATA", str(tmp_path / "nothing"))
    assert refusal(DataError, "visual-sudoku", "--model", still) == (
        "mnist eval is not on this machine; run `cellwise data fetch mnist --split eval` or "
        "`cellwise data fetch mnist --split eval --from DIR`."
    )


# ---- eval ------------------------------------------------------------------------------------------------


def test_a_result_file(capsys, tmp_path, still, handwritten):
    words = ("visual-sudoku-4x4", "--model", still, "--limit", 3, "--steps", 20, "--depths", 5, 10)
    status, out, err = measured(capsys, *words)
    assert (status, err) == (0, "") and handwritten == ["test", "train"]
    lines = out.splitlines()
    assert (
        lines[0] == "unseen: 0.00 % of 3 boards" and lines[-1] == "Written to results/visual-sudoku-4x4.json."
    )
    value = json.loads((tmp_path / "results" / "visual-sudoku-4x4.json").read_text())
    assert [row["case"] for row in value["rows"]] == ["unseen", "seen"]
    assert [look["steps"] for look in value["rows"][0]["curve"]] == [5, 10, 20]
    found, _ = outcomes.load(tmp_path / "results" / value["rows"][1]["outcomes"])
    assert found.depths.tolist() == [5, 10, 20] and len(found) == 3


def test_a_chosen_case_as_json(capsys, tmp_path, still, handwritten):
    words = ("visual-sudoku-4x4", "--model", still, "--limit", 2, "--steps", 4, "--case", "validation")
    status, out, _ = measured(capsys, *words, "--json", "--out", tmp_path / "v.json", "--no-outcomes")
    value = json.loads(out)
    assert status == 0 and handwritten == ["eval"] and value["rows"][0]["case"] == "validation"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["still", "v.json"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--trials", "4"), "visual-sudoku-4x4 is thought about once, to the end; leave out --trials 4."),
        (("--prune", "2"), "visual-sudoku-4x4 is thought about once, to the end; leave out --prune 2."),
        (("--size", "9"), "visual-sudoku-4x4 is thought about once, to the end; leave out --size."),
        (
            ("--case", "easy"),
            "There is no case of visual-sudoku-4x4 'easy'; choose one of: unseen, seen, validation, trained.",
        ),
        (("--limit", "0"), "The limit cannot be 0; choose a whole number from 1 to 2147483647."),
        (("--steps", "8", "--depths", "9"), "A depth cannot be 9; choose a whole number from 1 to 8."),
    ],
)
def test_wishes_that_are_refused(still, handwritten, words, said):
    assert eval_refusal(ConfigError, "visual-sudoku-4x4", "--model", still, *words) == said


def test_measuring_needs_a_model():
    assert eval_refusal(ModelError, "visual-sudoku-9x9") == (
        "No model for drawn Sudokus comes with this version; train one, as docs/visual.md says, and name its "
        "folder with --model."
    )


def test_hard_boards_need_their_data(tmp_path, monkeypatch, handwritten):
    monkeypatch.setenv("CELLWISE_DATA", str(tmp_path / "nothing"))
    model(9, 14).save(tmp_path / "nine")
    words = ("visual-sudoku-9x9", "--model", tmp_path / "nine", "--case", "hard", "--limit", 1)
    assert eval_refusal(DataError, *words) == (
        "sudoku-hard-made test is not on this machine; run `cellwise data make sudoku-hard-made "
        "--split test`."
    )
