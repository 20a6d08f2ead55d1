"""What can be done by one call."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from . import benchmarks
from .benchmarks.preset import PairPreset, PicturePreset, Preset
from .config import MOST_SEED, from_json, to_json, whole_number
from .errors import ConfigError
from .model import Model, load
from .names import nearest
from .tasks import pretrain
from .tasks.recipe import PairRecipe
from .training import loop
from .training.folder import holds_run, read_config
from .training.recipe import Recipe
from .training.settings import up_to_date
from .visual import train as visual
from .visual.recipe import PictureRecipe

R = TypeVar("R", Recipe, PairRecipe, PictureRecipe)


def train(
    preset: str,
    out: str | Path | None = None,
    seed: int | None = None,
    resume: bool = False,
    *,
    log_every: int = 25,
    save_every: int = 500,
    check_every: int = 500,
    tensorboard: bool = False,
    minutes: float | int | None = None,
    start_from: str | Path | None = None,
    **overrides: Any,
) -> Model:
    """Trains a preset in the folder `out`, by default `runs/PRESET`, and returns the model.

    `overrides` are fields of the preset's recipe, those of its parts with two underscores:
    `steps=300, schedule__peak=1e-3`. With `resume` an interrupted run goes on; recipe and seed are the run's
    own unless given. Without a seed a new run takes 0. After `minutes` a run saves and stops, to be resumed.
    A run on pictures can `start_from` the weights of a model that has learnt on others.
    """
    found = find_preset(preset)
    if start_from is not None:
        _check_start(found, resume)
    folder = Path(out) if out is not None else Path("runs") / preset
    base = found.recipe
    if resume and holds_run(folder):
        config = up_to_date(read_config(folder))
        base = from_json(type(base), config.get("recipe"), f"{folder / 'config.json'}: recipe")
        seed = config.get("seed", 0) if seed is None else seed
    seed = 0 if seed is None else whole_number("The seed", seed, 0, MOST_SEED)
    how: dict[str, Any] = {
        "resume": resume,
        "log_every": whole_number("The interval to log", log_every, 1),
        "save_every": whole_number("The interval to save", save_every, 1),
        "check_every": whole_number("The interval to check", check_every, 1),
        "minutes": minutes,
        "tensorboard": tensorboard,
        "command": _command(preset, seed, overrides, start_from),
    }
    if isinstance(found, PicturePreset):
        assert isinstance(base, PictureRecipe)
        source = None if start_from is None else load(start_from)
        return visual.train(found.job(changed(base, overrides), seed, source), folder, **how)
    if isinstance(found, PairPreset):
        assert isinstance(base, PairRecipe)
        return pretrain.train(found.job(changed(base, overrides), seed), folder, **how)
    assert isinstance(base, Recipe)
    return loop.train(found.job(changed(base, overrides), seed), folder, **how)


def _check_start(preset: Preset | PairPreset | PicturePreset, resume: bool) -> None:
    if not isinstance(preset, PicturePreset):
        raise ConfigError(
            f"{preset.name} begins with random weights; only presets of visual-sudoku can start from a model."
        )
    if resume:
        raise ConfigError("A run that is resumed has weights of its own; leave out --start-from or --resume.")


def find_preset(name: str) -> Preset | PairPreset | PicturePreset:
    """The preset of this name."""
    if name not in list(benchmarks.PRESETS):
        raise ConfigError(nearest("preset", str(name), benchmarks.PRESETS))
    return benchmarks.PRESETS[name]


def changed(recipe: R, overrides: dict[str, Any]) -> R:
    """A recipe with some fields replaced; `schedule__peak` is the field `peak` of its `schedule`."""
    fields = to_json(recipe)
    for name, value in overrides.items():
        *parts, last = name.split("__")
        place = fields
        for part in parts:
            place = place.get(part) if isinstance(place, dict) else None
        if not isinstance(place, dict) or last not in place:
            raise ConfigError(nearest("recipe field", name, dict(recipe_fields(recipe))))
        place[last] = to_json(value)
    return from_json(type(recipe), fields, "The recipe")


def recipe_fields(recipe: Recipe | PairRecipe | PictureRecipe) -> Iterator[tuple[str, Any]]:
    """Every number and choice of a recipe by the name that `train` takes."""
    yield from _leaves(to_json(recipe), "")


def _leaves(fields: dict[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{before}{name}__")
        else:
            yield before + name, value


def _command(preset: str, seed: int, overrides: dict[str, Any], start_from: str | Path | None) -> str:
    words = ["cellwise", "train", preset, "--seed", str(seed)]
    words += [] if start_from is None else ["--start-from", str(start_from)]
    for name, value in overrides.items():
        several = value if isinstance(value, tuple | list) else (value,)
        words += [f"--recipe.{name.replace('__', '.')}", *map(str, several)]
    return shlex.join(words)
