"""Learning tasks at test time: it learns, forgets nothing that was done, and never sees an answer."""

import dataclasses
import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cellwise import benchmarks
from cellwise.automaton import rule
from cellwise.benchmarks.preset import TaskBenchmark
from cellwise.cli import eval_tasks
from cellwise.cli import main as front
from cellwise.errors import ConfigError, PuzzleError, RunError
from cellwise.model import Model, Pace, load
from cellwise.puzzles.arc import Known, read_tasks, to_json
from cellwise.puzzles.arc_vote import Guess
from cellwise.tasks import adapt
from cellwise.tasks.adapt import AdaptRecipe
from cellwise.tasks.score import curve, pooled, score
from cellwise.tasks.solve import read_guesses, solve, to_record
from tiny_tasks import AUTOMATON, TOKENS, tiny_known

SUDOKU = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
QUICK = AdaptRecipe(steps=2, batch=2, look_every=1, rollouts=1, rollout=3, judged=1, precision="float32")


@pytest.fixture(scope="module")
def model():
    """An automaton that has learnt nothing, but moves."""
    arrays = rule.first_weights(AUTOMATON.step, None, 0) | rule.first_tables(AUTOMATON, 0)
    arrays = {name: 50 * array if name.startswith("update.w") else array for name, array in arrays.items()}
    return Model(
        "tiny", "arc", AUTOMATON, arrays | {"layout.tokens": TOKENS}, fire_rate=0.9, pace=Pace(6, 0.0)
    )


def known_tasks():
    return [tiny_known("clear", 5, demos=4), tiny_known("paint-red", 6, demos=4)]


def tasks_of(known):
    return [one.task for one in known]


@pytest.mark.slow
def test_a_task_is_learnt_from_its_demonstrations(model):
    recipe = AdaptRecipe(
        steps=100, peak=1e-2, context_rate=1.0, rollouts=1, judged=2, look_every=100, precision="float32"
    )
    known = [tiny_known("clear", 5)]
    (solved,) = solve(model, tasks_of(known), recipe)
    assert solved.updates == 100 and len(solved.guesses[0]) == 51
    assert score(known, {"clear": solved.guesses})["pass@2"]["tests"] == 1.0


# Nothing is lost


def test_what_is_done_is_kept_and_not_done_again(model, tmp_path):
    known = known_tasks()
    first = list(itertools.islice(solve(model, tasks_of(known), QUICK, out=tmp_path, at_once=1), 1))
    assert [path.name for path in tmp_path.glob("*.json")] != []
    rest = list(solve(model, tasks_of(known), QUICK, out=tmp_path, at_once=1))
    assert [one.task.name for one in first + rest] == ["clear", "paint-red"]
    assert list(solve(model, tasks_of(known), QUICK, out=tmp_path)) == []
    back = read_guesses(tmp_path)
    for one in first + rest:
        for questions, read in zip(one.guesses, back[one.task.name], strict=True):
            for guess, again in zip(questions, read, strict=True):
                np.testing.assert_array_equal(guess.grid, again.grid)
                assert guess.confidence == pytest.approx(again.confidence, abs=1e-4)
    with pytest.raises(RunError) as caught:
        list(solve(model, tasks_of(known), dataclasses.replace(QUICK, steps=3), out=tmp_path))
    assert str(caught.value) == (
        f"{tmp_path} holds guesses of another recipe; choose another folder with --out."
    )
    (tmp_path / "clear.json").write_text('{"task": "clear", "questions": [{"grids": [[[77]]]}]}')
    with pytest.raises(PuzzleError) as caught:
        read_guesses(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'clear.json'} holds no guesses; remove it and run `cellwise adapt` again."
    )


def test_no_task_is_begun_when_the_time_is_over(model, tmp_path):
    assert list(solve(model, tasks_of(known_tasks()), QUICK, out=tmp_path, minutes=-1.0)) == []
    with pytest.raises(RunError) as caught:
        read_guesses(tmp_path)
    assert str(caught.value) == f"{tmp_path} holds no guesses yet; run `cellwise adapt` first."
    with pytest.raises(RunError) as caught:
        read_guesses(tmp_path / "nowhere")
    assert str(caught.value) == (
        f"{tmp_path / 'nowhere'} is no folder of guesses of this version; name one of `cellwise adapt`."
    )


# What is learnt


def test_what_a_task_begins_with_is_its_own(model):
    base = {name: jnp.asarray(array) for name, array in model.weights.items()}
    both = adapt.begin(AUTOMATON, base, ["a", "b"], 0, QUICK)
    alone = adapt.begin(AUTOMATON, base, ["b"], 0, QUICK)
    assert both.trained["context.vectors"].shape == (2, 51, 16)
    for name, array in alone.trained.items():
        np.testing.assert_array_equal(array[0], both.trained[name][1])
    assert np.abs(both.trained["context.vectors"][0] - both.trained["context.vectors"][1]).max() > 0.01


