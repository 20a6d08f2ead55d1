import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwise.errors import PuzzleError
from cellwise.puzzles.maze import EMPTY, PATH, START, WALL, has_ring
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.maze_growth import grow_in_lockstep, grow_one_by_one
from cellwise.puzzles.maze_path import distances, has_unique_shortest_path, label_bfs, label_maze_hard
from cellwise.puzzles.maze_text import to_text

sizes = st.integers(1, 12).map(lambda half: 2 * half + 1)
seeds = st.integers(-(2**70), 2**70)
kinds = st.sampled_from(["rooms", "dead-ends"])


def degrees(free: np.ndarray) -> np.ndarray:
    padded = np.pad(free.astype(int), 1)
    return padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]


@settings(deadline=None, max_examples=40)
@given(sizes, seeds, kinds)
def test_every_maze_is_a_spanning_tree_with_its_path(size: int, seed: int, kind: str):
    boards = generate(size, 3, seed, endpoints=kind)
    rooms = (size + 1) // 2
    assert boards.target.shape == (3, size + 2, size + 2)
    assert has_ring(boards.target)
    for target, inputs, given_, difficulty in zip(
        boards.target, boards.inputs, boards.given, boards.difficulty, strict=True
    ):
        free = inputs != WALL
        start, goal = ((row, column) for row, column in np.argwhere(inputs == START).tolist())
        # Connected, with one free cell less than twice the rooms: rooms and doors form a tree.
        assert free[1::2, 1::2].all() and not free[::2, ::2].any()
        assert free.sum() == 2 * rooms**2 - 1
        assert ((distances(inputs, start) >= 0) == free).all()
        assert all(place % 2 for place in (*start, *goal))
        np.testing.assert_array_equal(label_maze_hard(inputs), target)
        np.testing.assert_array_equal(given_, (target == WALL) | (target == START))
        assert difficulty == (target == PATH).sum() == distances(inputs, start)[goal] - 1
        if kind == "dead-ends":
            assert degrees(free)[start] == degrees(free)[goal] == 1


@settings(deadline=None, max_examples=40)
@given(sizes, seeds, kinds, st.sampled_from([0.1, 0.5, 1.0]))
def test_braided_mazes_keep_a_unique_shortest_path(size: int, seed: int, kind: str, braid: float):
    boards = generate(size, 2, seed, braid=braid, endpoints=kind)
    trees = generate(size, 2, seed, endpoints=kind)
    for target, inputs, tree, difficulty in zip(
        boards.target, boards.inputs, trees.inputs, boards.difficulty, strict=True
    ):
        assert has_unique_shortest_path(inputs)
        np.testing.assert_array_equal(label_bfs(inputs), target)
        assert difficulty == (target == PATH).sum()
        # Loops are only ever added, never next to an endpoint, and the endpoints are those of the tree.
        assert not ((tree != WALL) & (inputs == WALL)).any()
        np.testing.assert_array_equal(tree == START, inputs == START)
        ends = inputs == START
        np.testing.assert_array_equal(degrees(inputs != WALL)[ends], degrees(tree != WALL)[ends])


def test_braiding_opens_about_the_share_asked_for():
    tree, half, full = (generate(39, 20, 5, braid=braid).target != WALL for braid in (0.0, 0.5, 1.0))
    dead_ends = sum((degrees(maze)[1::2, 1::2] == 1).sum() for maze in tree)
    opened_half, opened_full = half.sum() - tree.sum(), full.sum() - tree.sum()
    # Some dead ends open towards each other through one door, and a few doors are closed again.
    assert 0.75 * dead_ends < opened_full <= dead_ends
    assert 0.4 * dead_ends < opened_half < 0.55 * dead_ends


@pytest.mark.parametrize(
    "options", [{}, {"endpoints": "dead-ends"}, {"braid": 0.5}, {"braid": 0.5, "endpoints": "dead-ends"}]
)
def test_a_maze_does_not_depend_on_its_batch(options: dict[str, Any]):
    whole = generate(13, 130, seed=7, **options)
    for first, count in ((0, 1), (5, 3), (29, 101)):
        part = generate(13, count, seed=7, first=first, **options)
        np.testing.assert_array_equal(part.target, whole.target[first : first + count])
        np.testing.assert_array_equal(part.difficulty, whole.difficulty[first : first + count])


def test_batches_are_cut_without_a_trace(monkeypatch: pytest.MonkeyPatch):
    whole = generate(9, 20, seed=1)
    monkeypatch.setattr("cellwise.puzzles.maze_generator._ROOMS_AT_ONCE", 3 * 25)
    np.testing.assert_array_equal(generate(9, 20, seed=1).target, whole.target)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 8), st.integers(1, 5), st.integers(0, 2**32))
def test_both_searches_grow_the_same_trees(side: int, count: int, seed: int):
    rng = np.random.default_rng(seed)
    orders = rng.integers(0, 24, (count, side, side), dtype=np.uint8)
    roots = rng.integers(0, side, (count, 2))
    together, alone = grow_in_lockstep(orders, roots), grow_one_by_one(orders, roots)
    for field in ("entered", "last", "towards"):
        np.testing.assert_array_equal(getattr(together, field), getattr(alone, field))
    assert (np.sort(alone.entered.reshape(count, -1)) == np.arange(side**2)).all()


