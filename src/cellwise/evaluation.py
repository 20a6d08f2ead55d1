"""Measuring: a model on the boards of a benchmark, by the paper's protocol, as a result that can be kept.

Every trial thinks for exactly the stated number of steps. Of several trials the one the cells are surest of
is the answer (conf@K), never the one that happens to be right. Beside it stands what the rules would choose
(verified@K); the two are never mixed. Boards that the model was trained on, up to symmetry, are left out.
"""

import dataclasses
import hashlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from . import environment
from .automaton.firing import Firing
from .automaton.firing import check as check_firing
from .automaton.flops import step_flops
from .benchmarks.preset import Case
from .config import MOST_SEED, to_json, whole_number
from .errors import ConfigError, DataError
from .files import explained
from .kernels.dispatch import Noise
from .kernels.precision import JAX_NAMES, Precision
from .model import Model, check_noise
from .puzzles.board import Boards
from .puzzles.equivalence import fingerprints
from .puzzles.maze_path import judge
from .thinking import outcomes as kept
from .thinking.crowd import sizes
from .thinking.mind import Mind, prepare
from .thinking.observe import Observer
from .thinking.outcomes import Outcomes
from .thinking.pruning import Pruning, tournament
from .thinking.stream import Effort, Puzzles, Tasks, Tell, stream
from .thinking.think import Rest

Row = dict[str, Any]

SAVE_EVERY = 30.0
"""Seconds between two writes of unfinished outcomes."""


@dataclass(frozen=True)
class Protocol:
    """How boards are thought about; with everything else alike, the same protocol gives the same outcomes.

    `depths` are the steps after which answers are judged, the last of them `steps`. With `rest`, a thought
    that is over is not thought on; with `until_verified`, a board leaves as soon as one of its answers obeys
    the rules, and then conf@K is not measured.
    """

    steps: int
    trials: int = 1
    seed: int = 0
    noise: Noise | None = None
    rest: Rest | None = None
    pruning: Pruning = Pruning(1)  # noqa: RUF009 a frozen value
    until_verified: bool = False
    depths: tuple[int, ...] = ()
    firing: Firing | None = None

    def looks(self) -> tuple[int, ...]:
        """After how many steps answers are judged."""
        chosen = self.depths or tuple(d for i in range(8) if (d := self.steps >> i) >= 16)
        ends = self.pruning.ends(self.steps).tolist()
        return tuple(sorted({*chosen, *ends, self.steps}))


