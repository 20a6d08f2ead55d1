"""The frame of the studies: runs that stop and go on, files that say how to measure again, the report."""

import json
import re
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as arrays

import page as web
from cellwise import studies
from cellwise.cli.main import main
from cellwise.errors import ConfigError, FileError
from cellwise.studies import figure, packed
from cellwise.studies import result as files
from cellwise.studies.page import Section, page
from cellwise.studies.run import run
from cellwise.studies.study import Comparison, Result, Study

ROOT = Path(__file__).resolve().parents[1]
COMMITTED = [
    (study, scale)
    for study in studies.studies()
    for scale in ("quick", "full")
    if files.path_of(ROOT / "results" / "studies", study.name, scale).exists()
]


@dataclass(frozen=True)
class Settings:
    numbers: tuple[int, ...] = (1, 2, 3)
    model: str = "maze-ood"


def draw(result, picture):
    left, right = picture.subplots(1, 2)
    numbers = [number for number in result.settings.numbers if result.row(number=number)]
    squares = [result.row(number=number)["square"] for number in numbers]
    left.plot(numbers, squares, **figure.style(0))
    left.plot(squares, numbers, linestyle="none", marker="s", label="the other way")
    left.axhline(2.0)
    right.loglog(numbers, squares, **figure.style(1))
    right.bar(numbers, squares, color=figure.COLOURS[2])


def squares(measured):
    return Study(
        name="squares",
        title="Squares <of> numbers",
        claim="The paper says that numbers & squares differ.",
        quick=Settings(),
        full=Settings(numbers=tuple(range(1, 9))),
        data=lambda settings: f"{len(settings.numbers)} numbers",
        jobs=lambda settings: [{"number": number} for number in settings.numbers],
        measure=measured,
        compare=lambda result: [
            Comparison(
                "the square of 3", "9", (row := result.row(number=3)) and f"{row['square']}", "exactly"
            ),
            Comparison("the square of 4", None, None),
        ],
        draw=draw,
        alt="Squares against numbers.",
    )


class StoppedError(Exception):
    pass


@pytest.fixture
def measured():
    """The jobs that were measured, by a measure that stops when told to."""

    def measure(settings, job):
        measure.seen.append(job["number"])
        if job["number"] == measure.stop:
            raise StoppedError
        return {"square": job["number"] ** 2}

    measure.seen, measure.stop = [], None
    return measure


@pytest.fixture
def study(measured, monkeypatch, tmp_path):
    study = squares(measured)
    monkeypatch.setattr("cellwise.studies.studies", lambda: [study])
    monkeypatch.setattr("cellwise.cli.study.studies", lambda: [study])
    monkeypatch.setattr("cellwise.cli.report.studies", lambda: [study])
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    return study


def told(capsys, *words):
    status = main(["study", *words])
    out, err = capsys.readouterr()
    return status, out, err


# Runs


def test_a_stopped_run_goes_on_where_it_was(study, measured, capsys):
    measured.stop = 2
    with pytest.raises(StoppedError):
        main(["study", "run", "squares", "--quick"])
    measured.stop = None
    assert told(capsys, "run", "squares", "--quick")[0] == 0
    assert measured.seen == [1, 2, 2, 3]
    head, *lines = map(json.loads, Path("results/studies/squares.quick.jsonl").read_text().splitlines())
    assert head == {
        "format": 1,
        "study": "squares",
        "scale": "quick",
        "command": "cellwise study run squares --quick",
        "data": "3 numbers",
        "settings": {"numbers": [1, 2, 3], "model": "maze-ood"},
    }
    assert [(line["job"], line["row"]) for line in lines] == [
        ({"number": n}, {"square": n**2}) for n in (1, 2, 3)
    ]
    assert all(line["device"] and line["date"] and line["versions"]["jax"] for line in lines)


