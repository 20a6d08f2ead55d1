"""What the studies of mazes and of costs measure, against what is known of small cases."""

from dataclasses import fields, replace

import numpy as np
import pytest

import cellwise
from cellwise import studies
from cellwise.benchmarks import maze_ood
from cellwise.errors import ModelError
from cellwise.puzzles.maze import PATH, WALL
from cellwise.puzzles.maze_filling import fill_dead_ends
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.sudoku_generator import generate_easy
from cellwise.studies import (
    backtracking,
    exact_algorithm,
    figure,
    packed,
    training_ingredients,
    trial_and_error,
)
from cellwise.studies.run import run
from cellwise.studies.study import Measured, Result
from solving import untrained


@pytest.fixture
def measured(tmp_path):
    """Runs a study with these settings and gives its result."""

    def measure(study, settings):
        result = Result(study.name, "quick", settings, "command", study.data(settings))
        return run(study, result, tmp_path / "result.jsonl", float("inf"))

    return measure


def test_costs_are_compared_with_every_row_of_the_paper(measured):
    study = studies.find("flops")
    settings = replace(study.full, benchmarks=("sudoku-ood", "maze-hard"))
    found = [(one.what, one.paper, one.ours, one.note) for one in study.compare(measured(study, settings))]
    assert [(what, paper) for what, paper, _, _ in found] == [
        ("sudoku-ood, 9×9 cells, 256 steps", "160K numbers, 11.7B FLOPs"),
        ("sudoku-ood, 9×9 cells, 256 steps × 2,048 trials", "160K numbers, 23.9T FLOPs"),
        ("maze-hard, 30×30 cells, 200 steps", "41K numbers, 15.3B FLOPs"),
        ("maze-hard, 30×30 cells, 200 steps × 128 trials", "41K numbers, 2.0T FLOPs"),
    ]
    assert found[0][2].startswith("159,760 numbers, 11.65B") and found[0][3].startswith("6.21")
    assert found[2][2].startswith("41,284 numbers, 15.29B") and found[2][3] == ""


def test_costs_that_were_not_counted_are_said_to_be_so():
    study = studies.find("flops")
    empty = Result(study.name, "full", study.full, "command", "data")
    assert {one.ours for one in study.compare(empty)} == {None}


def test_answers_are_compared_with_the_path_and_with_filling(measured):
    study = studies.find("exact-algorithm")
    kinds = exact_algorithm.kinds(9, 6)
    chosen = (kinds[0], kinds[-1])
    result = measured(study, replace(study.quick, kinds=chosen))
    known, braided = (one.row for one in result.done)
    assert known["right"] == known["shortest"] == known["filled"] == 6 and known["loops"] == 0
    assert known["cells_as_path"] == known["cells_as_filled"] == 1
    # The same thoughts one by one, by the public door.
    mazes = generate(9, 6, 2, braid=1.0)
    thought = cellwise.load("maze-ood").trace(mazes.inputs[0], chosen[1].steps, every=chosen[1].steps)
    shown = braided["example"]
    target, said = packed.unpack(shown["target"]), packed.unpack(shown["said"])
    np.testing.assert_array_equal(target, mazes.target[shown["number"]])
    if shown["number"] == 0:
        np.testing.assert_array_equal(said, thought.grid[-1])
    assert braided["right"] < 6 and braided["loops"] > 0
    left = fill_dead_ends(mazes.inputs).sum() - 2 * 6
    assert braided["left_but_not_said"] <= 1 and left > (mazes.target == PATH).sum()
    notes = [one.note for one in study.compare(result)]
    assert notes[0] == "6 are what filling dead ends leaves"
    assert [one.paper for one in study.compare(result)] == ["100.0 %", None]


def test_an_unmeasured_kind_is_said_to_be_so():
    study = studies.find("exact-algorithm")
    empty = Result(study.name, "full", study.full, "command", "data")
    assert {one.ours for one in study.compare(empty)} == {None}
    assert [one.what for one in study.compare(empty)][-4:] == [
        "wide, 9 × 401",
        "size 101, 101 × 101",
        "size 201, 201 × 201",
        "size 401, 401 × 401",
    ]


