"""Thinking about drawn boards, and what is said of who does."""

import json
from dataclasses import replace

import numpy as np
import pytest

import tiny_visual
from cellwise.benchmarks.visual_protocol import FOUR, NINE, PictureCase
from cellwise.errors import ConfigError, DataError
from cellwise.evaluation import result_file
from cellwise.model import load
from cellwise.picture_evaluation import check_model, evaluate_pictures
from cellwise.puzzles.digits import prototypes
from cellwise.puzzles.equivalence import fingerprints
from cellwise.puzzles.sudoku_four import generate_four
from cellwise.puzzles.sudoku_generator import generate_easy
from cellwise.puzzles.visual_sudoku import VisualSet, cut, draw
from cellwise.visual import score
from cellwise.visual.painter import mean_digits, painter
from cellwise.visual.score import Exam, clues_read, curve, looks_until, take
from cellwise.visual.solve import moments, think_about
from handwriting import digits
from pictures import handwritten, model

__all__ = ["handwritten"]  # a fixture

BOARDS = generate_four(12, 3)
EVERYONE = np.arange(12, dtype=np.int32)


def exam(looks=(2, 4, 8), seed=0):
    return Exam(VisualSet.of(BOARDS), digits(7), prototypes(digits(7), 4), looks, seed)


def knows(answers, since):
    """Who draws `answers[board]` from step `since[board]` on, and until then leaves the picture alone."""

    def think(images, boards, looks):
        table = digits(7).by_class(4)
        own = [draw(answers[n : n + 1], table, np.random.default_rng(n), "zero") for n in boards]
        drawn = np.concatenate(own)
        for look in looks:
            yield np.where((since[boards] <= look)[:, None, None], drawn, images)

    return think


# ---- judging ---------------------------------------------------------------------------------------------


def test_what_is_drawn_counts_from_when_it_is_drawn():
    since = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 99, 4, 2])
    found, _ = take(exam(), knows(BOARDS.target, since), EVERYONE, 5)
    for at, look in enumerate((2, 4, 8)):
        np.testing.assert_array_equal(found.marks["right"][:, 0, at], since <= look)
        np.testing.assert_array_equal(found.marks["verified"][:, 0, at], since <= look)
        assert found.marks["clues"][:, 0, at].all()  # They are in the picture from the beginning.
    first = np.array([2, 2, 4, 4, 8, 8, 8, 8, -1, -1, 4, 2])
    np.testing.assert_array_equal(found.settled[:, 0], first)
    np.testing.assert_array_equal(found.answer[since <= 8], BOARDS.target[since <= 8])
    shares = [(row["steps"], row["right"]) for row in curve(found)]
    assert shares == [(2, round(3 / 12, 6)), (4, round(6 / 12, 6)), (8, round(10 / 12, 6))]


def test_an_answer_that_is_lost_again_has_not_settled():
    def think(images, boards, looks):
        right = knows(BOARDS.target, np.zeros(12, int))
        for look, image in zip(looks, right(images, boards, looks), strict=True):
            yield image if look != 4 else images

    found, _ = take(exam(), think, EVERYONE, 12)
    assert found.settled.ravel().tolist() == [8] * 12
    assert found.marks["right"][:, 0].tolist() == [[True, False, True]] * 12


def test_each_rule_has_its_mark():
    other = np.array([0, 2, 1, 3, 4], np.uint8)[BOARDS.target]  # obeys the rules with other digits
    swapped = BOARDS.target[:, [1, 0, 2, 3]]  # two rows of a band: the rules hold, clues are elsewhere
    crossed = BOARDS.target[:, [2, 1, 0, 3]]  # rows of two bands: boxes are broken
    for answers, rows, columns, boxes in ((other, 1, 1, 1), (swapped, 1, 1, 1), (crossed, 1, 1, None)):
        found, _ = take(exam(), knows(answers, np.zeros(12, int)), EVERYONE, 12)
        marks = {name: mark[:, 0, -1] for name, mark in found.marks.items()}
        assert marks["rows"].all() == rows and marks["columns"].all() == columns
        assert boxes is None or marks["boxes"].all() == boxes
        kept = ((BOARDS.inputs == 0) | (BOARDS.inputs == answers)).all((1, 2))
        np.testing.assert_array_equal(marks["clues"], kept)
        assert not marks["right"].any() and not (marks["verified"] & ~kept).any()


def test_boards_are_drawn_by_their_number():
    one, other = exam(), exam(seed=1)
    together = one.images(EVERYONE)
    np.testing.assert_array_equal(one.images(EVERYONE[[7, 2]]), together[[7, 2]])
    assert not np.array_equal(together, other.images(EVERYONE))
    clues = cut(together, 4, 7)[BOARDS.inputs > 0]
    assert clues.max() > 0.5 and clues_read(one, EVERYONE) > 0.9


