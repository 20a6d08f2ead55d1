"""What the pages say is so: examples run, links lead somewhere, commands parse, numbers are measured."""

import ast
import doctest
import importlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import cellwise
from cellwise import benchmarks
from cellwise.cli.arguments import parse
from cellwise.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "cellwise"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
PRESETS_AND_PAGES = [*PAGES, *sorted((SOURCE / "benchmarks").glob("*.py"))]
WITH_EXAMPLES = ["README.md", "docs/api.md"]

sys.path.insert(0, str(ROOT / "tools"))
readme_tables = importlib.import_module("readme_tables")


def named(path):
    return str(path.relative_to(ROOT))


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


def statements(block):
    """The source of an example, whether written as a session or as a program."""
    examples = doctest.DocTestParser().get_examples(block)
    return "".join(example.source for example in examples) if examples else block


# Examples


@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_the_examples_of_a_page_run(page):
    session = "\n".join(block for block in python_blocks(page) if ">>>" in block)
    failures = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(doctest.DocTestParser().get_doctest(session, {}, page, page, 0), out=failures.append)
    assert runner.tries > 3
    assert not failures, "".join(failures)


def test_the_example_of_the_package_runs():
    results = doctest.testmod(cellwise, raise_on_error=False)
    assert results.attempted > 3 and results.failed == 0


@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_examples_use_public_names_only(page):
    used = set()
    for block in python_blocks(page):
        for node in ast.walk(ast.parse(statements(block))):
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] != "cellwise", "import cellwise, and use its names"
            if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name | ast.Attribute):
                continue
            owner = ast.unparse(node.value)
            if owner in ("cellwise", "cellwise.puzzles"):
                used.add((owner, node.attr))
    assert used
    for owner, name in used:
        module = cellwise if owner == "cellwise" else cellwise.puzzles
        assert name in module.__all__, f"{owner}.{name} is not public"


def test_every_public_name_is_described():
    page = (ROOT / "docs" / "api.md").read_text()
    described = set(re.findall(r"\w+", page))
    assert set(cellwise.__all__) | set(cellwise.puzzles.__all__) <= described


# Links