def test_waves_are_told_from_other_orders(measured):
    study = studies.find("backtracking")
    result = measured(study, replace(study.quick, size=13, mazes=2, steps=120))
    for row in (one.row for one in result.done):
        assert row["right"] and row["curve"]["astray"][-1] == 0
        assert row["curve"]["on_path"][-1] == row["path_cells"]
        assert 0.5 < row["rank_correlation"] <= 1 and 0 < row["settled"] < 120
    assert "strip" in result.done[0].row and "strip" not in result.done[1].row
    assert [one.ours for one in study.compare(result)][1] == "0 in 2 mazes"


def test_rounds_are_those_of_filling_by_hand():
    maze = cellwise.puzzles.parse_maze("########\n#S...G.#\n#.####.#\n#..##..#\n########")
    rounds = backtracking.closing_rounds(maze)
    assert rounds[1:4].tolist() == [
        [0, 0, 0, 0, 0, 0, 4, 0],
        [0, 3, 0, 0, 0, 0, 3, 0],
        [0, 2, 1, 0, 0, 1, 2, 0],
    ]
    np.testing.assert_array_equal(fill_dead_ends(maze[None])[0], (rounds == 0) & (maze != WALL))


def test_rank_correlation_is_spearmans():
    one, other = np.array([1, 2, 2, 4]), np.array([30, 20, 10, 40])
    # Ranks 1, 2.5, 2.5, 4 and 3, 2, 1, 4, by hand.
    assert backtracking.rank_correlation(one, other) == pytest.approx(1.5 / (4.5 * 5.0) ** 0.5)
    assert backtracking.rank_correlation(one, -one) == pytest.approx(-1.0)


def test_rebounds_of_clashes():
    assert trial_and_error.rebound(np.array([9, 4, 2, 7, 1, 0])) == (2, 3)
    assert trial_and_error.rebound(np.array([9, 4, 2, 0])) == (0, 0)


