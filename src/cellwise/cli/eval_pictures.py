"""`cellwise eval` for drawn boards."""

import json
import shlex
import sys
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ..benchmarks import PICTURE_BENCHMARKS
from ..benchmarks.visual_protocol import PictureBenchmark, PictureCase
from ..config import whole_number
from ..errors import ConfigError, ModelError
from ..evaluation import Row, result_file
from ..files import check_writable, write_json
from ..kernels.precision import Precision
from ..model import Model, load, shipped
from ..names import nearest
from ..picture_evaluation import check_model, evaluate_pictures
from .console import Console


def run(
    name: str,
    model: str | None,
    cases: list[str],
    steps: int | None,
    depths: tuple[int, ...],
    limit: int | None,
    seed: int,
    precision: Precision,
    out: Path | None,
    keep: bool,
    as_json: bool,
) -> int:
    """Measures, prints and writes."""
    benchmark = PICTURE_BENCHMARKS[name]
    chosen = _cases(benchmark, cases)
    taught = load_picture_model(model, benchmark.model)
    check_model(taught, benchmark)
    out = out or Path("results") / f"{name}.json"
    check_writable(out)
    console, rows = Console(stderr=as_json), []
    for case in chosen:
        file = out.with_name(f"{out.stem}.{case.name}.npz") if keep else None
        rows.append(_measure(taught, case, steps, depths, limit, seed, precision, file))
        if not as_json and case is not chosen[-1]:
            share = 100 * rows[-1]["board_accuracy"]
            console.print(f"{case.name}: {share:.2f} % of {rows[-1]['boards']:,} boards")
    result = result_file(name, taught, shlex.join(["cellwise", *sys.argv[1:]]), rows)
    write_json(out, result)
    if as_json:
        print(json.dumps(result))
    else:
        console.print(table(name, rows))
        console.print(f"Written to {out}.", soft_wrap=True)
    return 0


def load_picture_model(name: str | None, usual: str) -> Model:
    """The model of this name, or the one that comes with the package if there is any."""
    if name is None and usual not in shipped():
        raise ModelError(
            "No model for drawn Sudokus comes with this version; train one, as docs/visual.md says, and name "
            "its folder with --model."
        )
    return load(name or usual)


def _cases(benchmark: PictureBenchmark, names: list[str]) -> tuple[PictureCase, ...]:
    if not names:
        return benchmark.cases
    known = {case.name: case for case in (*benchmark.cases, *benchmark.more)}
    for name in names:
        if name not in known:
            raise ConfigError(nearest(f"case of {benchmark.name}", name, known))
    return tuple(known[name] for name in names)


def _measure(
    model: Model,
    case: PictureCase,
    steps: int | None,
    depths: tuple[int, ...],
    limit: int | None,
    seed: int,
    precision: Precision,
    file: Path | None,
) -> Row:
    steps = whole_number("The number of steps", case.steps if steps is None else steps, 1)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{case.name}, {steps} steps", total=(limit or case.count) * steps)
        return evaluate_pictures(
            model,
            case,
            steps=steps,
            limit=limit,
            seed=seed,
            depths=depths,
            precision=precision,
            keep=file,
            tell=lambda _, steps: progress.advance(task, steps),
            say=lambda sentence: print(f"cellwise: {sentence}.", file=sys.stderr),
        )


def table(title: str, rows: list[Row]) -> Table:
    """The rows as a person wants to see them, in per cent; fits a terminal of 80 columns."""
    view = Table(title=title, box=None, header_style="bold", title_justify="left", pad_edge=False)
    for head in ("case", "boards", "steps", "right\n95 %", "cells", "rows", "columns", "boxes", "clues"):
        view.add_column(head, justify="left" if head == "case" else "right", no_wrap=True)
    view.add_column("time", justify="right", no_wrap=True)
    for row in rows:
        low, high = row["board_accuracy_95"]
        cells = [row["case"], f"{row['boards']:,}", f"{row['steps']:,}"]
        cells += [f"{100 * row['board_accuracy']:.2f}\n{100 * low:.1f}–{100 * high:.1f}"]
        shares = ("cell_accuracy", "rows", "columns", "boxes", "clues")
        view.add_row(*cells, *(f"{100 * row[name]:.1f}" for name in shares), f"{row['seconds']:.0f} s")
    return view