def anchors(text):
    """How GitHub names the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), f"{target} does not exist"
        assert not anchor or anchor in anchors(there.read_text()), f"{target} has no such heading"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_paths_in_prose_exist(page):
    """`tools/x.py`, `docs/y.md`, and below the package `training/z.py`."""
    for path in re.findall(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|md))\b", page.read_text()):
        assert (ROOT / path).exists() or (SOURCE / path).exists(), f"{path} does not exist"


# Commands


def commands(text):
    """Lines that call cellwise, in blocks that are indented or fenced."""
    fenced = "".join(re.findall(r"^```\w*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    indented = re.findall(r"^ {4}(.*)$", text, re.MULTILINE)
    lines = [*fenced.splitlines(), *indented]
    return [shlex.split(line, comments=True)[1:] for line in lines if re.match(r"(\$ )?cellwise \w", line)]


SHOWN = [
    pytest.param(named(page), words, id=f"{named(page)}: {' '.join(words)}")
    for page in PRESETS_AND_PAGES
    for words in commands(page.read_text())
]


def test_commands_are_shown():
    assert {"README.md", "docs/data.md", "src/cellwise/benchmarks/maze_ood.py"} <= {
        shown.values[0] for shown in SHOWN
    }


@pytest.mark.parametrize(("page", "words"), SHOWN)
def test_shown_commands_parse(page, words):
    module, kind, _ = COMMANDS[words[0]]
    definition = getattr(importlib.import_module(f"cellwise.cli.{module}"), kind)
    parsed = parse(definition, f"cellwise {words[0]}", words[1:])
    if words[0] == "train" and not parsed.list:
        assert parsed.preset in benchmarks.PRESETS
    if words[0] == "eval":
        assert parsed.benchmark in {
            *benchmarks.BENCHMARKS,
            *benchmarks.TASK_BENCHMARKS,
            *benchmarks.PICTURE_BENCHMARKS,
        }
    if words[0] in ("solve", "eval") and "--model" not in words and page == "README.md":
        name = parsed.model or benchmarks.BENCHMARKS[parsed.benchmark].model
        assert name in cellwise.shipped(), f"{name} does not come with the package"


def test_an_unknown_option_would_be_found():
    (words,) = commands("    cellwise info --colour\n")
    with pytest.raises(cellwise.ConfigError, match="--colour"):
        test_shown_commands_parse("README.md", words)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_in_prose_exist(page):
    for name in re.findall(r"`cellwise (\w+)", page.read_text()):
        assert name in COMMANDS


def test_make_targets_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        assert set(re.findall(r"(?:^ {4}|`)make ([\w-]+)", page.read_text(), re.MULTILINE)) <= targets


# The tree


def tree():
    """Every path in the tree of the README."""
    (block,) = re.findall(r"^```\ncellwise/\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.M)
    above, paths = [], []
    for line in block.splitlines():
        ((bars, name),) = re.findall(r"^((?:│   |    )*)[├└]── (\S+)", line)
        above = [*above[: len(bars) // 4], name.rstrip("/")]
        paths.append("/".join(above))
    return paths


def test_the_tree_names_what_exists():
    assert [path for path in tree() if not (ROOT / path).exists()] == []


def test_the_tree_names_every_room():
    shown = {path.removeprefix("src/cellwise/") for path in tree() if path.startswith("src/cellwise/")}
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {name for name in shown if not name.endswith(".py")} == rooms


# Numbers


def test_the_tables_are_those_of_the_result_files():
    script = ROOT / "tools" / "readme_tables.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_table_is_on_a_page():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    names = [name for page in pages for _, name, _, _ in readme_tables.SECTION.findall(page.read_text())]
    assert sorted(names) == sorted(readme_tables.TABLES)


def test_results_are_those_of_the_shipped_model():
    path = ROOT / "results" / "maze-ood.json"
    if not path.exists():
        pytest.skip("results/maze-ood.json is not here yet")
    result = json.loads(path.read_text())
    assert result["model_provenance"] == cellwise.load(result["model"]).provenance


README = "Before\n<!-- results:maze-ood -->\nold\n<!-- /results -->\nafter\n"
MEASURED = {
    "command": "cellwise eval maze-ood --size 59 61",
    "date": "2026-11-18",
    "model": "maze-ood",
    "device": "cpu (x86_64)",
    "rows": [
        {
            "case": "size 59",
            "data": "generated mazes of size 59, generator seed 2",
            "boards": 1000,
            "steps": 2000,
            "trials": 1,
            "seed": 0,
            "board_accuracy": 0.995,
            "board_accuracy_95": [0.98838, 0.99786],
            "optimal": 0.995,
            "flops_per_board_cellwise": 163411728000,
        },
        {
            "case": "size 61",
            "data": "generated mazes of size 61, generator seed 2",
            "boards": 10,
            "steps": 2284,
            "trials": 4,
            "seed": 7,
            "board_accuracy": 1.0,
            "board_accuracy_95": [0.72246, 1.0],
            "optimal": 1.0,
            "flops_per_board_cellwise": 186611728000,
        },
    ],
}


def test_a_table_in_full(tmp_path):
    (tmp_path / "maze-ood.json").write_text(json.dumps(MEASURED))
    assert readme_tables.filled(README, tmp_path) == (
        "Before\n<!-- results:maze-ood -->\n"
        "| mazes | model | steps | seed | boards right (95 %) | paper | optimal | FLOPs a maze | date | "
        "device | command |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        "| 1,000 generated mazes of size 59, generator seed 2 | maze-ood | 2,000 | 0 | "
        "**99.50 %** (98.84 %–99.79 %) | 100.0 % after 2,000 | 99.50 % | 1.63e+11 | "
        "2026-11-18 | cpu (x86_64) | `cellwise eval maze-ood --size 59 61` |\n"
        "| 10 generated mazes of size 61, generator seed 2 | maze-ood | 2,284 | 7, 4 trials | "
        "**100.00 %** (72.25 %–100.00 %) | – | 100.00 % | 1.87e+11 | "
        "2026-11-18 | cpu (x86_64) | `cellwise eval maze-ood --size 59 61` |\n"
        "<!-- /results -->\nafter\n"
    )


def test_a_table_without_results_says_so(tmp_path):
    assert readme_tables.filled(README, tmp_path) == README.replace("old", readme_tables.PENDING)


def test_a_table_nobody_makes_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"^A page asks for the table 'maze-oud'; known are maze-ood, "):
        readme_tables.filled(README.replace("maze-ood", "maze-oud"), tmp_path)


def seeds(**changed):
    shares = [("size 59", 1, 0.99), ("size 59", 2, 0.95), ("size 201", 1, 0.9)]
    rows = [
        {"case": case, "seed": seed, "board_accuracy": share, "boards": 200, "steps": 2000}
        for case, seed, share in shares
    ]
    rows[1] |= changed
    return {"command": "python x.py", "date": "2026-11-18", "device": "cpu", "rows": rows}


def test_the_spread_over_seeds():
    lines = readme_tables.maze_ood_seeds(seeds()).splitlines()
    assert lines[2:] == [
        "| 200 of size 59 | 2,000 | 1, 2 | **97.00 ± 2.83 %** | 95.00 % – 99.00 % | 100.0 % after 2,000 | "
        "2026-11-18 | cpu | `python x.py` |",
        "| 200 of size 201 | 2,000 | 1 | **90.00 %** | 90.00 % – 90.00 % | 100.0 % after 13,000 | "
        "2026-11-18 | cpu | `python x.py` |",
    ]


def test_each_training_run():
    document = seeds() | {"training": [{"seed": n, "iterations": 5000, "seconds": 12.4} for n in (1, 2)]}
    document["rows"].append({"case": "size 201", "seed": 2, "board_accuracy": 0.5})
    assert readme_tables.maze_ood_runs(document).splitlines() == [
        "| seed | iterations | seconds | right of size 59 | right of size 201 |",
        "| --- | --- | --- | --- | --- |",
        "| 1 | 5,000 | 12 | 99.00 % | 90.00 % |",
        "| 2 | 5,000 | 12 | 95.00 % | 50.00 % |",
        "",
        "*cpu, 2026-11-18, `python x.py`*",
    ]


def test_seeds_that_were_measured_otherwise_are_not_averaged():
    message = r"^Rows of 'size 59' differ in steps: \[2000, 3000\]; measure them alike\.$"
    with pytest.raises(SystemExit, match=message):
        readme_tables.maze_ood_seeds(seeds(steps=3000))


SPEED = {
    "command": "cellwise bench",
    "date": "2026-11-18",
    "device": "A CPU (x86_64)",
    "cores": 2,
    "rows": [
        {
            "task": "forward",
            "contender": "cellwise, compact",
            "boards": "mazes of size 59",
            "seconds": {"median": 1.5, "min": 1.25, "max": 2.0},
            "cell_steps_per_second": 6350933.3,
            "times_cax": 3.14159,
        }
    ],
}


def test_the_speeds():
    row = (
        "| forward | cellwise, compact | mazes of size 59 | **6.35** | 1.500 (1.250–2.000) | {} | "
        "2026-11-18 | A CPU (x86_64), 2 cores | `cellwise bench` |"
    )
    alone = SPEED | {"rows": [{key: value for key, value in SPEED["rows"][0].items() if key != "times_cax"}]}
    assert readme_tables.bench_cpu(SPEED).splitlines()[2:] == [row.format("3.1")]
    assert readme_tables.bench_cpu(alone).splitlines()[2:] == [row.format("–")]
    other = SPEED["rows"] + [SPEED["rows"][0] | {"rule": "sudoku-ood"}]
    assert readme_tables.bench_cpu(SPEED | {"rows": other}) == readme_tables.bench_cpu(SPEED)


def test_a_quick_benchmark_is_not_shown():
    quick = SPEED | {"command": "cellwise bench --quick"}
    message = r"^results/bench-cpu\.json was measured with --quick; run make bench for numbers to show\.$"
    with pytest.raises(SystemExit, match=message):
        readme_tables.bench_cpu(quick)


def test_the_benchmark_writes_what_the_table_reads():
    rooms = ("bench/run.py", "cli/bench.py")
    written = "".join((ROOT / "src" / "cellwise" / room).read_text() for room in rooms)
    (row,) = SPEED["rows"]
    for name in SPEED.keys() | row.keys() | row["seconds"].keys():
        assert f'"{name}"' in written


@pytest.mark.parametrize("stale", [True, False])
def test_check_changes_nothing_and_tells(stale, tmp_path, monkeypatch, capsys):
    (tmp_path / "maze-ood.json").write_text(json.dumps(MEASURED))
    page = tmp_path / "README.md"
    page.write_text(README if stale else readme_tables.filled(README, tmp_path))
    before = page.read_text()
    given = ["readme_tables.py", "--pages", str(page), "--results", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [*given, "--check"])
    assert readme_tables.main() == int(stale)
    assert page.read_text() == before
    told = "README.md differs from results/; run python tools/readme_tables.py.\n"
    assert capsys.readouterr().err == (told if stale else "")
    monkeypatch.setattr(sys, "argv", given)
    assert readme_tables.main() == 0
    assert page.read_text() == readme_tables.filled(README, tmp_path)


# What a release must not contain


def drawn():
    rules = {"rows": 0.95, "columns": 0.94, "boxes": 0.93, "clues": 0.92}
    look = {"right": 0.5, "verified": 0.5, **rules}
    row = {
        "case": "easy", "data": "made boards", "digits": "unseen digits", "canvas": 128, "boards": 1000,
        "steps": 1024, "board_accuracy": 0.9, "board_accuracy_95": [0.88, 0.917], **rules,
        "precision": "bf16", "curve": [{"steps": 512, **look}, {"steps": 1024, **look, "right": 0.9}],
    }  # fmt: skip
    other = {**row, "case": "seen", "curve": [{"steps": 256, **look}]}
    return {"date": "2026-01-01", "device": "one", "command": "cellwise eval", "rows": [row, other]}


def test_drawn_boards_stand_beside_the_paper():
    first, second = readme_tables.visual(drawn()).splitlines()[2:]
    assert first == (
        "| 1,000 made boards (easy) | unseen digits | 128 × 128 | 1,024 | **90.00 %** (88.00 %–91.70 %) | "
        "87.8 % after 1,024 | 95.00 %, 94.00 %, 93.00 % | 92.00 % | bf16 | 2026-01-01 | one | "
        "`cellwise eval` |"
    )
    assert " – | 95.00 %" in second
    assert readme_tables.visual_depths(drawn()).splitlines() == [
        "| steps | 256 | 512 | 1,024 |",
        "| --- | --- | --- | --- |",
        "| easy | – | 50.00 % | 90.00 % |",
        "| seen | 50.00 % | – | – |",
    ]


def test_the_version_is_one():
    assert f"\nversion: {cellwise.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest and newest[1] == cellwise.__version__


def tracked():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if listed.returncode:
        pytest.skip("this is not a checkout of the repository")
    names = listed.stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def test_no_place_of_one_machine_and_no_package_host_is_named():
    # Written so that this file does not contain them.
    unwanted = [b"/work" + b"/", b"/root" + b"/", b"py" + b"pi", b"python" + b"hosted"]
    found = [
        (named(path), word)
        for path in tracked()
        for word in unwanted
        if path.suffix != ".safetensors" and word in path.read_bytes().lower()
    ]
    assert found == []
