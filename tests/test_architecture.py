"""The house plan is kept: who imports whom, how long files are, and that nothing is ever unpickled."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "cellwise"
FILES = sorted(SOURCE.rglob("*.py"))
FOR_EVERYONE = {"errors", "files", "names", "version"}
UNPICKLERS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "torch"}


def name_of(path):
    return str(path.relative_to(SOURCE))


def house_plan():
    """Room -> the rooms it may import, from the table in docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/.]+)`(?: [^|]*)?\|.*\| ([^|]*) \|$", text, re.MULTILINE)
    plan = {}
    for name, allowed in rows:
        room = name.removesuffix("/").removesuffix(".py")
        if "all of the above" in allowed:
            plan[room] = set(plan)
        elif "everything" in allowed:
            plan[room] = None
        else:
            plan[room] = {word.strip("` /") for word in allowed.split(",")} - {"–", "-", ""}
    return plan


def room_of(module):
    """The room of a dotted name below cellwise: `training.pool` is in `training`, `model` is `model`."""
    return module.split(".")[0]


def imported(path):
    """The full names of all modules that a file imports, wherever in the file it does."""
    package = ("cellwise", *path.relative_to(SOURCE).parent.parts)
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = ".".join((*base, *([node.module] if node.module else [])))
            names |= {f"{stem}.{alias.name}" for alias in node.names}
    return names


def breaches(path, plan):
    """What a file imports although its room may not."""
    room = room_of(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    if room == "__init__" or room == "__main__" or plan[room] is None:
        return []
    below = {name.removeprefix("cellwise.") for name in imported(path) if name.startswith("cellwise.")}
    return sorted(name for name in below if room_of(name) not in plan[room] | FOR_EVERYONE | {room})


def test_the_plan_names_every_room():
    plan = house_plan()
    assert plan["puzzles"] == set() and plan["automaton"] == {"kernels"} and plan["cli"] is None
    assert "training" not in plan["model"] and "model" in plan["training"]
    rooms = {name_of(path).split("/")[0].removesuffix(".py") for path in FILES}
    assert rooms - FOR_EVERYONE - {"__init__", "__main__"} <= plan.keys()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_go_one_way(path):
    plan = house_plan()
    room = room_of(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    if room in FOR_EVERYONE:
        plan[room] = set()
    assert breaches(path, plan) == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_rooms_keep_to_their_tools(path):
    tops = {name.split(".")[0] for name in imported(path)}
    room = name_of(path).split("/")[0]
    if room in ("puzzles", "report"):
        assert not tops & {"jax", "jaxlib", "optax"}, "puzzles and reports know no JAX"
    if room != "cli":
        assert "tyro" not in tops, "only the command line knows tyro"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_is_unpickled(path):
    assert not {name.split(".")[0] for name in imported(path)} & UNPICKLERS
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert isinstance(node.value, ast.Constant) and node.value.value is False


@pytest.mark.parametrize("path", [*FILES, *sorted((ROOT / "tests").glob("*.py"))], ids=lambda path: path.name)
def test_no_file_is_long(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500


def test_a_breach_would_be_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    (tmp_path / "kernels").mkdir()
    bad = tmp_path / "kernels" / "bad.py"
    bad.write_text(
        "import pickle\nfrom ..training import pool\nfrom . import spec\nfrom ..errors import CellwiseError\n"
        "def late():\n    from cellwise.model import load\n    import cellwise.puzzles.maze\n"
    )
    assert breaches(bad, house_plan()) == ["model.load", "puzzles.maze", "training.pool"]
    assert "pickle" in imported(bad)
