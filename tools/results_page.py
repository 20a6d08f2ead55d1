"""Makes docs/results.md and its pictures from the result files of Sudoku and Maze-Hard, typing no number.

    python tools/results_page.py                        # every results/*.json that has curves
    python tools/results_page.py results/sudoku-ood.json --out docs

A result file may hold the same case several times (one trial, many trials, pruned); each row is shown, beside
the paper's number where it has one for that benchmark, and for each file there is a picture: accuracy against
steps, against trials, by grade of difficulty, and against the work that it took.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from cellwise.files import write_text

ROOT = Path(__file__).resolve().parents[1]

PAPER = {
    ("maze-hard", "test"): "86.6 (K=1, D=200), 89.2 (conf@128, noise)",
    ("maze-hard", "bfs"): "94.7 (K=1, D=200), 96.2 (conf@128, noise)",
    ("sudoku-ood", "made"): "66.1 (K=1, D=256), 98.5 (conf@2048), on the published boards",
    ("sudoku-ood", "hard"): "66.1 (K=1, D=256), 98.5 (conf@2048)",
    ("sudoku-extreme", "dev"): "75.6 (K=1, D=2048), 92.7 (conf@512), on the published test",
    ("sudoku-extreme", "all"): "75.6 (K=1, D=2048), 92.7 (conf@512)",
    ("sudoku-extreme", "even"): "75.6 (K=1, D=2048), 92.7 (conf@512)",
}
"""Boards right in per cent, from the paper's Table 1."""

Row = dict[str, Any]


def page(documents: dict[str, dict[str, Any]]) -> str:
    """The whole page."""
    lines = [
        "# Results",
        "",
        "Made by `tools/results_page.py` from the result files; every row can be measured again by its",
        "command. *Right* is conf@K with Wilson's 95 % interval; *by the rules* is verified selection, never",
        "mixed up with it; *left out* counts test boards that the model was trained on, up to symmetry.",
        "",
    ]
    for name, document in documents.items():
        lines += [f"## {name}", "", f"![curves]({name}.png)", ""]
        lines += [
            f"{document['model']} on {document['device']}, {document['date']}, commit {document['commit']}: "
            f"`{document['command']}`",
            "",
        ]
        heads = ["case", "boards", "left out", "steps", "trials", "kicks", "pruned", "seed", "right"]
        heads += ["by the rules", "optimal", "valid", "steps saved", "seconds", "paper"]
        lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        lines += ["| " + " | ".join(_cells(document["benchmark"], row)) + " |" for row in document["rows"]]
        lines += [""]
    return "\n".join(lines)


def _cells(benchmark: str, row: Row) -> list[str]:
    low, high = row["board_accuracy_95"]
    noise, pruning = row["noise"], row["pruning"]
    left_out = row["boards_left_out_as_trained_on"]
    asked = row["boards"] * row["trials"] * row["steps"]
    kicks = "–" if noise is None else f"{noise['when']:g}, {noise['where']:g}, {noise['size']:g}"
    right = f"**{100 * row['board_accuracy']:.2f} %** ({100 * low:.1f}–{100 * high:.1f})"
    return [
        row["case"],
        f"{row['boards']:,}",
        "not known" if left_out is None else f"{left_out:,}",
        f"{row['steps']:,}",
        f"{row['trials']:,}",
        kicks,
        "–" if pruning is None else f"{pruning['segments']}, {pruning['rule']}",
        str(row["seed"]),
        "not measured" if row["until_verified"] else right,
        f"{100 * row['verified_accuracy']:.2f} %",
        f"{100 * row['optimal']:.2f} %" if "optimal" in row else "–",
        f"{100 * row['valid']:.2f} %" if "valid" in row else "–",
        f"{100 * row['steps_saved'] / asked:.1f} %",
        f"{row['seconds']:,.0f}",
        PAPER.get((benchmark, row["case"]), "–"),
    ]


def draw(document: dict[str, Any], path: Path) -> None:
    """What a result file has curves for: steps, trials, grades, and the work that rows took."""
    rows = document["rows"]
    many, graded = any(row["trials"] > 1 for row in rows), any("by_grade" in row for row in rows)
    shown = {"steps": True, "trials": many, "grade": graded, "steps for a board": len(rows) > 1}
    names = [name for name, present in shown.items() if present]
    figure = Figure(figsize=(5.5 * min(2, len(names)), 3.5 * -(-len(names) // 2)), layout="constrained")
    panels = {name: figure.add_subplot(-(-len(names) // 2), 2, i + 1) for i, name in enumerate(names)}
    for row in rows:
        label = f"{row['case']}, K={row['trials']}" + (" pruned" if row["pruning"] else "")
        conf, rules = row["curves"]["conf"], row["curves"]["by_rules"]
        last, most = max(point["steps"] for point in conf), max(point["trials"] for point in conf)
        _line(panels["steps"], [point for point in conf if point["trials"] == most], "steps", label)
        if most > 1:
            wide = panels["trials"]
            _line(wide, [point for point in conf if point["steps"] == last], "trials", label)
            _line(wide, [p for p in rules if p["steps"] == last], "trials", f"{label}, by the rules", "--")
        if "by_grade" in row:
            grades = list(row["by_grade"])
            panels["grade"].plot(
                grades, [100 * row["by_grade"][g][1] for g in grades], ".-", label=f"{label}, {last:,} steps"
            )
        if len(rows) > 1:
            taken = row["mean_steps_taken"] * row["trials"]
            panels["steps for a board"].plot([taken], [100 * row["board_accuracy"]], "o", label=label)
    for name, axes in panels.items():
        axes.set(xlabel=name, ylabel="boards right, %")
        if name != "grade":
            axes.set_xscale("log", base=2)
        axes.legend(fontsize=7)
    figure.suptitle(f"{document['benchmark']}: {document['model']}")
    figure.savefig(path, dpi=110)


def _line(axes: Any, points: list[Row], along: str, label: str, style: str = "-") -> None:
    shares = [100 * point["share"] for point in points]
    axes.plot([point[along] for point in points], shares, style, marker=".", label=label)


def main() -> None:
    """Reads, draws, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    asked = parser.parse_args()
    documents = {}
    for path in asked.files or sorted((ROOT / "results").glob("*.json")):
        document = json.loads(path.read_text())
        if all("curves" in row for row in document.get("rows", [])) and "benchmark" in document:
            documents[path.stem] = document
    if not documents:
        raise SystemExit("No result file has curves; measure with `cellwise eval` first.")
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        draw(document, asked.out / f"{name}.png")
    write_text(asked.out / "results.md", page(documents))


if __name__ == "__main__":
    main()
