"""Boards that are the same up to symmetry are found, and no others."""

import numpy as np
import pytest

from cellwise.puzzles import archive
from cellwise.puzzles.board import Boards
from cellwise.puzzles.dihedral import dihedral
from cellwise.puzzles.equivalence import are_equivalent, fingerprints
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.sudoku_generator import generate_easy
from cellwise.puzzles.sudoku_symmetry import Symmetry


def moved(boards, symmetry):
    return Boards(symmetry.apply(boards.target), symmetry.move(boards.given), boards.difficulty)


def test_sudokus_in_another_guise_are_found_and_others_are_not():
    boards, rng = generate_easy(6, seed=5), np.random.default_rng(1)
    known = fingerprints(boards, sudoku=True)
    assert len(np.unique(known)) == 6
    for _ in range(20):
        assert (fingerprints(moved(boards, Symmetry.random(rng)), sudoku=True) == known).all()
    again = moved(boards, Symmetry.random(rng))
    assert are_equivalent(again[slice(1)], boards[slice(1)], sudoku=True)
    assert not are_equivalent(again[slice(1, 2)], boards[slice(1)], sudoku=True)


def test_one_clue_more_is_another_sudoku():
    board = generate_easy(1, seed=5)
    given = board.given.copy()
    given.flat[np.flatnonzero(~given)[3]] = True
    other = Boards(board.target, given, board.difficulty)
    assert fingerprints(other, sudoku=True) != fingerprints(board, sudoku=True)
    assert not are_equivalent(other, board, sudoku=True)


def test_turned_mazes_are_found_and_others_are_not():
    mazes = generate(9, 40, seed=2)
    known = fingerprints(mazes, sudoku=False)
    assert len(np.unique(known)) == 40
    for k in range(8):
        turned = Boards(dihedral(mazes.target, k), dihedral(mazes.given, k), mazes.difficulty)
        assert (fingerprints(turned, sudoku=False) == known).all()
        assert are_equivalent(turned[slice(1)], mazes[slice(1)], sudoku=False)
    assert not are_equivalent(mazes[slice(1)], mazes[slice(1, 2)], sudoku=False)


def test_a_board_has_the_same_number_in_any_company():
    boards = generate_easy(3, seed=5)
    assert fingerprints(boards[slice(1, 2)], sudoku=True) == fingerprints(boards, sudoku=True)[1]
    assert len(fingerprints(boards[slice(0)], sudoku=True)) == 0


@pytest.mark.slow
def test_real_files_share_what_is_known_to_be_shared(shared_data):
    def numbers(name):
        return fingerprints(archive.read_sudoku_csv(shared_data / name), sudoku=True)

    seventeen, pool = numbers("sudoku-ood/seventeen-clue.csv.gz"), numbers("sudoku-extreme/train-pool.csv.gz")
    assert len(np.unique(seventeen)) == 39_158, "these are known to be different from each other"
    assert np.isin(seventeen, pool).sum() == 280
    for test in ("test-dev", "balanced-dev"):
        assert not np.isin(numbers(f"sudoku-extreme/{test}.csv.gz"), np.union1d(pool, seventeen)).any()
