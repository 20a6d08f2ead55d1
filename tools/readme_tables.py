"""Fills the tables of README.md and docs/ from the files in results/, so that no number is ever typed.

    python tools/readme_tables.py            # rewrites the pages
    python tools/readme_tables.py --check    # exits with 1 if it would change anything

A table stands between `<!-- results:NAME -->` and `<!-- /results -->` and is made from results/NAME.json;
of NAME/KIND, the second part says which table. What has no result file is not shown.
"""

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SECTION = re.compile(r"(<!-- results:([a-z0-9-]+(?:/[a-z-]+)?) -->\n)(.*?)(<!-- /results -->)", re.DOTALL)
PENDING = "*Not measured yet.*"

PAPER = {"size 13": (100.0, 300), "size 59": (100.0, 2_000), "size 201": (100.0, 13_000)}
"""Boards right in per cent, and after how many steps: Table 1 of the paper, one trial for each board."""

Document = dict[str, Any]


def filled(page: str, results: Path) -> str:
    """The text of a page with every table made anew."""

    def table(match: re.Match[str]) -> str:
        begin, name, _, end = match.groups()
        if name not in TABLES:
            raise SystemExit(f"A page asks for the table {name!r}; known are {', '.join(TABLES)}.")
        path = results / f"{name.split('/')[0]}.json"
        body = TABLES[name](json.loads(path.read_text())) if path.exists() else PENDING
        return f"{begin}{body}\n{end}"

    return SECTION.sub(table, page)


def maze_ood(document: Document) -> str:
    """One row for each size, beside what the paper has for it."""
    heads = ["mazes", "model", "steps", "seed", "boards right (95 %)", "paper"]
    heads += ["optimal", "FLOPs a maze", "date", "device", "command"]
    rows = []
    for row in document["rows"]:
        low, high = row["board_accuracy_95"]
        seed = f"{row['seed']}" if row["trials"] == 1 else f"{row['seed']}, {row['trials']} trials"
        rows.append(
            [
                f"{row['boards']:,} {row['data']}",
                document["model"],
                f"{row['steps']:,}",
                seed,
                f"**{percent(row['board_accuracy'])}** ({percent(low)}–{percent(high)})",
                published(row["case"]),
                percent(row["optimal"]),
                f"{row['flops_per_board_cellwise']:.3g}",
                document["date"],
                document["device"],
                f"`{document['command']}`",
            ]
        )
    return markdown(heads, rows)


def maze_ood_seeds(document: Document) -> str:
    """One row for each size: the spread over training runs that differ only in their seed."""
    cases: dict[str, list[Document]] = {}
    for row in sorted(document["rows"], key=lambda row: row["seed"]):
        cases.setdefault(row["case"], []).append(row)
    heads = ["mazes", "steps", "training seeds", "boards right, mean ± sd", "lowest–highest", "paper"]
    rows = []
    for case, runs in cases.items():
        right = [run["board_accuracy"] for run in runs]
        rows.append(
            [
                f"{one_of(runs, 'boards'):,} of {case}",
                f"{one_of(runs, 'steps'):,}",
                ", ".join(str(run["seed"]) for run in runs),
                f"**{mean_and_spread(right)}**",
                f"{percent(min(right))} – {percent(max(right))}",
                published(case),
                document["date"],
                document.get("device", "not recorded"),
                f"`{document['command']}`",
            ]
        )
    return markdown([*heads, "date", "device", "command"], rows)


def maze_ood_runs(document: Document) -> str:
    """One row for each training run: how long it took and what it learnt."""
    cases = list(dict.fromkeys(row["case"] for row in document["rows"]))
    right = {(row["seed"], row["case"]): percent(row["board_accuracy"]) for row in document["rows"]}
    heads = ["seed", "iterations", "seconds", *(f"right of {case}" for case in cases)]
    rows = [
        [
            str(run["seed"]),
            f"{run['iterations']:,}",
            f"{run['seconds']:.0f}",
            *(right[run["seed"], case] for case in cases),
        ]
        for run in document["training"]
    ]
    return f"{markdown(heads, rows)}\n\n*{document['device']}, {document['date']}, `{document['command']}`*"


def bench_cpu(document: Document) -> str:
    """One row for each contender, in the order in which they were measured together."""
    if "--quick" in document["command"]:
        raise SystemExit(
            "results/bench-cpu.json was measured with --quick; run make bench for numbers to show."
        )
    heads = ["task", "contender", "boards", "million cell-steps/s", "seconds, median (min–max)", "× CAX"]
    rows = []
    # Older files have no other rule.
    for row in (row for row in document["rows"] if row.get("rule", "maze-ood") == "maze-ood"):
        seconds = row["seconds"]
        rows.append(
            [
                row["task"],
                row["contender"],
                row["boards"],
                f"**{row['cell_steps_per_second'] / 1e6:.2f}**",
                f"{seconds['median']:.3f} ({seconds['min']:.3f}–{seconds['max']:.3f})",
                f"{row['times_cax']:.1f}" if "times_cax" in row else "–",
                document["date"],
                f"{document['device']}, {document['cores']} cores",
                f"`{document['command']}`",
            ]
        )
    return markdown([*heads, "date", "device", "command"], rows)


