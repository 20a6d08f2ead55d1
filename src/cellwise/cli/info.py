"""`cellwise info`: what is here and what runs where."""

import json
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import jax
import tyro
from rich.table import Table

from .. import environment
from ..automaton import rule
from ..kernels.dispatch import verdicts
from ..model import load, shipped
from .console import Console


@dataclass(frozen=True)
class Info:
    """Show versions, devices, models and which code path runs them, with the reasons against the others."""

    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print JSON and nothing else."""

    def run(self) -> int:
        """Prints it."""
        facts = gather()
        if self.as_json:
            print(json.dumps(facts, indent=2))
            return 0
        console = Console()
        versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
        console.print(f"{versions}\ndevices: {', '.join(facts['devices'])}", highlight=False)
        if not facts["models"]:
            console.print("no models are shipped with this build", highlight=False)
            return 0
        table = Table("model", "solves", "board", "parameters", "runs by", box=None, header_style="bold")
        for model in facts["models"]:
            why = "\n".join(
                f"{path['path']}" + ("" if path["reason"] is None else f" not: {path['reason']}")
                for path in model["paths"]
            )
            size = "any" if model["size"] is None else " × ".join(map(str, model["size"]))
            table.add_row(model["name"], model["puzzle"], size, f"{model['parameters']:,}", why)
        console.print(table)
        return 0


def gather() -> dict[str, Any]:
    """The facts as plain values."""
    models = []
    for name in shipped():
        model = load(name)
        models.append(
            {
                "name": name,
                "puzzle": model.puzzle,
                "size": model.size,
                "parameters": rule.count_all(model.automaton, model.size),
                "paths": [asdict(verdict) for verdict in verdicts(model.automaton.step)],
            }
        )
    return {
        "versions": environment.versions(),
        "devices": [f"{device.device_kind} ({device.platform})" for device in jax.devices()],
        "models": models,
    }
