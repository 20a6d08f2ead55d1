"""ARC grids in colours: side by side in a terminal, and a whole task as a picture."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, UInt8
from PIL import Image, ImageDraw
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.text import Text

from ..puzzles.arc import Grid, Task
from ..puzzles.arc_canvas import BORDER, PAD
from ..puzzles.arc_vote import Candidate
from .palette import DARK, blend, sureness
from .terminal import half_blocks

COLOURS = np.array(
    [
        (0, 0, 0),
        (0, 116, 217),
        (255, 65, 54),
        (46, 204, 64),
        (255, 220, 0),
        (170, 170, 170),
        (240, 18, 190),
        (255, 133, 27),
        (127, 219, 255),
        (135, 12, 37),
        (255, 255, 255),  # the border of an answer on its canvas
        (60, 60, 66),  # padding
    ],
    np.uint8,
)
"""The colours in which people know these tasks, then those of border and padding."""

_GAP, _LINE = 12, (90, 90, 96)
_APART = 3  # Characters between two canvases.
_GROUND, _INK = (24, 25, 28), (220, 220, 224)


def drawn(grids: Sequence[Grid], gap: int = 3) -> Text:
    """Grids beside each other, two characters for a cell, as rich prints them; digits without colours."""
    text = Text(no_wrap=True, overflow="ignore")
    for row in range(max(len(grid) for grid in grids)):
        for grid in grids:
            for cell in grid[row] if row < len(grid) else ():
                r, g, b = COLOURS[cell]
                dark = int(r) + int(g) + int(b) < 300
                text.append(f"{cell} ", f"{'white' if dark else 'black'} on rgb({r},{g},{b})")
            text.append(" " * (gap if row < len(grid) else 2 * grid.shape[1] + gap))
        text.append("\n")
    return text


def faded(
    grid: UInt8[np.ndarray, "h w"], confidence: Float32[np.ndarray, "h w"] | None
) -> UInt8[np.ndarray, "h w 3"]:
    """The colours of a grid or canvas, paler where the cells are not sure."""
    return blend(DARK.unsure, COLOURS[grid], sureness(confidence))


@dataclass(frozen=True)
class Canvases:
    """A question and what the cells answer, beside each other, to be printed by rich with `soft_wrap=True`.

    Two cells share a character, one above the other. In a narrow terminal the answer stands alone; without
    colours it is digits, with `+` for the border and `.` for padding.
    """

    question: UInt8[np.ndarray, "s s"]
    answer: UInt8[np.ndarray, "s s"]
    confidence: Float32[np.ndarray, "s s"] | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment | Text]:
        """Draws for this console."""
        side = len(self.question)
        both = options.max_width >= 2 * side + _APART
        if console.color_system is None or console.no_color or options.ascii_only:
            grids = (self.question, self.answer) if both else (self.answer,)
            rows = ((" " * _APART).join(_plain(grid[row]) for grid in grids) for row in range(side))
            yield Text("\n".join(rows), no_wrap=True, overflow="ignore")
            return
        answer = faded(self.answer, self.confidence)
        if both:
            between = np.full((side, _APART, 3), _GROUND, np.uint8)
            answer = np.concatenate([COLOURS[self.question], between, answer], axis=1)
        yield from half_blocks(answer)


def _plain(row: UInt8[np.ndarray, " s"]) -> str:
    return "".join({BORDER: "+", PAD: "."}.get(int(cell), str(cell)) for cell in row)


def picture(grid: UInt8[np.ndarray, "_ _"], cell: int = 12) -> Image.Image:
    """A grid with thin lines between its cells."""
    image = Image.fromarray(np.repeat(np.repeat(COLOURS[grid], cell, axis=0), cell, axis=1))
    lines = ImageDraw.Draw(image)
    for x in range(0, image.width, cell):
        lines.line([(x, 0), (x, image.height)], fill=_LINE)
    for y in range(0, image.height, cell):
        lines.line([(0, y), (image.width, y)], fill=_LINE)
    return image


def page(
    task: Task, attempts: Sequence[Sequence[Candidate]], votes: Sequence[int], cell: int = 12
) -> Image.Image:
    """A task as a picture: its demonstrations, then each question with the attempts and their vote shares."""
    rows: list[list[tuple[str, Grid]]] = [
        [(f"demonstration {number}", demo.input), ("", demo.output)]
        for number, demo in enumerate(task.demos, 1)
    ]
    for number, (question, candidates, total) in enumerate(
        zip(task.questions, attempts, votes, strict=True), 1
    ):
        answers = [
            (f"attempt {place}: {one.votes} of {total}", one.grid) for place, one in enumerate(candidates, 1)
        ]
        rows.append([(f"question {number}", question), *answers])
    return tiled([[(label, picture(grid, cell)) for label, grid in row] for row in rows])


def canvas_picture(
    canvas: UInt8[np.ndarray, "s s"], confidence: Float32[np.ndarray, "s s"] | None = None, cell: int = 6
) -> Image.Image:
    """A canvas with its padding, paler where the cells are not sure."""
    return Image.fromarray(np.repeat(np.repeat(faded(canvas, confidence), cell, axis=0), cell, axis=1))


def tiled(pictures: Sequence[Sequence[tuple[str, Image.Image]]]) -> Image.Image:
    """Rows of pictures, each with a label above it."""
    # A label needs room even above a grid of one cell.
    widths = [[max(image.width, 7 * len(label)) for label, image in row] for row in pictures]
    heights = [max(image.height for _, image in row) + 2 * _GAP for row in pictures]
    width = max(sum(row) + _GAP * (len(row) + 1) for row in widths)
    whole = Image.new("RGB", (width, sum(heights) + _GAP), _GROUND)
    pen, y = ImageDraw.Draw(whole), _GAP
    for row, wide, height in zip(pictures, widths, heights, strict=True):
        x = _GAP
        for (label, image), w in zip(row, wide, strict=True):
            pen.text((x, y - 2), label, fill=_INK)
            whole.paste(image, (x, y + _GAP))
            x += w + _GAP
        y += height
    return whole