def laptop_arc(document: Document) -> str:
    """One row for each size of canvas."""
    heads = ["canvas", "guesses", "processor seconds", "with compiling", "seconds", "load", "date", "device"]
    rows = [
        [
            f"{row['canvas']} × {row['canvas']}",
            str(row["rollouts"]),
            f"**{row['processor_seconds']:.1f}**",
            f"{row['first']['processor_seconds']:.1f}",
            f"{row['seconds']:.1f}",
            f"{row['load']:.1f}",
            document["date"],
            document["device"],
        ]
        for row in document["rows"]
    ]
    return f"{markdown(heads, rows)}\n\n*{document['model']} model, `{document['command']}`*"


PAPER_VISUAL = {"easy": (87.8, 1_024), "hard": (18.9, 3_072)}
"""Drawn boards solved in per cent on 256 × 256 pixels, and after how many steps: Table 1 of the paper."""


def visual(document: Document) -> str:
    """One row for each case of drawn boards, with the rules that the answers obey."""
    heads = [
        "boards",
        "digits",
        "canvas",
        "steps",
        "solved (95 %)",
        "paper, 256 × 256",
        "rows, columns, boxes",
    ]
    heads += ["clues kept", "products", "date", "device", "command"]
    rows = []
    for row in document["rows"]:
        low, high = row["board_accuracy_95"]
        value, steps = PAPER_VISUAL.get(row["case"], (None, 0))
        rows.append(
            [
                f"{row['boards']:,} {row['data']} ({row['case']})",
                row["digits"],
                f"{row['canvas']} × {row['canvas']}",
                f"{row['steps']:,}",
                f"**{percent(row['board_accuracy'])}** ({percent(low)}–{percent(high)})",
                "–" if value is None else f"{value} % after {steps:,}",
                ", ".join(percent(row[rule]) for rule in ("rows", "columns", "boxes")),
                percent(row["clues"]),
                row["precision"],
                document["date"],
                document["device"],
                f"`{document['command']}`",
            ]
        )
    return markdown(heads, rows)


def visual_depths(document: Document) -> str:
    """One row for each case: the share that is solved after ever more steps."""
    depths = sorted({look["steps"] for row in document["rows"] for look in row["curve"]})
    rows = []
    for row in document["rows"]:
        solved = {look["steps"]: percent(look["right"]) for look in row["curve"]}
        rows.append([row["case"], *(solved.get(depth, "–") for depth in depths)])
    return markdown(["steps", *(f"{depth:,}" for depth in depths)], rows)


def mean_and_spread(shares: list[float]) -> str:
    """The mean with the standard deviation of a sample, which one share does not have."""
    if len(shares) == 1:
        return percent(shares[0])
    return f"{100 * statistics.mean(shares):.2f} ± {percent(statistics.stdev(shares))}"


def one_of(rows: list[Document], name: str) -> int:
    """The value that all rows of a case share, without which they could not be averaged."""
    values = {row[name] for row in rows}
    if len(values) != 1:
        raise SystemExit(
            f"Rows of {rows[0]['case']!r} differ in {name}: {sorted(values)}; measure them alike."
        )
    return values.pop()


def published(case: str) -> str:
    """The paper's number, with the steps it took."""
    if case not in PAPER:
        return "–"
    value, steps = PAPER[case]
    return f"{value} % after {steps:,}"


def percent(share: float) -> str:
    """A share as per cent with two decimals."""
    return f"{100 * share:.2f} %"


def markdown(heads: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


TABLES: dict[str, Callable[[Document], str]] = {
    "maze-ood": maze_ood,
    "maze-ood-401": maze_ood,
    "maze-ood-seeds": maze_ood_seeds,
    "maze-ood-seeds/runs": maze_ood_runs,
    "maze-laptop": maze_ood_runs,
    "bench-cpu": bench_cpu,
    "laptop-arc": laptop_arc,
    "visual-sudoku-4x4": visual,
    "visual-sudoku-4x4/depths": visual_depths,
    "visual-sudoku-9x9": visual,
    "visual-sudoku-9x9/depths": visual_depths,
}


def main() -> int:
    """Rewrites the pages, or says whether it would."""
    parser = argparse.ArgumentParser(description="Fills the tables of README.md and docs/ from results/.")
    parser.add_argument("--check", action="store_true", help="only say which pages are stale")
    parser.add_argument(
        "--pages", type=Path, nargs="+", default=[ROOT / "README.md", *ROOT.glob("docs/*.md")]
    )
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    asked = parser.parse_args()
    new = {page: filled(page.read_text(), asked.results) for page in asked.pages}
    stale = [page for page, text in new.items() if text != page.read_text()]
    if not asked.check:
        for page in stale:
            page.write_text(new[page])
        return 0
    for page in stale:
        print(f"{page.name} differs from results/; run python tools/readme_tables.py.", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
