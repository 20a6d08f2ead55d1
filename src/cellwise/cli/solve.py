"""`cellwise solve`: hand a maze or a Sudoku to a model and see what it makes of it."""

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from jaxtyping import Float32, UInt8
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..automaton.firing import Firing
from ..config import MOST_SEED, whole_number
from ..errors import ConfigError, PuzzleError
from ..files import check_writable, read_bytes
from ..kernels.dispatch import Noise
from ..model import MOST_NOISE, Frame, Model, Trace, check_budget, load
from ..puzzles import maze_text, sudoku
from ..puzzles.maze import Vocabulary
from ..puzzles.maze_generator import generate
from ..puzzles.maze_picture import read_picture
from ..report import animation
from ..report.terminal import Drawing, least_sure, watch
from ..thinking.pruning import Pruning
from ..thinking.schedule import usual
from ..version import __version__
from .arguments import firing, option, seconds
from .console import Console
from .solve_arc import Arc
from .solve_pictures import VisualSudoku

_MAX_BYTES = 16 * 2**20
_PICTURES = (".png", ".gif", ".bmp", ".jpg", ".jpeg", ".ppm", ".webp")
_MAZE_CHARACTERS = set("#█ .*o·SsGgEe")
_SUDOKU_CHARACTERS = set("0123456789._*|-+ ")
_SUDOKU_MODEL = "sudoku-ood"
_MOMENTS = 400  # How many moments of a thought are looked at, however long it is,
_CELLS_KEPT = 2**27  # unless the puzzle is so large that they would not fit into the memory.
_CALM = 16  # A thought that is looked at ends when its right answer has not changed for so many steps.
_USUAL_TRIALS = {"maze": 1, "directed-maze": 1, "sudoku": 16}
_USUAL_BUDGET = 60.0  # Seconds, for thinking until an answer is right.


@dataclass(frozen=True)
class _Task:
    """A puzzle as the model takes it, with what it takes to think the same thought about it again."""

    model: Model
    board: UInt8[np.ndarray, "h w"]
    steps: int
    seed: int
    trials: int
    noise: Noise | None
    firing: Firing | None = None

    @property
    def clues(self) -> UInt8[np.ndarray, "9 9"] | None:
        """The board of a Sudoku."""
        return self.board if self.model.puzzle == "sudoku" else None

    def text(self, grid: UInt8[np.ndarray, "h w"]) -> str:
        """A grid as the parser of its puzzle reads it."""
        return maze_text.to_text(grid) if self.clues is None else sudoku.to_text(grid)

    def origin(self) -> dict[str, Any]:
        """The task for a JSON file."""
        return {
            "cellwise": __version__,
            "model": self.model.name,
            "puzzle": self.model.puzzle,
            "board": self.text(self.board),
            "seed": self.seed,
            "trials": self.trials,
            "most_steps": self.steps,
            "noise": None if self.noise is None else asdict(self.noise),
            **({} if self.firing is None else {"firing": asdict(self.firing)}),
        }


@dataclass(frozen=True)
class _Answer:
    """What the cells say in the end."""

    grid: UInt8[np.ndarray, "h w"]
    cells: Float32[np.ndarray, "h w"]
    verified: bool
    steps: int
    moments: list[Frame]
    trial: int | None = None
    steps_taken: int | None = None


