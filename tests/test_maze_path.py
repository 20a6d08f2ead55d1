import csv
import gzip
import time
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cellwise.errors import PuzzleError
from cellwise.puzzles.dihedral import dihedral
from cellwise.puzzles.maze import PATH, START, WALL, Cell, Vocabulary, unsolved
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.maze_path import (
    distances,
    has_unique_shortest_path,
    judge,
    label_bfs,
    label_maze_hard,
    shortest_path,
)
from cellwise.puzzles.maze_text import parse

MAZE_HARD = Path(__file__).parents[2] / "shared" / "data" / "maze-hard"


@st.composite
def mazes(draw: st.DrawFn, most: int = 8) -> np.ndarray:
    """Any grid of walls and free cells with a start and a goal, reachable or not."""
    shape = draw(st.tuples(st.integers(2, most), st.integers(2, most)))
    grid = draw(arrays(np.uint8, shape, elements=st.sampled_from([0, 0, 2])))
    start, goal = draw(st.lists(st.integers(0, grid.size - 1), min_size=2, max_size=2, unique=True))
    grid.flat[start], grid.flat[goal] = 3, draw(st.sampled_from([3, 4]))
    return grid


def around(cell: Cell) -> list[Cell]:
    row, column = cell
    return [(row + 1, column), (row, column - 1), (row, column + 1), (row - 1, column)]


def free(grid: np.ndarray, cell: Cell) -> bool:
    return all(0 <= place < side for place, side in zip(cell, grid.shape, strict=True)) and grid[cell] != WALL


def ends_of(grid: np.ndarray) -> list[Cell]:
    return sorted(
        ((row, column) for row, column in np.argwhere(grid >= START).tolist()), key=lambda cell: grid[cell]
    )


def oracle_tree(grid: np.ndarray, start: Cell) -> dict[Cell, Cell | None]:
    """A textbook queue: the parent of every cell in the order down, left, right, up."""
    parent: dict[Cell, Cell | None] = {start: None}
    queue = deque([start])
    while queue:
        cell = queue.popleft()
        for neighbour in around(cell):
            if free(grid, neighbour) and neighbour not in parent:
                parent[neighbour] = cell
                queue.append(neighbour)
    return parent


def oracle_path(grid: np.ndarray) -> list[Cell] | None:
    start, goal = ends_of(grid)
    parent = oracle_tree(grid, start)
    if goal not in parent:
        return None
    path: list[Cell] = []
    cell: Cell | None = goal
    while cell is not None:
        path.append(cell)
        cell = parent[cell]
    return path[::-1]


def oracle_count(grid: np.ndarray) -> int:
    """The number of shortest paths, by summing over predecessors."""
    start, goal = ends_of(grid)
    steps = distances(grid, start)
    ways = {start: 1}
    for cell in sorted(oracle_tree(grid, start), key=lambda cell: steps[cell]):
        if cell != start:
            ways[cell] = sum(ways[n] for n in around(cell) if free(grid, n) and steps[n] == steps[cell] - 1)
    return ways.get(goal, 0)


def oracle_valid(inputs: np.ndarray, prediction: np.ndarray) -> tuple[bool, int]:
    """The walk of the definition: from one endpoint, always by the single unvisited neighbour."""
    ends = ends_of(inputs)
    route = {tuple(map(int, cell)) for cell in np.argwhere(prediction == PATH)} | set(ends)
    if any(inputs[cell] == WALL for cell in route):
        return False, 0
    here, walked = ends[0], {ends[0]}
    while here != ends[1]:
        onward = [cell for cell in around(here) if cell in route and cell not in walked]
        if len(onward) != 1:
            return False, 0
        here = onward[0]
        walked.add(here)
    return walked == route, len(walked) - 1


@settings(deadline=None, max_examples=150)
@given(mazes())
def test_distances_and_paths_are_those_of_a_textbook_search(grid: np.ndarray):
    start, goal = ends_of(grid)
    depth = {start: 0}
    for cell, parent in oracle_tree(grid, start).items():
        if parent is not None:
            depth[cell] = depth[parent] + 1
    expected = np.full(grid.shape, -1)
    for cell, steps in depth.items():
        expected[cell] = steps
    found = distances(grid, start)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, expected)
    path = oracle_path(grid)
    assert has_unique_shortest_path(grid) == (oracle_count(grid) == 1)
    if path is not None:
        np.testing.assert_array_equal(shortest_path(grid), path)
        drawn = grid.copy()
        for cell in path[1:-1]:
            drawn[cell] = PATH
        np.testing.assert_array_equal(label_maze_hard(grid), drawn)
        np.testing.assert_array_equal(label_maze_hard(drawn), drawn)
    else:
        for label in (shortest_path, label_maze_hard, label_bfs):
            with pytest.raises(PuzzleError, match="cannot be reached"):
                label(grid)
        assert goal not in depth


