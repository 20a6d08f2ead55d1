"""Measuring a model on drawn boards, by the paper's protocol, as a result that can be kept.

Every board is drawn once and thought about once, for exactly the stated number of steps. It counts as solved
if the nearest mean digits of all places are its solution; what the rules say is told beside it.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .automaton.flops import step_flops
from .benchmarks.visual_protocol import PictureBenchmark, PictureCase
from .config import MOST_SEED, whole_number
from .errors import ConfigError, DataError
from .evaluation import Row, interval
from .kernels.precision import Precision
from .model import Model
from .puzzles import visual_data
from .puzzles.board import Boards
from .puzzles.equivalence import fingerprints
from .puzzles.visual_sudoku import VisualSet
from .visual.painter import mean_digits, painter
from .visual.score import Exam, clues_read, curve, looks_until, take


def check_model(model: Model, benchmark: PictureBenchmark) -> None:
    """Raises ConfigError unless the model thinks about such boards."""
    if model.puzzle != "visual-sudoku":
        raise ConfigError(
            f"{benchmark.name} consists of drawn Sudokus, but {model.name} does not think about pictures; "
            "choose another model with --model."
        )
    cells = painter(model).cells
    if cells != benchmark.cells:
        raise ConfigError(
            f"{benchmark.name} consists of boards of {benchmark.cells} x {benchmark.cells} cells, but "
            f"{model.name} draws {cells} x {cells}; choose another model with --model."
        )


def evaluate_pictures(
    model: Model,
    case: PictureCase,
    *,
    steps: int | None = None,
    limit: int | None = None,
    seed: int = 0,
    depths: tuple[int, ...] = (),
    precision: Precision = "float32",
    keep: Path | None = None,
    tell: Callable[[int, int], None] = lambda boards, steps: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> Row:
    """Measures one case; `seed` is that of the drawing and of the thoughts. See `visual.score.take`."""
    steps = whole_number("The number of steps", case.steps if steps is None else steps, 1)
    seed = whole_number("The seed", seed, 0, MOST_SEED)
    own = {whole_number("A depth", depth, 1, steps) for depth in depths}
    looks = tuple(sorted(own | {steps})) if own else looks_until(steps)
    boards, source = case.boards(whole_number("The limit", case.count if limit is None else limit, 1))
    artist = painter(model, seed, precision)
    means = mean_digits(model)
    digits = visual_data.digits(case.digits, means.shape[1])
    numbers, left_out = _unknown(model, case, boards)
    if not len(numbers):
        raise DataError(f"{model.name} was trained on all boards of {case.name}; choose another case.")
    exam = Exam(VisualSet.of(boards), digits, means, looks, seed)
    identity = {
        "case": case.name,
        "content_sha256": _digest(model, boards),
        "fire_rate": model.fire_rate,
        "looks": list(looks),
        "precision": precision,
        "seed": seed,
    }
    together = artist.at_once(len(numbers))
    found, seconds = take(exam, artist.think, numbers, together, keep, identity, tell, say)
    right, answer = found.marks["right"][:, 0, -1], found.answer
    settled = found.settled[found.settled >= 0]
    cell_steps = len(numbers) * steps * artist.side**2
    row: Row = {
        "case": case.name,
        "data": source,
        "digits": visual_data.ABOUT[case.digits],
        "canvas": artist.side,
        "digit": means.shape[1],
        "boards": len(numbers),
        "boards_left_out_as_trained_on": left_out,
        "steps": steps,
        "trials": 1,
        "seed": seed,
        "path": artist.mind.path.name,
        "precision": precision,
        "cell_accuracy": float((answer == boards.target[numbers]).mean()),
        "board_accuracy": float(right.mean()),
        "board_accuracy_95": list(interval(int(right.sum()), len(right))),
        **{name: float(found.marks[name][:, 0, -1].mean()) for name in found.marks if name != "right"},
        **_by_grade(case, boards.difficulty[numbers], right),
        "curve": curve(found),
        "steps_to_solution": {
            f"{share:.0%}": int(np.quantile(settled, share, method="lower")) for share in (0.1, 0.5, 0.9)
        }
        if len(settled)
        else None,
        "clues_read_without_thinking": clues_read(exam, numbers[:100]),
        "seconds": round(seconds, 2),
        "nanoseconds_per_cell_step": round(1e9 * seconds / cell_steps, 3),
        "flops_per_board": step_flops(model.automaton, (artist.side, artist.side)) * steps,
    }
    if keep is not None:
        row["outcomes"] = keep.name
    return row


def _unknown(model: Model, case: PictureCase, boards: Boards) -> tuple[np.ndarray, int | None]:
    """Which boards the model was not trained on, and how many others there are; None if nobody knows.

    Only boards of 9 x 9 cells have fingerprints; those of 4 x 4 are kept apart by their grids.
    """
    everybody = np.arange(len(boards), dtype=np.int32)
    if case.name == "trained" or model.trained_on is None or boards.target.shape[1] != 9:
        return everybody, None
    seen = np.isin(fingerprints(boards, sudoku=True), model.trained_on)
    return everybody[~seen], int(seen.sum())


def _by_grade(case: PictureCase, difficulty: np.ndarray, right: np.ndarray) -> Row:
    """Boards right for each grade of difficulty, as [boards, share], and the mean over the grades."""
    if case.grade is None:
        return {}
    grades = case.grade(difficulty)
    found = {
        str(grade): [int((grades == grade).sum()), round(float(right[grades == grade].mean()), 6)]
        for grade in np.unique(grades).tolist()
    }
    return {"by_grade": found, "mean_of_grades": float(np.mean([share for _, share in found.values()]))}


def _digest(model: Model, boards: Boards) -> str:
    """What an unfinished evaluation must have in common with this one."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.weights.items()):
        digest.update(name.encode() + weight.tobytes())
    digest.update(boards.target.tobytes() + boards.given.tobytes())
    return digest.hexdigest()