def test_an_interrupted_measurement_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(score, "SAVE_EVERY", 0.0)
    since, told = np.arange(12), []
    whole, _ = take(exam(), knows(BOARDS.target, since), EVERYONE, 12)

    def stops(images, boards, looks):
        if 8 in boards:
            raise KeyboardInterrupt
        yield from knows(BOARDS.target, since)(images, boards, looks)

    how = {"at_once": 3, "keep": tmp_path / "one.npz", "identity": {"case": "some"}, "say": told.append}
    with pytest.raises(KeyboardInterrupt):
        take(exam(), stops, EVERYONE, **how)
    partial = tmp_path / "one.partial.npz"
    assert partial.exists() and not (tmp_path / "one.npz").exists()
    seen = []

    def watched(images, boards, looks):
        seen.extend(boards.tolist())
        yield from knows(BOARDS.target, since)(images, boards, looks)

    found, _ = take(exam(), watched, EVERYONE, **how)
    assert seen == [6, 7, 8, 9, 10, 11] and told == ["6 boards were measured before"]
    for name, mark in whole.marks.items():
        np.testing.assert_array_equal(found.marks[name], mark)
    np.testing.assert_array_equal(found.confidence, whole.confidence)
    assert not partial.exists() and (tmp_path / "one.npz").exists()


def test_what_another_measurement_left_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(score, "SAVE_EVERY", 0.0)
    told, keep = [], tmp_path / "one.npz"

    def stops(images, boards, looks):
        if 8 in boards:
            raise KeyboardInterrupt
        yield from knows(BOARDS.target, EVERYONE)(images, boards, looks)

    with pytest.raises(KeyboardInterrupt):
        take(exam(), stops, EVERYONE, 3, keep, {"case": "some"})
    take(exam(), knows(BOARDS.target, EVERYONE), EVERYONE, 3, keep, {"case": "other"}, say=told.append)
    assert told == [f"{tmp_path}/one.partial.npz is of another evaluation and is written anew"]


def test_looks_go_past_training_evenly():
    assert looks_until(1024) == (16, 32, 64, 128, 256, 384, 512, 640, 768, 896, 1024)
    assert looks_until(20)[-1] == 20 and looks_until(1) == (1,)
    for steps in (1, 7, 150, 4000):
        film = moments(steps)
        assert film == sorted(set(film)) and film[0] == 1 and film[-1] == steps and len(film) <= 150


# ---- thinking --------------------------------------------------------------------------------------------


def test_looking_does_not_change_a_thought():
    artist, images = painter(model(moving=0.05), seed=4), exam().images(EVERYONE[:3])
    often = list(artist.think(images, EVERYONE[:3], [0, 1, 3, 3, 8]))
    (once,) = artist.think(images, EVERYONE[:3], [8])
    np.testing.assert_allclose(often[-1], once, atol=1e-6)
    np.testing.assert_array_equal(often[0], images)
    np.testing.assert_array_equal(often[2], often[3])
    assert np.abs(often[1] - images).max() > 0.01


def test_a_thought_belongs_to_its_board_and_seed():
    artist, images = painter(model(moving=0.05)), exam().images(EVERYONE[:4])
    (together,) = artist.think(images, EVERYONE[:4], [6])
    (alone,) = artist.think(images[2:3], EVERYONE[2:3], [6])
    np.testing.assert_allclose(together[2:3], alone, atol=1e-6)
    (renamed,) = artist.think(images[2:3], EVERYONE[3:4], [6])
    (reseeded,) = painter(model(moving=0.05), seed=1).think(images[2:3], EVERYONE[2:3], [6])
    assert np.abs(renamed - alone).max() > 1e-3 and np.abs(reseeded - alone).max() > 1e-3


def test_half_of_the_cells_fire():
    """One step of cells that see only channels that are noise: where the picture changed, a cell fired."""
    artist, images = painter(model(moving=1.0)), np.zeros((20, 32, 32), np.float32)
    (after,) = artist.think(images, np.arange(20, dtype=np.int32), [1])
    assert 0.47 < (after != 0).mean() < 0.53


def test_a_still_thought_keeps_its_picture():
    image = exam().images(EVERYONE[:1])[0]
    thought = think_about(model(), image, [1, 5])
    assert thought.steps.tolist() == [0, 1, 5]
    np.testing.assert_array_equal(thought.images, np.stack([image] * 3))
    assert (thought.confidence > 0).all() and (thought.confidence <= 1).all()
    np.testing.assert_array_equal(thought.grids[0][BOARDS.given[0]], BOARDS.inputs[0][BOARDS.given[0]])


def test_mean_digits_belong_to_the_model():
    np.testing.assert_array_equal(mean_digits(model()), prototypes(digits(7), 4))


def test_other_models_are_refused():
    with pytest.raises(ConfigError) as refusal:
        painter(load("maze-ood"))
    assert str(refusal.value) == "maze-ood does not think about pictures; choose a model that does."
    with pytest.raises(ConfigError) as refusal:
        check_model(load("maze-ood"), NINE)
    assert str(refusal.value) == (
        "visual-sudoku-9x9 consists of drawn Sudokus, but maze-ood does not think about pictures; choose "
        "another model with --model."
    )
    with pytest.raises(ConfigError) as refusal:
        check_model(model(), NINE)
    assert str(refusal.value) == (
        "visual-sudoku-9x9 consists of boards of 9 x 9 cells, but still draws 4 x 4; choose another model "
        "with --model."
    )
    check_model(model(), FOUR)


