"""Votes are counted once each, ties are broken as promised, and a score is what its name says."""

import numpy as np
import pytest

from cellwise.puzzles.arc_vote import Guess, count, rank, scores

A, B, C = (np.full((1, 2), colour, np.uint8) for colour in (1, 2, 3))
TALL = A.T


def test_the_most_frequent_grid_comes_first():
    ballot = count([Guess(A, 0.9), Guess(B, 0.1), Guess(B, 0.2), Guess(None, 0.0), Guess(C, 0.3)])
    assert [one.votes for one in ballot.candidates] == [2, 1, 1]
    assert ballot.invalid == 1 and ballot.votes == 5 and ballot.tied
    assert [int(one.grid[0, 0]) for one in ballot.candidates] == [2, 1, 3]
    assert ballot.candidates[0].confidence == pytest.approx(0.15)


def test_ties_go_to_confidence_and_then_to_the_first():
    ballot = count([Guess(A, 0.5), Guess(B, 0.7), Guess(C, 0.5)])
    assert [int(one.grid[0, 0]) for one in ballot.candidates] == [2, 1, 3]


def test_the_shape_belongs_to_a_grid():
    assert len(count([Guess(A, 1.0), Guess(TALL, 1.0)]).candidates) == 2


def test_nothing_but_invalid_guesses():
    ballot = count([Guess(None, 0.0)] * 3)
    assert ballot.candidates == () and ballot.invalid == 3 and rank(ballot, A) is None


def test_the_rank_of_the_answer():
    ballot = count([Guess(A, 1.0), Guess(A, 1.0), Guess(B, 1.0)])
    assert (rank(ballot, A), rank(ballot, B), rank(ballot, C), rank(ballot, TALL)) == (1, 2, None, None)


def test_the_three_scores_of_a_table():
    ranks = {"one": [1], "two": [2, None], "three": [None, 1], "four": [3]}
    assert scores(ranks, 1) == {"tests": 1.5 / 4, "all": 1 / 4, "first": 1 / 4}
    assert scores(ranks, 2) == {"tests": 2 / 4, "all": 1 / 4, "first": 2 / 4}
    assert scores(ranks, 64) == {"tests": 3 / 4, "all": 2 / 4, "first": 3 / 4}