def evaluate(
    model: Model,
    case: Case,
    *,
    steps: int | None = None,
    trials: int = 1,
    limit: int | None = None,
    seed: int = 0,
    noise: Noise | None = None,
    rest: Rest | None = None,
    tell: Tell | None = None,
    prune: int | Pruning = 1,
    until_verified: bool = False,
    depths: tuple[int, ...] = (),
    keep: Path | None = None,
    say: Callable[[str], None] = lambda sentence: None,
    precision: Precision = "float32",
    firing: Firing | None = None,
) -> Row:
    """Measures one case.

    `tell(trajectories, steps)` is called as work gets done. With `keep`, the outcome of every trial on every
    board is written there, from time to time while it is measured, and what an interrupted evaluation has
    left there is not measured again.
    """
    steps = whole_number("The number of steps", case.steps if steps is None else steps, 1)
    pruning = Pruning(prune) if isinstance(prune, int) else prune
    protocol = Protocol(
        steps,
        whole_number("The number of trials", trials, 1),
        whole_number("The seed", seed, 0, MOST_SEED),
        noise,
        rest,
        pruning,
        until_verified,
        tuple(whole_number("A depth", depth, 1, steps) for depth in depths),
        firing,
    )
    check_noise(noise)
    if firing is not None:
        check_firing(firing)
    pruning.check(protocol.trials, steps)
    if rest is not None and (pruning.segments > 1 or until_verified):
        raise ConfigError(
            "Stopping at rest does not go together with pruning or until verified; leave one out."
        )
    boards = case.boards(whole_number("The limit", case.count if limit is None else limit, 1))
    numbers, left_out = _unknown(model, boards)
    if not len(numbers):
        raise DataError(f"{model.name} was trained on all boards of {case.name}; choose another case.")
    inputs, restore = model.prepared(boards.inputs)
    given = model.given(inputs)
    rate = model.fire_rate if firing is None else firing
    mind = prepare(model.automaton, model.weights, given, rate, noise, precision)
    puzzles = Puzzles(inputs, given, np.arange(len(inputs), dtype=np.int32))
    session = _Session(model, case, protocol, mind, boards, puzzles, restore)
    began = time.perf_counter()
    outcomes, effort, before = session.measure(numbers.astype(np.int32), keep, tell, say)
    seconds = before + time.perf_counter() - began
    counted = effort.asked if rest else effort.taken
    chosen = boards[numbers]
    n, k = len(numbers), protocol.trials
    row: Row = {
        "case": case.name,
        "data": case.source,
        "boards": n,
        "boards_left_out_as_trained_on": left_out,
        "steps": steps,
        "trials": k,
        "seed": seed,
        "noise": to_json(noise),
        **({} if firing is None else {"firing": to_json(firing)}),
        "pruning": to_json(pruning) if pruning.segments > 1 else None,
        "until_verified": until_verified,
        "stopped_at_rest": to_json(rest),
        "mean_steps_taken": round(effort.taken / (n * k), 1),
        "steps_saved": effort.saved,
        "path": mind.path.name,
        "precision": precision,
        **scored(model, chosen.inputs, chosen.target, restore(outcomes.answer)),
        **_chosen_by_rules(outcomes),
        **_by_grade(case, chosen, restore(outcomes.answer)),
        "curves": {
            "conf": outcomes.curve("right"),
            "by_rules": outcomes.curve("right", among="verified"),
        },
        "steps_to_solution": _quantiles(outcomes.settled),
        "mean_confidence": float(np.nanmax(outcomes.confidence[:, :, -1], axis=1).mean()),
        "seconds": round(seconds, 2),
        "nanoseconds_per_cell_step": round(1e9 * seconds / (inputs[0].size * max(1, effort.taken)), 2),
        **{
            f"flops_per_board_{formulation}": step_flops(model.automaton, inputs.shape[1:], formulation)
            * counted
            // n
            for formulation in ("cellwise", "paper")
        },
    }
    if keep is not None:
        row["outcomes"] = keep.name
    return row


def _unknown(model: Model, boards: Boards) -> tuple[np.ndarray, int | None]:
    """Which boards the model was not trained on, and how many others there are; None if nobody knows."""
    if model.trained_on is None:
        return np.arange(len(boards)), None
    own = fingerprints(boards, sudoku=model.puzzle == "sudoku")
    seen = np.isin(own, model.trained_on)
    return np.flatnonzero(~seen), int(seen.sum())


def _by_grade(case: Case, boards: Boards, answer: np.ndarray) -> Row:
    """Boards right for each grade of difficulty, as [boards, share], and the mean over the grades."""
    if case.grade is None:
        return {}
    right, grades = (answer == boards.target).all((1, 2)), case.grade(boards.difficulty)
    found = {
        str(grade): [int((grades == grade).sum()), round(float(right[grades == grade].mean()), 6)]
        for grade in np.unique(grades).tolist()
    }
    return {"by_grade": found, "mean_of_grades": float(np.mean([share for _, share in found.values()]))}


def _quantiles(settled: np.ndarray) -> Row | None:
    """How long the trials that ended right took until they stayed right, to the next look."""
    steps = settled[settled >= 0]
    if not len(steps):
        return None
    return {f"{share:.0%}": int(np.quantile(steps, share, method="lower")) for share in (0.1, 0.5, 0.9)}


