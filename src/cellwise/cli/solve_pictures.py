"""`cellwise solve visual-sudoku`: hand a picture of a board to a model that thinks in pixels."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from jaxtyping import Bool, Float32, UInt8
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..config import MOST_SEED, whole_number
from ..errors import ConfigError
from ..files import check_writable
from ..model import Model
from ..puzzles import visual_data
from ..puzzles.board_picture import board_picture, read_board
from ..puzzles.visual_sudoku import audit, pretty, render, to_text
from ..report import animation, canvas
from ..report.canvas import Canvas
from ..report.picture import save_picture
from ..version import __version__
from ..visual.painter import mean_digits
from ..visual.solve import PictureThought, moments, think_about
from .arguments import option
from .console import Console
from .eval_pictures import load_picture_model

_MODEL = "visual-sudoku-9x9"
_RULES = "every row, column and box holds each digit once"


@dataclass(frozen=True)
class _Board:
    """A drawn board; `puzzle` is known only if it was drawn here."""

    image: Float32[np.ndarray, "side side"]
    clues: Bool[np.ndarray, "k k"]
    puzzle: UInt8[np.ndarray, "k k"] | None
    source: str


@dataclass(frozen=True, kw_only=True)
class VisualSudoku:
    """Solves a drawn Sudoku in pixels; exits with 0 if the rules are obeyed, 1 if not, 2 for bad input.

    For instance `cellwise solve visual-sudoku board.png --model runs/nine/model --save film.gif`. The picture
    must show nothing but a board of handwritten digits, grey, upright, straight, with or without lines.
    """

    picture: Annotated[
        tyro.conf.Positional[Path | None], option("PICTURE", "a board drawn with unseen digits of MNIST")
    ] = None
    """A picture file; docs/visual.md says what it must look like."""
    model: Annotated[str | None, option("NAME|DIR", _MODEL)] = None
    """A model that comes with the package, or the folder of your own."""
    steps: Annotated[int | None, option("INT", "what the model needs")] = None
    """How long to think."""
    seed: int = 0
    """Which thought; the same seed thinks the same thought."""
    puzzle_seed: int = 0
    """Which board is drawn if no picture is given."""
    save: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="PATH")] = ()
    """Save the thought as .gif, .mp4 or .json, or its end as .png; may be given several times."""
    save_board: Annotated[Path | None, option("PATH", "not saved")] = None
    """Save the board as a grey picture that can be handed over again, as .png."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def run(self) -> int:
        """Thinks, prints the board as it is read and what the rules say about it."""
        for path in self.save:
            animation.check_format(path, animation.FORMATS)
        if self.save_board is not None and self.save_board.suffix.lower() != ".png":
            raise ConfigError(f"A board is saved as .png; let {self.save_board} end like that.")
        whole_number("The seed", self.seed, 0, MOST_SEED)
        model = load_picture_model(self.model, _MODEL)
        if model.puzzle != "visual-sudoku":
            raise ConfigError(f"{model.name} does not think about pictures; choose another with --model.")
        board = self._drawn(model) if self.picture is None else self._read(model, self.picture)
        for path in self.save:
            check_writable(path)
        if self.save_board is not None:
            digit = mean_digits(model).shape[1]
            save_picture(board_picture(board.image, board.clues, digit), self.save_board)
        steps = model.pace.steps(*board.image.shape) if self.steps is None else self.steps
        whole_number("The number of steps", steps, 1)
        began = time.perf_counter()
        thought = self._think(model, board, steps)
        about = self._about(model, board, thought, time.perf_counter() - began)
        if self.json:
            print(json.dumps(about, indent=2))
        else:
            print(pretty(thought.grids[-1]))
            # On standard error, so that standard output is a board and nothing else.
            Console(stderr=True, highlight=False).print(_verdict(about), soft_wrap=True)
        film = Canvas(
            thought.steps,
            thought.images,
            thought.grids,
            thought.confidence,
            board.clues,
            mean_digits(model).shape[1],
        )
        for path in self.save:
            canvas.save(path, film, about)
            if not self.json:
                Console(stderr=True).print(f"Saved {path}.", soft_wrap=True, markup=False, highlight=False)
        return 0 if about["obeys_rules"] and about["clues_kept"] is not False else 1

    def _read(self, model: Model, path: Path) -> _Board:
        means = mean_digits(model)
        drawn = read_board(path, len(means) - 1, means.shape[1])
        image = drawn.canvas(np.random.default_rng([self.seed]))
        return _Board(image, drawn.clues, None, str(path))

    def _drawn(self, model: Model) -> _Board:
        means = mean_digits(model)
        cells, number = len(means) - 1, whole_number("The puzzle seed", self.puzzle_seed, 0, 10_000)
        boards, _ = visual_data.made_boards(cells, "eval", number + 1)
        digits = visual_data.digits("eval", means.shape[1])
        puzzle = boards.inputs[number]
        image = render(puzzle[None], digits, np.random.default_rng([self.puzzle_seed]))[0]
        return _Board(image, puzzle > 0, puzzle, f"drawn here, number {number}")

    def _think(self, model: Model, board: _Board, steps: int) -> PictureThought:
        looks = moments(steps) if any(animation.moves(path) for path in self.save) else [steps]
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        console = Console(stderr=True)
        quiet = self.json or not console.is_terminal
        with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
            bar = progress.add_task(f"{steps:,} steps", total=steps)
            looks = sorted({*looks, *range(16, steps, 16)}) if not quiet and len(looks) == 1 else looks
            return think_about(model, board.image, looks, self.seed, lambda n: progress.advance(bar, n))

    def _about(self, model: Model, board: _Board, thought: PictureThought, seconds: float) -> dict[str, Any]:
        """The whole result for a machine."""
        answer, first = thought.grids[-1], thought.grids[0]
        nothing = np.zeros_like(answer)
        rules = audit(answer[None], (nothing if board.puzzle is None else board.puzzle)[None])
        other = np.argwhere(board.clues & (first != answer)).tolist()
        return {
            "cellwise": __version__,
            "model": model.name,
            "puzzle": model.puzzle,
            "picture": board.source,
            "seed": self.seed,
            "steps": int(thought.steps[-1]),
            "answer": to_text(answer),
            "obeys_rules": bool((rules.rows & rules.columns & rules.boxes)[0]),
            "clues_kept": None if board.puzzle is None else bool(rules.clues[0]),
            "clues": int(board.clues.sum()),
            "clues_that_first_looked_different": [
                {"row": i + 1, "column": j + 1, "looked_like": int(first[i, j]), "is": int(answer[i, j])}
                for i, j in other
            ],
            "confidence": round(float(thought.confidence[-1].mean()), 4),
            "seconds": round(seconds, 3),
        }


def _verdict(about: dict[str, Any]) -> str:
    """What the rules say, and what they cannot say."""
    right = about["obeys_rules"] and about["clues_kept"] is not False
    if not right:
        lacking = (
            "some row, column or box lacks a digit" if not about["obeys_rules"] else "a clue was changed"
        )
        told = f"[bold yellow]Not solved[/]: {lacking}; try more --steps or another --seed."
    elif about["clues_kept"]:
        told = f"[bold green]Verified[/]: {_RULES}, and all clues are kept."
    else:
        told = (
            f"[bold green]Obeys the rules[/]: {_RULES}. Compare the clues with your picture: nobody but the "
            "cells has read them."
        )
    doubts = about["clues_that_first_looked_different"]
    if doubts and about["clues_kept"] is None:
        places = "; ".join(
            f"row {one['row']}, column {one['column']}: {one['is'] or 'none'}, but looked like "
            f"{one['looked_like'] or 'none'}"
            for one in doubts[:5]
        )
        more = f" and {len(doubts) - 5} more" if len(doubts) > 5 else ""
        told += f"\nLook at these first ({places}{more})."
    return f"{told}\n{about['steps']:,} steps in {about['seconds']:.1f} s."
