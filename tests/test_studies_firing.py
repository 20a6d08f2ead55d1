"""The studies of firing and of damage: what counts as there, and one small job of each kind."""

from dataclasses import replace

import numpy as np

from cellwise.studies import adaptive_firing, damage
from cellwise.studies.courses import curve, reached, said, settled, times
from cellwise.studies.packed import unpack
from cellwise.thinking.follow import Course


def course(solved, first=10, every=10):
    """A course of mazes with ten open cells each, of which one update happens at each step."""
    solved = np.array(solved, bool).T
    steps = np.arange(first, first + every * len(solved), every, dtype=np.int32)
    updates = np.broadcast_to((steps - steps[0] + every)[:, None], solved.shape).astype(np.int64)
    right = np.where(solved, 10, 5).astype(np.int32)
    activity = np.zeros((solved.shape[1], 3, 3), np.int32)
    return Course(steps, right, solved, updates, 2 * updates, activity)


def test_mazes_are_there_when_95_percent_of_them_are():
    found = reached(course([[0, 1, 1, 1], [0, 0, 1, 1]]), open_cells=20)
    assert found == {
        "boards": {"steps": 30, "updates": 30, "updates_of_all": 60},
        "cells": {"steps": 30, "updates": 30, "updates_of_all": 60},
        "right_in_the_end": 1.0,
        "mazes": 2,
    }
    assert reached(course([[0, 1, 1], [0, 0, 0]]), 20)["boards"] is None
    nearly = [[1, 1]] * 19
    assert reached(course([*nearly, [0, 0]]), 200)["boards"] == {
        "steps": 10,
        "updates": 10,
        "updates_of_all": 20,
    }


def test_steps_are_counted_from_the_beginning_of_a_course():
    assert reached(course([[0, 1, 1]], first=510), 10)["boards"]["steps"] == 20
    assert settled(course([[0, 1, 1]], first=510))["steps"] == 20


def test_a_maze_is_settled_when_it_stays_right():
    assert settled(course([[1, 1, 1, 1], [0, 1, 0, 1], [1, 1, 0, 0]])) == {
        "mazes": 2,
        "steps": (10 + 40) / 2,
        "updates": (10 + 40) / 2,
    }
    assert settled(course([[1, 0]])) == {"mazes": 0, "steps": None, "updates": None}


def test_a_curve_has_the_ends_and_few_points():
    long = curve(course([[0] * 500 + [1] * 500]), 10)
    assert len(long["steps"]) == 60 and (long["steps"][0], long["steps"][-1]) == (10, 10_000)
    assert (long["boards"][0], long["boards"][-1]) == (0.0, 1.0)
    assert (long["cells"][0], long["cells"][-1]) == (0.5, 1.0)


def test_ratios_are_of_what_both_reached():
    one, other = (reached(course([run]), 10) for run in ([0, 1, 1], [1, 1, 1]))
    never = reached(course([[0, 0, 0]]), 10)
    assert times(one, other, "boards", "steps") == 2.0 and said(2.0) == "2.00×"
    assert times(never, other, "boards", "steps") is None and times(None, other, "boards", "steps") is None
    assert said(None) is None


def test_a_small_job_of_each_kind():
    small = replace(adaptive_firing.QUICK, size=5, steps=60, every=5, mazes=2, tested=2, repetitions=1)
    jobs = adaptive_firing.jobs(small)
    assert len(jobs) == len({tuple(job.items()) for job in jobs})
    row = adaptive_firing.measure(small, {"part": "test", "policy": "frugal"})
    assert row["right_in_the_end"] == 1.0 and unpack(row["activity"]).shape == (7, 7)
    sweep = {"part": "sweep", "rate": 1.0, "dormant": 0.1, "above": 0.95, "reach": 1}
    assert adaptive_firing.measure(small, sweep)["mazes"] == 2
    hit = replace(damage.QUICK, size=5, mazes=2, when=60, after=60, every=5, window=10, again=2, pause=30)
    once = damage.measure(hit, {"part": "once", "policy": "frugal", "radius": hit.radii[1]})
    assert once["right_before"] == 1.0 and 0 < once["hit"] < 1
    assert once["boards"]["steps"] <= 60 and once["settled"]["mazes"] == 2
    again = damage.measure(hit, {"part": "repeated", "policy": "frugal"})
    assert len(again["right_in_the_end_of_each"]) == 2
