"""A model that has learnt a task answers it again, and people see how: film, page, terminal, picture."""

import base64
import dataclasses
import html.parser
import io
import json

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from cellwise.automaton import rule
from cellwise.cli import main as front
from cellwise.errors import ConfigError
from cellwise.kernels.dispatch import Reference
from cellwise.model import Frame, Model, Pace, load
from cellwise.puzzles.arc import Known, to_json
from cellwise.puzzles.arc_canvas import BORDER, PAD
from cellwise.puzzles.arc_vote import Guess, count
from cellwise.report import task_page
from cellwise.report.arc_grid import COLOURS, Canvases, faded
from cellwise.report.palette import SHADES
from cellwise.report.task_page import Film
from cellwise.report.terminal import watch
from cellwise.tasks import adapt, guess
from cellwise.tasks.adapt import AdaptRecipe
from cellwise.tasks.adapted import adapted, ask, lesson_of
from cellwise.tasks.film import first_guess, told
from cellwise.tasks.solve import solve
from tiny_tasks import AUTOMATON, RULES, TOKENS, tiny_known

QUICK = AdaptRecipe(steps=2, batch=2, look_every=1, rollouts=1, rollout=3, judged=1, precision="float32")


@pytest.fixture(scope="module")
def model():
    """An automaton that has learnt nothing, but moves."""
    arrays = rule.first_weights(AUTOMATON.step, None, 0) | rule.first_tables(AUTOMATON, 0)
    arrays = {name: 50 * array if name.startswith("update.w") else array for name, array in arrays.items()}
    # A head that says a border now and then, so that some guesses show a grid.
    arrays["head.w"] = 30 * arrays["head.w"]
    weights = arrays | {"layout.tokens": TOKENS}
    about = {"contexts": list(RULES)}
    return Model("tiny", "arc", AUTOMATON, weights, None, 0.9, Pace(6, 0.0), about)


@pytest.fixture(scope="module")
def known():
    return tiny_known("clear", 5, demos=4)


@pytest.fixture(scope="module")
def solved(model, known):
    (solved,) = solve(model, [known.task], QUICK, seed=4, models=True)
    return solved


