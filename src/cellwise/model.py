"""A trained automaton as a person uses it: load it, hand it puzzles, watch it think."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float32, Int32, Shaped, UInt8, UInt64
from safetensors import SafetensorError
from safetensors import numpy as tensors

from .automaton import rule
from .automaton.firing import Firing
from .automaton.firing import check as check_firing
from .automaton.layout import Automaton
from .config import MOST_SEED, from_json, to_json, whole_number
from .errors import ConfigError, ModelError, PuzzleError
from .files import explained, read_bytes, sha256_of, write_bytes, write_json
from .kernels.dispatch import Noise
from .kernels.precision import Precision
from .puzzles import maze, maze_check, sudoku
from .puzzles.maze_path import judge
from .thinking.mind import Mind, prepare
from .thinking.pruning import Pruning
from .thinking.seek import Budget, seek
from .thinking.stream import Puzzles, Tell

Puzzle = Literal["maze", "directed-maze", "sudoku", "arc", "visual-sudoku"]
"""What a model solves: mazes whose two endpoints look alike, mazes with a start and a goal, Sudokus, ARC
tasks, each of which it must learn first, or pictures of Sudokus."""

SHIPPED = Path(__file__).parent / "models"
FORMAT = 1
LIMIT = 256 * 2**20
MOST_NOISE = 100
TRAINED_ON = "trained_on.u64"
_MOST_CONTEXTS = 10**6
_TOKENS = {"maze": (4,), "directed-maze": (5,), "sudoku": (10,), "arc": (12,), "visual-sudoku": (5, 10)}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Pace:
    """How long to think unless told otherwise: `base` steps and `per_cell` more for every cell."""

    base: int = 300
    per_cell: float = 0.5

    def steps(self, height: int, width: int) -> int:
        """The steps for a board of this size."""
        return self.base + math.ceil(self.per_cell * height * width)


@dataclass(frozen=True)
class Solution:
    """What the cells answered for `n` boards.

    `verified` is the verdict of the puzzle's rules and not an opinion of the cells; `confidence` is the mean
    of `cells`, the confidence of each cell; `steps` is how long the answering trial, number `trial`, thought.
    A trial of -1 means that the time was over before the board was thought about. `steps_taken` counts the
    steps of all trials of all boards.
    """

    grid: UInt8[np.ndarray, "n h w"]
    confidence: Float32[np.ndarray, " n"]
    verified: Bool[np.ndarray, " n"]
    steps: Int32[np.ndarray, " n"]
    cells: Float32[np.ndarray, "n h w"]
    trial: Int32[np.ndarray, " n"] | None = None
    steps_taken: int | None = None


@dataclass(frozen=True)
class Frame:
    """One moment of a thought."""

    step: int
    grid: UInt8[np.ndarray, "h w"]
    confidence: Float32[np.ndarray, "h w"]


@dataclass(frozen=True)
class Trace:
    """A thought from beginning to end, `t` moments of it."""

    steps: Int32[np.ndarray, " t"]
    grid: UInt8[np.ndarray, "t h w"]
    confidence: Float32[np.ndarray, "t h w"]


@dataclass(frozen=True)
class Model:
    """An automaton with its numbers. `size` is the only board size it can work on, or None for any.

    `trained_on` are the fingerprints of the boards it learned from (`puzzles.equivalence`), if known.
    """

    name: str
    puzzle: Puzzle
    automaton: Automaton
    weights: dict[str, Float32[np.ndarray, "..."]] = field(repr=False)
    size: tuple[int, int] | None = None
    fire_rate: float = 0.8
    pace: Pace = Pace()
    provenance: dict[str, Any] = field(default_factory=dict, repr=False)
    trained_on: UInt64[np.ndarray, " m"] | None = field(default=None, repr=False)

    def solve(
        self,
        boards: Shaped[np.ndarray, "..."],
        steps: int | None = None,
        trials: int = 1,
        seed: int = 0,
        noise: Noise | None = None,
        tell: Tell | None = None,
        *,
        prune: int | Pruning = 1,
        until_verified: bool = False,
        budget: float | int | None = None,
        precision: Precision = "float32",
        firing: Firing | None = None,
    ) -> Solution:
        """Solves one board `[h, w]` or a batch `[n, h, w]` of token grids.

        Each trial thinks for at most `steps` steps. The first answer that is right by the rules is taken and
        ends the thinking about its board; if there is none, the one the cells are surest of. `prune` cuts
        the steps into so many segments and halves the trials between them. With `until_verified` further
        trials begin until every board is solved or `budget`, in seconds, is spent. With `firing`, cells fire
        less often while they are sure.
        """
        trials = whole_number("The number of trials", trials, 1)
        seed = whole_number("The seed", seed, 0, MOST_SEED)
        check_noise(noise)
        check_budget(budget)
        batch, restore = self.prepared(boards)
        steps = self._steps(steps, batch)
        pruning = Pruning(prune) if isinstance(prune, int) else prune
        pruning.check(trials, steps)
        given = self.given(batch)
        mind = prepare(self.automaton, self.weights, given, self._rate(firing), noise, precision)
        puzzles = Puzzles(batch, given, np.arange(len(batch), dtype=np.int32))
        found = seek(
            mind,
            puzzles,
            self.verify,
            seed,
            Budget(trials, steps, None if budget is None else float(budget), until_verified),
            pruning if pruning.segments > 1 else None,
            tell,
        )
        return Solution(
            restore(found.grid),
            found.confidence,
            found.verified,
            found.steps,
            restore(found.cells),
            found.trial,
            found.effort.taken,
        )

    def watch(
        self,
        board: Shaped[np.ndarray, "..."],
        steps: int | None = None,
        every: int = 1,
        seed: int = 0,
        noise: Noise | None = None,
        precision: Precision = "float32",
        firing: Firing | None = None,
    ) -> Iterator[Frame]:
        """Yields what the cells say at the start and after every `every` steps, as it is computed.

        This is the first trial that `solve` runs with the same seed.
        """
        every = whole_number("The interval", every, 1)
        seed = whole_number("The seed", seed, 0, MOST_SEED)
        check_noise(noise)
        batch, restore = self.prepared(board)
        if len(batch) > 1:
            raise PuzzleError(f"Only one thought can be watched, not {len(batch):,}; hand over one board.")
        steps = self._steps(steps, batch)
        given = self.given(batch)
        mind: Mind = prepare(self.automaton, self.weights, given, self._rate(firing), noise, precision)
        zero = np.zeros(1, np.int32)
        thought = mind.begin(batch, given, seed, zero, zero)
        done = 0
        while True:
            grid, confidence = mind.read(thought)
            yield Frame(done, restore(grid)[0], restore(confidence)[0])
            if done >= steps:
                return
            ahead = min(every, steps - done)
            thought = mind.advance(thought, done, ahead)
            done += ahead

    def trace(
        self,
        board: Shaped[np.ndarray, "..."],
        steps: int | None = None,
        every: int = 1,
        seed: int = 0,
        noise: Noise | None = None,
        precision: Precision = "float32",
        firing: Firing | None = None,
    ) -> Trace:
        """The whole thought at once; see `watch`."""
        frames = list(self.watch(board, steps, every, seed, noise, precision, firing))
        return Trace(
            np.array([frame.step for frame in frames], np.int32),
            np.stack([frame.grid for frame in frames]),
            np.stack([frame.confidence for frame in frames]),
        )

    def prepared(
        self, boards: Shaped[np.ndarray, "..."]
    ) -> tuple[UInt8[np.ndarray, "n h w"], Callable[[np.ndarray], np.ndarray]]:
        """The boards as this model takes them, and how an answer gets back the shape in which they came."""
        if self.puzzle == "arc":
            raise PuzzleError(
                f"{self.name} must learn a task before it can solve it; hand the task to `cellwise adapt`."
            )
        if self.puzzle == "visual-sudoku":
            raise PuzzleError(
                f"{self.name} solves pictures, not token grids; hand one to `cellwise solve visual-sudoku`."
            )
        try:
            boards = np.asarray(boards)
        except ValueError:
            shapes = [board.shape for board in boards if isinstance(board, np.ndarray) and board.ndim == 2]
            if len(shapes) == len(boards):
                sides = ", ".join(f"{h} x {w}" for h, w in dict.fromkeys(shapes))
                raise PuzzleError(
                    f"The boards have several sizes ({sides}); hand over boards of one size at a time."
                ) from None
            raise PuzzleError("The boards have rows of unequal length; make all rows equally long.") from None
        if boards.ndim not in (2, 3) or boards.dtype.kind not in "iu" or boards.size == 0:
            raise PuzzleError(
                f"Boards must be whole numbers of shape [h, w] or [n, h, w], not {boards.dtype} of shape "
                f"{list(boards.shape)}; hand over token grids such as those of cellwise.puzzles."
            )
        batch = boards[None] if boards.ndim == 2 else boards
        if self.puzzle == "sudoku":
            for board in batch:
                sudoku.check(board)
            return batch.astype(np.uint8), lambda grids: grids
        odd = self.puzzle == "maze"
        checked = np.stack([maze_check.check(board, odd_sides=odd) for board in batch])
        alike = maze.Vocabulary.ALIKE if self.puzzle == "maze" else maze.Vocabulary.DISTINCT
        checked = maze.translate(checked, alike)
        ringless = self.puzzle == "maze" and not maze.has_ring(checked)
        batch = maze.with_ring(checked) if ringless else checked
        if self.size is not None and batch.shape[1:] != self.size:
            raise PuzzleError(
                f"{self.name} works on boards of {self.size[0]} x {self.size[1]} cells, "
                f"not {batch.shape[1]} x {batch.shape[2]}; use another model."
            )
        return batch, (lambda grids: grids[:, 1:-1, 1:-1]) if ringless else (lambda grids: grids)

    def given(self, inputs: UInt8[np.ndarray, "n h w"]) -> Bool[np.ndarray, "n h w"]:
        """Where a token is part of the puzzle: walls, endpoints and clues."""
        return inputs > (0 if self.puzzle == "sudoku" else maze.PATH)

    def verify(
        self, inputs: UInt8[np.ndarray, "n h w"], grids: UInt8[np.ndarray, "n h w"]
    ) -> Bool[np.ndarray, " n"]:
        """Which grids solve their puzzles by the rules, whatever any dataset says."""
        if self.puzzle == "sudoku":
            return sudoku.is_solution(inputs, grids)
        return judge(inputs, None, grids).valid

    def _rate(self, firing: Firing | None) -> float | Firing:
        if firing is None:
            return self.fire_rate
        check_firing(firing)
        return firing

    def _steps(self, steps: int | None, batch: UInt8[np.ndarray, "n h w"]) -> int:
        if steps is None:
            return self.pace.steps(*batch.shape[1:])
        return whole_number("The number of steps", steps, 1)

    def save(self, folder: str | Path) -> None:
        """Writes `model.safetensors`, perhaps `trained_on.u64`, and `config.json`, which has their hashes."""
        folder = Path(folder)
        with explained("create the folder", folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / "model.safetensors", tensors.save(dict(sorted(self.weights.items()))))
        config = {
            "format": FORMAT,
            "name": self.name,
            "puzzle": self.puzzle,
            "automaton": to_json(self.automaton),
            "size": to_json(self.size),
            "fire_rate": self.fire_rate,
            "pace": to_json(self.pace),
            "weights_sha256": sha256_of(folder / "model.safetensors"),
            "provenance": self.provenance,
        }
        if self.trained_on is not None:
            write_bytes(folder / TRAINED_ON, np.unique(self.trained_on).astype("<u8").tobytes())
            config["trained_on_sha256"] = sha256_of(folder / TRAINED_ON)
        write_json(folder / "config.json", config)


def check_noise(noise: Noise | None) -> None:
    """Raises ConfigError for kicks that cannot be."""
    if noise is None:
        return
    try:
        good = 0 <= noise.when <= 1 and 0 <= noise.where <= 1 and 0 <= noise.size <= MOST_NOISE
    except (AttributeError, TypeError):
        good = False
    if not good:
        raise ConfigError(
            f"The noise cannot be {noise}; choose chances `when` and `where` from 0 to 1 "
            f"and a `size` from 0 to {MOST_NOISE}."
        )
    if noise.until is not None:
        whole_number("The step until which there is noise", noise.until, 0)


def check_budget(seconds: float | int | None) -> None:
    """Raises ConfigError for a time in which nothing can be done."""
    if seconds is None:
        return
    if not (isinstance(seconds, int | float) and 0 < seconds < math.inf):
        raise ConfigError(f"The budget cannot be {seconds} seconds; choose more than 0, such as 10.")


@dataclass(frozen=True)
class _Config:
    """What `config.json` must hold besides its provenance."""

    format: int
    name: str
    puzzle: Puzzle
    automaton: Automaton
    size: tuple[int, int] | None
    fire_rate: float
    pace: Pace
    weights_sha256: str
    trained_on_sha256: str | None = None


def shipped() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/config.json"))


def load(name_or_path: str | Path) -> Model:
    """Loads a model that comes with the package, by its name, or one of your own, by its folder."""
    folder = Path(name_or_path)
    with explained("read", folder):
        known = folder.is_dir()
    if str(name_or_path) in shipped():
        folder = SHIPPED / str(name_or_path)
    elif not known:
        raise ModelError(
            f"There is no model {str(name_or_path)!r}; name a folder or one of: "
            f"{', '.join(shipped()) or 'none'}."
        )
    if (folder / "model" / "config.json").is_file() and not (folder / "model.safetensors").exists():
        raise ModelError(f"{folder} is the folder of a run; name the model in it, {folder / 'model'}.")
    for name in ("config.json", "model.safetensors"):
        if (folder / name).exists() and not (folder / name).is_file():
            raise ModelError(f"{folder / name} is not a regular file; get the model folder again.")
    try:
        raw = json.loads(read_bytes(folder / "config.json", limit=2**20))
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{folder / 'config.json'} is not valid JSON; get the model folder again."
        ) from error
    if not isinstance(raw, dict):
        raise ModelError(f"{folder / 'config.json'} must hold an object; get the model folder again.")
    provenance = raw.pop("provenance", {})
    if raw.get("format") != FORMAT:
        raise ModelError(
            f"{folder} has model format {str(raw.get('format'))[:20]!r}, but this version reads "
            f"format {FORMAT}; update cellwise or convert the model."
        )
    try:
        config = from_json(_Config, raw, str(folder / "config.json"))
    except ConfigError as error:
        raise ModelError(str(error)) from error
    _check_config(config, folder)
    return Model(
        name=config.name,
        puzzle=config.puzzle,
        automaton=config.automaton,
        weights=_load_weights(config, folder),
        size=config.size,
        fire_rate=config.fire_rate,
        pace=config.pace,
        provenance=provenance if isinstance(provenance, dict) else {},
        trained_on=_load_trained_on(config, folder),
    )


def _check_config(config: _Config, folder: Path) -> None:
    """Refuses descriptions that no honest model has, before anything is computed from them."""
    step, layout = config.automaton.step, config.automaton.layout
    numbers = (step.channels, step.heads, step.hidden, layout.tokens, layout.read, layout.write)
    unit = step.channels if step.unit is None else step.unit
    clock = config.automaton.clock
    good = (
        _NAME.fullmatch(config.name) is not None
        and layout.tokens in _TOKENS[config.puzzle]
        and (layout.head == "picture") == (config.puzzle == "visual-sudoku")
        and (layout.head != "picture" or layout.write == layout.read == math.isqrt(layout.read) ** 2)
        and (step.perception == "sobel") == (step.update == "bare") == (config.puzzle == "visual-sudoku")
        and (step.perception != "sobel" or step.heads == 3)
        and (config.puzzle != "sudoku" or config.size in (None, (9, 9)))
        and all(1 <= number <= 8192 for number in numbers)
        and 0 <= step.frozen <= step.channels
        and 0 <= step.padding_token < layout.tokens <= 256
        and (layout.head == "picture" or 0 <= layout.write_first <= step.channels - layout.write)
        and layout.write <= layout.read <= (8192 if layout.head == "picture" else step.channels)
        and (step.padding != "token" or layout.read == step.channels)
        and (config.puzzle == "arc") == (layout.contexts > 0)
        and 0 <= layout.contexts <= _MOST_CONTEXTS
        and 0 <= layout.context <= max(step.channels - layout.read, 0)
        and (not layout.contexts or layout.read + layout.context <= layout.write_first)
        and (clock is None or (1 <= clock.ticks <= 8192 and 0 <= clock.first < step.channels))
        and 0 <= step.first_unit < step.channels
        and 1 <= unit <= step.channels
        and (step.unit is None or (step.channels - step.first_unit) % unit == 0)
        and ("attention" not in step.perception or step.channels % step.heads == 0)
        and (step.perception != "self-attention" or config.size is not None)
        and 0 < config.fire_rate <= 1
        and 0 <= layout.spread <= 100
        and 0 <= config.pace.base <= 10**6
        and 0 <= config.pace.per_cell <= 100
        and (config.size is None or all(1 <= side <= maze.MAX_SIDE for side in config.size))
    )
    if not good:
        raise ModelError(
            f"{folder / 'config.json'} describes an automaton that cannot exist; get the model folder again."
        )


def _load_trained_on(config: _Config, folder: Path) -> UInt64[np.ndarray, " m"] | None:
    if config.trained_on_sha256 is None:
        return None
    data = read_bytes(folder / TRAINED_ON, limit=LIMIT)
    if hashlib.sha256(data).hexdigest() != config.trained_on_sha256 or len(data) % 8:
        raise ModelError(
            f"{folder / TRAINED_ON} is damaged or not the file that config.json names; "
            "get the model folder again."
        )
    return np.frombuffer(data, "<u8").astype(np.uint64)


def _load_weights(config: _Config, folder: Path) -> dict[str, Float32[np.ndarray, "..."]]:
    path = folder / "model.safetensors"
    shapes = rule.all_shapes(config.automaton, config.size)
    expected = 4 * sum(math.prod(shape) for shape in shapes.values())
    data = read_bytes(path, limit=min(LIMIT, expected + 2**16))
    if hashlib.sha256(data).hexdigest() != config.weights_sha256:
        raise ModelError(
            f"{path} is damaged or not the file that config.json names; get the model folder again."
        )
    try:
        weights = tensors.load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelError(f"{path} is not a safetensors file; get the model folder again.") from error
    found = {name: weight.shape for name, weight in weights.items()}
    if found != shapes:
        name = min(n for n in found.keys() | shapes.keys() if found.get(n) != shapes.get(n))
        is_there, belongs_there = (side.get(name, "absent") for side in (found, shapes))
        raise ModelError(
            f"{path} does not fit config.json ({name[:40]!r} is {is_there} instead of {belongs_there}); "
            "get the model folder again."
        )
    for name, weight in weights.items():
        if weight.dtype != np.float32 or not np.isfinite(weight).all():
            raise ModelError(
                f"{path} holds values in {name} that are not finite float32; get the model folder again."
            )
    return weights
