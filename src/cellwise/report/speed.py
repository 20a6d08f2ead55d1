"""A benchmark's result as a picture: for every workload, a bar for each contender."""

from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..files import written_atomically

FORMATS = (".png", ".svg", ".pdf")
COLOURS = {"float32": "#4477aa", "tf32": "#66ccee", "bf16": "#ee6677"}


def check_format(path: Path) -> None:
    """Refuses a name that says nothing of a format."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{path} cannot be drawn; give it a name that ends in {', '.join(FORMATS)}.")


def draw(result: dict[str, Any], path: Path) -> None:
    """Draws nanoseconds for a cell and a step; shorter is faster."""
    from matplotlib.figure import Figure

    groups: dict[str, list[dict[str, Any]]] = {}
    for row in result["rows"]:
        title = f"{row['rule']}, {row['task']}, {row['batch']:,} {row['boards']}"
        groups.setdefault(title, []).append(row)
    bars = sum(len(rows) for rows in groups.values())
    figure = Figure(figsize=(9, 0.6 + 0.7 * len(groups) + 0.22 * bars), layout="constrained")
    ratios = [len(rows) + 1 for rows in groups.values()]
    axes = figure.subplots(len(groups), 1, squeeze=False, height_ratios=ratios)[:, 0]
    for axis, (title, rows) in zip(axes, groups.items(), strict=True):
        names = [f"{row['contender']}, {row['precision']}" for row in rows]
        values = [row["nanoseconds_per_cell_step"] for row in rows]
        held = axis.barh(range(len(rows)), values, color=[COLOURS[row["precision"]] for row in rows])
        axis.bar_label(held, labels=[f"{value:.3g}" for value in values], padding=3, fontsize=7)
        axis.set_yticks(range(len(rows)), names, fontsize=7)
        axis.set_title(title, fontsize=8, loc="left")
        axis.invert_yaxis()
        axis.margins(x=0.12)
        axis.tick_params(axis="x", labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"Nanoseconds for a cell and a step, {result['device']}, {result['date']}", fontsize=9)
    with written_atomically(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=150)
