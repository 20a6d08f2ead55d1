"""Thoughts in files: a moving picture, a table of every frame, or the picture of the end."""

import importlib
import io
import itertools
import os
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32, Int32, Int64, UInt8
from PIL import Image

from ..errors import ConfigError
from ..files import write_bytes, write_json, written_atomically
from ..puzzles import maze_text, sudoku
from .picture import picture, save_picture
from .strip import save_strip

TRACE_FORMAT = "cellwise trace 1"
"""What a saved trace says it is."""

_GIF_FRAMES = 150
_GIF_BYTES = 500_000
_GIF_SIDE = 300  # Pixels, about, along the longer side.
_GIF_PAUSE = 60  # Milliseconds a frame is shown.
_GIF_LAST_PAUSE = 2000  # Milliseconds the last frame is shown before the film starts again.
_FILM_FRAMES = 600
_FILM_SIDE = 720
_FILM_RATE = 20  # Frames a second.


@runtime_checkable
class Trace(Protocol):
    """A thought from beginning to end, such as `Model.trace` returns."""

    @property
    def steps(self) -> Int32[np.ndarray, " t"]:
        """How many steps were taken at each moment."""
        ...

    @property
    def grid(self) -> UInt8[np.ndarray, "t h w"]:
        """What every cell says."""
        ...

    @property
    def confidence(self) -> Float32[np.ndarray, "t h w"]:
        """How sure every cell is."""
        ...


FORMATS = (".gif", ".mp4", ".json", ".png")
"""What a thought of any kind is saved as."""
STRIPS = (".svg", ".pdf")
"""As well, if it is one about a board of cells."""


def check_format(path: str | os.PathLike[str], formats: tuple[str, ...] = FORMATS + STRIPS) -> None:
    """Raises ConfigError if no file of this name can be written, so that no work is done in vain."""
    extension = Path(path).suffix.lower()
    if extension not in formats:
        raise ConfigError(
            f"Cannot tell from the name {os.fspath(path)} what to save; "
            f"let it end in {', '.join(formats[:-1])} or {formats[-1]}."
        )
    if extension == ".mp4":
        _encoder()


def moves(path: str | os.PathLike[str]) -> bool:
    """Whether a file of this name holds more than the end of a thought."""
    return Path(path).suffix.lower() != ".png"


def save(
    path: str | os.PathLike[str],
    trace: Trace,
    clues: UInt8[np.ndarray, "9 9"] | None = None,
    origin: Mapping[str, Any] | None = None,
) -> None:
    """Writes a thought about a maze, or with `clues` about a Sudoku, in the form that the extension names.

    `.gif` and `.mp4` move, `.svg` and `.pdf` are film strips, `.png` is the last frame, `.json` lists every
    frame after what `origin` says: the model, the seed and whatever else it takes to think the same thought
    again.
    """
    check_format(path)
    match Path(path).suffix.lower():
        case ".gif":
            write_gif(path, partial(_drawn, trace, clues), len(trace.steps))
        case ".mp4":
            write_mp4(path, partial(_drawn, trace, clues))
        case ".png":
            save_picture(picture(trace.grid[-1], trace.confidence[-1], clues), path)
        case ".svg" | ".pdf":
            save_strip(path, trace.steps, trace.grid, trace.confidence, clues)
        case _:
            write_json(path, {"format": TRACE_FORMAT, **(origin or {}), "frames": _table(trace, clues)})


def _table(trace: Trace, clues: UInt8[np.ndarray, "9 9"] | None) -> list[dict[str, Any]]:
    text = maze_text.to_text if clues is None else sudoku.to_text
    return [
        {"step": step, "confidence": round(float(np.nan_to_num(sure).mean()), 4), "grid": text(grid)}
        for step, grid, sure in zip(trace.steps.tolist(), trace.grid, trace.confidence, strict=True)
    ]


def _drawn(
    trace: Trace, clues: UInt8[np.ndarray, "9 9"] | None, most: int, side: int
) -> list[UInt8[np.ndarray, "height width 3"]]:
    """All frames, or about `most` in equal distances with the first and the last, `side` pixels wide."""
    scale = max(1, side // max(trace.grid.shape[1:]))
    chosen = evenly(len(trace.steps), most)
    return [np.asarray(picture(trace.grid[i], trace.confidence[i], clues, scale)) for i in chosen]


def evenly(count: int, most: int) -> Int64[np.ndarray, " n"]:
    """All of `count` places, or about `most` in equal distances with the first and the last."""
    return np.unique(np.rint(np.linspace(0, count - 1, min(count, most))).astype(int))


Draw = Callable[[int, int], list[UInt8[np.ndarray, "height width 3"]]]
"""From the most frames and about how many pixels they should be wide to the frames of a film."""


def write_gif(path: str | os.PathLike[str], draw: Draw, count: int, most_bytes: int = _GIF_BYTES) -> None:
    """As many of `count` frames as fit into a small file; together they must have fewer than 256 colours."""
    most = min(count, _GIF_FRAMES)
    while len(film := _gif(draw(most, _GIF_SIDE))) > most_bytes and most > 2:
        most = max(2, min(most - 1, most * most_bytes // len(film)))
    write_bytes(path, film)


def _gif(drawn: list[UInt8[np.ndarray, "height width 3"]]) -> bytes:
    """One palette for all frames; a frame holds only what differs from the one before.

    Pictures have fewer colours than a GIF may have, so none is changed. Frames that look alike become one.
    """
    packed = [pixels.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32) for pixels in drawn]
    colours = np.unique(np.concatenate([np.unique(frame) for frame in packed]))
    palette = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1).astype(np.uint8).tobytes()
    clear = len(colours)  # The number of no colour: there the frame before shows through.
    indices = [np.searchsorted(colours, frame).astype(np.uint8) for frame in packed]
    frames, pauses = [indices[0]], [_GIF_PAUSE]
    for before, after in itertools.pairwise(indices):
        if np.array_equal(before, after):
            pauses[-1] += _GIF_PAUSE
        else:
            frames.append(np.where(after == before, np.uint8(clear), after))
            pauses.append(_GIF_PAUSE)
    pauses[-1] += _GIF_LAST_PAUSE
    images = [Image.fromarray(frame) for frame in frames]
    for image in images:
        image.putpalette(palette)
    film = io.BytesIO()
    images[0].save(
        film,
        format="GIF",
        save_all=True,
        append_images=images[1:],
        duration=pauses,
        loop=0,
        disposal=1,
        transparency=clear,
        optimize=False,
    )
    return film.getvalue()


def write_mp4(path: str | os.PathLike[str], draw: Draw) -> None:
    """The frames as H.264."""
    drawn = draw(_FILM_FRAMES, _FILM_SIDE)
    height, width = drawn[0].shape[:2]
    with written_atomically(path) as temporary:
        film = _encoder().write_frames(
            str(temporary),
            (width + width % 2, height + height % 2),  # H.264 halves the resolution of its colours.
            fps=_FILM_RATE,
            macro_block_size=2,
            quality=8,
            output_params=["-f", "mp4"],
        )
        with warnings.catch_warnings():
            # JAX warns of the fork that starts ffmpeg, but the child runs another program at once.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            film.send(None)
        for pixels in drawn:
            film.send(np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge"))
        film.close()


def _encoder() -> Any:
    """The optional package that brings ffmpeg."""
    try:
        package = importlib.import_module("imageio_ffmpeg")
        package.get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:  # RuntimeError: it came without ffmpeg.
        raise ConfigError(
            'Saving an .mp4 needs ffmpeg; install it with `pip install "cellwise[video]"`.'
        ) from error
    return package