def test_a_sudoku_model_is_watched(measured, tmp_path):
    untrained("sudoku").save(tmp_path / "model")
    study = studies.find("trial-and-error")
    settings = replace(study.quick, boards=2, steps=12, model=str(tmp_path / "model"))
    result = measured(study, settings)
    for row in (one.row for one in result.done):
        clashes, clues = packed.unpack(row["clashes"]), packed.unpack(row["clues"])
        says = packed.unpack(row["strip"]["says"])
        at = row["strip"]["steps"]
        # What is in the strip clashes as often as the curve says, counted cell by cell.
        for moment, grid in zip(at, says, strict=True):
            assert clashes[moment] == sum(
                grid[r, c] > 0
                and not clues[r, c]
                and any(
                    grid[y, x] == grid[r, c]
                    and (y, x) != (r, c)
                    and (y == r or x == c or (y // 3, x // 3) == (r // 3, c // 3))
                    for y in range(9)
                    for x in range(9)
                )
                for r in range(9)
                for c in range(9)
            )
        assert row["right"] is False and row["settled"] is None
    assert [one.ours for one in study.compare(result)] == ["0 of 2", "0 of 0", "never"]
    picture = figure.make(study, result)
    assert figure.lines(picture)[f"line-{len(picture.axes) - 1}-0"].shape == (13, 2)


def test_a_sudoku_is_wiped(measured, tmp_path):
    model = untrained("sudoku")
    model.save(tmp_path / "model")
    study = studies.find("sudoku-damage")
    how = {"boards": 3, "moments": (4,), "radii": (0.0, 0.6), "after": 8, "model": str(tmp_path / "model")}
    settings = replace(study.quick, **how)
    result = measured(study, settings)
    whole, wiped = (result.row(when=4, radius=radius) for radius in settings.radii)
    assert whole["hit"] == 0 and 0.1 < wiped["hit"] < 0.7
    boards = generate_easy(3, settings.generator_seed, settings.givens)
    now = model.solve(boards.inputs, steps=12).grid
    open_cells = boards.inputs == 0
    right = ((now == boards.target) & open_cells).sum() / open_cells.sum()
    assert whole["curve"]["steps"] == [8, 12] and abs(whole["curve"]["cells"][-1] - right) < 1e-5
    assert wiped["curve"]["cells"] != whole["curve"]["cells"]
    told = [one.ours for one in study.compare(result)]
    assert told[0] == "0 % of the open cells wiped; 0 right before, 0 of 3 right 8 steps later"
    assert figure.lines(figure.make(study, result))["line-0-0"].shape == (2, 2)


def test_nothing_is_said_of_models_that_do_not_exist():
    study = studies.find("trial-and-error")
    empty = Result(study.name, "full", study.full, "command", "data")
    assert [one.ours for one in study.compare(empty)] == [None]
    with pytest.raises(ModelError, match="There is no model 'sudoku-nowhere'"):
        study.measure(replace(study.full, model="sudoku-nowhere"), {"board": 0})


def test_variants_change_what_they_say_and_nothing_else():
    task = training_ingredients.FULL.tasks[0]
    base = task.recipe("everything")
    assert (base.steps, base.batch, base.pool, base.fresh) == (5_000, 64, 256, 16)
    assert replace(base, steps=maze_ood.RECIPE.steps) == maze_ood.RECIPE
    differing = {
        variant: {
            field.name
            for field in fields(base)
            if getattr(task.recipe(variant), field.name) != getattr(base, field.name)
        }
        for variant in training_ingredients.VARIANTS
    }
    assert differing == {
        "everything": set(),
        "no replay": {"fresh"},
        "no noise": {"noise", "noise_before"},
        "no damage": {"damage"},
        "no swap": {"swap"},
        "no disturbance": {"noise", "noise_before", "damage", "swap"},
        "synchronous": {"fire_rate"},
    }
    assert task.recipe("no replay").fresh == base.batch
    sudoku = training_ingredients.FULL.tasks[1].recipe("no replay")
    assert sudoku.fresh == sudoku.batch == 256


TINY_TASK = training_ingredients.Task(
    "maze-ood", steps=3, levels=(3, 5), boards=4, size=5, batch=4, rollout=4, peak=1e-3, average=0.5
)


@pytest.mark.slow  # Compiles a training step.
def test_a_run_is_trained_once(tmp_path, monkeypatch):
    job = {"task": "maze-ood", "seed": 1, "variant": "synchronous"}
    trained = []
    train = training_ingredients.loop.train
    monkeypatch.setattr(
        training_ingredients.loop,
        "train",
        lambda *job, **how: trained.append(how["resume"]) or train(*job, **how),
    )
    settings = training_ingredients.Settings((TINY_TASK,), (1,), str(tmp_path))
    row = training_ingredients.measure(settings, job)
    assert len(row["right"]) == 2 and all(0 <= share <= 1 for share in row["right"])
    model = cellwise.load(tmp_path / "maze-ood-3" / "synchronous-1" / "model")
    assert model.fire_rate == 1 and model.provenance["data"] == "20,000 generated mazes of size 5"
    assert training_ingredients.measure(settings, job) == row
    assert trained == [False]


def test_ingredients_are_compared_by_their_mean_over_levels_and_seeds():
    study = training_ingredients.STUDY
    settings = training_ingredients.Settings((TINY_TASK,), (0, 1))
    rows = [
        ({"variant": "everything", "seed": 0}, [1.0, 0.5]),
        ({"variant": "everything", "seed": 1}, [0.8, 0.5]),
    ]
    rows += [({"variant": "no swap", "seed": 0}, [0.5, 0.1])]
    done = tuple(
        Measured({"task": "maze-ood"} | job, {"right": right}, 1.0, "2026-11-20", "a CPU", None, {})
        for job, right in rows
    )
    result = Result(study.name, "quick", settings, "command", "data", done)
    ours = {one.what: one.ours for one in study.compare(result)}
    assert ours["maze-ood, everything"] == "70.0 ± 7.1 % right (2 seeds)"
    assert ours["maze-ood, no swap"] == "30.0 % right (1 seed)"
    assert ours["maze-ood, synchronous"] is None
    drawn = figure.lines(figure.make(study, result))
    assert [points[:, 1].tolist() for points in drawn.values()] == [[90.0, 50.0], [50.0, 10.0]]