def test_a_run_says_what_it_does(study, capsys):
    status, out, err = told(capsys, "run", "squares", "--quick")
    assert status == 0
    assert [line.rstrip() for line in out.splitlines()] == [
        "                 paper  here",
        "the square of 3  9      9",
        "the square of 4  –      not run",
    ]
    assert err.splitlines() == [f"{n} of 3, 0 s: number {n}" for n in (1, 2, 3)]


def test_a_run_without_time_begins_nothing(study, measured, capsys):
    status, _, err = told(capsys, "run", "squares", "--minutes", "0")
    assert (status, measured.seen) == (1, [])
    assert err == "8 of 8 jobs are left; the same command goes on.\n"


def test_anew_forgets(study, measured, capsys):
    main(["study", "run", "squares", "--quick"])
    main(["study", "run", "squares", "--quick", "--anew"])
    assert measured.seen == [1, 2, 3, 1, 2, 3]


def test_another_model_is_part_of_the_settings_and_the_command(study, capsys):
    main(["study", "run", "squares", "--quick", "--model", "mine", "--out", "there"])
    found = files.read(Path("there/squares.quick.jsonl"), study)
    assert (found.settings.model, found.command) == (
        "mine",
        "cellwise study run squares --quick --model mine",
    )


def test_the_list(study, capsys):
    main(["study", "run", "squares", "--quick"])
    capsys.readouterr()
    assert [line.rstrip() for line in told(capsys, "list")[1].splitlines()] == [
        "study    quick   full    about",
        "squares  3 of 3  0 of 8  Squares <of> numbers",
    ]
    assert json.loads(told(capsys, "list", "--json")[1])[0]["quick"] == {"jobs": 3, "done": 3}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "squarse"], "There is no study 'squarse'; did you mean squares?"),
        (
            ["draw", "squares", "a.svg"],
            "There is no results/studies/squares.jsonl; measure it with `cellwise study run squares`.",
        ),
        (
            ["draw", "squares", "a.svg", "--quick"],
            "There is no results/studies/squares.quick.jsonl; "
            "measure it with `cellwise study run squares --quick`.",
        ),
        (["sing"], "cellwise study knows no 'sing'; choose one of: list, run, draw."),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(study, capsys, words, message):
    status, _, err = told(capsys, *words)
    assert status == 2
    assert err == f"cellwise: {message}\n"


def test_a_file_with_other_settings_is_left_alone(study, tmp_path):
    path = tmp_path / "squares.jsonl"
    files.write(path, run(study, files.begun(path, study, "quick", Settings((1,)), "", False), path, 9.0))
    before = path.read_bytes()
    with pytest.raises(ConfigError) as caught:
        files.begun(path, study, "quick", Settings((1, 2)), "", False)
    assert str(caught.value) == (
        f"{path} was begun with other settings; measure into another folder with --out, "
        "or throw it away with --anew."
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "spoil", [lambda text: text[:-20], lambda text: "", lambda text: "[]\n", lambda _: "1\n"]
)
def test_a_file_that_is_not_whole_is_refused(study, tmp_path, spoil):
    path = tmp_path / "squares.quick.jsonl"
    run(study, files.begun(path, study, "quick", study.quick, "", False), path, 9.0)
    path.write_text(spoil(path.read_text()))
    with pytest.raises(FileError) as caught:
        files.read(path, study)
    assert str(caught.value) == (
        f"{path} is not a whole result file; get it again, or move it away and run the study again."
    )


def test_a_file_of_another_study_is_refused(study, tmp_path):
    path = tmp_path / "squares.jsonl"
    path.write_text('{"format": 1, "study": "cubes"}\n')
    with pytest.raises(FileError) as caught:
        files.read(path, study)
    assert str(caught.value) == (
        f"{path} is not a result of squares that this version reads; move it away and run the study again."
    )


@given(
    values=arrays.arrays(np.uint8, arrays.array_shapes(min_dims=1, max_dims=3, max_side=5)),
)
@settings(max_examples=20, deadline=None)
def test_maps_come_back(values):
    assert (packed.unpack(json.loads(json.dumps(packed.pack(values)))) == values).all()