def test_seeds_sizes_and_numbers_give_different_mazes():
    mazes = [generate(9, 1, seed, first).target.tobytes() for seed in range(20) for first in range(20)]
    assert len(set(mazes)) == 400
    corner = [generate(size, 1, 0).target[0, 1:6, 1:6].tobytes() for size in range(11, 31, 2)]
    assert len(set(corner)) == 10


def test_a_known_maze_stays_what_it_is():
    """Runs are named by size and seed: a change here changes the data behind every number measured so far."""
    assert to_text(generate(9, 1, seed=0, first=41).target[0]) == (
        "###########\n"
        "#E**......#\n"
        "#.#*#######\n"
        "#.#***#***#\n"
        "#####*#*#*#\n"
        "#***#***#*#\n"
        "#*#*#####*#\n"
        "#*#*******#\n"
        "#*#######.#\n"
        "#**E#.....#\n"
        "###########\n"
    )


def test_endpoints_are_uniform_over_rooms():
    boards = generate(5, 18_000, seed=11)
    rooms = (boards.target[:, 1::2, 1::2] == START).reshape(-1, 9)
    pairs = np.array([np.flatnonzero(pair) for pair in rooms])
    counts = np.bincount(pairs[:, 0] * 9 + pairs[:, 1], minlength=81)
    counts = counts[counts > 0]
    assert len(counts) == 36
    # Chi-squared with 35 degrees of freedom: beyond 66.6 once in a thousand, and the seed is fixed.
    assert ((counts - 500) ** 2 / 500).sum() < 66.6


def exact_tree_probabilities(side: int, root: int) -> dict[frozenset[frozenset[int]], float]:
    """The distribution of a textbook depth-first search that draws afresh among the new neighbours."""
    outcome: dict[frozenset[frozenset[int]], float] = {}

    def search(stack: list[int], seen: set[int], tree: frozenset[frozenset[int]], chance: float) -> None:
        if not stack:
            outcome[tree] = outcome.get(tree, 0) + chance
            return
        row, column = divmod(stack[-1], side)
        new = [
            r * side + c
            for r, c in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
            if 0 <= r < side and 0 <= c < side and r * side + c not in seen
        ]
        if not new:
            search(stack[:-1], seen, tree, chance)
        for room in new:
            edge = frozenset((stack[-1], room))
            search([*stack, room], seen | {room}, tree | {edge}, chance / len(new))

    search([root], {root}, frozenset(), 1.0)
    return outcome


@pytest.mark.parametrize("root", [0, 1, 4])
def test_trees_are_distributed_as_by_a_textbook_search(root: int):
    expected = exact_tree_probabilities(3, root)
    samples = 20_000
    rng = np.random.default_rng(root)
    trees = grow_in_lockstep(
        rng.integers(0, 24, (samples, 3, 3), dtype=np.uint8), np.tile(np.array(divmod(root, 3)), (samples, 1))
    )
    steps = (-3, -1, 1, 3)
    seen: dict[frozenset[frozenset[int]], int] = dict.fromkeys(expected, 0)
    for towards in trees.towards.reshape(samples, 9):
        seen[frozenset(frozenset((r, r - steps[d])) for r, d in enumerate(towards.tolist()) if d >= 0)] += 1
    statistic = sum((seen[tree] - samples * p) ** 2 / (samples * p) for tree, p in expected.items())
    freedom = len(expected) - 1
    assert statistic < freedom + 4 * (2 * freedom) ** 0.5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"size": 8}, "There are no mazes of size 8; choose an odd size from 3 to 1,001."),
        ({"size": 1}, "There are no mazes of size 1; choose an odd size from 3 to 1,001."),
        ({"size": -3}, "There are no mazes of size -3; choose an odd size from 3 to 1,001."),
        ({"size": 1003}, "There are no mazes of size 1,003; choose an odd size from 3 to 1,001."),
        ({"count": -1}, "Cannot make -1 mazes from number 0 on; use numbers of at least 0."),
        ({"first": -1}, "Cannot make 1 mazes from number -1 on; use numbers of at least 0."),
        ({"braid": 1.5}, "The share of dead ends to open cannot be 1.5; choose one from 0 to 1."),
        ({"endpoints": "corners"}, "Endpoints cannot be 'corners'; choose 'rooms' or 'dead-ends'."),
        ({"braid": float("nan")}, "The share of dead ends to open cannot be nan; choose one from 0 to 1."),
    ],
)
def test_refusals(arguments: dict[str, Any], sentence: str):
    order: dict[str, Any] = {"size": 9, "count": 1, "seed": 0, **arguments}
    with pytest.raises(PuzzleError) as refusal:
        generate(**order)
    assert str(refusal.value) == sentence


def test_no_mazes_are_an_empty_set():
    boards = generate(9, 0, seed=0)
    assert boards.target.shape == (0, 11, 11) and len(boards) == 0


@pytest.mark.parametrize(("size", "count"), [(59, 1000), (1001, 1)])
def test_large_orders_take_seconds(size: int, count: int):
    begin = time.perf_counter()
    boards = generate(size, count, seed=0)
    assert time.perf_counter() - begin < 8
    assert (boards.target == EMPTY).any((1, 2)).all()