@dataclass(frozen=True, kw_only=True)
class _Thinking:
    """How to think about a puzzle and what to do with the thought."""

    steps: Annotated[int | None, option("INT", "what the model needs for a puzzle of this size")] = None
    """The longest a trial may think."""
    trials: Annotated[int | None, option("INT", "1, for a Sudoku 16")] = None
    """How many independent thoughts may be tried; the first right answer ends them all."""
    seed: int = 0
    """Which thought; the same seed thinks the same thought."""
    noise: Annotated[float, tyro.conf.arg(metavar="SIZE")] = 0.0
    """Kicks of this size, such as 0.3, now and then in the first quarter of the steps."""
    fire: Annotated[str | None, option("paper|frugal|RATE[,…]", "as trained")] = None
    """Let cells that are sure fire less often: RATE,DORMANT,ABOVE such as 0.8,0.4,0.95; docs/firing.md."""
    prune: Annotated[int, tyro.conf.arg(metavar="1|2|4|8")] = 1
    """Cut the steps into so many segments and halve the trials between them."""
    until_verified: bool = False
    """Begin further trials until an answer is right or the budget is spent."""
    budget: Annotated[str | None, option("TIME", "none; 60s with --until-verified")] = None
    """The longest to think, such as 10s or 2m."""
    watch: bool = False
    """Show the cells while they think."""
    save: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="PATH")] = ()
    """Save the thought as .gif, .mp4, .json or a film strip (.svg, .pdf), or its end as .png; repeatable."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def _check(self) -> None:
        """Refuses what cannot be done before anything is computed."""
        for path in self.save:
            animation.check_format(path)
        moving = [f"--save {path}" for path in self.save if animation.moves(path)]
        several = {
            f"--trials {self.trials}": (self.trials or 1) > 1,
            f"--prune {self.prune}": self.prune > 1,
            "--until-verified": self.until_verified,
            f"--budget {self.budget}": self.budget is not None,
        }
        for told, asked in several.items():
            if asked and (self.watch or moving):
                option = "--watch" if self.watch else moving[0]
                raise ConfigError(f"{option} shows a single trial; leave out {told}.")
        if not 0 <= self.noise <= MOST_NOISE:
            raise ConfigError(
                f"The noise cannot be {self.noise:g}; choose a size from 0 to {MOST_NOISE}, such as 0.3."
            )
        whole_number("The seed", self.seed, 0, MOST_SEED)
        self._firing()
        check_budget(self._seconds())
        if self.trials is not None:
            whole_number("The number of trials", self.trials, 1)

    def _firing(self) -> Firing | None:
        return None if self.fire is None else firing("--fire", self.fire)

    def _seconds(self) -> float | None:
        if self.budget is not None:
            return seconds("--budget", self.budget)
        return _USUAL_BUDGET if self.until_verified else None

    def _solve(self, model: Model, board: UInt8[np.ndarray, "h w"]) -> int:
        batch, restore = model.prepared(board)
        for path in self.save:
            check_writable(path)
        steps = model.pace.steps(*batch.shape[1:]) if self.steps is None else self.steps
        kicks = usual(model.puzzle, self.noise).over(steps) if self.noise else None
        follows = self.watch or any(animation.moves(path) for path in self.save)
        usually = 1 if follows else _USUAL_TRIALS[model.puzzle]
        trials = usually if self.trials is None else self.trials
        Pruning(self.prune).check(trials, steps)
        task = _Task(model, restore(batch)[0], steps, self.seed, trials, kicks, self._firing())
        began = time.perf_counter()
        answer = self._follow(task) if follows else self._think(task)
        seconds = time.perf_counter() - began
        if self.json:
            print(json.dumps(_summary(task, answer, seconds), indent=2))
        else:
            self._print(task, answer, seconds)
        for path in self.save:
            animation.save(path, _trace(answer.moments), task.clues, task.origin())
            if not self.json:
                Console(stderr=True).print(f"Saved {path}.", soft_wrap=True, markup=False, highlight=False)
        return 0 if answer.verified else 1

    def _think(self, task: _Task) -> _Answer:
        """The answer without a look at the thought."""
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        console = Console(stderr=True)
        quiet = self.json or not console.is_terminal
        with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
            told = (
                f"{task.trials} trials of {task.steps:,} steps"
                if task.trials > 1
                else f"{task.steps:,} steps"
            )
            bar = progress.add_task(told, total=task.trials * task.steps)
            solution = task.model.solve(
                task.board,
                task.steps,
                task.trials,
                task.seed,
                task.noise,
                lambda _, steps: progress.advance(bar, steps),
                prune=self.prune,
                until_verified=self.until_verified,
                budget=self._seconds(),
                firing=task.firing,
            )
        grid, cells, steps = solution.grid[0], np.nan_to_num(solution.cells[0]), int(solution.steps[0])
        trial = None if solution.trial is None else int(solution.trial[0])
        moments = [Frame(steps, grid, cells)]
        return _Answer(grid, cells, bool(solution.verified[0]), steps, moments, trial, solution.steps_taken)

    def _follow(self, task: _Task) -> _Answer:
        """Looks at one thought as it goes."""
        moments: list[Frame] = []
        keep = max(2, min(_MOMENTS, _CELLS_KEPT // task.board.size))
        every = max(1, -(-task.steps // keep))
        frames = _until_solved(task, every, moments)
        if self.watch:
            last = watch(frames, 1 + task.steps // every, task.board == 0, task.clues)
        else:
            *_, last = frames
        verified = bool(task.model.verify(task.board[None], last.grid[None])[0])
        return _Answer(last.grid, np.nan_to_num(last.confidence), verified, last.step, moments)

    def _print(self, task: _Task, answer: _Answer, seconds: float) -> None:
        Console().print(Drawing(answer.grid, answer.cells, task.clues), soft_wrap=True)
        right, wrong = (
            (
                "the marked cells are a path from start to goal",
                "the marked cells are no path from start to goal",
            )
            if task.clues is None
            else ("every row, column and box holds each digit once", "some row, column or box lacks a digit")
        )
        if answer.verified:
            verdict = f"[bold green]Verified[/]: {right}."
        else:
            verdict = f"[bold yellow]Not solved[/]: {wrong}; try more --steps or --trials."
        tried = ""
        if task.trials > 1 and answer.trial is not None:
            tried = f"\nTrial {answer.trial} answered; all trials took {answer.steps_taken:,} steps."
        sure, least = answer.cells.mean(), least_sure(answer.cells, task.board == 0)
        # On standard error, so that standard output is a puzzle that can be read again.
        Console(stderr=True, highlight=False).print(
            f"{verdict}\n{answer.steps:,} steps{', watched for' if self.watch else ' in'} {seconds:.1f} s; "
            f"mean confidence {sure:.2f}, least {least:.2f}.{tried}",
            soft_wrap=True,
        )


@dataclass(frozen=True, kw_only=True)
class Maze(_Thinking):
    """Solves a maze; exits with 0 if the answer is a path from start to goal, 1 if not, 2 for bad input.

    For instance `cellwise solve maze --size 21 --watch`, `cellwise solve maze maze.png --save answer.gif` or
    `cellwise solve maze - < maze.txt`. In text, # is a wall, S and G are the ends.
    """

    puzzle: Annotated[tyro.conf.Positional[str | None], option("FILE|-|TEXT", "a generated maze")] = None
    """A text file, a picture, `-` for standard input, or the maze itself."""
    model: Annotated[str, tyro.conf.arg(metavar="NAME|DIR")] = "maze-ood"
    """A model that comes with the package, or the folder of your own."""
    size: int = 59
    """Size of the generated maze, odd; it has two cells more a side."""
    puzzle_seed: int = 0
    """Which maze is generated."""

    def run(self) -> int:
        """Thinks, prints the answer and what the rules say about it."""
        self._check()
        model = load(self.model)
        if model.puzzle == "sudoku":
            raise ConfigError(f"{model.name} solves Sudokus, not mazes; choose another model with --model.")
        _refuse_tasks(model)
        vocabulary = Vocabulary.ALIKE if model.puzzle == "maze" else Vocabulary.DISTINCT
        return self._solve(model, self._board(vocabulary))

    def _board(self, vocabulary: Vocabulary) -> UInt8[np.ndarray, "h w"]:
        if self.puzzle is None:
            return generate(self.size, 1, self.puzzle_seed).inputs[0]
        if "\n" not in self.puzzle and self.puzzle.lower().endswith(_PICTURES):
            return read_picture(self.puzzle, vocabulary)
        return maze_text.parse(_text(self.puzzle, _MAZE_CHARACTERS), vocabulary)


@dataclass(frozen=True, kw_only=True)
class Sudoku(_Thinking):
    """Solves a Sudoku; exits with 0 if the answer obeys the rules, 1 if not, 2 for bad input.

    For instance `cellwise solve sudoku puzzle.txt --watch`; a hard one wants `--trials 64 --until-verified`.
    """

    puzzle: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="FILE|-|TEXT")]
    """A text file, `-` for standard input, or the 81 cells themselves."""
    model: Annotated[str, tyro.conf.arg(metavar="NAME|DIR")] = _SUDOKU_MODEL
    """A model that comes with the package, or the folder of your own."""

    def run(self) -> int:
        """Thinks, prints the answer and what the rules say about it."""
        self._check()
        board = sudoku.parse(_text(self.puzzle, _SUDOKU_CHARACTERS))
        sudoku.check(board)
        model = load(self.model)
        _refuse_tasks(model)
        if model.puzzle != "sudoku":
            raise ConfigError(f"{model.name} solves mazes, not Sudokus; choose another model with --model.")
        return self._solve(model, board)


COMMANDS = {"maze": Maze, "sudoku": Sudoku, "visual-sudoku": VisualSudoku, "arc": Arc}

Solve = (
    Annotated[Maze, tyro.conf.subcommand("maze")]
    | Annotated[Sudoku, tyro.conf.subcommand("sudoku")]
    | Annotated[Arc, tyro.conf.subcommand("arc")]
    | Annotated[VisualSudoku, tyro.conf.subcommand("visual-sudoku")]
)


def _refuse_tasks(model: Model) -> None:
    if model.puzzle == "visual-sudoku":
        raise ConfigError(f"{model.name} solves pictures; hand it one by `cellwise solve visual-sudoku`.")
    if model.puzzle == "arc":
        raise ConfigError(f"{model.name} learns ARC tasks; hand them to it by `cellwise adapt`.")


def _text(argument: str, characters: set[str]) -> str:
    """The puzzle text that the argument is or names."""
    if argument == "-":
        name, data = "standard input", sys.stdin.buffer.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise PuzzleError(
                f"The puzzle on standard input has more than {_MAX_BYTES:,} bytes; send one puzzle."
            )
    else:
        # Puzzle characters, or 81 and more of any kind, are a puzzle unless a file has this very name.
        written = set(argument) <= characters or (len(argument) >= 81 and os.sep not in argument)
        # os.path, because pathlib's is_file fails on a long puzzle instead of saying no.
        if "\n" in argument or (written and not os.path.isfile(argument)):  # noqa: PTH113
            return argument
        name, data = argument, read_bytes(argument, _MAX_BYTES)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise PuzzleError(f"There is no text in {name}; write the puzzle as UTF-8 text.") from error


def _until_solved(task: _Task, every: int, moments: list[Frame]) -> Iterator[Frame]:
    """The frames of the first trial, which are also added to `moments`, until it has found a right answer."""
    changed = 0
    for frame in task.model.watch(task.board, task.steps, every, task.seed, task.noise, firing=task.firing):
        if moments and not np.array_equal(frame.grid, moments[-1].grid):
            changed = frame.step
        moments.append(frame)
        yield frame
        calm = frame.step - changed >= _CALM
        if calm and task.model.verify(task.board[None], frame.grid[None])[0]:
            return


def _trace(moments: list[Frame]) -> Trace:
    return Trace(
        np.array([frame.step for frame in moments], np.int32),
        np.stack([frame.grid for frame in moments]),
        np.stack([frame.confidence for frame in moments]),
    )


def _summary(task: _Task, answer: _Answer, seconds: float) -> dict[str, Any]:
    """The whole result for a machine."""
    several = {"trial": answer.trial, "steps_taken": answer.steps_taken} if task.trials > 1 else {}
    return {
        **task.origin(),
        "answer": task.text(answer.grid),
        "verified": answer.verified,
        "confidence": round(float(answer.cells.mean()), 4),
        "least_confidence": round(least_sure(answer.cells, task.board == 0), 4),
        "steps": answer.steps,
        **several,
        "seconds": round(seconds, 3),
    }
