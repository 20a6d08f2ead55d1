import json

import pytest

from cellwise.cli.arguments import parse
from cellwise.cli.data import COMMANDS, Data
from cellwise.errors import CellwiseError
from cellwise.puzzles import catalog, store
from cellwise.puzzles.recipe import MazeOodMade, SudokuHardMade
from test_archive import sudoku_csv
from test_store import folder, source

__all__ = ["folder", "source"]  # a store in a temporary folder, and a dataset to import into it


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


def parsed(*words: object):
    return parse(Data, "cellwise data", [str(word) for word in words])


def run(capsys, *words: object) -> tuple[int, str]:
    status = parsed(*words).run()
    return status, capsys.readouterr().out


def test_every_command_is_listed():
    assert list(COMMANDS) == ["list", "fetch", "make", "verify"]


def test_options_reach_their_fields():
    def words(line: str):
        return parsed(*line.split())

    fetch = words("fetch maze-ood --split test --size 59 --from somewhere")
    assert (fetch.name, fetch.split, fetch.size, str(fetch.from_)) == ("maze-ood", "test", 59, "somewhere")
    make = parsed(
        *["make", "maze-ood-made", "--size", "13", "--braid", "0.25", "--split", "test", "--seed", "4"]
    )
    assert make.recipe == MazeOodMade(split="test", size=13, seed=4, braid=0.25)
    assert words("make sudoku-hard-made --empties 50 60").recipe == SudokuHardMade(empties=(50, 60))


@pytest.mark.parametrize("command", ["list", "fetch", "make", "verify"])
def test_help(command, capsys):
    with pytest.raises(SystemExit) as caught:
        parsed(command, "--help")
    assert caught.value.code == 0
    assert COMMANDS[command].__doc__.split(";")[0] in " ".join(capsys.readouterr().out.split())


def test_list_as_a_table(capsys, folder):
    status, text = run(capsys, "list")
    lines = text.splitlines()
    assert status == 0 and "\x1b" not in text
    assert lines[0].split() == ["dataset", "state", "boards", "train", "on", "test", "on"]
    assert all(len(line.rstrip()) <= 80 for line in lines[:-1])
    assert [line.split()[0] for line in lines[1 : len(catalog.DATASETS) + 1]] == list(catalog.DATASETS)
    assert lines[-1] == f"Data folder: {folder}"


def test_list_on_a_wide_terminal_describes(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert "Sudokus with 17 clues, the fewest possible." in run(capsys, "list")[1]


def test_list_as_json(capsys, source, folder):
    store.import_from("tiny", source)
    value = json.loads(run(capsys, "list", "--json")[1])
    assert value["folder"] == str(folder)
    tiny = next(entry for entry in value["datasets"] if entry["name"] == "tiny")
    assert tiny == {
        "name": "tiny",
        "about": "Three Sudokus.",
        "state": "ready",
        "recorded": True,
        "boards": 3,
        "bytes": (source / "tiny.csv").stat().st_size,
        "trainable": ["train"],
        "test_only": ["test"],
        "obtain": "run `cellwise data fetch tiny --from DIR` with the folder that holds tiny.csv",
    }


def test_fetch_make_verify(capsys, source, folder):
    assert run(capsys, "verify") == (0, "No dataset is on this machine yet.\n")
    assert run(capsys, "fetch", "tiny", "--from", source) == (0, f"{folder}/tiny/tiny.csv\n")
    assert run(capsys, "make", "maze-ood-made", "--count", 3) == (0, f"{folder}/maze-ood-made/train-9.npz\n")
    status, text = run(capsys, "verify")
    assert status == 0
    assert [line.split() for line in text.splitlines()] == [
        ["dataset", "file", "state", "boards", "from"],
        ["maze-ood-made", "train-9.npz", "sound", "3", "made", "here"],
        ["tiny", "tiny.csv", "sound", "3", "imported", "tiny.csv"],
    ]
    (folder / "tiny" / "tiny.csv").write_text(sudoku_csv([1, 2, 4]))
    status, text = run(capsys, "verify", "tiny", "--json")
    assert status == 1 and json.loads(text)["tiny"][0]["state"] == "damaged"
    (folder / "tiny" / "tiny.csv").unlink()
    status, text = run(capsys, "verify")
    assert status == 1 and text.splitlines()[2].split()[:3] == ["tiny", "tiny.csv", "missing"]


def test_what_is_damaged_says_how_to_mend_it(capsys, source, folder):
    store.import_from("tiny", source)
    with (folder / "tiny" / "tiny.csv").open("a") as file:
        file.write("x")
    assert parsed("verify").run() == 1
    assert capsys.readouterr().err == (
        "cellwise: tiny is damaged or incomplete; run `cellwise data fetch tiny --from DIR` with the folder "
        "that holds tiny.csv.\n"
    )
    listed = json.loads(run(capsys, "list", "--json")[1])["datasets"]
    assert next(entry["state"] for entry in listed if entry["name"] == "tiny") == "absent"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "cellwise data lacks a subcommand; choose one of: list, fetch, make, verify."),
        (["fetsh"], "cellwise data knows no 'fetsh'; choose one of: list, fetch, make, verify."),
        (["fetch"], "cellwise data lacks NAME; see `cellwise data fetch --help`."),
        (
            ["fetch", "maze-od"],
            "There is no dataset 'maze-od'; did you mean maze-ood or maze-hard or maze-ood-made?",
        ),
        (
            ["fetch", "maze-hard", "--size", "9"],
            "maze-hard train has boards of one size only; leave out the size.",
        ),
        (["verify", "tniy"], "There is no dataset 'tniy'; did you mean tiny?"),
        (
            ["make", "maze-ood-made", "--count", "0"],
            "A dataset needs a count of at least 1 and a seed from 0 to 4294967295; change these.",
        ),
    ],
    ids=str,
)
def test_refusals(source, folder, words, message):
    with pytest.raises(CellwiseError) as caught:
        parsed(*words).run()
    assert str(caught.value) == message
    assert not folder.exists()
