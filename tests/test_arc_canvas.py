"""Grids on canvases and in guises, and back without a loss, wherever they lie and however they are turned."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwise.puzzles.arc import Pair, Task
from cellwise.puzzles.arc_canvas import (
    BORDER,
    PAD,
    Placement,
    answer_bounds,
    crop,
    draw,
    last_offset,
    pair_bounds,
    question,
    room,
    scales,
    smallest,
    target,
    task_bounds,
)
from cellwise.puzzles.arc_variants import ORIGINAL, variants


def grids():
    side = st.integers(1, 30)
    return st.tuples(side, side, st.integers(0, 2**32 - 1)).map(
        lambda it: np.random.default_rng(it[2]).integers(0, 10, it[:2]).astype(np.uint8)
    )


@settings(max_examples=60, deadline=None)
@given(grids(), st.integers(0, 2**32 - 1), st.integers(0, 50), st.sampled_from([12, 18, 32, 64]))
def test_a_grid_comes_back_from_any_guise_and_any_place(grid, seed, number, side):
    guise = variants("some", seed)[number]
    shown = guise.apply(grid)
    if max(shown.shape) > room(side):
        return
    at = draw(np.random.default_rng(seed), side, *shown.shape)
    canvas = target(shown, at)
    # What the canvas says where it is padding does not count.
    noise = np.random.default_rng(seed + 1).integers(0, 12, canvas.shape).astype(np.uint8)
    said = np.where(canvas == PAD, noise, canvas)
    back = crop(said, at)
    assert back is not None
    np.testing.assert_array_equal(guise.undo(back), grid)
    np.testing.assert_array_equal(question(shown, at)[canvas < BORDER], canvas[canvas < BORDER])


def test_the_published_picture():
    at = Placement(side=8, scale=2, row=1, column=2)
    assert target(np.array([[3, 4]], np.uint8), at).tolist() == [
        [11] * 8,
        [11, 11, 3, 3, 4, 4, 10, 11],
        [11, 11, 3, 3, 4, 4, 10, 11],
        [11, 11, 10, 10, 10, 10, 10, 11],
        *[[11] * 8] * 4,
    ]
    assert (question(np.array([[3, 4]], np.uint8), at) < BORDER).sum() == 8
    assert not (question(np.array([[3, 4]], np.uint8), at) == BORDER).any()


def test_the_largest_grid_just_fits():
    at = draw(np.random.default_rng(0), 32, 30, 30)
    assert at == Placement(32, 1, 1, 1)
    canvas = target(np.zeros((30, 30), np.uint8), at)
    assert (canvas[31, 1:] == BORDER).all() and (canvas[1:, 31] == BORDER).all()
    assert (canvas[0] == PAD).all() and (canvas[:, 0] == PAD).all()


@pytest.mark.parametrize("spoil", ["no border", "no colour", "no cell", "half a cell", "no right edge"])
def test_what_shows_no_grid_is_an_invalid_guess(spoil):
    at = Placement(12, 2, 1, 1)
    canvas = target(np.array([[1, 2], [3, 4]], np.uint8), at)
    if spoil == "no border":
        canvas[canvas == BORDER] = 0
    elif spoil == "no colour":
        canvas[1:3, 1:3] = PAD
    elif spoil == "no cell":
        canvas[1, 1] = BORDER
    elif spoil == "half a cell":
        canvas[1, 4] = BORDER
    else:
        canvas[1, 5] = 3
    assert crop(canvas, at) is None


def test_an_enlarged_cell_has_the_colour_of_most_of_its_parts():
    at = Placement(12, 2, 1, 1)
    canvas = target(np.array([[7]], np.uint8), at)
    canvas[1, 1] = 3
    assert crop(canvas, at).tolist() == [[7]]
    canvas[1, 2] = 3
    assert crop(canvas, at).tolist() == [[3]]


def test_bounds_use_no_answer():
    def pair(a, b):
        return Pair(np.zeros(a, np.uint8), np.zeros(b, np.uint8))

    question_grid = np.zeros((4, 5), np.uint8)
    doubled = Task("t", (pair((2, 2), (4, 4)), pair((3, 1), (6, 2))), (question_grid,))
    assert answer_bounds(doubled, question_grid) == (8, 10)
    uneven = Task("t", (pair((2, 2), (4, 9)), pair((3, 2), (3, 2))), (question_grid,))
    assert answer_bounds(uneven, question_grid) == (4, 9)
    assert task_bounds(doubled) == (8, 10) and pair_bounds(doubled.demos[1]) == (6, 2)
    huge = Task("t", (pair((1, 1), (30, 30)),), (question_grid,))
    assert answer_bounds(huge, question_grid) == (30, 30)
    assert smallest((32, 12, 18), 16, 3) == 18 and smallest((12, 18), 30, 30) == 18


def test_there_are_51_guises_and_all_differ():
    found = variants("task", 0)
    assert len(found) == len(set(found)) == 51 and found[0] == ORIGINAL
    assert all(sorted(one.colours) == list(range(10)) and one.colours[0] == 0 for one in found)
    assert sum(one.colours == ORIGINAL.colours for one in found) == 6
    assert found == variants("task", 0) and found != variants("task", 1) and found != variants("other", 0)


def test_left_is_counter_clockwise():
    turned = {one.turn: one.apply(np.array([[1, 2], [3, 4]], np.uint8)) for one in variants("t")[1::10]}
    assert turned["left"].tolist() == [[2, 4], [1, 3]]
    assert turned["right"].tolist() == [[3, 1], [4, 2]]
    assert turned["half"].tolist() == [[4, 3], [2, 1]]
    assert turned["up-down"].tolist() == [[3, 4], [1, 2]]
    assert turned["left-right"].tolist() == [[2, 1], [4, 3]]


def test_a_whole_task_takes_a_guise():
    task = Task(
        "t", (Pair(np.array([[1, 2]], np.uint8), np.array([[3]], np.uint8)),), (np.eye(2, dtype=np.uint8),)
    )
    guise = variants("t")[13]
    turned = guise.task(task)
    np.testing.assert_array_equal(guise.undo(turned.demos[0].input), [[1, 2]])
    np.testing.assert_array_equal(guise.undo(turned.questions[0]), np.eye(2))


def every_place(side, height, width):
    for scale in range(1, scales(side, max(height, width)) + 1):
        for row in range(1, last_offset(side, scale * height) + 1):
            for column in range(1, last_offset(side, scale * width) + 1):
                yield Placement(side, scale, row, column)


def test_every_place_of_a_small_grid():
    grid = np.array([[1, 0, 2], [9, 9, 3]], np.uint8)
    places = list(every_place(12, *grid.shape))
    assert len(places) == len(set(places)) == 8 * 7 + 6 * 4 + 4 * 1
    for at in places:
        np.testing.assert_array_equal(crop(target(grid, at), at), grid)


@pytest.mark.slow
def test_every_training_grid_in_every_guise_at_every_scale_and_place(arc_tasks):
    """Each grid in each guise at one place of each scale, and in one guise at all of its places."""
    rng = np.random.default_rng(0)
    for task, answers in arc_tasks("train"):
        guises = variants(task.name)
        for grid in (*(g for demo in task.demos for g in demo), *task.questions, *answers):
            for number, guise in enumerate(guises):
                shown = guise.apply(grid)
                places = [draw(rng, 32, *shown.shape)]
                if number == rng.integers(51):
                    places = every_place(32, *shown.shape)
                for at in places:
                    back = crop(target(shown, at), at)
                    assert back is not None
                    assert np.array_equal(guise.undo(back), grid)
