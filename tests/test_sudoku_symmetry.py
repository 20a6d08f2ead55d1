import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwise.puzzles import sudoku
from cellwise.puzzles.sudoku_generator import generate_easy
from cellwise.puzzles.sudoku_solver import count_solutions, random_solution
from cellwise.puzzles.sudoku_symmetry import Symmetry

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=25, deadline=None, derandomize=True)

EASY = generate_easy(4, seed=11)


def line_orders(tied):
    """All orders of nine lines that keep the bands together, from the definition."""
    inner = list(itertools.permutations(range(3)))
    choices = [(order,) * 3 for order in inner] if tied else list(itertools.product(inner, repeat=3))
    return {
        tuple(3 * band + line for band, order in zip(bands, orders, strict=True) for line in order)
        for bands in inner
        for orders in choices
    }


def test_each_generator_does_what_its_name_says():
    grid = random_solution(np.random.default_rng(0))
    identity = Symmetry.identity()
    swapped = (0, 1, 2, 3, 5, 4, 6, 7, 8)
    names = (0, 2, 1, 3, 4, 5, 6, 7, 8, 9)
    assert (identity.apply(grid) == grid).all()
    assert (Symmetry(True, identity.rows, identity.columns, identity.digits).apply(grid) == grid.T).all()
    rows = Symmetry(False, swapped, identity.columns, identity.digits).apply(grid)
    assert (rows == grid[list(swapped)]).all() and (rows != grid).any()
    columns = Symmetry(False, identity.rows, swapped, identity.digits).apply(grid)
    assert (columns == grid[:, list(swapped)]).all() and (columns != grid).any()
    renamed = Symmetry(False, identity.rows, identity.columns, names).apply(grid)
    assert ((renamed == 1) == (grid == 2)).all() and ((renamed == 2) == (grid == 1)).all()


@few
@given(seed=seeds, tied=st.booleans())
def test_solutions_stay_solutions_and_puzzles_keep_their_number_of_solutions(seed, tied):
    symmetry = Symmetry.random(np.random.default_rng(seed), tied)
    targets, inputs = symmetry.apply(EASY.target), symmetry.apply(EASY.inputs)
    assert sudoku.is_solution(inputs, targets).all()
    assert ((inputs > 0) == symmetry.move(EASY.given)).all()
    assert count_solutions(inputs[0]) == 1
    open_puzzle = EASY.inputs[1].copy()
    open_puzzle[open_puzzle <= 3] = 0
    assert count_solutions(symmetry.apply(open_puzzle), 30) == count_solutions(open_puzzle, 30) > 1


@few
@given(seed=seeds)
def test_the_maps_form_a_group(seed):
    rng = np.random.default_rng(seed)
    first, second, third = (Symmetry.random(rng) for _ in range(3))
    grids, identity = EASY.inputs, Symmetry.identity()
    assert (first.then(second).apply(grids) == second.apply(first.apply(grids))).all()
    assert (first.then(second).move(grids) == second.move(first.move(grids))).all()
    assert (first.inverse().apply(first.apply(grids)) == grids).all()
    assert first.then(first.inverse()) == first.inverse().then(first) == identity
    assert first.then(identity) == identity.then(first) == first
    assert first.then(second).then(third) == first.then(second.then(third))


@few
@given(seed=seeds)
def test_a_batch_is_mapped_board_by_board(seed):
    symmetry = Symmetry.random(np.random.default_rng(seed))
    batch = symmetry.apply(EASY.target.reshape(2, 2, 9, 9))
    for index, target in enumerate(EASY.target):
        assert (batch[divmod(index, 2)] == symmetry.apply(target)).all()


def test_random_reaches_the_whole_group_and_tied_its_subset():
    free, tied = line_orders(tied=False), line_orders(tied=True)
    assert 2 * math.factorial(9) * len(free) ** 2 == 1_218_998_108_160
    assert 2 * math.factorial(9) * len(tied) ** 2 == 940_584_960
    rng = np.random.default_rng(0)
    for expected, is_tied, count in ((free, False, 8000), (tied, True, 200)):
        drawn = [Symmetry.random(rng, tied=is_tied) for _ in range(count)]
        assert {order for symmetry in drawn for order in (symmetry.rows, symmetry.columns)} == expected
        assert {symmetry.transpose for symmetry in drawn} == {False, True}
        assert all(sorted(symmetry.digits) == list(range(10)) for symmetry in drawn)
        assert all(symmetry.digits[0] == 0 for symmetry in drawn)
        assert {symmetry.digits[1] for symmetry in drawn} == set(range(1, 10))
        assert any(symmetry.rows != symmetry.columns for symmetry in drawn)