def test_a_part_of_low_rank_begins_as_nothing_and_costs_little(model):
    base = {name: jnp.asarray(array) for name, array in model.weights.items()}
    pupil = adapt.begin(AUTOMATON, base, ["a"], 0, dataclasses.replace(QUICK, rank=2))
    trained = {name: array[0] for name, array in pupil.trained.items()}
    same = adapt.whole(trained, base)
    for name in base:
        if name != "context.vectors":
            np.testing.assert_array_equal(same[name], base[name])
    changed = adapt.whole(trained | {"update.w_in.rank": trained["update.w_in.rank"] + 1}, base)
    difference = np.asarray(changed["update.w_in"] - base["update.w_in"])
    assert np.linalg.matrix_rank(difference, tol=1e-4) in (1, 2)
    whole = sum(array.size for array in adapt.begin(AUTOMATON, base, ["a"], 0, QUICK).trained.values())
    assert sum(array.size for array in trained.values()) < whole / 5


@pytest.mark.slow
def test_early_stopping_keeps_the_best(model):
    """A pupil whose held-out demonstration only gets worse is left as it was at its best look."""
    known = known_tasks()[1]
    recipe = dataclasses.replace(QUICK, rank=2, patience=1, context_rate=1000.0, peak=1.0, hold_out=4)
    base = {name: jnp.asarray(array) for name, array in model.weights.items()}
    matter = adapt.together([adapt.material(known.task, 0, 12, recipe)], demos=4)
    assert matter.among.tolist() == [[51 * 3, 51]]
    pupils = adapt.begin(AUTOMATON, base, ["paint-red"], 0, recipe)
    lesson = adapt.as_lesson(recipe, 3, 0.9, 64)
    from cellwise.kernels.dispatch import Reference

    how = {"recipe": recipe, "lesson": lesson, "automaton": AUTOMATON, "path": Reference(), "count": 1}
    errors = []
    for look in range(3):
        before = jax.tree.map(np.array, pupils)
        pupils, _ = adapt.learn_some(pupils, matter, base, jnp.int32(look), **how)
        errors.append(float(pupils.best_error[0]))
        if before.waited[0] >= recipe.patience:
            for name, array in before.best.items():
                np.testing.assert_array_equal(pupils.best[name], array)
    assert errors == sorted(errors, reverse=True) and np.isfinite(errors).all()


def test_without_a_held_out_demonstration_the_last_is_best(model):
    known = tiny_known("clear", 5, demos=3)
    matter = adapt.together([adapt.material(known.task, 0, 12, QUICK)], demos=4)
    assert matter.among.tolist() == [[51 * 3, 0]] and matter.shown.input.shape[:2] == (1, 51 * 4)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rank": 100}, "rank must be between 0 and 64"),
        ({"hold_out": 1}, "hold_out must be 0 or at least 2"),
        ({"rollouts": 0}, "rollouts must be between 1 and 1000"),
        ({"judged": 9, "rollout": 8}, "rollout and judged must fit each other"),
        ({"peak": 0.0}, "peak must be in (0, 1]"),
    ],
)
def test_recipes_that_cannot_be(changes, problem):
    with pytest.raises(ConfigError) as caught:
        dataclasses.replace(QUICK, **changes)
    assert str(caught.value) == f"A task cannot be learnt like this: {problem}."


# No leaks


@pytest.fixture
def asked(model, monkeypatch, tmp_path):
    """`cellwise eval tiny`, whose tasks have other answers each time; guessing happens in this process."""
    model.save(tmp_path / "model")
    monkeypatch.chdir(tmp_path)

    def guess(asked, name, folder, seed):
        assert "output" not in json.dumps([one["test"] for one in json.loads(asked.read_text()).values()])
        tasks = [one.task for one in read_tasks(asked)]
        for _ in solve(load(name), tasks, QUICK, out=folder, seed=seed, at_once=1):
            pass

    monkeypatch.setattr(eval_tasks, "_guess", guess)

    def run(known, folder):
        benchmark = TaskBenchmark("tiny", "Tiny tasks", lambda: known)
        monkeypatch.setitem(benchmarks.TASK_BENCHMARKS, "tiny", benchmark)
        words = ["--model", "model", "--guesses", folder, "--out", f"{folder}.json"]
        assert front.main(["eval", "tiny", *words]) == 0
        return json.loads((tmp_path / f"{folder}.json").read_text())

    return run


def test_changing_the_hidden_answers_changes_no_guess(asked, tmp_path, capsys):
    known = known_tasks()
    asked(known, "first")
    guesses = read_guesses(tmp_path / "first")
    # Answers that the model has just given, so that the score must differ if nothing else does.
    other = [
        Known(
            one.task,
            tuple(
                g[0].grid if g[0].grid is not None else a
                for g, a in zip(guesses[one.task.name], one.answers, strict=True)
            ),
        )
        for one in known
    ]
    result = asked(other, "second")
    for path in (tmp_path / "first").glob("*.json"):
        a, b = (json.loads((tmp_path / name / path.name).read_text()) for name in ("first", "second"))
        for record in (a, b):
            record.pop("seconds", None), record.pop("date", None)
        assert a == b
    assert result["score"]["tasks"] == 2 and result["guesses"][0]["model"] == "tiny"
    assert "2 of 2 tasks guessed" in capsys.readouterr().out


