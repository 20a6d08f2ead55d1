import json
import math

import numpy as np
import pytest

from cellwise.automaton.firing import FRUGAL
from cellwise.benchmarks import BENCHMARKS, PRESETS, maze_ood
from cellwise.benchmarks.preset import Case
from cellwise.errors import ConfigError
from cellwise.evaluation import evaluate, interval, result_file, scored
from cellwise.model import load
from cellwise.puzzles.maze import START
from cellwise.puzzles.maze_braid import count_doors
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.maze_path import has_unique_shortest_path


@pytest.fixture(scope="module")
def model():
    return load("maze-ood")


def case(count=8, steps=120):
    return Case("size 9", steps, count, lambda n: generate(9, n, seed=123), "generated")


def test_a_row_has_what_is_needed_to_measure_it_again(model):
    told = []
    row = evaluate(model, case(), limit=8, tell=lambda ended, steps: told.append((ended, steps)))
    assert row["boards"] == 8 and row["steps"] == 120 and row["trials"] == 1
    assert row["board_accuracy"] >= 7 / 8
    assert row["board_accuracy"] <= row["valid"] == row["optimal"]
    assert sum(ended for ended, _ in told) == 8
    assert sum(steps for _, steps in told) == 8 * 120
    assert row["flops_per_board_paper"] >= row["flops_per_board_cellwise"] > 0
    file = result_file("maze-ood", model, "cellwise eval maze-ood", [row])
    assert {"command", "date", "device", "versions", "model_provenance"} <= json.loads(
        json.dumps(file)
    ).keys()


def test_the_answer_of_several_trials_is_the_surest_and_not_the_right_one(model):
    few = evaluate(model, case(steps=12), trials=1)
    many = evaluate(model, case(steps=12), trials=4)
    assert many["mean_confidence"] > few["mean_confidence"]
    assert many["flops_per_board_paper"] == 4 * few["flops_per_board_paper"]


def test_a_way_to_fire_is_part_of_the_row(model):
    row = evaluate(model, case(), limit=2, firing=FRUGAL)
    assert row["firing"] == {"rate": 1.0, "dormant": 0.1, "above": 0.95, "reach": 1}
    assert row["path"] == "awake" and row["board_accuracy"] == 1.0


def test_scores_of_known_answers(model):
    mazes = generate(9, 4, seed=3)
    wrong = mazes.target.copy()
    wrong[0][wrong[0] == 1] = 0
    row = scored(model, mazes.inputs, mazes.target, wrong)
    lost = (wrong != mazes.target).sum()
    assert row["board_accuracy"] == row["valid"] == row["optimal"] == 0.75
    assert math.isclose(row["cell_accuracy"], 1 - lost / wrong.size)


@pytest.mark.parametrize(
    ("successes", "total", "expected"),
    [(0, 10, (0.0, 0.27753)), (10, 10, (0.72247, 1.0)), (50, 100, (0.40383, 0.59617))],
)
def test_wilsons_interval(successes, total, expected):
    assert interval(successes, total) == expected


def test_numbers_that_make_no_sense(model):
    with pytest.raises(ConfigError, match="The limit cannot be 0; choose a whole number from 1 to"):
        evaluate(model, case(), limit=0)


def test_train_validation_and_test_mazes_differ():
    def boards(seed):
        return {grid.tobytes() for grid in generate(9, 300, seed).target}

    seeds = (maze_ood.TRAIN_SEED, maze_ood.VALIDATION_SEED, maze_ood.TEST_SEED)
    train, validation, test = map(boards, seeds)
    assert not train & validation and not train & test and not validation & test


def test_every_benchmark_names_its_steps_and_boards():
    for benchmark in BENCHMARKS.values():
        assert benchmark.cases
        assert all(case.steps > 0 and case.count > 0 for case in benchmark.cases)
    assert [case.steps for case in BENCHMARKS["maze-ood"].cases] == [300, 2000, 13000]
    assert set(PRESETS) >= {benchmark.model for benchmark in BENCHMARKS.values()}


def test_maze_cases_make_the_boards_they_name():
    boards = maze_ood.sized(13).boards(2)
    assert boards.target.shape == (2, 15, 15)
    assert (boards.target[0] == generate(13, 1, maze_ood.TEST_SEED).target[0]).all()
    assert np.array_equal(boards.inputs, boards.target * boards.given)
    assert maze_ood.sized(401).count == 5


def test_cases_on_demand_are_what_they_are_called():
    named = {case.name: case for case in BENCHMARKS["maze-ood"].more}
    braided, dead_ends = (named[name].boards(20) for name in ("braided-59", "dead-ends-59"))
    for boards in (braided, dead_ends):
        assert boards.target.shape == (20, 61, 61)
        assert all(map(has_unique_shortest_path, boards.inputs))
    ways = count_doors(dead_ends.target)
    at_ends = (dead_ends.target == START)[:, 1::2, 1::2]
    assert (ways[at_ends] == 1).all()
    # A tree of 900 rooms has 899 doors; each more is a loop.
    assert (count_doors(braided.target).sum((1, 2)) // 2 - 899 > 50).all()
    assert (ways.sum((1, 2)) // 2 == 899).all()
