"""What the device lays on canvases is what the puzzle room would lay there, drawn from all shelves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cellwise.puzzles.arc import Pair
from cellwise.puzzles.arc_canvas import BORDER, PAD, Placement, question, room, target
from cellwise.puzzles.arc_pairs import pack
from cellwise.tasks.shelves import draw, lay, shares, shelve


def square(side, colour=1):
    return np.full((side, side), colour, np.uint8)


def test_canvases_are_those_of_the_puzzle_room():
    rng = np.random.default_rng(0)
    side, k, places, grids, shapes = 20, 18, [], [], []
    for _ in range(64):
        h, w = rng.integers(1, 8, 2)
        places.append(
            Placement(side, int(rng.integers(1, 3)), int(rng.integers(1, 5)), int(rng.integers(1, 5)))
        )
        grids.append(rng.integers(0, 10, (h, w)).astype(np.uint8))
        shapes.append((h, w))
    padded = np.zeros((64, k, k), np.uint8)
    for square_, grid in zip(padded, grids, strict=True):
        square_[: grid.shape[0], : grid.shape[1]] = grid
    where = tuple(
        jnp.asarray([getattr(place, name) for place in places], jnp.int32)
        for name in ("scale", "row", "column")
    )
    for framed, want in ((False, question), (True, target)):
        canvas = lay(jnp.asarray(padded), jnp.asarray(shapes, jnp.int32), where, side, framed=framed)
        np.testing.assert_array_equal(
            canvas, [want(grid, place) for grid, place in zip(grids, places, strict=True)]
        )


def test_pairs_go_to_the_smallest_shelf_with_room():
    sizes = (1, 4, 5, 10, 11, 30)
    pairs = pack((f"t{n}", Pair(square(n), square(1))) for n in sizes)
    shelves = shelve(pairs, (32, 6, 12))
    assert [(shelf.side, shelf.task.tolist()) for shelf in shelves] == [
        (6, [0, 1]),
        (12, [2, 3]),
        (32, [4, 5]),
    ]
    assert [shelf.side for shelf in shelve(pairs.of(["t1"]), (32, 6, 12))] == [6]


def test_shares_follow_numbers_or_time():
    pairs = pack((f"t{n}", Pair(square(n), square(1))) for n in [3] * 10 + [8] * 30)
    shelves = shelve(pairs, (6, 12, 32))
    assert shares(shelves, 40, 0.0) == (10, 30)
    # The same time for each canvas would be 10/36 against 30/144.
    assert shares(shelves, 35, 1.0) == (20, 15)
    assert shares(shelves, 2, 0.0) == (1, 1)
    assert sum(shares(shelves, 1, 0.0)) == 1


def test_what_is_drawn_fits_and_varies():
    pairs = pack((f"t{n}", Pair(square(n, n), square(n + 2, n))) for n in (1, 2, 3))
    (shelf,) = shelve(pairs, (12, 32))
    laid = draw(shelf, jax.random.key(0), 900)
    again = draw(shelf, jax.random.key(0), 900)
    assert all(np.array_equal(a, b) for a, b in zip(laid, again, strict=True))
    counts = np.bincount(laid.task, minlength=3)
    assert counts.min() > 240, "three tasks, three hundred of each on average"
    seen = set()
    for shown, wanted, task in zip(*map(np.asarray, laid), strict=True):
        n = int(task) + 1
        inside = wanted < BORDER
        rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
        scale = len(rows) // (n + 2)
        assert len(rows) == len(columns) == scale * (n + 2) and 1 <= scale <= room(12) // (n + 2)
        at = Placement(12, scale, int(rows[0]), int(columns[0]))
        np.testing.assert_array_equal(wanted, target(square(n + 2, n), at))
        np.testing.assert_array_equal(shown, question(square(n, n), at))
        assert (wanted[0] == PAD).all() and (wanted[:, 0] == PAD).all()
        seen.add((n, at))
    assert {at.scale for n, at in seen if n == 1} == {1, 2, 3}
    assert {at.row for n, at in seen if n == 1 and at.scale == 1} == set(range(1, 8))


@pytest.mark.parametrize("n", [30, 29])
def test_a_grid_that_fills_the_canvas_lies_at_one(n):
    (shelf,) = shelve(pack([("t", Pair(square(n), square(n)))]), (12, 32))
    laid = draw(shelf, jax.random.key(1), 4)
    for shown in np.asarray(laid.question):
        np.testing.assert_array_equal(shown, question(square(n), Placement(32, 1, 1, 1)))