@settings(deadline=None, max_examples=100)
@given(mazes())
def test_bfs_labels_take_the_first_falling_neighbour(grid: np.ndarray):
    if oracle_path(grid) is None:
        return
    first, here = sorted(ends_of(grid))
    steps = distances(grid, first)
    label = label_bfs(grid)
    expected = {here}
    while here != first:
        row, column = here
        order = [(row - 1, column), (row, column - 1), (row, column + 1), (row + 1, column)]
        here = next(cell for cell in order if free(grid, cell) and steps[cell] == steps[row, column] - 1)
        expected.add(here)
    assert {tuple(cell) for cell in np.argwhere((label == PATH) | (label >= START)).tolist()} == expected
    np.testing.assert_array_equal(np.where(label == PATH, 0, label), grid)


@pytest.mark.parametrize(
    ("maze_hard", "bfs"),
    [
        ("*S.|*#.|*G.", "*S.|*#.|*G."),
        ("*G.|*#.|*S.", "*G.|*#.|*S."),
        ("...|S#G|***", "***|S#G|..."),
        ("...|G#S|***", "***|G#S|..."),
        ("S..|*#.|**G", "S**|.#*|..G"),
        ("..S|.#*|G**", "**S|*#.|G.."),
        ("..G|.#*|S**", "**G|*#.|S.."),
        ("G..|*#.|**S", "G**|.#*|..S"),
    ],
)
def test_the_two_rules_break_ties_as_specified(maze_hard: str, bfs: str):
    """Around one wall both ways are equally long; every pair of directions has to be decided."""
    expected = parse(maze_hard.replace("|", "\n"), Vocabulary.DISTINCT)
    np.testing.assert_array_equal(label_maze_hard(unsolved(expected)), expected)
    expected = parse(bfs.replace("|", "\n"), Vocabulary.DISTINCT)
    np.testing.assert_array_equal(label_bfs(unsolved(expected)), expected)


def test_bfs_counts_beyond_a_byte():
    """A 203 x 203 serpentine: the released 8-bit counter would wrap some 80 times."""
    grid = np.zeros((203, 203), np.uint8)
    grid[1::2] = WALL
    grid[1::4, -1] = grid[3::4, 0] = 0
    grid[0, 0], grid[-1, 0] = 3, 4
    # 102 rows of 203 cells and 101 cells between them, of which two are endpoints and all are on the path.
    np.testing.assert_array_equal(label_bfs(grid), np.where(grid == 0, PATH, grid))
    assert distances(grid, (0, 0))[202, 0] == 102 * 203 + 101 - 1


@settings(deadline=None, max_examples=40)
@given(mazes(), st.integers(0, 7))
def test_recomputed_labels_are_shortest_paths_of_the_transformed_maze(grid: np.ndarray, k: int):
    path = oracle_path(grid)
    if path is None:
        return
    turned = dihedral(grid, k)
    for label in (label_maze_hard, label_bfs):
        moved, recomputed = dihedral(label(grid), k), label(turned)
        np.testing.assert_array_equal(np.where(recomputed == PATH, 0, recomputed), turned)
        assert (recomputed == PATH).sum() == len(path) - 2
        if has_unique_shortest_path(grid):
            np.testing.assert_array_equal(recomputed, moved)
        verdict = judge(turned[None], recomputed[None], moved[None])
        assert verdict.valid.all() and verdict.optimal.all()


