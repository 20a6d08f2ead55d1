"""`cellwise eval` for tasks: ask, let another process guess, and only then look at the answers.

The process that guesses is given a file with the questions and nothing else; see docs/arc.md.
"""

import json
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from .. import environment
from ..benchmarks import TASK_BENCHMARKS
from ..config import whole_number
from ..errors import ConfigError, RunError
from ..files import check_writable, write_json
from ..model import load
from ..puzzles.arc import to_json
from ..tasks.score import ATTEMPTS, curve, pooled, score
from ..tasks.solve import read_config, read_guesses
from .console import Console


def run(
    name: str,
    model: str | None,
    folders: list[Path],
    limit: int | None,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> int:
    """Makes the guesses that are still missing if a model is named, then scores them."""
    benchmark = TASK_BENCHMARKS[name]
    folders = folders or [Path("runs") / f"{name}-guesses"]
    out = out or Path("results") / f"{name}.json"
    check_writable(out)
    known = benchmark.known()
    if limit is not None:
        known = known[: whole_number("The limit", limit, 1)]
    if model is not None:
        if len(folders) > 1:
            raise ConfigError("A model guesses into one folder; name one with --guesses.")
        if load(model).puzzle != "arc":
            raise ConfigError(f"{model} does not learn tasks; choose a model of `cellwise train arc`.")
        asked = folders[0] / "questions" / f"{name}.json"
        write_json(asked, {one.task.name: to_json(one.task) for one in known})
        _guess(asked, model, folders[0], seed)
    guesses = pooled([read_guesses(folder) for folder in folders])
    result: dict[str, Any] = {
        "benchmark": name,
        "command": shlex.join(["cellwise", *sys.argv[1:]]),
        "date": datetime.now(UTC).date().isoformat(),
        "guesses": [read_config(folder) for folder in folders],
        "commit": environment.commit(),
        "versions": environment.versions(),
        "score": score(known, guesses),
        "curve": curve(known, guesses),
    }
    write_json(out, result)
    if as_json:
        print(json.dumps(result))
    else:
        console = Console()
        console.print(table(name, result))
        console.print(f"Written to {out}.", soft_wrap=True)
    return 0


def _guess(asked: Path, model: str, folder: Path, seed: int) -> None:
    """`cellwise adapt` as a process of its own, which goes on where an earlier one stopped."""
    words = ["adapt", str(asked), "--model", model, "--out", str(folder), "--seed", str(seed)]
    done = subprocess.run([sys.executable, "-m", "cellwise", *words], stdout=subprocess.DEVNULL)
    if done.returncode not in (0, 1):
        raise RunError(f"The tasks could not be learnt; try `{shlex.join(['cellwise', *words])}` to see why.")


def table(name: str, result: dict[str, Any]) -> Table:
    """The scores for ever more guesses; a task counts for the share of its tests that are solved."""
    whole = result["score"]
    view = Table(
        title=f"{name}: {whole['guessed']} of {whole['tasks']} tasks guessed",
        box=None,
        header_style="bold",
        title_justify="left",
        pad_edge=False,
    )
    for head in ("guesses a test", *(f"pass@{n}" for n in ATTEMPTS), "all tests", "first test", "no grid"):
        view.add_column(head, justify="right")
    for row in result["curve"]:
        two = row[f"pass@{ATTEMPTS[1]}"]
        cells = [f"{100 * row[f'pass@{n}']['tests']:.2f}" for n in ATTEMPTS]
        cells += [f"{100 * two['all']:.2f}", f"{100 * two['first']:.2f}", f"{100 * row['invalid']:.1f} %"]
        view.add_row(f"{row['rollouts']:,}", *cells)
    return view
