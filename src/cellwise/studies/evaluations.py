"""Evaluations that studies draw on: what every trial said, from a file of `cellwise eval` or measured now.

The files of an evaluation lie together, `out/outcomes/NAME.json` and `NAME.CASE.npz`. Whoever has a model
elsewhere makes them with `cellwise eval`, by the command that `Evaluation.command` gives; a study that finds
the second computes nothing.
"""

import json
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..automaton.flops import step_flops
from ..benchmarks import BENCHMARKS, BOARD_PRESETS
from ..benchmarks.preset import Benchmark, Case
from ..config import to_json
from ..errors import DataError, ModelError, NotYetError
from ..evaluation import Protocol, evaluate
from ..kernels.dispatch import Noise
from ..model import load
from ..thinking import outcomes
from ..thinking.outcomes import Outcomes
from ..thinking.pruning import Pruning
from ..thinking.schedule import RELEASED, Schedule, usual
from .study import Row

FOLDER = Path("out/outcomes")
_QUIET: Any = lambda sentence: None  # noqa: E731


@dataclass(frozen=True)
class Evaluation:
    """Boards of a case, and how they are thought about.

    `noise` is the size of kicks in the first quarter of the steps, as usual for the puzzle, unless the kicks
    are those of the released pruning code; `prune` cuts the steps and halves the trials between them.
    """

    benchmark: str
    case: str
    boards: int
    steps: int
    trials: int = 1
    depths: tuple[int, ...] = ()
    noise: float = 0.0
    released_kicks: bool = False
    prune: int = 1
    seed: int = 0

    @property
    def name(self) -> str:
        """What its files are called."""
        parts = [self.benchmark, f"{self.boards}x{self.trials}x{self.steps}", f"seed{self.seed}"]
        parts += ["released"] if self.released_kicks else [f"noise{self.noise:g}"] if self.noise else []
        parts += [f"prune{self.prune}"] if self.prune > 1 else []
        return "-".join(parts)

    def file(self, folder: Path = FOLDER) -> Path:
        """Where the outcomes are."""
        return folder / f"{self.name}.{self.case.replace(' ', '-')}.npz"

    def command(self, folder: Path = FOLDER) -> str:
        """What makes them."""
        words = ["cellwise", "eval", self.benchmark]
        if self.case.startswith("size "):
            words += ["--size", self.case.removeprefix("size ")]
        else:
            words += ["--case", self.case]
        words += ["--limit", self.boards, "--steps", self.steps, "--trials", self.trials]
        words += ["--seed", self.seed] if self.seed else []
        words += ["--depths", *self.depths] if self.depths else []
        kicks = self.schedule()
        if kicks is RELEASED:
            words += ["--kicks", "released"]
        elif kicks is not None:
            words += ["--noise", kicks.when, kicks.where, kicks.size, kicks.share]
        words += ["--prune", self.prune] if self.prune > 1 else []
        return shlex.join(map(str, [*words, "--out", folder / f"{self.name}.json"]))

    def schedule(self) -> Schedule | None:
        """The kicks."""
        if self.released_kicks:
            return RELEASED
        return usual(self.found.puzzle, self.noise) if self.noise else None

    @property
    def found(self) -> Benchmark:
        """The benchmark."""
        return BENCHMARKS[self.benchmark]

    def protocol(self) -> Protocol:
        """The same for `evaluate`, to tell whether a file is of this evaluation."""
        kicks: Noise | None = None if (schedule := self.schedule()) is None else schedule.over(self.steps)
        return Protocol(
            self.steps, self.trials, self.seed, kicks, None, Pruning(self.prune), False, self.depths
        )


def measured(one: Evaluation, model: str | None = None, folder: Path = FOLDER) -> tuple[Outcomes, Row]:
    """The outcomes of an evaluation and what they took, measured now unless they are there.

    The row has `steps_taken` by all trials, `flops` of one board as the paper counts, and `seconds` if it was
    measured now. Raises NotYetError if neither the file nor the model or its boards are here.
    """
    path = one.file(folder)
    seconds = None
    if not path.exists():
        try:
            row = evaluate(
                load(model or one.found.model),
                _case(one.benchmark, one.case),
                steps=one.steps,
                trials=one.trials,
                limit=one.boards,
                seed=one.seed,
                noise=one.protocol().noise,
                prune=Pruning(one.prune),
                depths=one.depths,
                keep=path,
                say=_QUIET,
            )
        except (ModelError, DataError) as error:
            why = f"{str(error).split(';')[0].rstrip('.')}; `{one.command(folder)} --model DIR` makes {path}"
            raise NotYetError(f"{why}.") from error
        seconds = row["seconds"]
    found, about = outcomes.load(path)
    wanted = json.loads(json.dumps(to_json(one.protocol())))
    if about["protocol"] != wanted or about["case"] != one.case:
        raise DataError(
            f"{path} is of another evaluation; move it away or make it by `{one.command(folder)}`."
        )
    taken = int(about["taken"])
    flops = taken // len(found) * _step(one.benchmark, found.answer.shape[1:])
    return found, {"steps_taken": taken, "flops": flops, "seconds": seconds}


def shares(found: Outcomes) -> Row:
    """In a few numbers: one trial on average, the surest of all, and the surest that obeys the rules."""
    there = found.confidence[:, :, -1] == found.confidence[:, :, -1]  # Not pruned.
    return {
        "single": round(float(found.marks["right"][:, :, -1][there].mean()), 5),
        "conf": round(found.share("right"), 5),
        "verified": round(found.share("right", among="verified"), 5),
        "boards": len(found),
    }


def _case(benchmark: str, name: str) -> Case:
    found = BENCHMARKS[benchmark]
    if name.startswith("size ") and found.sized:
        return found.sized(int(name.removeprefix("size ")))
    return next(case for case in (*found.cases, *found.more) if case.name == name)


@cache
def _step(benchmark: str, size: tuple[int, int]) -> int:
    return step_flops(BOARD_PRESETS[BENCHMARKS[benchmark].model].automaton, size, "paper")