# Scores


def grids(*colours):
    return [Guess(None if c is None else np.array([[c]], np.uint8), 0.5) for c in colours]


def test_scores_of_part_of_the_guesses_and_of_ensembles():
    task = tiny_known("clear").task
    answer = np.array([[3]], np.uint8)
    known = [Known(dataclasses.replace(task, name=name), (answer,)) for name in "abc"]
    one = {"a": [grids(3, 1, 1)], "b": [grids(None, 2, 2)]}
    two = {"a": [grids(3, 3, 3)], "c": [grids(1, 1, 3)]}
    assert [row["pass@1"]["tests"] for row in curve(known, one)] == [1 / 3, 1 / 3, 0.0]
    assert [row["rollouts"] for row in curve(known, one)] == [1, 2, 3]
    assert score(known, one)["invalid"] == 1 / 6 and score(known, one)["guessed"] == 2
    both = score(known, pooled([one, two]))
    assert both["ranks"] == {"a": [1], "b": [None], "c": [2]} and both["pass@2"]["tests"] == 2 / 3
    with pytest.raises(PuzzleError) as caught:
        score([Known(task, (None, None))], one)
    assert str(caught.value) == "clear has no answers to score by; get the task with its answers."


# The command


@pytest.fixture
def files(tmp_path, model, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    model.save("model")
    for one in known_tasks():
        (tmp_path / f"{one.task.name}.json").write_text(json.dumps(to_json(*one)))
    return tmp_path


def command(*words):
    quick = [f"--recipe.{name.replace('_', '-')}={value}" for name, value in vars(QUICK).items()]
    return front.main(["adapt", *map(str, words), "--model", "model", "--at-once", "1", *quick])


def test_the_command_shows_attempts_and_draws_them(files, capsys):
    status = command("clear.json", "--save", "clear.png", "--out", "kept")
    shown = capsys.readouterr().out
    assert status in (0, 1) and "clear, question 1: votes" in shown and "clear, question 2: votes" in shown
    assert ("Right." in shown) == (status == 0) and "2 updates" in shown
    assert (files / "clear.png").read_bytes()[:4] == b"\x89PNG"
    assert command("clear.json", "--out", "kept") == 0, "all is done"


def test_the_command_prints_json(files, capsys):
    command("paint-red.json", "--json")
    record = json.loads(capsys.readouterr().out)
    assert record["task"] == "paint-red" and record["right"] in (True, False)
    assert len(record["questions"]) == 2 and len(record["questions"][0]["guesses"]) == 51


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.json"], "Cannot read none.json: there is no such file or folder; check the path."),
        (
            ["clear.json", "paint-red.json", "--save", "x.png"],
            "--save is for one task, not for 2; name one, or leave out --save.",
        ),
        (
            ["clear.json", "--save", "x.gif"],
            "Cannot tell from the name x.gif what to save; let it end in .png or .html, or name a folder, "
            "without an ending, for the model that has learnt it.",
        ),
        (["clear.json", "clear.json"], "There are two tasks named clear; rename one of them."),
        (
            ["clear.json", "--model", "maze-ood"],
            "maze-ood does not learn tasks; choose a model of `cellwise train arc`.",
        ),
        (
            ["clear.json", "--model", "arc-small"],
            "No ARC model comes with this version; train one with `cellwise train arc-small` "
            "and name its folder with --model.",
        ),
    ],
)
def test_what_the_command_refuses(files, capsys, words, said):
    assert front.main(["adapt", *words]) == 2
    assert capsys.readouterr().err == f"cellwise: {said}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["solve", "maze", "--size", "9"], "tiny learns ARC tasks; hand them to it by `cellwise adapt`."),
        (["solve", "sudoku", SUDOKU], "tiny learns ARC tasks; hand them to it by `cellwise adapt`."),
        (
            ["eval", "maze-ood", "--size", "9"],
            "maze-ood consists of mazes, but tiny solves ARC tasks; choose another model with --model.",
        ),
    ],
)
def test_a_model_for_tasks_is_not_handed_boards(files, capsys, words, said):
    assert front.main([*words, "--model", "model"]) == 2
    assert capsys.readouterr().err == f"cellwise: {said}\n"


def test_records_keep_each_grid_once(model):
    from cellwise.tasks.adapted import Solved

    task = tiny_known("clear").task
    guesses = (tuple(grids(1, None, 1, 2)),)
    record = to_record(Solved(task, guesses, 3, 0.5, 1.0))
    assert record["questions"][0]["grids"] == [[[1]], [[2]]]
    assert record["questions"][0]["guesses"] == [0, -1, 0, 1]
    assert record["questions"][0]["attempts"] == [[[1]], [[2]]]
