"""What a run is: the settings in its `config.json`, and whether a run can be continued with others."""

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from .. import environment
from ..config import to_json
from ..kernels.precision import JAX_NAMES, named
from .folder import FORMAT, digest_of

SETTLED = (
    "job",
    "puzzle",
    "seed",
    "size",
    "recipe",
    "automaton",
    "boards_sha256",
    "pairs_sha256",
    "fixed_sha256",
)
"""What determines every number of a run, as far as it has it; it cannot change when a run is resumed."""
ABOUT = ("command", "seed", "device", "commit", "matmul_precision", "date", "versions", "recipe")
"""What a model says of the run that made it."""

_ABSENT = "absent"


def describe(job: Any, command: str) -> dict[str, Any]:
    """The `config.json` of a run of a job of any kind that starts now on this machine."""
    return {
        "format": FORMAT,
        "command": command,
        "job": job.name,
        "puzzle": job.puzzle,
        "seed": job.seed,
        "recipe": to_json(job.recipe),
        "automaton": to_json(job.automaton),
        **job.about(),
        "fixed_sha256": digest_of(job.fixed),
        "provenance": job.provenance,
        "versions": environment.versions(),
        "commit": environment.commit(),
        "device": environment.device(),
        "matmul_precision": JAX_NAMES[job.recipe.precision],
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def up_to_date(config: dict[str, Any]) -> dict[str, Any]:
    """The settings of an older run as they would be written today: the precision is now a recipe's."""
    recipe = config.get("recipe")
    if not isinstance(recipe, dict) or "precision" in recipe:
        return config
    return config | {"recipe": recipe | {"precision": named(config.get("matmul_precision", "highest"))}}


def identity(config: dict[str, Any]) -> str:
    """A digest of the settled fields as they were written, which ties a checkpoint to its run."""
    settled = {name: config[name] for name in SETTLED if name in config}
    return hashlib.sha256(json.dumps(settled, sort_keys=True).encode()).hexdigest()


def first_difference(old: dict[str, Any], new: dict[str, Any]) -> tuple[str, str, str] | None:
    """The first settled field, by its dotted name, that differs, with both values; None if all agree."""
    return _first_difference(old, new, SETTLED)


def moved(old: dict[str, Any], new: dict[str, Any]) -> tuple[str, str, str] | None:
    """The first difference of machine or software: it may change the rounding, and so the run."""
    return _first_difference(old, new, ("versions", "device", "matmul_precision"))


def _first_difference(
    old: dict[str, Any], new: dict[str, Any], names: tuple[str, ...]
) -> tuple[str, str, str] | None:
    before = dict(_leaves({name: old.get(name, _ABSENT) for name in names}))
    after = dict(_leaves({name: new.get(name, _ABSENT) for name in names}))
    for name in before | after:
        old_value, new_value = (str(side.get(name, _ABSENT)) for side in (before, after))
        if old_value != new_value:
            width = 12 if name.endswith("sha256") else None
            return name, old_value[:width], new_value[:width]
    return None


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}" if name else key)
    else:
        yield name, value