def _chosen_by_rules(outcomes: Outcomes) -> Row:
    """What verified selection would have answered, and for how many boards some trial obeyed the rules."""
    return {
        "verified_accuracy": outcomes.share("right", among="verified"),
        "verified": outcomes.share("verified", among="verified"),
    }


@dataclass(frozen=True)
class _Session:
    """One evaluation under way."""

    model: Model
    case: Case
    protocol: Protocol
    mind: Mind
    boards: Boards
    puzzles: Puzzles
    restore: Callable[[np.ndarray], np.ndarray]

    def measure(
        self,
        numbers: np.ndarray,
        keep: Path | None,
        tell: Tell | None,
        say: Callable[[str], None],
    ) -> tuple[Outcomes, Effort, float]:
        """The outcomes of the boards `numbers`, what they took, and the seconds of an earlier attempt."""
        trials, began = self.protocol.trials, time.perf_counter()
        depths = np.array(self.protocol.looks(), np.int32)
        marks = ("right", "verified") if self.model.puzzle == "sudoku" else ("right", "verified", "optimal")
        size = self.puzzles.size
        found, effort, before = Outcomes.empty(numbers[:0], trials, depths, size, marks), Effort(), 0.0
        identity, partial = self._identity(), None
        if keep is not None:
            partial = keep.with_name(f"{keep.stem}.partial.npz")
            found, effort, before = self._left(partial, identity, (found, effort, before), say)
            if tell is not None and len(found):
                tell(len(found) * trials, effort.asked)
        todo = numbers[~np.isin(numbers, found.boards)]
        together = sizes(self.mind, len(numbers) * trials, size)[0]
        chunk = max(1, 4 * together // trials) if partial else max(1, len(todo))
        written = time.perf_counter()
        for first in range(0, len(todo), chunk):
            rows = todo[first : first + chunk]
            part = Outcomes.empty(rows, trials, depths, size, marks)
            effort += self._think(part, rows, len(numbers) * trials, tell)
            found = found.joined(part)
            if partial and time.perf_counter() - written > SAVE_EVERY and len(found) < len(numbers):
                seconds = before + time.perf_counter() - began
                kept.save(partial, found, identity | dataclasses.asdict(effort) | {"seconds": seconds})
                written = time.perf_counter()
        found = found.in_order()
        if keep is not None and partial is not None:
            kept.save(keep, found, identity | dataclasses.asdict(effort))
            with explained("remove", partial):
                partial.unlink(missing_ok=True)
        return found, effort, before

    def _think(self, part: Outcomes, rows: np.ndarray, expect: int, tell: Tell | None) -> Effort:
        """Thinks about the boards `rows` and fills `part`."""
        how, trials = self.protocol, self.protocol.trials
        every = how.rest.every if how.rest else max(16, how.steps // 64) if how.until_verified else None
        rest = how.rest.most if how.rest else None
        if how.pruning.segments > 1:
            observer = Observer(
                part,
                np.arange(len(rows), dtype=np.int32),
                self._judge(rows),
                how.steps,
                every,
                rest,
                how.until_verified,
            )
            puzzles = self.puzzles
            some = Puzzles(puzzles.inputs[rows], puzzles.given[rows], puzzles.numbers[rows])
            return tournament(self.mind, some, trials, how.seed, how.pruning, observer, tell=tell)
        judge = self._judge(np.arange(len(self.puzzles.inputs)))
        observer = Observer(part, rows, judge, how.steps, every, rest, how.until_verified)
        tasks = Tasks(np.repeat(rows, trials), np.tile(np.arange(trials, dtype=np.int32), len(rows)))
        return stream(self.mind, self.puzzles, tasks, how.seed, observer, tell, expect)

    def _judge(self, rows: np.ndarray) -> Callable[[np.ndarray, np.ndarray], dict[str, np.ndarray]]:
        """How answers to the boards `rows`, counted from 0, are marked."""
        target = self.boards.target[rows]
        if self.model.puzzle == "sudoku":
            inputs = self.puzzles.inputs[rows]

            def sudoku(row: np.ndarray, grid: np.ndarray) -> dict[str, np.ndarray]:
                right = (grid == target[row]).all((1, 2))
                return {"right": right, "verified": self.model.verify(inputs[row], grid)}

            return sudoku
        inputs = self.boards.inputs[rows]
        published = judge(inputs, target, target)

        def maze(row: np.ndarray, grid: np.ndarray) -> dict[str, np.ndarray]:
            shown = self.restore(grid)
            right = (shown == target[row]).all((1, 2))
            verified, optimal = published.valid[row] & right, published.optimal[row] & right
            other = np.flatnonzero(~right)
            verdict = judge(inputs[row[other]], None, shown[other])
            verified[other], optimal[other] = verdict.valid, verdict.optimal
            return {"right": right, "verified": verified, "optimal": optimal}

        return maze

    def _identity(self) -> dict[str, Any]:
        """What determines the outcomes, for whoever finds them unfinished."""
        digest = hashlib.sha256()
        for name, weight in sorted(self.model.weights.items()):
            digest.update(name.encode() + weight.tobytes())
        digest.update(self.boards.target.tobytes() + self.boards.given.tobytes())
        return {
            "case": self.case.name,
            "content_sha256": digest.hexdigest(),
            "fire_rate": self.model.fire_rate,
            "precision": self.mind.precision,
            "protocol": to_json(self.protocol),
        }

    def _left(
        self,
        partial: Path,
        identity: dict[str, Any],
        nothing: tuple[Outcomes, Effort, float],
        say: Callable[[str], None],
    ) -> tuple[Outcomes, Effort, float]:
        """What an interrupted evaluation of this kind has left, or `nothing`."""
        if not partial.exists():
            return nothing
        found, about = kept.load(partial)
        effort = Effort(about.pop("taken", 0), about.pop("asked", 0))
        seconds = about.pop("seconds", 0.0)
        if about != json.loads(json.dumps(identity)):
            say(f"{partial} is of another evaluation and is written anew")
            return nothing
        say(f"{self.case.name} goes on after {len(found):,} boards that were measured before")
        return found, effort, seconds


def scored(model: Model, inputs: np.ndarray, target: np.ndarray, grid: np.ndarray) -> Row:
    """Accuracy by cell and by board; for mazes also how many answers are valid and optimal."""
    exact = (grid == target).all((1, 2))
    row: Row = {
        "cell_accuracy": float((grid == target).mean()),
        "board_accuracy": float(exact.mean()),
        "board_accuracy_95": list(interval(int(exact.sum()), len(exact))),
    }
    if model.puzzle != "sudoku":
        verdict = judge(inputs, target, grid)
        row |= {"optimal": float(verdict.optimal.mean()), "valid": float(verdict.valid.mean())}
    return row


def interval(successes: int, total: int) -> tuple[float, float]:
    """Wilson's 95 % interval for a share of successes; sensible also at 0 % and 100 %."""
    z, p = 1.959964, successes / total
    middle = (p + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    low = 0.0 if successes == 0 else middle - half
    high = 1.0 if successes == total else middle + half
    return round(low, 5), round(high, 5)


def result_file(benchmark: str, model: Model, command: str, rows: list[Row]) -> dict[str, Any]:
    """What is written to disk: the rows with all that is needed to measure them again."""
    return {
        "benchmark": benchmark,
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "model": model.name,
        "model_provenance": model.provenance,
        "automaton": dataclasses.asdict(model.automaton),
        "fire_rate": model.fire_rate,
        "device": environment.device(),
        "commit": environment.commit(),
        "matmul_precision": ", ".join(dict.fromkeys(JAX_NAMES[row["precision"]] for row in rows)),
        "versions": environment.versions(),
        "rows": rows,
    }
