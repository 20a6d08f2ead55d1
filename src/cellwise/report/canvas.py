"""Drawn boards as a person looks at them: what the cells show, with lines, as a picture or a film."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int32, UInt8
from PIL import Image, ImageDraw, ImageFont

from ..files import write_json
from ..puzzles.visual_sudoku import to_text
from . import animation
from .palette import LIGHT
from .picture import save_picture

TRACE_FORMAT = "cellwise canvas 1"
"""What a saved trace of a drawn board says it is."""

_TONES = 24  # Degrees of ink; together with the rest a film has fewer than 256 colours.
_DARKEST, _LIGHTEST = 1.0, -0.1  # Ink of a digit, and the least that noise can be.
_CLUE = (255, 243, 214)  # The ground on which clues were drawn.
_PNG_SIDE = 720
_GIF_BYTES = 3_000_000  # Greys of every degree in every pixel do not pack well.


@dataclass(frozen=True)
class Canvas:
    """A thought in pixels: what was seen after how many steps, and how it was read.

    `clues` is true where the puzzle had a digit drawn; `confidence` is how near answers are to mean digits.
    """

    steps: Int32[np.ndarray, " t"]
    images: Float32[np.ndarray, "t side side"]
    grids: UInt8[np.ndarray, "t k k"]
    confidence: Float32[np.ndarray, "t k k"]
    clues: Bool[np.ndarray, "k k"]
    digit: int


def frame(
    canvas: Canvas, at: int, side: int = _PNG_SIDE, caption: bool = True
) -> UInt8[np.ndarray, "height width 3"]:
    """The board at a moment, about `side` pixels wide: dark ink on a light ground, yellow for clues."""
    cells = len(canvas.clues)
    used = cells * canvas.digit
    scale = max(1, round(side / used))
    ink = (canvas.images[at, :used, :used] - _LIGHTEST) / (_DARKEST - _LIGHTEST)
    ink = np.rint(np.clip(np.nan_to_num(ink), 0, 1) * (_TONES - 1)) / (_TONES - 1)
    ground = np.where(canvas.clues[..., None], np.array(_CLUE), np.array(LIGHT.ground))
    ground = ground.repeat(canvas.digit, 0).repeat(canvas.digit, 1)
    pixels = np.rint(ground * (1 - ink[..., None])).astype(np.uint8).repeat(scale, 0).repeat(scale, 1)
    framed = _ruled(pixels, cells, canvas.digit * scale)
    return np.concatenate([framed, _caption(canvas, at, framed.shape[1])]) if caption else framed


def _ruled(
    pixels: UInt8[np.ndarray, "side side 3"], cells: int, pitch: int
) -> UInt8[np.ndarray, "wide wide 3"]:
    """The board with lines between its places, thick ones around boxes and the whole."""
    box, thick = round(cells**0.5), max(1, pitch // 12)
    pixels = np.pad(pixels, ((thick // 2, thick - thick // 2),) * 2 + ((0, 0),))
    for line in range(cells + 1):
        width = thick if line % box == 0 else max(1, thick // 3)
        first = line * pitch + (thick - width) // 2
        pixels[first : first + width] = pixels[:, first : first + width] = LIGHT.rule
    return pixels


def _caption(canvas: Canvas, at: int, width: int) -> UInt8[np.ndarray, "height width 3"]:
    """How many steps were taken, in as wide a strip."""
    height = max(16, width // 16)
    strip = Image.new("1", (width, height), 1)
    font = ImageFont.load_default(0.6 * height)
    text = f"step {canvas.steps[at]:,}"
    ImageDraw.Draw(strip).text((height / 4, height / 2), text, fill=0, font=font, anchor="lm")
    return np.where(np.asarray(strip)[..., None], np.uint8(255), np.array(LIGHT.rule, np.uint8))


def save(path: str | os.PathLike[str], canvas: Canvas, origin: Mapping[str, Any] | None = None) -> None:
    """Writes a thought as .gif or .mp4, its end as .png, or as .json what was read at every moment."""
    animation.check_format(path, animation.FORMATS)

    def draw(most: int, side: int) -> list[UInt8[np.ndarray, "height width 3"]]:
        return [frame(canvas, at, side) for at in animation.evenly(len(canvas.steps), most).tolist()]

    match Path(path).suffix.lower():
        case ".gif":
            animation.write_gif(path, draw, len(canvas.steps), _GIF_BYTES)
        case ".mp4":
            animation.write_mp4(path, draw)
        case ".png":
            save_picture(Image.fromarray(frame(canvas, len(canvas.steps) - 1, caption=False)), path)
        case _:
            write_json(path, {"format": TRACE_FORMAT, **(origin or {}), "frames": _table(canvas)})


def _table(canvas: Canvas) -> list[dict[str, Any]]:
    return [
        {"step": step, "confidence": round(float(sure.mean()), 4), "grid": to_text(grid)}
        for step, grid, sure in zip(canvas.steps.tolist(), canvas.grids, canvas.confidence, strict=True)
    ]
