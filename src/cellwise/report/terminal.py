"""Mazes and Sudokus in a terminal, at rest and while they are being solved."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, UInt8
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from ..puzzles import maze_text, sudoku
from ..puzzles.maze import PATH, START
from .palette import DARK, LIGHT, Colour, Palette, digit_colours, maze_colours

_LONGEST_PAUSE = 0.15  # Seconds a frame stays on the screen when there are few of them.
_DRAWING_SHARE = 0.1  # Of the time, once drawing can no longer keep up with the automaton.
_WARM_UP = 1  # The frame up to which the speed is not counted, because making it includes compiling.


def least_sure(confidence: Float32[np.ndarray, "h w"], open_cells: Bool[np.ndarray, "h w"]) -> float:
    """How sure the most doubtful of the open cells, those that are not given, is."""
    return float(confidence.min(where=open_cells, initial=1.0))


def plain_text(grid: UInt8[np.ndarray, "h w"], clues: UInt8[np.ndarray, "9 9"] | None = None) -> str:
    """A maze, or with `clues` a Sudoku, without colours, as the parsers of `cellwise.puzzles` read it."""
    return maze_text.to_text(grid).rstrip("\n") if clues is None else sudoku.pretty(grid)


def palette_here() -> Palette:
    """The palette for the background that the terminal declares in `COLORFGBG`; dark unless it says light."""
    return LIGHT if os.environ.get("COLORFGBG", "").split(";")[-1] in ("7", "15") else DARK


@dataclass(frozen=True)
class Drawing:
    """A maze, or with `clues` a Sudoku, to be printed by rich with `soft_wrap=True`.

    Two cells of a maze share a character, one above the other. A maze that is wider than the terminal, or
    higher than `rows` lines, is scaled down and says so. Where there are no colours it
    is plain text.
    """

    grid: UInt8[np.ndarray, "h w"]
    confidence: Float32[np.ndarray, "h w"] | None = None
    clues: UInt8[np.ndarray, "9 9"] | None = None
    rows: int | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment | Text]:
        """Draws for this console."""
        if console.color_system is None or console.no_color or options.ascii_only:
            yield Text(plain_text(self.grid, self.clues), no_wrap=True, overflow="ignore")
        elif self.clues is None:
            yield from self._maze(options.max_width)
        else:
            yield self._sudoku(self.clues)

    def _maze(self, columns: int) -> Iterator[Segment | Text]:
        height, width = self.grid.shape
        factor = -(-width // max(1, columns))
        if self.rows is not None and (factor > 1 or height > 2 * self.rows):
            # One line is kept for the sentence below.
            factor = max(factor, -(-height // (2 * max(1, self.rows - 1))))
        colours = maze_colours(self.grid, self.confidence, palette_here())
        yield from half_blocks(_scaled_down(self.grid, colours, factor) if factor > 1 else colours)
        if factor > 1:
            yield Text(f"Scaled down: each square stands for {factor} x {factor} cells.", style="dim")

    def _sudoku(self, clues: UInt8[np.ndarray, "9 9"]) -> Text:
        """The plain drawing with every digit in its style."""
        inks = digit_colours(self.grid, clues, self.confidence, palette_here()).reshape(81, 3)
        drawn = Text(sudoku.pretty(self.grid))
        places = (place for place, character in enumerate(drawn.plain) if character in ".123456789")
        for place, ink, clue in zip(places, inks.tolist(), clues.ravel() > 0, strict=True):
            # A clue is bold in the terminal's own colour, which is sure to be readable.
            drawn.stylize(Style(bold=True) if clue else _style(tuple(ink), None), place, place + 1)
        return drawn


def _scaled_down(
    grid: UInt8[np.ndarray, "h w"], colours: UInt8[np.ndarray, "h w 3"], factor: int
) -> UInt8[np.ndarray, "_ _ 3"]:
    """The mean colour of every square, but of its endpoints or else its path alone, if it has any."""
    rank = np.where(grid >= START, 3, np.where(grid == PATH, 2, 1))
    missing = [(0, -side % factor) for side in grid.shape]
    rank, colours = np.pad(rank, missing), np.pad(colours, [*missing, (0, 0)])
    h, w = rank.shape[0] // factor, rank.shape[1] // factor
    ranks = rank.reshape(h, factor, w, factor).swapaxes(1, 2).reshape(h, w, factor**2)
    squares = colours.reshape(h, factor, w, factor, 3).swapaxes(1, 2).reshape(h, w, factor**2, 3)
    counted = ranks == ranks.max(axis=2, keepdims=True)
    return ((squares * counted[..., None]).sum(axis=2) / counted.sum(axis=2)[..., None]).astype(np.uint8)


def half_blocks(colours: UInt8[np.ndarray, "h w 3"]) -> Iterator[Segment]:
    """Two rows of squares to a line: the upper half of a character and, as its background, the lower."""
    rows = [list(map(tuple, row)) for row in colours.tolist()]
    for upper, lower in zip(rows[::2], [*rows[1::2], [None] * len(rows[0])], strict=False):
        for (above, below), run in groupby(zip(upper, lower, strict=True)):
            yield Segment("▀" * len(list(run)), _style(above, below))
        yield Segment.line()


@lru_cache(maxsize=4096)
def _style(colour: Colour, background: Colour | None) -> Style:
    behind = f" on rgb({background[0]},{background[1]},{background[2]})" if background else ""
    return Style.parse(f"rgb({colour[0]},{colour[1]},{colour[2]}){behind}")


@runtime_checkable
class Frame(Protocol):
    """What there is to see at one step, such as `Model.watch` yields it."""

    @property
    def step(self) -> int:
        """How many steps were taken."""
        ...

    @property
    def grid(self) -> UInt8[np.ndarray, "h w"]:
        """What every cell says."""
        ...

    @property
    def confidence(self) -> Float32[np.ndarray, "h w"]:
        """How sure every cell is."""
        ...


F = TypeVar("F", bound=Frame)


def watch(
    frames: Iterable[F],
    expected: int,
    open_cells: Bool[np.ndarray, "h w"],
    clues: UInt8[np.ndarray, "9 9"] | None = None,
    seconds: float = 20.0,
    console: Console | None = None,
    draw: Callable[[F], RenderableType] | None = None,
) -> F:
    """Draws frames as they arrive, at most `expected` of them, and returns the last one.

    What is drawn is a maze, with `clues` a Sudoku, or whatever `draw` makes of a frame.
    Quick frames are slowed down to be seen, all together by no more than `seconds`. Where the automaton needs
    longer than that by itself, frames are dropped so that drawing adds about a tenth to its time. In the end,
    also by an interruption, which is passed on, the drawing is gone from the terminal and the cursor is back.
    Where there is no terminal, nothing is drawn and nothing slowed down.
    """
    console = console or Console(stderr=True)
    drawn_at_all = console.is_terminal and not console.is_dumb_terminal
    pause = min(_LONGEST_PAUSE, seconds / max(1, expected))
    began = drawn = time.monotonic()
    cost, last = 0.0, None
    with Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop") as live:
        for number, (last, speed) in enumerate(_with_speed(frames)):
            due, now = began + number * pause, time.monotonic()
            if not drawn_at_all or (now > due + pause and now - drawn < cost / _DRAWING_SHARE):
                continue
            time.sleep(max(0.0, due - now))
            started = time.monotonic()
            if draw is None:
                drawing: RenderableType = Drawing(last.grid, last.confidence, clues, rows=console.height - 1)
            else:
                drawing = draw(last)
            live.update(Group(_status(last, open_cells, speed), drawing), refresh=True)
            drawn = time.monotonic()
            cost = drawn - started
    if last is None:
        raise ValueError("there is no frame to watch")
    return last


def _with_speed(frames: Iterable[F]) -> Iterator[tuple[F, float | None]]:
    """The frames with the steps per second that went into making them, once that can be told."""
    thinking, first, asked = 0.0, 0, time.monotonic()
    for number, frame in enumerate(frames):
        if number > _WARM_UP:
            thinking += time.monotonic() - asked
        elif number == _WARM_UP:
            first = frame.step
        yield frame, (frame.step - first) / thinking if thinking else None
        asked = time.monotonic()


def _status(frame: Frame, open_cells: Bool[np.ndarray, "h w"], speed: float | None) -> Text:
    parts = [
        f"step {frame.step}",
        f"confidence {frame.confidence.mean():.2f}",
        f"least {least_sure(frame.confidence, open_cells):.2f}",
    ]
    return Text(" · ".join(parts if speed is None else [*parts, f"{speed:,.0f} steps/s"]), no_wrap=True)