def test_large_counts_are_capped():
    assert packed.unpack(packed.pack(np.array([3, 255, 256, 10**6]))).tolist() == [3, 255, 255, 255]


# Pictures


@pytest.fixture
def finished(study, tmp_path):
    path = tmp_path / "squares.quick.jsonl"
    return run(study, files.begun(path, study, "quick", study.quick, "make it", False), path, 9.0)


def test_a_picture_agrees_with_its_data(study, finished, tmp_path):
    picture = figure.make(study, finished)
    figure.save(picture, tmp_path / "a.svg")
    assert figure.agree(picture, tmp_path / "a.svg") == []
    found = figure.drawn(tmp_path / "a.svg")
    assert {name: len(points) for name, points in found.items()} == {
        "line-0-0": 3,
        "line-0-1": 3,
        "line-0-2": 2,
        "line-1-0": 3,
    }


def test_rules_across_a_picture_are_no_data(study, finished):
    picture = figure.make(study, finished)
    assert list(figure.lines(picture)) == ["line-0-0", "line-0-1", "line-1-0"]


def test_a_picture_of_other_data_is_found_out(study, finished, tmp_path):
    figure.save(figure.make(study, finished), tmp_path / "a.svg")
    rows = [
        replace(one, row={"square": one.row["square"] + 0.01 * one.job["number"]}) for one in finished.done
    ]
    other = figure.make(study, replace(finished, done=tuple(rows)))
    wrong = figure.agree(other, tmp_path / "a.svg")
    assert wrong[0] == "the picture was made from other data" and len(wrong) > 1


def test_a_line_that_was_moved_is_found_out(study, finished, tmp_path):
    path = tmp_path / "a.svg"
    picture = figure.make(study, finished)
    figure.save(picture, path)
    before, _, after = path.read_text().partition('<g id="line-0-0">')
    word = re.search(r"L \S+ (\S+)", after)[1]
    path.write_text(before + '<g id="line-0-0">' + after.replace(word, f"{float(word) + 5}", 1))
    assert [words.split(":")[0] for words in figure.agree(picture, path)] == ["line-0-0, line-0-1"]


def test_two_drawings_are_the_same_bytes(study, finished, tmp_path):
    for name in ("a.svg", "b.svg"):
        figure.save(figure.make(study, finished), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_picture_needs_a_format(study, finished, tmp_path):
    with pytest.raises(ConfigError) as caught:
        figure.save(figure.make(study, finished), tmp_path / "a.jpg")
    assert str(caught.value) == (
        f"{tmp_path / 'a.jpg'} cannot be drawn; give it a name that ends in .svg, .png, .pdf."
    )


def test_a_picture_can_be_drawn_of_nothing(study, tmp_path):
    empty = Result("squares", "quick", Settings(), "", "")
    figure.save(figure.make(study, empty), tmp_path / "a.png")


# The report


class Words(HTMLParser):
    """The text of a page and whatever it would fetch."""

    def __init__(self, text):
        super().__init__()
        self.words, self.fetched, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.fetched += [value for name, value in attributes if name in ("src", "srcset") or tag == "link"]

    def handle_data(self, data):
        self.words.append(data.strip())


def test_the_report_shows_both_sides_and_what_is_missing(study, finished):
    one = replace(finished, done=finished.done[:2])
    words = [word for word in Words(page([Section(study, one, "<svg/>")])).words if word]
    assert words.count("not run") == 3  # The introduction's and two rows.
    assert "1 of 3 jobs not run" in words and "quick" in words
    assert "Squares <of> numbers" in words and "The paper says that numbers & squares differ." in words
    assert "make it" in words and "2 of 3 jobs, 0 s" in words


def test_the_report_of_nothing_says_how_to_run_it(study):
    words = Words(page([Section(study, None, None)])).words
    assert "cellwise study run squares --quick" in words


def test_the_full_result_goes_before_the_quick_one(study, finished, tmp_path):
    assert files.shown(tmp_path, study) == finished
    full = replace(finished, scale="full", settings=study.full)
    files.write(tmp_path / "squares.jsonl", replace(full, done=()))
    assert files.shown(tmp_path, study) == finished
    files.write(tmp_path / "squares.jsonl", full)
    assert files.shown(tmp_path, study) == full
    assert files.shown(tmp_path / "elsewhere", study) is None


def test_the_report_fetches_nothing(study, finished):
    fetched = Words(page([Section(study, finished, "<svg/>")])).fetched
    assert fetched and all(address.startswith("data:image/svg+xml;base64,") for address in fetched)


def test_the_command_writes_page_and_pictures(study, capsys):
    main(["study", "run", "squares", "--quick"])
    assert main(["report", "--out", "there", "--png"]) == 0
    assert sorted(path.name for path in Path("there").iterdir()) == [
        "report.html",
        "squares.png",
        "squares.svg",
    ]
    assert main(["study", "draw", "squares", "again.svg", "--quick"]) == 0
    assert Path("again.svg").read_bytes() == Path("there/squares.svg").read_bytes()
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "Written to there/report.html.",
        "Drawn to again.svg.",
    ]


