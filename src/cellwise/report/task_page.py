"""A task as a page: its demonstrations, what was voted for, and the film of a rollout, all in one file."""

import base64
import html
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, UInt8
from PIL import Image

from ..puzzles.arc import Grid, Task
from ..puzzles.arc_canvas import TOKENS
from ..puzzles.arc_vote import Ballot
from .arc_grid import COLOURS, faded, picture
from .palette import SHADES, sureness

MOST_SHOWN = 8
"""Grids of a ballot that are drawn; the rest is counted."""

_PARTS = Path(__file__).parent / "task"
_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True)
class Film:
    """What the cells of a canvas said at every step of a rollout, and what became of it, as a sentence."""

    question: UInt8[np.ndarray, "s s"]
    grid: UInt8[np.ndarray, "t s s"]
    confidence: Float32[np.ndarray, "t s s"]
    outcome: str = ""


def page(task: Task, ballots: Sequence[Ballot], films: Sequence[Film | None], verdict: str) -> str:
    """The page as HTML that asks nobody for anything; `films` has one, or None, for each question."""
    name = html.escape(task.name)
    shown: list[Film] = []
    parts = [
        f"<h1>{name}</h1><p>{html.escape(verdict)}</p><h2>Demonstrations</h2>",
        _row(_pair(demo.input, demo.output) for demo in task.demos),
    ]
    asked = zip(task.questions, ballots, films, strict=True)
    for number, (question, ballot, film) in enumerate(asked, 1):
        parts.append(f'<h2>Question {number}</h2><div class="row">{_picture(question, "Question")}</div>')
        parts.append(_votes(ballot))
        if film is not None:
            parts.append(_film(film, len(shown)))
            shown.append(film)
    body = "\n".join(parts)
    data = json.dumps({"palette": _palette(), "films": [_bytes(film) for film in shown]})
    style, script = ((_PARTS / part).read_text(encoding="utf-8") for part in ("style.css", "film.js"))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{name}: cells answering a task</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}
</main>
<script type="application/json" id="films">{data}</script>
<script type="module">
{script}</script>
</body>
</html>
"""


def _row(parts: Iterable[str]) -> str:
    return f'<div class="row">{"".join(parts)}</div>'


def _pair(given: Grid, answer: Grid) -> str:
    arrow = '<span aria-hidden="true">→</span>'
    return f'<div class="pair">{_picture(given, "Input")}{arrow}{_picture(answer, "Output")}</div>'


def _votes(ballot: Ballot) -> str:
    """The grids that were voted for, most votes first, and what is not drawn."""
    items = []
    for place, one in enumerate(ballot.candidates[:MOST_SHOWN], 1):
        share = 100 * one.votes / ballot.votes
        items.append(
            f"<li>{_picture(one.grid, f'Answer {place}')}"
            f'<div class="share"><i style="width:{share:.1f}%"></i></div>'
            f"<p><b>{one.votes} of {ballot.votes}</b> votes, {share:.0f} %<br>"
            f"{100 * one.confidence:.0f} % sure</p></li>"
        )
    rest = ballot.candidates[MOST_SHOWN:]
    more = []
    if rest:
        votes = sum(one.votes for one in rest)
        more.append(f"{len(rest)} other grids had {votes} votes.")
    if ballot.invalid:
        more.append(f"{ballot.invalid} of {ballot.votes} guesses showed no grid.")
    told = f"<p>{' '.join(more)}</p>" if more else ""
    return f"<h3>Votes</h3><ol>{''.join(items)}</ol>{told}"


def _film(film: Film, number: int) -> str:
    side, last = len(film.question), len(film.grid) - 1
    final = _source(Image.fromarray(faded(film.grid[-1], film.confidence[-1])))
    size = f'width="{12 * side}" height="{12 * side}"'
    return f"""<h3>One rollout</h3>
<p>{html.escape(film.outcome)} Outside of an answer and its white border cells may say anything.</p>
<figure class="film" data-film="{number}" style="margin:8px 0">
<div class="row">
<img {size} alt="The question on its canvas" src="{_source(Image.fromarray(COLOURS[film.question]))}">
<canvas width="{side}" height="{side}" role="img" aria-label="What the cells say, paler where they are not \
sure"></canvas>
<noscript><img {size} alt="What the cells said in the end" src="{final}"></noscript>
</div>
<div class="transport"><button type="button">Play</button>
<input type="range" min="0" max="{last}" value="0" step="1" aria-label="Step">
<output></output></div>
</figure>"""


def _picture(grid: Grid, what: str) -> str:
    """A grid with its cells as text for whoever does not see it."""
    cell = int(np.clip(180 // max(grid.shape), 4, 18))
    image = picture(grid, cell)
    rows = " / ".join("".join(map(str, row)) for row in grid.tolist())
    text = f"{what}, {len(grid)} by {grid.shape[1]}: {rows}"
    size = f'width="{image.width}" height="{image.height}"'
    return f'<img {size} alt="{html.escape(text)}" src="{_source(image)}">'


def _source(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _palette() -> list[str]:
    """The colour of token `byte // SHADES` at the degree of confidence `byte % SHADES`."""
    tokens, shades = np.divmod(np.arange(TOKENS * SHADES), SHADES)
    colours = faded(tokens[None].astype(np.uint8), (shades[None] / (SHADES - 1)).astype(np.float32))[0]
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in colours.tolist()]


def _bytes(film: Film) -> dict[str, object]:
    shades = np.rint(sureness(film.confidence) * (SHADES - 1)).astype(np.uint8)
    cells = (film.grid * np.uint8(SHADES) + shades).astype(np.uint8)
    return {
        "side": len(film.question),
        "sure": [round(float(sure), 3) for sure in np.nan_to_num(film.confidence).mean((1, 2))],
        "cells": base64.b64encode(cells.tobytes()).decode(),
    }
