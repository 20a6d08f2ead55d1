"""Mazes that are not those of training: other spanning trees, boards that are not square."""

import itertools
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwise.errors import PuzzleError
from cellwise.puzzles.maze import PATH, START, WALL, has_ring
from cellwise.puzzles.maze_braid import count_doors
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.maze_path import distances, has_unique_shortest_path, label_bfs, label_maze_hard
from cellwise.puzzles.maze_text import to_text
from cellwise.puzzles.maze_trees import TREES, doors_between, wilson

KINDS = ("depth-first", *TREES)
KNOWN = [
    "###########\n#E#.#.#...#\n#*#.#.#.###\n#****E....#\n#.###.###.#\n#...#...#.#\n###########\n",
    "###########\n#E********#\n#.#######*#\n#.#..E****#\n#####.#.#.#\n#.....#.#.#\n###########\n",
    "###########\n#E******..#\n#.#####*###\n#.#.#E**..#\n#.#.###.#.#\n#...#...#.#\n###########\n",
]
odd = st.integers(1, 8).map(lambda half: 2 * half + 1)


@settings(deadline=None, max_examples=60)
@given(odd, odd, st.integers(0, 2**70), st.sampled_from(KINDS), st.sampled_from(["rooms", "dead-ends"]))
def test_every_tree_spans_a_board_of_any_shape(height: int, width: int, seed: int, tree: str, ends: str):
    boards = generate((height, width), 2, seed, tree=tree, endpoints=ends)
    assert boards.target.shape == (2, height + 2, width + 2) and has_ring(boards.target)
    for target, inputs, difficulty in zip(boards.target, boards.inputs, boards.difficulty, strict=True):
        free = inputs != WALL
        start, goal = ((row, column) for row, column in np.argwhere(inputs == START).tolist())
        # Connected, with one free cell less than twice the rooms: rooms and doors form a tree.
        assert free[1::2, 1::2].all() and not free[::2, ::2].any()
        assert free.sum() == 2 * free[1::2, 1::2].size - 1
        assert ((distances(inputs, start) >= 0) == free).all()
        np.testing.assert_array_equal(label_maze_hard(inputs), target)
        assert difficulty == (target == PATH).sum() == distances(inputs, start)[goal] - 1
        if ends == "dead-ends":
            ways = count_doors(inputs[None])[0]
            assert [ways[(row - 1) // 2, (column - 1) // 2] for row, column in (start, goal)] == [1, 1]


@settings(deadline=None, max_examples=30)
@given(odd, odd, st.integers(0, 2**32), st.sampled_from(KINDS), st.sampled_from([0.3, 1.0]))
def test_braided_boards_of_any_shape_keep_a_unique_shortest_path(
    height: int, width: int, seed: int, tree: str, braid: float
):
    boards = generate((height, width), 2, seed, tree=tree, braid=braid)
    plain = generate((height, width), 2, seed, tree=tree)
    for target, inputs, before in zip(boards.target, boards.inputs, plain.inputs, strict=True):
        assert has_unique_shortest_path(inputs)
        np.testing.assert_array_equal(label_bfs(inputs), target)
        assert not ((before != WALL) & (inputs == WALL)).any()
        np.testing.assert_array_equal(before == START, inputs == START)


@pytest.mark.parametrize("tree", KINDS)
@pytest.mark.parametrize("options", [{}, {"braid": 0.5}, {"endpoints": "dead-ends"}])
def test_a_maze_does_not_depend_on_its_batch(tree: str, options: dict[str, Any]):
    whole = generate((9, 13), 100, seed=7, tree=tree, **options)
    for first, count in ((0, 1), (5, 3), (13, 85)):
        part = generate((9, 13), count, seed=7, first=first, tree=tree, **options)
        np.testing.assert_array_equal(part.target, whole.target[first : first + count])


def test_a_square_is_a_square_however_it_is_called():
    np.testing.assert_array_equal(generate(13, 3, 5).target, generate((13, 13), 3, 5).target)


def test_shapes_and_trees_give_different_mazes():
    corners = [generate(size, 1, 0).target[0, :7, :7].tobytes() for size in ((9, 13), (13, 9), (9, 17))]
    trees = [generate(9, 1, 0, tree=tree).inputs.tobytes() for tree in KINDS]
    assert len(set(corners)) == 3 and len(set(trees)) == 4


def test_wilsons_trees_are_uniform():
    """Every one of the 192 spanning trees of 3 × 3 rooms is as likely as any other."""
    samples = 192 * 60
    seen = Counter(wilson(3, 3, np.random.PCG64(seed)).tobytes() for seed in range(samples))
    assert len(seen) == 192
    statistic = sum((count - 60) ** 2 / 60 for count in seen.values())
    assert statistic < 191 + 4 * (2 * 191) ** 0.5


def share_of_orders_that_leave_closed(doors: np.ndarray, watched: int) -> float:
    """Over all orders of the doors: how often Kruskal's rule does not open the watched one."""
    closed = 0
    orders = list(itertools.permutations(range(len(doors))))
    for order in orders:
        part, opened = list(range(int(doors.max()) + 1)), False
        for door in order:
            one, other = (part[room] for room in doors[door])
            if one != other:
                part = [one if room == other else room for room in part]
                opened |= door == watched
        closed += not opened
    return closed / len(orders)


def test_kruskals_trees_are_those_of_doors_in_random_order():
    """On 2 × 3 rooms the middle door stays shut in 6 of 15 trees, but not in 6 of 15 mazes of Kruskal's."""
    samples, middle = 6_000, 5  # Doors 0 to 3 lead right, 4 to 6 down.
    doors = doors_between(2, 3)
    assert doors[middle].tolist() == [1, 4]
    shut = {
        name: sum(not grow(2, 3, np.random.PCG64(seed))[middle] for seed in range(samples)) / samples
        for name, grow in TREES.items()
    }
    expected = share_of_orders_that_leave_closed(doors, middle)
    assert shut["kruskal"] == pytest.approx(expected, abs=4 * (0.25 / samples) ** 0.5)
    assert shut["wilson"] == pytest.approx(6 / 15, abs=4 * (0.25 / samples) ** 0.5)
    assert shut["prim"] < shut["kruskal"] - 0.02 < shut["wilson"] - 0.04


@pytest.mark.parametrize("tree", TREES)
def test_dead_ends_are_as_frequent_as_they_should_be(tree: str):
    ways = count_doors(generate(201, 4, seed=3, tree=tree).inputs)
    share = (ways == 1).mean()
    # A room of a uniform tree is a dead end with probability 8/π² (1 - 2/π); the others are as measured.
    expected = {"wilson": 8 / np.pi**2 * (1 - 2 / np.pi), "kruskal": 0.305, "prim": 0.324}
    assert share == pytest.approx(expected[tree], abs=0.01)


def test_known_mazes_stay_what_they_are():
    """Cases are named by size, tree and seed: a change here changes the data behind every number measured."""
    drawn = [to_text(generate((5, 9), 1, seed=2, tree=tree).target[0]) for tree in TREES]
    assert drawn == KNOWN


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"size": (9, 8)}, "There are no mazes of size 8; choose an odd size from 3 to 1,001."),
        ({"size": (1003, 9)}, "There are no mazes of size 1,003; choose an odd size from 3 to 1,001."),
        (
            {"tree": "oak"},
            "A tree cannot grow by 'oak'; choose 'depth-first' or 'kruskal' or 'prim' or 'wilson'.",
        ),
    ],
)
def test_refusals(arguments: dict[str, Any], sentence: str):
    order: dict[str, Any] = {"size": 9, "count": 1, "seed": 0, **arguments}
    with pytest.raises(PuzzleError) as refusal:
        generate(**order)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize("tree", TREES)
def test_large_orders_take_seconds(tree: str):
    begin = time.perf_counter()
    generate(401, 1, seed=0, tree=tree)
    assert time.perf_counter() - begin < 8