@pytest.fixture(scope="module")
def learnt(solved, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "learnt"
    solved.model.save(folder)
    return folder


# Asked again


def alike(some, others):
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        np.testing.assert_array_equal(one.grid, other.grid)
        assert one.confidence == pytest.approx(other.confidence, abs=1e-5)


def test_what_was_learnt_is_kept_and_answers_alike(solved, learnt, known):
    again = ask(load(learnt), known.task)
    assert sum(one.grid is not None for one in solved.guesses[0]) > 1
    for before, after in zip(solved.guesses, again.guesses, strict=True):
        alike(before, after)
    renamed = dataclasses.replace(known.task, name="another", questions=known.task.questions[1:])
    assert len(ask(load(learnt), renamed, 2).guesses[0]) == 2 * 51


def test_a_part_of_low_rank_is_kept_with_what_it_is_added_to(model, known):
    recipe = dataclasses.replace(QUICK, rank=2)
    base = {name: jnp.asarray(array) for name, array in model.weights.items()}
    pupil = adapt.begin(AUTOMATON, base, ["clear"], 0, recipe)
    trained = {name: array[0] for name, array in pupil.trained.items()}
    trained["update.w_in.rank"] = trained["update.w_in.rank"] + 1.0
    learnt = adapted(model, known.task, trained, recipe, seed=7)
    assert not np.array_equal(learnt.weights["update.w_in"], model.weights["update.w_in"])
    np.testing.assert_array_equal(learnt.weights["head.w"], model.weights["head.w"])
    np.testing.assert_array_equal(learnt.weights["context.vectors"], trained["context.vectors"])
    lesson = lesson_of(learnt)
    assert (lesson.task, lesson.seed, lesson.precision) == ("clear", 7, "float32")
    assert lesson_of(model) is None and "contexts" not in learnt.provenance


def test_only_the_task_that_was_learnt_is_answered(model, learnt):
    other = tiny_known("clear", 6, demos=4).task
    with pytest.raises(ConfigError) as caught:
        ask(load(learnt), other)
    assert str(caught.value) == (
        "tiny has learnt clear, and clear has other demonstrations; learn it with `cellwise adapt`."
    )
    with pytest.raises(ConfigError) as caught:
        ask(model, other)
    assert str(caught.value) == (
        "tiny has not learnt clear yet; learn it with `cellwise adapt --save DIR` and name that folder."
    )


def test_a_lesson_that_somebody_spoilt_is_refused(learnt, known, tmp_path):
    for changes, problem in (
        ({"seed": "x"}, "tiny: lesson: seed must be a whole number, not 'x'."),
        (
            {"seed": -1},
            "The seed of a lesson cannot be -1; choose a whole number from 0 to 4294967295.",
        ),
    ):
        model = load(learnt)
        lesson = model.provenance["lesson"] | changes
        spoilt = dataclasses.replace(model, provenance=model.provenance | {"lesson": lesson})
        with pytest.raises(ConfigError) as caught:
            ask(spoilt, known.task)
        assert str(caught.value) == problem


@pytest.mark.parametrize("block", [1, 17])
def test_canvases_a_few_at_a_time_say_what_they_say_together(model, known, block):
    canvases, _, keys = guess.lay_out(known.task, 0, 0, 12, 0)
    base = {name: jnp.asarray(array) for name, array in model.weights.items()}
    contexts = jnp.zeros(51, jnp.int32)
    how = {"automaton": AUTOMATON, "steps": 3, "path": Reference(), "rate": 0.9}
    parts = ({}, base, jnp.asarray(canvases[None]), contexts, jnp.asarray(keys[None]))
    parts = ({"head.b": base["head.b"][None]}, *parts[1:])
    whole, cut = (guess.think_together(*parts, **how, block=size) for size in (0, block))
    np.testing.assert_array_equal(whole.grid, cut.grid)
    np.testing.assert_allclose(whole.confidence, cut.confidence, atol=1e-5)


def test_blocks_divide_the_guises_and_fit_a_cache():
    assert [guess.block_of(51, side) for side in (12, 18, 24, 32, 100)] == [17, 17, 3, 3, 1]


# Films


def test_a_film_ends_with_the_first_guess(solved, known):
    for number in range(2):
        scene = first_guess(solved.model, known.task, number)
        frames = list(scene.frames())
        assert [frame.step for frame in frames] == [0, 1, 2, 3]
        grid = scene.shown(frames[-1])
        np.testing.assert_array_equal(grid, solved.guesses[number][0].grid)
        assert (scene.canvas[scene.asked] < 10).all() and (scene.canvas[~scene.asked] == PAD).all()


def test_cells_do_what_the_context_tells_them(model, known):
    grid = known.task.questions[0]
    scenes = [told(model, grid, name) for name in RULES]
    films = [np.stack([frame.grid for frame in scene.frames()]) for scene in scenes]
    assert films[0].shape == (7, 12, 12)
    for scene, film in zip(scenes[1:], films[1:], strict=True):
        np.testing.assert_array_equal(scene.canvas, scenes[0].canvas)
        np.testing.assert_array_equal(film[0], films[0][0], "the same cells begin alike")
        assert (film[-1] != films[0][-1]).any()


def test_contexts_are_found_by_name(model, learnt, known):
    grid = known.task.questions[0]
    with pytest.raises(ConfigError) as caught:
        told(model, grid, "paint-gold")
    assert str(caught.value) == ("tiny knows no task 'paint-gold'; name one of its 3, such as paint-blue.")
    with pytest.raises(ConfigError) as caught:
        told(load(learnt), grid, "clear")
    assert str(caught.value) == (
        "tiny knows no tasks by name; name a pre-trained model of `cellwise train arc`."
    )


# The page


def ballots():
    grids = [np.array([[n]], np.uint8) for n in range(10)]
    first = [Guess(grids[0], 0.9)] * 20 + [Guess(grid, 0.5) for grid in grids[1:]] + [Guess(None, 0.0)] * 22
    return [count(first), count([Guess(None, 0.0)])]


def film(side=4, count=5):
    rng = np.random.default_rng(0)
    grid = rng.integers(0, 12, (count, side, side)).astype(np.uint8)
    return Film(grid[0], grid, rng.random(grid.shape, np.float32), "It voted for <nobody>.")


def task_called(name):
    return dataclasses.replace(tiny_known("clear", 5).task, name=name)


class Reader(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.said, self.data, self._inside = [], [], "", None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._inside = dict(attributes).get("id")

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        self.said.append(data.strip())
        if self._inside == "films":
            self.data += data


def test_the_page_shows_what_was_shown_voted_and_thought():
    task, thought = task_called("<b>0a&1"), film()
    reader = Reader(task_page.page(task, ballots(), [thought, None], "Right."))
    tags = [tag for tag, _ in reader.tags]
    assert "<b>0a&1" in reader.said and "Right." in reader.said and "b" in tags
    assert tags.count("canvas") == 1 and any("It voted for <nobody>. Out" in said for said in reader.said)
    # Six of the demonstrations, two questions, eight answers, and two of the film.
    assert tags.count("img") == 6 + 2 + 8 + 2
    for tag, attributes in reader.tags:
        assert not {"href", "onclick", "onload"} & attributes.keys()
        assert tag != "img" or (attributes["src"].startswith("data:image/png;base64,") and attributes["alt"])
    assert "20 of 51" in reader.said and "2 other grids had 2 votes. 22 of 51 guesses showed no grid." in (
        reader.said
    )
    grid = task.questions[0]
    rows = " / ".join("".join(map(str, row)) for row in grid.tolist())
    said = [attributes.get("alt") for tag, attributes in reader.tags if tag == "img"]
    assert f"Question, {len(grid)} by {grid.shape[1]}: {rows}" in said


def test_the_film_of_the_page_is_the_thought():
    thought = film()
    data = json.loads(Reader(task_page.page(task_called("a"), ballots(), [None, thought], "")).data)
    (shown,) = data["films"]
    cells = np.frombuffer(base64.b64decode(shown["cells"]), np.uint8).reshape(5, 4, 4)
    np.testing.assert_array_equal(cells // SHADES, thought.grid)
    np.testing.assert_allclose(cells % SHADES / (SHADES - 1), thought.confidence, atol=0.51 / (SHADES - 1))
    colours = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in data["palette"]], np.uint8)
    for frame, grid, sure in zip(cells, thought.grid, thought.confidence, strict=True):
        np.testing.assert_array_equal(colours[frame], faded(grid, sure))
    assert shown["side"] == 4 and shown["sure"] == pytest.approx(thought.confidence.mean((1, 2)), abs=1e-3)


def test_the_page_plays_in_a_browser(chromium, tmp_path):
    thought, path = film(), tmp_path / "task.html"
    path.write_text(task_page.page(task_called("a"), ballots(), [thought, thought], "Right."))
    tab = chromium.page(still=True)
    try:
        tab.open(path.as_uri(), ready="document.querySelector('output')?.textContent")
        assert tab.js("document.querySelector('output').textContent").startswith("step 4 of 4, ")
        pixel = """(() => {{ const s = document.querySelectorAll('input')[1]; s.value = {0};
            s.dispatchEvent(new Event('input'));
            const c = document.querySelectorAll('canvas')[1];
            return [...c.getContext('2d').getImageData(2, 1, 1, 1).data].slice(0, 3); }})()"""
        assert tab.js(pixel.format(2)) == faded(thought.grid[2], thought.confidence[2])[1, 2].tolist()
        tab.js("document.querySelectorAll('button')[0].click()")
        assert tab.js("document.querySelector('button').textContent") == "Pause"
        tab.wait("document.querySelector('output').textContent.startsWith('step 2 of 4')")
        assert tab.complaints() == []
        assert all(url.startswith(("data:", "file:")) for url in tab.requests())
    finally:
        tab.close()


# The terminal


def screen(**options):
    options = {"force_terminal": True, "color_system": "truecolor", "width": 80} | options
    return Console(file=io.StringIO(), height=40, _environ={}, **options)


def printed(drawing, **options):
    console = screen(**options)
    console.print(drawing, soft_wrap=True)
    return console.file.getvalue()


QUESTION = np.array([[1, PAD], [2, PAD]], np.uint8)
ANSWER = np.array([[3, BORDER], [BORDER, PAD]], np.uint8)


def test_without_colours_canvases_are_digits():
    assert printed(Canvases(QUESTION, ANSWER), no_color=True) == "1.   3+\n2.   +.\n"
    assert printed(Canvases(QUESTION, ANSWER), no_color=True, width=6) == "3+\n+.\n"


def test_with_colours_two_cells_share_a_character():
    console = screen()
    segments = [
        segment
        for segment in console.render(Canvases(QUESTION, ANSWER), console.options)
        if segment.text != "\n"
    ]
    row = [(tuple(s.style.color.triplet), tuple(s.style.bgcolor.triplet)) for s in segments for _ in s.text]
    assert len(row) == 2 + 3 + 2
    assert row[0] == (tuple(COLOURS[1]), tuple(COLOURS[2]))
    assert row[-2] == (tuple(COLOURS[3]), tuple(COLOURS[BORDER]))
    pale = Canvases(QUESTION, ANSWER, np.full((2, 2), 0.2, np.float32))
    assert printed(pale) != printed(Canvases(QUESTION, ANSWER))


@pytest.mark.parametrize("no_color", [True, False])
def test_watching_draws_every_frame_and_leaves_the_terminal_clean(no_color):
    frames = [
        Frame(step, np.where(ANSWER == 3, np.uint8(step), ANSWER), np.ones((2, 2), np.float32))
        for step in range(4)
    ]
    console = screen(no_color=no_color)
    asked = QUESTION != PAD
    last = watch(
        frames, 4, asked, None, 0.01, console, draw=lambda one: Canvases(QUESTION, one.grid, one.confidence)
    )
    assert last is frames[-1]
    seen = console.file.getvalue()
    assert all((f"1.   {step}+" in seen) == no_color for step in range(4))
    assert ("\x1b[38;2;" in seen) == (not no_color) and seen.rstrip().endswith("\x1b[2K")


# The commands


@pytest.fixture
def files(tmp_path, model, learnt, known, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    model.save("model")
    (tmp_path / "learnt").symlink_to(learnt)
    (tmp_path / "clear.json").write_text(json.dumps(to_json(*known)))
    open_questions = Known(known.task, (None, None))
    (tmp_path / "open.json").write_text(json.dumps(to_json(*open_questions)))
    (tmp_path / "two.json").write_text(json.dumps({"a": to_json(*known), "b": to_json(*known)}))
    return tmp_path


def learn(*words):
    quick = [f"--recipe.{name.replace('_', '-')}={value}" for name, value in vars(QUICK).items()]
    return front.main(["adapt", *words, "--model", "model", "--seed", "4", *quick])


def test_a_task_is_learnt_watched_kept_and_answered_again(files, capsys):
    status = learn("clear.json", "--watch", "--save", "a.html", "--save", "a.png", "--save", "kept")
    first = capsys.readouterr().out
    assert status in (0, 1) and "clear, question 2: votes" in first
    assert (files / "a.html").read_text().count("<canvas") == 2
    assert (files / "a.png").read_bytes()[:4] == b"\x89PNG"
    words = ["solve", "arc", "clear.json", "--model", "kept", "--save", "b.html"]
    assert front.main(words) == status
    second = capsys.readouterr().out
    assert second.splitlines()[:-1] == first.splitlines()[:-1]
    assert "51 guesses a question, " in second and "2 updates, " in first
    assert (files / "b.html").read_text() == (files / "a.html").read_text()


def test_questions_without_answers_are_answered(files, capsys):
    assert front.main(["solve", "arc", "open.json", "--model", "learnt", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["right"] is None and len(record["questions"][1]["guesses"]) == 51
    assert front.main(["solve", "arc", "open.json", "--model", "learnt"]) == 0
    assert "No answers to compare with. 51 guesses" in capsys.readouterr().out


def test_the_same_input_like_several_tasks(files, capsys):
    words = ["solve", "arc", "clear.json", "--model", "model", "--like", "clear", "paint-red", "--watch"]
    assert front.main([*words, "--save", "several.png"]) == 0
    shown = capsys.readouterr().out
    assert "clear" in shown and "paint-red" in shown
    with Image.open(files / "several.png") as picture:
        size = picture.size
    # Two rows of canvases of twelve cells, six pixels each: the question and six moments.
    assert size[1] > 2 * 72 and size[0] > 7 * 72


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--save", "x.gif"], "Cannot tell from the name x.gif what to save; let it end in .png or .html."),
        (["--save", "x"], "Cannot tell from the name x what to save; let it end in .png or .html."),
        (["--rollouts", "0"], "The number of rollouts cannot be 0; choose a whole number from 1 to 1000."),
        (
            ["--like", "clear", "--save", "x.html"],
            "With --like a picture is saved, not x.html; let its name end in .png.",
        ),
        (["--like", "clear", "--json"], "With --like there are no votes to print as JSON; leave out --json."),
    ],
)
def test_what_asking_again_refuses(files, capsys, words, said):
    assert front.main(["solve", "arc", "clear.json", "--model", "learnt", *words]) == 2
    assert capsys.readouterr().err == f"cellwise: {said}\n"


def test_a_file_with_several_tasks_is_refused(files, capsys):
    assert front.main(["solve", "arc", "two.json", "--model", "learnt"]) == 2
    assert capsys.readouterr().err == "cellwise: two.json holds 2 tasks; hand over a file with one.\n"


def test_nothing_is_saved_of_what_is_done_already(files, capsys):
    learn("clear.json", "--out", "done")
    capsys.readouterr()
    assert learn("clear.json", "--out", "done", "--save", "x.html") == 2
    assert capsys.readouterr().err == (
        "cellwise: done has the guesses for clear already, so there is nothing to save; choose another "
        "folder with --out, or leave out --save.\n"
    )