# What is committed


@pytest.mark.parametrize("study", studies.studies(), ids=lambda study: study.name)
def test_every_study_can_be_shown_without_results(study):
    for scale in ("quick", "full"):
        empty = Result(study.name, scale, study.settings(scale), "", study.data(study.settings(scale)))
        assert study.jobs(empty.settings) and len(study.claim) > 40
        assert all(one.ours is None for one in study.compare(empty))
        if study.draw is not None:
            assert study.alt
            figure.make(study, empty)


@pytest.mark.parametrize(("study", "scale"), COMMITTED, ids=lambda value: getattr(value, "name", value))
def test_committed_results_are_whole_and_small(study, scale):
    path = files.path_of(ROOT / "results" / "studies", study.name, scale)
    result = files.read(path, study)
    assert result is not None and result.done and path.stat().st_size < 400_000
    assert all(one.job in study.jobs(result.settings) and one.commit for one in result.done)
    assert files.text_of(result) == path.read_text()


def test_committed_pictures_show_the_committed_results():
    folder = ROOT / "docs" / "report"
    sections = []
    for study in studies.studies():
        result, svg = files.shown(ROOT / "results" / "studies", study), None
        if result is not None and study.draw is not None:
            assert figure.agree(figure.make(study, result), folder / f"{study.name}.svg") == [], study.name
            svg = (folder / f"{study.name}.svg").read_text()
        sections.append(Section(study, result, svg))
    assert (folder / "report.html").read_text() == page(sections), "the report is stale; run `make report`"


# In a browser


@pytest.mark.skipif(web.browser.find() is None, reason="there is no Chromium here (apt install chromium)")
def test_the_report_fits_a_screen_a_phone_and_paper():
    address = (ROOT / "docs" / "report" / "report.html").as_uri()
    browser = web.browser.Browser()
    try:
        for view in ({}, {"width": 390, "height": 844, "mobile": True}):
            tab = browser.page(**view)
            tab.open(address, ready="document.readyState === 'complete'")
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert tab.js(wide) == 0
            assert tab.js("[...document.images].every(i => i.complete && i.naturalWidth > 100 && i.alt)")
            assert tab.js(_LEAST_CONTRAST) >= 4.5
            tab.call("Emulation.setEmulatedMedia", media="print")
            assert tab.js(wide) == 0
            assert [url for url in tab.requests() if not url.startswith(("file:", "data:"))] == []
            assert tab.complaints() == []
            tab.close()
    finally:
        browser.close()


_LEAST_CONTRAST = """
(() => {
  const light = colour => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const texts = [...document.body.querySelectorAll("*")].filter(e => e.innerText?.trim());
  return Math.min(...texts.map(e => 1.05 / (light(getComputedStyle(e).color) + 0.05)));
})()
"""
