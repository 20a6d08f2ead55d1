"""Figures: one look for all, and a way to tell whether a picture shows the data that it says it shows.

A picture carries the SHA-256 of the numbers that are plotted in it. Besides, every line of an SVG has a name,
so that `drawn` can read its points off the picture again and `agree` can compare them with the numbers.
"""

import hashlib
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float64
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from ..errors import ConfigError
from ..files import written_atomically
from .study import Result, Study

FORMATS = (".svg", ".png", ".pdf")

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Those of Okabe and Ito, which people with any colour blindness can tell apart."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":")
"""So that lines can be told apart on paper without colours as well."""

_LOOK: Any = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "lines.linewidth": 1.6,
    "lines.markersize": 5.0,
    "legend.frameon": False,
    "path.simplify": False,
    "image.composite_image": False,
    "svg.hashsalt": "cellwise",
    "svg.fonttype": "path",
}

Points = Float64[np.ndarray, "n 2"]


def style(number: int, joined: bool = True) -> Any:
    """Colour, marker and dashes of the line with this number, or of its points only."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": DASHES[number % len(DASHES)] if joined else "none",
    }


def make(study: Study, result: Result) -> Figure:
    """The figure of a result, every line of it named."""
    assert study.draw is not None
    with mpl.rc_context(_LOOK):
        figure = Figure(figsize=study.inches, layout="constrained")
        study.draw(result, figure)
        for place, axes in enumerate(figure.axes):
            for number, line in enumerate(axes.lines):
                line.set_gid(f"line-{place}-{number}")
    return figure


def save(figure: Figure, path: Path) -> None:
    """Writes a figure as .svg, .png or .pdf, with the hash of what it shows."""
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise ConfigError(f"{path} cannot be drawn; give it a name that ends in {', '.join(FORMATS)}.")
    said = f"data sha256:{digest(figure)}"
    about = {
        ".svg": {"Date": None, "Description": said},
        ".png": {"Description": said},
        ".pdf": {"CreationDate": None, "Subject": said},
    }
    with mpl.rc_context(_LOOK), written_atomically(path) as temporary:
        figure.savefig(temporary, format=kind[1:], dpi=150, metadata=about[kind])


def digest(figure: Figure) -> str:
    """The SHA-256 of all that a figure shows: lines, bars, dots and images, and the words beside them."""
    return hashlib.sha256(json.dumps(_shown(figure)).encode()).hexdigest()


def told(path: Path) -> str | None:
    """The hash that an SVG says it shows."""
    found = re.search(r"data sha256:([0-9a-f]{64})", path.read_text())
    return found and found[1]


def lines(figure: Figure) -> dict[str, Points]:
    """The points of every line with two or more, as lengths along the axes; on a log axis, logarithms."""
    found = {}
    for axes in figure.axes:
        for line in axes.lines:
            data = np.column_stack([np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)])
            gid = line.get_gid()
            if gid and len(data) > 1 and line.get_transform().contains_branch(axes.transData):
                found[gid] = axes.transScale.transform(data)
    return found


def drawn(path: Path) -> dict[str, Points]:
    """The points of every named line of an SVG, as they lie on the page."""
    found = {}
    for group in ElementTree.parse(path).getroot().iter("{http://www.w3.org/2000/svg}g"):
        name = group.get("id", "")
        if not name.startswith("line-"):
            continue
        own = group.find("{http://www.w3.org/2000/svg}path")
        if own is not None:
            numbers = re.findall(r"[ML] (\S+) (\S+)", own.get("d", ""))
        else:
            uses = group.iter("{http://www.w3.org/2000/svg}use")
            numbers = [(use.get("x", "nan"), use.get("y", "nan")) for use in uses]
        found[name] = np.array(numbers, float).reshape(-1, 2)
    return found


def agree(figure: Figure, path: Path) -> list[str]:
    """What is wrong with a picture of this figure: lines whose points lie elsewhere than the numbers say.

    Where on the page the axes are may depend on fonts and versions, so it is worked out from all lines of
    the axes together: they must lie as one stretched and shifted copy of the numbers.
    """
    wrong = []
    wanted, found = lines(figure), drawn(path)
    if told(path) != digest(figure):
        wrong.append("the picture was made from other data")
    groups: dict[str, list[str]] = {}
    for name in wanted:
        groups.setdefault(name.split("-")[1], []).append(name)
    for names in groups.values():
        finite = {name: wanted[name][np.isfinite(wanted[name]).all(1)] for name in names}
        lost = [name for name in names if len(found.get(name, ())) != len(finite[name])]
        wrong += [f"{name} has {len(found.get(name, ()))} of {len(finite[name])} points" for name in lost]
        kept = [name for name in names if name not in lost]
        if not kept:
            continue
        ours = np.concatenate([finite[name] for name in kept])
        theirs = np.concatenate([found[name] for name in kept])
        for along, what in enumerate(("x", "y")):
            design = np.column_stack([ours[:, along], np.ones(len(ours))])
            fit = design @ np.linalg.lstsq(design, theirs[:, along], rcond=None)[0]
            off = np.abs(fit - theirs[:, along]).max()
            if off > 0.1:
                wrong.append(f"{', '.join(kept)}: {what} is off by {off:.1f} points")
    return wrong


def _shown(figure: Figure) -> list[Any]:
    return [
        {
            "title": axes.get_title(loc="left") or axes.get_title(),
            "labels": [axes.get_xlabel(), axes.get_ylabel()],
            "lines": [
                [line.get_label(), _rounded(line.get_xdata()), _rounded(line.get_ydata())]
                for line in axes.lines
            ],
            "patches": [_rounded(_outline(patch)) for patch in axes.patches],
            "dots": [_rounded(one.get_offsets()) for one in axes.collections],
            "areas": [_rounded(path.vertices) for one in axes.collections for path in one.get_paths()],
            "images": [_rounded(image.get_array()) for image in axes.images],
            "words": [text.get_text() for text in axes.texts],
        }
        for axes in figure.axes
    ]


def _outline(patch: Patch) -> Any:
    return patch.get_bbox().bounds if isinstance(patch, Rectangle) else patch.get_path().vertices


def _rounded(values: Any) -> list[str]:
    """Numbers to six digits, so that another machine's last bit does not count."""
    array = np.ma.filled(np.ma.asarray(values, float), np.nan)
    return [f"{value:.6g}" for value in array.ravel().tolist()]
