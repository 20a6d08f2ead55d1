import csv
import gzip
import itertools
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwise.puzzles import sudoku
from cellwise.puzzles.sudoku_solver import count_solutions, random_solution, solve

DATA = Path(__file__).parents[1].parent / "shared" / "data"

HARD = [
    "1....7.9..3..2...8..96..5....53..9...1..8...26....4...3......1..4......7..7...3..",
    "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4..",
    ".......39.....1..5..3.5.8....8.9...6.7...2...1..4.......9.8..5..2....6..4..7.....",
    "..............3.85..1.2.......5.7.....4...1...9.......5......73..2.1........4...9",
]
# No digit repeats, yet it has no solution; it keeps solvers that only fill cells busy for minutes.
IMPOSSIBLE = ".....5.8....6.1.43..........1.5........1.6...3.......553.....61........4........."


def count_by_brute_force(grid, limit):
    """Tries every digit in every empty cell, first to last."""
    empty = np.argwhere(grid == 0)
    if not len(empty):
        return 1
    row, column = empty[0]
    top, left = row // 3 * 3, column // 3 * 3
    seen = {*grid[row], *grid[:, column], *grid[top : top + 3, left : left + 3].ravel()}
    found = 0
    for digit in range(1, 10):
        if digit not in seen and found < limit:
            grid[row, column] = digit
            found += count_by_brute_force(grid, limit - found)
            grid[row, column] = 0
    return found


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), empties=st.integers(0, 48), spoilt=st.booleans())
def test_counts_agree_with_brute_force(seed, empties, spoilt):
    rng = np.random.default_rng(seed)
    grid = random_solution(rng)
    grid.flat[rng.choice(81, empties, replace=False)] = 0
    if spoilt and empties:
        row, column = rng.choice(np.argwhere(grid == 0))
        top, left = row // 3 * 3, column // 3 * 3
        seen = {*grid[row], *grid[:, column], *grid[top : top + 3, left : left + 3].ravel()}
        grid[row, column] = rng.choice([digit for digit in range(1, 10) if digit not in seen])
    before = grid.copy()
    count = count_solutions(grid, limit=40)
    solution = solve(grid)
    assert (grid == before).all()
    assert count == count_by_brute_force(grid, 40)
    assert (solution is None) == (count == 0)
    if solution is not None:
        assert sudoku.is_solution(grid[None], solution[None]).all()


@pytest.mark.parametrize("text", HARD)
def test_the_hardest_known_puzzles_take_well_under_100_ms(text):
    grid = sudoku.parse(text)
    durations = []
    for _ in range(3):
        start = time.process_time()
        solution = solve(grid)
        assert count_solutions(grid) == 1
        durations.append(time.process_time() - start)
    assert solution is not None
    assert sudoku.is_solution(grid[None], solution[None]).all()
    assert min(durations) < 0.1


def test_impossible_puzzles_end_quickly():
    repeated = np.zeros((9, 9), np.uint8)
    repeated[4, [0, 8]] = 7
    start = time.process_time()
    for grid in (sudoku.parse(IMPOSSIBLE), repeated):
        assert solve(grid) is None
        assert count_solutions(grid) == 0
    assert time.process_time() - start < 0.1


def test_a_limit_ends_the_count():
    empty = np.zeros((9, 9), np.uint8)
    start = time.process_time()
    assert [count_solutions(empty, limit) for limit in (0, 1, 2, 50)] == [0, 1, 2, 50]
    assert time.process_time() - start < 0.1
    solution = solve(empty)
    assert solution is not None
    assert sudoku.is_solution(empty[None], solution[None]).all()


def test_random_solutions_are_solutions_reproducible_and_varied():
    rng = np.random.default_rng(5)
    grids = np.stack([random_solution(rng) for _ in range(200)])
    assert sudoku.is_solution(np.zeros_like(grids), grids).all()
    assert (random_solution(np.random.default_rng(5)) == grids[0]).all()
    assert len(np.unique(grids.reshape(200, 81), axis=0)) == 200
    for cell in itertools.product((0, 4, 8), repeat=2):
        assert set(grids[:, *cell].tolist()) == set(range(1, 10))


@pytest.mark.parametrize(
    ("name", "rows"),
    [("sudoku-extreme/train-pool.csv.gz", 200), ("sudoku-ood/seventeen-clue.csv.gz", 200)],
)
def test_published_answers_are_found(name, rows):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"the benchmark file {name} is not beside this checkout")
    with gzip.open(path, "rt") as file:
        boards = list(itertools.islice(csv.DictReader(file), rows))
    assert len(boards) == rows
    for board in boards:
        grid = sudoku.parse(board["question"])
        assert count_solutions(grid) == 1
        solution = solve(grid)
        assert solution is not None
        assert sudoku.to_text(solution) == board["answer"]
