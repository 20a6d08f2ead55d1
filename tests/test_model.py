"""A model as a person uses it: solving, watching, saving, and refusing to load what cannot be trusted."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import numpy as tensors

import cellwise
from cellwise.automaton import rule
from cellwise.benchmarks import maze_hard, maze_ood, sudoku_ood
from cellwise.errors import ConfigError, ModelError, PuzzleError
from cellwise.files import sha256_of
from cellwise.kernels.dispatch import Noise
from cellwise.model import Model, load
from cellwise.puzzles import maze, sudoku
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.sudoku_generator import generate_easy


def untrained(preset, seed=0) -> Model:
    trained = rule.first_weights(preset.automaton.step, preset.size, seed)
    weights = trained | {"layout.tokens": preset.tokens}
    return Model("untrained", preset.puzzle, preset.automaton, weights, preset.size, pace=preset.pace)


@pytest.fixture(scope="module")
def shipped() -> Model:
    return load("maze-ood")


@pytest.fixture(scope="module")
def mazes():
    return generate(9, 6, seed=77)


def test_the_shipped_model_solves_mazes_of_the_size_it_was_trained_on(shipped, mazes):
    solution = shipped.solve(mazes.inputs)
    assert (solution.grid == mazes.target).all()
    assert solution.verified.all()
    assert (solution.steps < shipped.pace.steps(11, 11)).all(), (
        "a settled answer should end the thought early"
    )
    assert np.allclose(solution.confidence, solution.cells.mean((1, 2)))


def test_a_board_gives_the_same_thought_alone_in_a_batch_and_with_or_without_its_ring(shipped, mazes):
    batch = shipped.solve(mazes.inputs, steps=60, seed=5)
    first = shipped.solve(mazes.inputs[0], steps=60, seed=5)
    bare = shipped.solve(maze.without_ring(mazes.inputs), steps=60, seed=5)
    assert (first.grid[0] == batch.grid[0]).all()
    assert first.steps[0] == batch.steps[0]
    assert bare.grid.shape == (6, 9, 9)
    assert (bare.grid == maze.without_ring(batch.grid)).all()


def test_seeds_and_trials_are_different_thoughts(shipped, mazes):
    one = shipped.trace(mazes.inputs[0], steps=8, seed=1)
    other = shipped.trace(mazes.inputs[0], steps=8, seed=2)
    assert (one.confidence != other.confidence).any()


def test_a_trace_is_the_thought_that_solve_has(shipped, mazes):
    solution = shipped.solve(mazes.inputs[0], seed=3)
    steps = int(solution.steps[0])
    trace = shipped.trace(mazes.inputs[0], steps=steps, every=7, seed=3)
    assert list(trace.steps) == [*range(0, steps, 7), steps]
    assert (trace.grid[-1] == solution.grid[0]).all()
    assert np.allclose(trace.confidence[-1], solution.cells[0], atol=1e-5)


def test_more_trials_solve_more_and_never_less(shipped):
    mazes = generate(9, 16, seed=5)
    once = shipped.solve(mazes.inputs, steps=24)
    often = shipped.solve(mazes.inputs, steps=24, trials=6)
    assert not once.verified.all(), "with so few steps something should be left to improve"
    assert (often.verified | ~once.verified).all()
    assert often.verified.sum() > once.verified.sum()


def test_path_tokens_in_the_input_are_not_clues(shipped, mazes):
    assert (shipped.solve(mazes.target, steps=40).grid == shipped.solve(mazes.inputs, steps=40).grid).all()


def test_a_directed_model_takes_undirected_mazes_and_keeps_their_border(mazes):
    model = untrained(maze_hard.MAZE_HARD)
    open_maze = maze.without_ring(mazes.inputs)[:2]
    solution = model.solve(open_maze, steps=3)
    assert solution.grid.shape == open_maze.shape
    assert set(solution.grid[open_maze == maze.START]) == {maze.START, maze.GOAL}
    assert not solution.verified.any()


def test_sudoku_clues_stay_and_an_untrained_answer_is_not_verified():
    boards = generate_easy(2, seed=3)
    solution = untrained(sudoku_ood.SUDOKU_OOD).solve(boards.inputs, steps=4)
    assert (solution.grid[boards.given] == boards.target[boards.given]).all()
    assert not solution.verified.any()


def test_verified_is_the_verdict_of_the_rules(shipped, mazes):
    boards = generate_easy(3, seed=4)
    assert untrained(sudoku_ood.SUDOKU_OOD).verify(boards.inputs, boards.target).all()
    broken = mazes.target.copy()
    broken[0][broken[0] == maze.PATH] = maze.EMPTY
    assert list(shipped.verify(mazes.inputs, broken)) == [False] + [True] * 5


@pytest.mark.parametrize(
    ("boards", "message"),
    [
        (
            np.zeros((3, 3), np.float32),
            "Boards must be whole numbers of shape [h, w] or [n, h, w], not float32 of shape [3, 3]; "
            "hand over token grids such as those of cellwise.puzzles.",
        ),
        (
            np.zeros(9, np.uint8),
            "Boards must be whole numbers of shape [h, w] or [n, h, w], not uint8 of shape [9]; "
            "hand over token grids such as those of cellwise.puzzles.",
        ),
        (np.zeros((5, 5), np.uint8), "The maze has no endpoints; mark exactly one start and one goal."),
        (
            np.zeros((6, 5), np.uint8),
            "The maze has 6 x 5 cells, but rooms and walls alternate in the mazes this model knows; "
            "use an odd number of rows and of columns.",
        ),
    ],
)
def test_boards_that_cannot_be_solved_are_refused(shipped, boards, message):
    with pytest.raises(PuzzleError) as caught:
        shipped.solve(boards)
    assert str(caught.value) == message


def test_numbers_that_make_no_sense_are_refused(shipped, mazes):
    told = []
    steps = "The number of steps cannot be 0; choose a whole number from 1 to 2147483647."
    for call in (
        lambda: shipped.solve(mazes.inputs, steps=0),
        lambda: shipped.trace(mazes.inputs[0], steps=0),
        lambda: shipped.trace(mazes.inputs[0], steps=5, every=0),
        lambda: shipped.solve(mazes.inputs, trials=0),
        lambda: shipped.solve(mazes.inputs, budget=0),
        lambda: shipped.solve(mazes.inputs, budget=math.nan),
        lambda: shipped.solve(mazes.inputs, prune=5),
        lambda: shipped.solve(mazes.inputs, seed=-1),
        lambda: shipped.solve(mazes.inputs, steps=2**31),
        lambda: shipped.solve(mazes.inputs, noise=Noise(0.1, 0.1, math.nan)),
        lambda: shipped.solve(mazes.inputs, noise=Noise(2.0, 0.1, 0.1)),
        lambda: shipped.solve(mazes.inputs, noise=Noise(0.1, 0.1, 0.1, until=-1)),
    ):
        with pytest.raises(ConfigError) as caught:
            call()
        told.append(str(caught.value))
    noise = "choose chances `when` and `where` from 0 to 1 and a `size` from 0 to 100."
    assert told == [
        steps,
        steps,
        "The interval cannot be 0; choose a whole number from 1 to 2147483647.",
        "The number of trials cannot be 0; choose a whole number from 1 to 2147483647.",
        "The budget cannot be 0 seconds; choose more than 0, such as 10.",
        "The budget cannot be nan seconds; choose more than 0, such as 10.",
        "The pruning factor cannot be 5; choose one of 1, 2, 4, 8.",
        "The seed cannot be -1; choose a whole number from 0 to 4294967295.",
        steps.replace("be 0", "be 2147483648"),
        f"The noise cannot be Noise(when=0.1, where=0.1, size=nan, until=None); {noise}",
        f"The noise cannot be Noise(when=2.0, where=0.1, size=0.1, until=None); {noise}",
        "The step until which there is noise cannot be -1; choose a whole number from 0 to 2147483647.",
    ]


def test_what_is_no_board_at_all_is_refused_in_a_program_without_type_checks():
    """The tests check the types of every call; people's programs do not."""
    program = """
import numpy as np, cellwise
model = cellwise.load("maze-ood")
for board in (None, "abc", [[1, 2], [1]], {}, [], [[0.5]], np.zeros((2, 2, 5, 5), int)):
    try: model.solve(board)
    except cellwise.PuzzleError as error: print(error)
try: model.solve([np.zeros((5, 5), int), np.zeros((7, 5), int)])
except cellwise.PuzzleError as error: print(error)
for options in (
    {"budget": "10s"}, {"prune": 3}, {"steps": "many"}, {"trials": 1.5}, {"seed": None}, {"noise": 0.3}
):
    try: model.solve([[3, 0, 3]], **options)
    except cellwise.ConfigError as error: print(error)
for preset in (None, ["maze-ood"]):
    try: cellwise.train(preset)
    except cellwise.ConfigError as error: print(error)
print(model.solve([[3, 0, 3]], steps=1).grid.shape)
"""
    path = str(Path(cellwise.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    told = done.stdout.splitlines()
    no_board = "Boards must be whole numbers of shape [h, w] or [n, h, w], not "
    assert done.returncode == 0, done.stderr
    assert [line.partition(";")[0] for line in told] == [
        f"{no_board}object of shape []",
        f"{no_board}<U3 of shape []",
        "The boards have rows of unequal length",
        f"{no_board}object of shape []",
        f"{no_board}float64 of shape [0]",
        f"{no_board}float64 of shape [1, 1]",
        f"{no_board}int64 of shape [2, 2, 5, 5]",
        "The boards have several sizes (5 x 5, 7 x 5)",
        "The budget cannot be 10s seconds",
        "The pruning factor cannot be 3",
        "The number of steps cannot be many",
        "The number of trials cannot be 1.5",
        "The seed cannot be None",
        "The noise cannot be 0.3",
        "There is no preset 'None'",
        """There is no preset "['maze-ood']\"""",
        "(1, 1, 3)",
    ]


def test_one_board_is_watched_at_a_time(shipped, mazes):
    with pytest.raises(PuzzleError) as caught:
        untrained(sudoku_ood.SUDOKU_OOD).trace(generate_easy(2, seed=3).inputs, steps=1)
    assert str(caught.value) == "Only one thought can be watched, not 2; hand over one board."


def test_a_model_for_one_size_refuses_others_with_and_without_their_ring(shipped, mazes):
    sized = replace(shipped, size=(9, 9))
    for boards in (mazes.inputs, mazes.inputs[:, 1:-1, 1:-1]):
        with pytest.raises(PuzzleError) as caught:
            sized.solve(boards)
        assert str(caught.value) == "maze-ood works on boards of 9 x 9 cells, not 11 x 11; use another model."
    assert replace(shipped, size=(11, 11)).solve(mazes.inputs[:, 1:-1, 1:-1], steps=1).grid.shape[1:] == (
        9,
        9,
    )


def test_a_sudoku_model_refuses_a_contradiction():
    board = sudoku.parse("." * 81)
    board[0, 0] = board[0, 5] = 7
    with pytest.raises(PuzzleError, match="7"):
        untrained(sudoku_ood.SUDOKU_OOD).solve(board)


class TestFolder:
    @pytest.fixture
    def folder(self, tmp_path):
        untrained(maze_ood.MAZE_OOD).save(tmp_path / "model")
        return tmp_path / "model"

    def edit(self, folder, **fields):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    def rewrite(self, folder, weights):
        path = folder / "model.safetensors"
        path.write_bytes(tensors.save(weights))
        self.edit(folder, weights_sha256=sha256_of(path))

    def refusal(self, folder) -> str:
        with pytest.raises((ModelError, cellwise.FileError)) as caught:
            load(folder)
        message = str(caught.value)
        assert "\n" not in message
        return message.replace(str(folder), "FOLDER")

    def test_what_is_saved_is_what_is_loaded(self, folder):
        original, again = untrained(maze_ood.MAZE_OOD), load(folder)
        assert replace(original, weights={}) == replace(again, weights={})
        assert original.weights.keys() == again.weights.keys()
        assert all((original.weights[name] == again.weights[name]).all() for name in again.weights)

    def test_saving_twice_gives_the_same_bytes(self, folder, tmp_path):
        load(folder).save(tmp_path / "again")
        for name in ("model.safetensors", "config.json"):
            assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()

    def test_an_unknown_name(self):
        with pytest.raises(ModelError) as caught:
            load("maze-oood")
        assert str(caught.value) == (
            f"There is no model 'maze-oood'; name a folder or one of: {', '.join(cellwise.shipped())}."
        )

    def test_an_empty_folder(self, tmp_path):
        assert self.refusal(tmp_path) == (
            "Cannot read FOLDER/config.json: there is no such file or folder; check the path."
        )

    def test_a_truncated_file(self, folder):
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-10])
        assert self.refusal(folder) == (
            "FOLDER/model.safetensors is damaged or not the file that config.json names; "
            "get the model folder again."
        )

    def test_a_truncated_file_with_the_right_hash(self, folder):
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-10])
        self.edit(folder, weights_sha256=sha256_of(path))
        assert self.refusal(folder) == (
            "FOLDER/model.safetensors is not a safetensors file; get the model folder again."
        )

    def test_another_shape(self, folder):
        weights = untrained(maze_ood.MAZE_OOD).weights
        self.rewrite(folder, weights | {"update.b_in": np.zeros(64, np.float32)})
        assert self.refusal(folder) == (
            "FOLDER/model.safetensors does not fit config.json ('update.b_in' is (64,) instead of (128,)); "
            "get the model folder again."
        )

    def test_a_missing_array(self, folder):
        weights = untrained(maze_ood.MAZE_OOD).weights
        self.rewrite(folder, {name: w for name, w in weights.items() if name != "update.b_in"})
        assert "('update.b_in' is absent instead of (128,))" in self.refusal(folder)

    def test_an_array_with_a_name_of_two_lines(self, folder):
        weights = untrained(maze_ood.MAZE_OOD).weights
        self.rewrite(folder, weights | {"a\nb": np.zeros(3, np.float32)})
        assert "('a\\nb' is (3,) instead of absent)" in self.refusal(folder)

    @pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
    def test_a_device_or_a_pipe_is_not_read(self, folder, name):
        (folder / name).unlink()
        (folder / name).symlink_to("/dev/zero")
        message = f"FOLDER/{name} is not a regular file; get the model folder again."
        assert self.refusal(folder) == message
        (folder / name).unlink()
        os.mkfifo(folder / name)
        assert self.refusal(folder) == message

    def test_the_folder_of_a_run(self, folder, tmp_path):
        (tmp_path / "config.json").write_text('{"format": 1}')
        with pytest.raises(ModelError) as caught:
            load(tmp_path)
        assert str(caught.value) == (
            f"{tmp_path} is the folder of a run; name the model in it, {tmp_path / 'model'}."
        )

    def test_a_name_too_long_for_a_file(self):
        with pytest.raises(cellwise.FileError, match="the name is too long; choose a shorter one"):
            load("x" * 5000)

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_numbers_that_are_not_finite(self, folder, value):
        weights = untrained(maze_ood.MAZE_OOD).weights
        self.rewrite(folder, weights | {"update.b_in": np.full(128, value, np.float32)})
        assert self.refusal(folder) == (
            "FOLDER/model.safetensors holds values in update.b_in that are not finite float32; "
            "get the model folder again."
        )

    def test_a_huge_file_is_not_read(self, folder):
        with (folder / "model.safetensors").open("ab") as file:
            file.truncate(2**30)
        assert "allowed here" in self.refusal(folder)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", "FOLDER/config.json is not valid JSON; get the model folder again."),
            ("[" * 100_000, "FOLDER/config.json is not valid JSON; get the model folder again."),
            ("[]", "FOLDER/config.json must hold an object; get the model folder again."),
            (
                "{}",
                "FOLDER has model format 'None', but this version reads format 1; update cellwise or convert "
                "the model.",
            ),
        ],
    )
    def test_a_config_that_is_no_config(self, folder, text, message):
        (folder / "config.json").write_text(text)
        assert self.refusal(folder) == message

    @pytest.mark.parametrize(
        "path, value",
        [
            (("step", "channels"), 2**40),
            (("step", "channels"), 0),
            (("step", "heads"), -1),
            (("step", "hidden"), 10**9),
            (("step", "frozen"), 17),
            (("step", "unit"), 5),
            (("step", "unit"), 0),
            (("step", "padding_token"), 4),
            (("layout", "write"), 17),
            (("layout", "read"), 99),
            (("layout", "tokens"), 10**6),
            (("layout", "tokens"), 5),
            (("layout", "spread"), 1e30),
        ],
    )
    def test_an_automaton_that_cannot_exist(self, folder, path, value):
        automaton = json.loads((folder / "config.json").read_text())["automaton"]
        automaton[path[0]][path[1]] = value
        self.edit(folder, automaton=automaton)
        assert self.refusal(folder) == (
            "FOLDER/config.json describes an automaton that cannot exist; get the model folder again."
        )

    @pytest.mark.parametrize("name", ["../../etc", "", "a" * 100, "A b"])
    def test_a_name_that_is_no_name(self, folder, name):
        self.edit(folder, name=name)
        assert "cannot exist" in self.refusal(folder)
