"""Mazes flooded all at once get the answers of Maze-Hard, and scattered ones look like the published."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwise.benchmarks import maze_hard
from cellwise.errors import DataError, PuzzleError
from cellwise.puzzles import maze_scattered, store
from cellwise.puzzles.dihedral import dihedral
from cellwise.puzzles.equivalence import fingerprints
from cellwise.puzzles.maze import GOAL, PATH, START, WALL
from cellwise.puzzles.maze_flood import label_all, reaches
from cellwise.puzzles.maze_path import distances, judge, label_maze_hard, shortest_path
from cellwise.puzzles.maze_scattered import generate_scattered
from cellwise.puzzles.recipe import MazeHardMade
from test_maze_path import mazes


@settings(max_examples=150, deadline=None)
@given(st.lists(mazes(), min_size=1, max_size=1), st.booleans())
def test_answers_are_those_found_one_by_one(some, drawn):
    (maze,) = some
    try:
        answer = label_maze_hard(maze)
    except PuzzleError as problem:
        with pytest.raises(PuzzleError) as caught:
            label_all(maze[None])
        assert str(caught.value) == str(problem)
    else:
        np.testing.assert_array_equal(label_all((answer if drawn else maze)[None])[0], answer)


def test_open_grids_have_many_ways_and_one_answer():
    """With so few walls nearly every step is a choice."""
    rng = np.random.default_rng(0)
    grids = np.where(rng.random((40, 17, 23)) < 0.1, np.uint8(WALL), np.uint8(0))
    grids[:, 0, 3], grids[:, -1, -2] = START, GOAL
    grids[:20] = np.where(grids[:20] >= START, 7 - grids[:20], grids[:20])
    grids = grids[[distances(grid, (0, 3))[-1, -2] >= 0 for grid in grids]]
    assert len(grids) > 30
    np.testing.assert_array_equal(label_all(grids), np.stack([label_maze_hard(grid) for grid in grids]))


def test_who_has_a_cell_so_far_away():
    rng = np.random.default_rng(1)
    free, goal = rng.random((60, 9, 9)) > 0.4, np.full((60, 2), 4)
    free[:, 4, 4] = True
    longest = [distances(np.where(f, np.uint8(0), np.uint8(WALL)), (4, 4)).max() for f in free]
    for steps in (1, 7, 8, 13):
        assert reaches(free, goal, steps).tolist() == [n for n, far in enumerate(longest) if far >= steps]


def test_large_mazes_are_labelled_one_by_one():
    with pytest.raises(PuzzleError) as caught:
        label_all(np.zeros((1, 65, 3), np.uint8))
    assert str(caught.value) == "Mazes of more than 64 cells a side are labelled one by one."


# Scattered walls


@pytest.fixture(scope="module")
def hard():
    return generate_scattered(48, 7)


def test_scattered_mazes_are_hard_solved_and_the_same_again(hard):
    assert hard.target.shape == (48, 30, 30)
    for maze, answer, cells in zip(hard.inputs, hard.target, hard.difficulty, strict=True):
        path = shortest_path(maze)
        assert len(path) - 1 >= 109 and cells == len(path) - 2
        np.testing.assert_array_equal(answer, label_maze_hard(maze))
    np.testing.assert_array_equal(generate_scattered(20, 7).target, hard.target[:20])
    assert not (generate_scattered(5, 8).target == hard.target[:5]).all((1, 2)).any()
    assert len(np.unique(hard.target, axis=0)) == 48


def test_scattered_mazes_look_like_the_published(hard, shared_data):
    from cellwise.puzzles.archive import read_maze_hard

    published = read_maze_hard(shared_data / "maze-hard" / "train.csv.gz")
    for measure in (
        lambda boards: (boards.target == WALL).mean((1, 2)),
        lambda boards: boards.difficulty.astype(float),
        lambda boards: (boards.inputs >= START)[:, 1:-1, 1:-1].sum((1, 2)).astype(float),
    ):
        ours, theirs = measure(hard), measure(published)
        assert abs(ours.mean() - theirs.mean()) < 4 * theirs.std() / np.sqrt(len(ours))
        assert 0.6 < ours.std() / theirs.std() < 1.5


def test_starts_far_away_are_drawn_alike():
    """As if two cells had been drawn until they are far apart, which small mazes can be asked for."""
    made = generate_scattered(3000, 0, side=5, least=5)
    rng, distance = np.random.default_rng(3), []
    while len(distance) < 600:
        free = rng.random((5, 5)) >= rng.uniform(*maze_scattered.WALLS)
        (row, column), goal = rng.integers(0, 5, 2), tuple(rng.integers(0, 5, 2).tolist())
        if free[row, column] and free[goal]:
            away = int(distances(np.where(free, np.uint8(0), np.uint8(WALL)), goal)[row, column])
            distance += [away] if away >= 5 else []
    ours = np.bincount(made.difficulty + 1, minlength=16) / 3000
    wanted = np.bincount(distance, minlength=16) / 600
    np.testing.assert_allclose(ours, wanted, atol=0.07)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"side": 2}, "There are no scattered mazes of side 2; choose 3 to 64."),
        ({"side": 65}, "There are no scattered mazes of side 65; choose 3 to 64."),
        ({"least": 0}, "Cannot make 1 mazes of at least 0 steps; use at least 0 mazes and 1 step."),
        (
            {"side": 3, "least": 9},
            "Mazes of side 3 with ends 9 steps apart are too rare; ask for fewer steps.",
        ),
    ],
)
def test_mazes_that_cannot_be(asked, says):
    with pytest.raises(PuzzleError) as caught:
        generate_scattered(1, 0, **asked)
    assert str(caught.value) == says


# The preset


def test_fresh_mazes_are_trained_on_in_all_positions(tmp_path, monkeypatch):
    monkeypatch.setenv("CELLWISE_DATA", str(tmp_path))
    with pytest.raises(DataError) as caught:
        maze_hard.fresh_mazes()
    assert str(caught.value) == (
        "maze-hard-made train is not on this machine; run `cellwise data make maze-hard-made --split train`."
    )
    store.make(MazeHardMade(count=6))
    boards, about = maze_hard.fresh_mazes()
    assert about == {"data": "6 mazes of maze-hard-made, in eight positions, no published maze"}
    made = store.load("maze-hard-made", "train")
    for position in range(8):
        for number in range(6):
            turned = dihedral(made.inputs[number : number + 1], position)[0]
            np.testing.assert_array_equal(boards.inputs[6 * position + number], turned)
    assert judge(boards.inputs, boards.target, label_all(boards.inputs)).exact.all()
    assert ((boards.target == PATH).sum((1, 2)) == boards.difficulty).all()


def test_nobody_trains_on_the_fresh_mazes_that_are_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("CELLWISE_DATA", str(tmp_path))
    monkeypatch.setattr(maze_hard, "generate_scattered", lambda count, seed: generate_scattered(4, seed))
    (check,) = maze_hard.fresh_checks()
    assert check.name == "fresh" and len(check.boards) == 4
    trained = fingerprints(generate_scattered(8, 0), sudoku=False)
    assert not np.isin(fingerprints(check.boards, sudoku=False), trained).any()
    with pytest.raises(Exception, match="seed from 0 to 4294967295"):
        store.make(MazeHardMade(count=4, seed=maze_hard.VALIDATION_SEED))