# ---- a whole evaluation ----------------------------------------------------------------------------------


def test_a_row_says_how_to_measure_it_again(handwritten, tmp_path):
    told = []
    row = evaluate_pictures(
        model(moving=0.01),
        FOUR.cases[0],
        steps=32,
        limit=6,
        keep=tmp_path / "unseen.npz",
        tell=lambda boards, steps: told.append((boards, steps)),
    )
    assert handwritten == ["test"]
    assert row["boards"] == 6 and row["steps"] == 32 and row["canvas"] == 32 and row["digit"] == 7
    assert [look["steps"] for look in row["curve"]] == [16, 20, 24, 28, 32]
    assert sum(boards for boards, _ in told) == 6 and sum(steps for _, steps in told) == 6 * 32
    assert row["clues_read_without_thinking"] > 0.9 and row["flops_per_board"] > 0
    assert row["outcomes"] == "unseen.npz" and (tmp_path / "unseen.npz").exists()
    json.dumps(result_file("visual-sudoku-4x4", model(), "cellwise eval", [row]), allow_nan=False)


def test_who_changes_nothing_solves_what_is_solved_already(handwritten):
    """Boards without blanks: whoever keeps the picture is right; and one who knows digits well reads it."""
    solved = generate_four(9, 0, givens=(16, 16))
    case = PictureCase("full", 8, 9, lambda n: (solved[:n], "full boards"), "test", "full")
    row = evaluate_pictures(model(side=14), case)
    assert row["board_accuracy"] == row["verified"] == row["rows"] == row["clues"] == 1.0
    assert row["cell_accuracy"] == 1.0 and row["steps_to_solution"] == {"10%": 8, "50%": 8, "90%": 8}
    row = evaluate_pictures(model(side=14), FOUR.cases[0], limit=9, steps=8)
    assert row["board_accuracy"] == row["rows"] == 0.0 and row["clues"] == 1.0


def test_grades_are_told_apart(handwritten):
    boards = generate_four(9, 0)
    case = PictureCase(
        "graded", 2, 9, lambda n: (boards[:n], "made"), "test", "made", lambda blanks: blanks % 2
    )
    row = evaluate_pictures(model(), case)
    counts = np.bincount(boards.difficulty % 2, minlength=2)
    assert row["by_grade"] == {"0": [counts[0], 0.0], "1": [counts[1], 0.0]}


def test_boards_that_were_trained_on_are_left_out(handwritten):
    boards = generate_easy(5, 11)
    own = fingerprints(boards, sudoku=True)
    case = PictureCase("easy", 1, 5, lambda n: (boards[:n], "made"), "test", "made")
    row = evaluate_pictures(model(9, trained_on=own[[1, 3]]), case)
    assert (row["boards"], row["boards_left_out_as_trained_on"]) == (3, 2)
    with pytest.raises(DataError) as refusal:
        evaluate_pictures(model(9, trained_on=own), case)
    assert str(refusal.value) == "still was trained on all boards of easy; choose another case."


def test_a_run_knows_what_it_was_trained_on():
    """Its own boards and those of the model it begins with, so that no test asks for them."""
    first, second = (VisualSet.of(generate_easy(4, seed)) for seed in (20, 21))
    own, before = (fingerprints(generate_easy(4, seed), sudoku=True) for seed in (20, 21))
    source = model(9, trained_on=before)
    recipe = replace(tiny_visual.RECIPE, augment="none")
    how = {"boards": first, "automaton": source.automaton, "digits": digits(7)}
    job = tiny_visual.tiny_picture_job(recipe, **how)
    assert set(job.trained_on().tolist()) == set(own.tolist())
    assert set(replace(job, source=source).trained_on().tolist()) == {*own.tolist(), *before.tolist()}
    assert replace(job, boards=second).trained_on().tolist() != own.tolist()
    assert tiny_visual.tiny_picture_job().trained_on() is None


def test_the_cases_are_what_their_names_say(handwritten):
    """Test boards are drawn with unseen digits unless they say `seen`, and no split lends to another."""
    digits_of = {case.name: case.digits for bench in (FOUR, NINE) for case in (*bench.cases, *bench.more)}
    assert digits_of == {
        "unseen": "test", "seen": "train", "validation": "eval", "trained": "train",
        "easy": "test", "hard": "test", "easy-seen": "train", "hard-seen": "train",
    }  # fmt: skip
    four = {case.name: case.boards(40)[0] for case in (*FOUR.cases, *FOUR.more)}
    grids = {name: {grid.tobytes() for grid in boards.target} for name, boards in four.items()}
    assert grids["unseen"] == grids["seen"]
    assert not grids["unseen"] & grids["trained"] and not grids["unseen"] & grids["validation"]
    assert not grids["trained"] & grids["validation"]
