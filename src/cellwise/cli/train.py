"""`cellwise train`: train a preset, or go on with a run that was interrupted."""

import ast
import dataclasses
import inspect
import sys
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table

from .. import api, benchmarks
from ..errors import ConfigError
from ..tasks.recipe import PairRecipe
from ..training.interrupt import Stopped
from ..training.recipe import Recipe
from .arguments import option
from .console import Console


def _changes(kind: type, other: type | None = None) -> type:
    """The dataclass `kind` with every field optional, and with those that only `other` has.

    None keeps what the preset has.
    """
    hints, about = typing.get_type_hints(kind), _descriptions(kind)
    # What it inherits comes last.
    known = sorted(dataclasses.fields(kind), key=lambda field: field.kw_only is True)
    if other is not None:
        names = {field.name for field in known}
        known += [field for field in dataclasses.fields(other) if field.name not in names]
        hints, about = typing.get_type_hints(other) | hints, _descriptions(other) | about
    fields = []
    for field in known:
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            part = _changes(typing.cast(type, hint))
            fields.append((field.name, part, dataclasses.field(default=part())))
        else:
            shown = tyro.conf.arg(
                help=about.get(field.name, ""),
                metavar=_metavar(hint),
                help_behavior_hint="(default: the preset's)",
            )
            fields.append((field.name, Annotated[hint | None, shown], dataclasses.field(default=None)))
    return dataclasses.make_dataclass(kind.__name__, fields, frozen=True, namespace={"__doc__": kind.__doc__})


def _descriptions(kind: type) -> dict[str, str]:
    """The docstring below each field of a class, inherited ones included."""
    parts = [ast.parse(inspect.getsource(part)).body[0] for part in kind.__mro__ if part is not object]
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for part in parts
        if isinstance(part, ast.ClassDef)
        for field, text in pairwise(part.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(text.value.value, str)
    }


def _metavar(hint: Any) -> str:
    options = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Literal:
        return "|".join(options)
    if typing.get_origin(hint) is tuple:
        return "INT [INT ...]"
    if options:
        hint = next(option for option in options if option is not type(None))
    return {int: "INT", float: "FLOAT", bool: "True|False"}[hint]


RecipeChanges = _changes(Recipe, PairRecipe)
NO_CHANGES = RecipeChanges()


@dataclass(frozen=True)
class Train:
    """Trains a preset; every number of its recipe can be changed.

    Ctrl-C saves and says how to go on. A run that was interrupted in any way goes on with --resume and ends
    with the very numbers of a run that was not.
    For instance `cellwise train maze-laptop --out runs/laptop --recipe.steps 600`.
    """

    preset: Annotated[tyro.conf.Positional[str | None], option("PRESET")] = None
    """What to train; --list shows all."""
    list: bool = False
    """Show the presets."""
    out: Annotated[Path | None, option("DIR", "runs/PRESET")] = None
    """The folder of the run."""
    seed: Annotated[int | None, option("INT", "0, or the seed of the run that is resumed")] = None
    """What all randomness comes from."""
    resume: bool = False
    """Go on with the run in DIR."""
    log_every: int = 25
    """Iterations between two lines of metrics.jsonl."""
    save_every: int = 500
    """Iterations between two checkpoints: the most that a crash can cost."""
    check_every: int = 500
    """Iterations between two checks on boards that are not trained on."""
    minutes: Annotated[float | None, option("FLOAT", "to the end")] = None
    """Save and stop after so many minutes; --resume goes on."""
    tensorboard: bool = False
    """Also write TensorBoard files into DIR/tensorboard."""
    recipe: RecipeChanges = NO_CHANGES  # type: ignore[valid-type]
    """What to change in the preset's recipe."""

    def run(self) -> int:
        """Trains, or lists the presets."""
        if self.list:
            _list_presets()
            return 0
        if self.preset is None:
            raise ConfigError(f"Name a preset to train: {', '.join(benchmarks.PRESETS)}.")
        try:
            api.train(
                self.preset,
                self.out,
                self.seed,
                self.resume,
                log_every=self.log_every,
                save_every=self.save_every,
                check_every=self.check_every,
                tensorboard=self.tensorboard,
                **({} if self.minutes is None else {"minutes": self.minutes}),
                **dict(_given(self.recipe)),
            )
        except Stopped as stopped:
            print(stopped, file=sys.stderr)
            return stopped.status
        return 0


def _given(changes: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """The changes that were asked for, by the names that `api.train` takes."""
    for field in dataclasses.fields(changes):
        value = getattr(changes, field.name)
        if dataclasses.is_dataclass(value):
            yield from _given(value, f"{before}{field.name}__")
        elif value is not None:
            yield before + field.name, value


def _list_presets() -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("preset", no_wrap=True)
    table.add_column("iterations", justify="right")
    table.add_column("about")
    for name, preset in benchmarks.PRESETS.items():
        table.add_row(name, f"{preset.recipe.steps:,}", preset.about)
    Console().print(table)