@pytest.mark.skipif(not MAZE_HARD.exists(), reason="the Maze-Hard data is not here")
@pytest.mark.parametrize("split", ["train", "test"])
def test_all_maze_hard_answers_are_reproduced(split: str):
    with gzip.open(MAZE_HARD / f"{split}.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1000
    inputs = np.stack([parse(row["question"], Vocabulary.DISTINCT) for row in rows])
    answers = np.stack([parse(row["answer"], Vocabulary.DISTINCT) for row in rows])
    np.testing.assert_array_equal(np.stack([label_maze_hard(maze) for maze in inputs]), answers)
    inputs, answers = inputs[:200], answers[:200]
    verdict = judge(inputs, answers, np.stack([label_bfs(maze) for maze in inputs]))
    assert verdict.valid.all() and verdict.optimal.all()
    assert verdict.exact is not None and not verdict.exact.all()


HAND_DRAWN = {
    "the target": "#########|#S..#...#|#*#.#.#.#|#*#...#.#|#*#.###.#|#******G#|#########",
    "a tie": "#########|#S**#...#|#.#*#.#.#|#.#*..#.#|#.#*###.#|#..****G#|#########",
    "a detour": "#########|#S**#***#|#.#*#*#*#|#.#***#*#|#.#.###*#|#......G#|#########",
    "a spur": "#########|#S..#...#|#*#.#.#.#|#*#...#.#|#*#*###.#|#******G#|#########",
    "an island": "#########|#S..#..*#|#*#.#.#.#|#*#...#.#|#*#.###.#|#******G#|#########",
    "both ways": "#########|#S**#...#|#*#*#.#.#|#*#*..#.#|#*#*###.#|#******G#|#########",
    "broken": "#########|#S..#...#|#*#.#.#.#|#*#...#.#|#*#.###.#|#***.**G#|#########",
    "no end": "#########|#S..#...#|#*#.#.#.#|#*#...#.#|#*#.###.#|#*****.G#|#########",
    "a wall": "#########|#S******#|#.#.#.#*#|#.#...#*#|#.#.###*#|#......G#|#########",
    "nothing": "#########|#S..#...#|#.#.#.#.#|#.#...#.#|#.#.###.#|#......G#|#########",
}
VALID, OPTIMAL, EXACT = {"the target", "a tie", "a detour"}, {"the target", "a tie"}, {"the target"}


@pytest.mark.parametrize("name", HAND_DRAWN)
def test_verdicts_on_answers_drawn_by_hand(name: str):
    target, prediction = (parse(HAND_DRAWN[drawing].replace("|", "\n")) for drawing in ("the target", name))
    inputs = unsolved(target)
    verdict = judge(inputs[None], target[None], prediction[None])
    assert verdict.exact is not None and verdict.cell_accuracy is not None
    assert verdict.valid[0] == (name in VALID) == oracle_valid(inputs, prediction)[0]
    assert verdict.optimal[0] == (name in OPTIMAL)
    assert verdict.exact[0] == (name in EXACT)
    assert verdict.cell_accuracy[0] == pytest.approx((prediction == target).sum() / 63)


def test_a_loop_apart_from_the_path_is_not_valid():
    inputs = parse("S..G\n....\n....\n....\n....")
    loop = parse("S**G\n....\n.***\n.*.*\n.***")
    assert not judge(inputs[None], None, loop[None]).valid[0]
    loop[2:] = 0
    verdict = judge(inputs[None], None, loop[None])
    assert verdict.valid[0] and verdict.optimal[0]
    assert verdict.exact is None and verdict.cell_accuracy is None


def test_a_shortcut_through_a_wall_is_not_valid():
    inputs = parse("S#G\n...")
    assert not judge(inputs[None], None, parse("S*G\n...")[None]).valid[0]


def test_endpoints_come_from_the_input():
    inputs = parse("S..G\n....", Vocabulary.DISTINCT)
    answer = np.array([[0, 1, 1, 1], [3, 0, 4, 0]], np.uint8)
    verdict = judge(inputs[None], None, answer[None])
    assert verdict.valid[0] and verdict.optimal[0]


def test_adjacent_endpoints_need_no_path():
    inputs = parse("SG\n..")
    assert judge(inputs[None], None, inputs[None]).optimal[0]
    assert not judge(inputs[None], None, parse("SG\n**")[None]).valid[0]


def test_inputs_without_two_endpoints_are_named():
    inputs = np.stack([parse("SG\n.."), parse("S.\n..")])
    with pytest.raises(PuzzleError) as refusal:
        judge(inputs, None, inputs)
    assert str(refusal.value) == "Maze 1 does not have two endpoints; check the inputs first."


@settings(deadline=None, max_examples=200)
@given(mazes(5), st.data())
def test_verdicts_are_those_of_the_walk(grid: np.ndarray, data: st.DataObject):
    """Predictions are near a real path, where the difficult cases are: a few cells of it flipped."""
    path = oracle_path(grid)
    prediction = grid.copy()
    for cell in (path or [])[1:-1]:
        prediction[cell] = PATH
    for place in data.draw(st.lists(st.integers(0, grid.size - 1), max_size=3)):
        prediction.flat[place] = 0 if prediction.flat[place] == PATH else PATH
    valid, length = oracle_valid(grid, prediction)
    verdict = judge(grid[None], grid[None], prediction[None])
    assert verdict.valid[0] == valid
    assert verdict.optimal[0] == (valid and path is not None and length == len(path) - 1)


@pytest.mark.parametrize(("size", "count"), [(59, 500), (201, 50)])
def test_judging_takes_seconds(size: int, count: int):
    boards = generate(size, count, seed=2)
    begin = time.perf_counter()
    verdict = judge(boards.inputs, boards.target, boards.target)
    assert time.perf_counter() - begin < 5
    assert verdict.exact is not None
    assert verdict.valid.all() and verdict.optimal.all() and verdict.exact.all()
