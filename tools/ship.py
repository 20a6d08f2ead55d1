"""Puts the model of a finished run into the package, and writes the card of a shipped model.

    python tools/ship.py runs/maze-ood/model maze-ood     # copies the model
    python tools/ship.py --card maze-ood                  # writes its CARD.md from results/maze-ood*.json

The card is made from the model's own provenance and from result files alone, so no number in it is typed.
"""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from cellwise.automaton import picture, rule
from cellwise.files import write_text
from cellwise.model import SHIPPED, Model, load

ROOT = Path(__file__).resolve().parents[1]


def ship(run: Path, name: str) -> None:
    """Copies a model under a name, keeping what it says about its making."""
    dataclasses.replace(load(run), name=name).save(SHIPPED / name)


def card(model: Model) -> str:
    """The text of CARD.md."""
    made = model.provenance
    size = "any size" if model.size is None else f"{model.size[0]} × {model.size[1]}"
    facts = {
        "solves": f"{model.puzzle}, {drawn(model) or f'boards of {size}'}",
        "parameters": f"{rule.count_all(model.automaton, model.size):,}",
        "trained with": f"`{made['command']}` ({made['iterations']:,} iterations, seed {made['seed']})",
        "data": made["data"],
        "device": made["device"],
        "started": made["date"],
        "commit": made.get("commit") or "not recorded",
        "versions": ", ".join(f"{name} {number}" for name, number in made["versions"].items()),
        "matrix products": f"float32, precision {made['matmul_precision']}",
    }
    seeds = ROOT / "results" / f"{model.name}-seeds.json"
    if seeds.exists():
        facts |= among(json.loads(seeds.read_text()), made)
    lines = [f"# {model.name}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in facts.items()]
    for path in sorted((ROOT / "results").glob(f"{model.name}*.json")):
        document = json.loads(path.read_text())
        if document.get("model_provenance") == made:
            lines += ["", *scores(document)]
    return "\n".join([*lines, "", "Made by `tools/ship.py`; do not edit.", ""])


def drawn(model: Model) -> str | None:
    """The boards of a model that thinks about pictures."""
    if model.puzzle != "visual-sudoku":
        return None
    cells, digit = picture.places(model.automaton.layout)
    side = picture.canvas(model.automaton.layout)
    return f"boards of {cells} × {cells} digits of {digit} pixels on {side} × {side}"


def among(document: dict[str, Any], made: dict[str, Any]) -> dict[str, str]:
    """How long the model's training took and how its seed was chosen, if it is one of these."""
    runs = {run["seed"]: run for run in document["training"]}
    if document["commit"] != made.get("commit") or made["seed"] not in runs:
        return {}
    cases = sorted({f"{row['boards']} {row['data']}" for row in document["validation"]})
    return {
        "training time": f"{runs[made['seed']]['seconds']:.0f} s, with compilation and checks",
        "chosen": f"the best of seeds {', '.join(map(str, runs))} on {' and '.join(cases)}",
    }


def scores(document: dict[str, Any]) -> list[str]:
    """A table of one result file."""
    lines = [
        f"Measured {document['date']} with `{document['command']}` on {document['device']}, "
        f"commit {document['commit']}:",
        "",
        "| boards | steps | trials, seed | right | 95 % | optimal | valid |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in document["rows"]:
        low, high = row["board_accuracy_95"]
        steps = f"{row['steps']:,}"
        if row.get("stopped_at_rest"):
            steps = f"at most {steps}, until at rest ({row['mean_steps_taken']:,.0f} on average)"
        digits = f" in {row['digits']}" if "digits" in row else ""
        mazes = [f"{100 * row[name]:.2f} %" if name in row else "–" for name in ("optimal", "valid")]
        lines.append(
            f"| {row['boards']:,} {row['data']}{digits} | {steps} | {row['trials']}, {row['seed']} "
            f"| {100 * row['board_accuracy']:.2f} % | {100 * low:.2f}–{100 * high:.2f} "
            f"| {' | '.join(mazes)} |"
        )
    return lines


def main() -> None:
    """Ships or writes a card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path, help="the model folder of a run")
    parser.add_argument("name", nargs="?", help="the name to ship it under")
    parser.add_argument("--card", metavar="NAME", help="write the card of a shipped model")
    arguments = parser.parse_args()
    if arguments.card:
        write_text(SHIPPED / arguments.card / "CARD.md", card(load(arguments.card)))
    elif arguments.name:
        ship(arguments.run, arguments.name)
    else:
        parser.error("name a run's model and a name, or --card NAME")


if __name__ == "__main__":
    main()
