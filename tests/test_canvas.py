"""Drawn boards for a person: pictures and films of them."""

import json

import numpy as np
import pytest
from PIL import Image

from cellwise.errors import ConfigError
from cellwise.puzzles.sudoku_four import generate_four
from cellwise.puzzles.sudoku_generator import generate_easy
from cellwise.puzzles.visual_sudoku import pretty, render, to_text
from cellwise.report import canvas
from cellwise.report.canvas import Canvas, frame, save
from cellwise.report.palette import LIGHT
from handwriting import digits

FOUR, NINE = generate_four(1, 0), generate_easy(1, 0)


def film(boards=FOUR, side=14, count=6):
    """From the puzzle to its solution, with doubt in between."""
    rng = np.random.default_rng(0)
    first, last = (render(tokens, digits(side), rng)[0] for tokens in (boards.inputs, boards.target))
    shares = np.linspace(0, 1, count, dtype=np.float32)[:, None, None]
    grids = np.stack([boards.inputs[0]] * (count - 1) + [boards.target[0]])
    return Canvas(
        steps=np.arange(count, dtype=np.int32) * 1000,
        images=first * (1 - shares) + last * shares,
        grids=grids,
        confidence=np.full(grids.shape, 0.5, np.float32),
        clues=boards.given[0],
        digit=side,
    )


@pytest.mark.parametrize("boards", [FOUR, NINE], ids=["four", "nine"])
def test_every_pixel_is_where_it_should_be(boards):
    shown = film(boards)
    cells, used = len(shown.clues), len(shown.clues) * 14
    pixels = frame(shown, 0, side=used * 6, caption=False)
    thick = 14 * 6 // 12
    assert pixels.shape == (used * 6 + thick, used * 6 + thick, 3)
    inside = pixels[thick // 2 :, thick // 2 :][: used * 6, : used * 6]
    for row, column in np.ndindex(cells, cells):
        place = inside[row * 84 : (row + 1) * 84, column * 84 : (column + 1) * 84][10:-10, 10:-10]
        image = shown.images[0, row * 14 : row * 14 + 14, column * 14 : column * 14 + 14]
        ink = np.clip((image + 0.1) / 1.1, 0, 1).repeat(6, 0).repeat(6, 1)[10:-10, 10:-10]
        ground = np.array([255, 243, 214] if shown.clues[row, column] else [255, 255, 255])
        assert np.abs(place - ground * (1 - ink[..., None])).max() < 255 / 23 / 2 + 1
    rule = np.array(LIGHT.rule)
    assert (pixels[: thick - thick % 2] == rule).all() and (pixels[:, -1] == rule).all()
    middle = round(cells**0.5) * 84 + thick // 2
    assert (pixels[middle, :] == rule).all() and (pixels[84 + thick // 2] == rule).all()


def test_numbers_that_are_none_are_drawn_as_nothing():
    shown = film()
    shown.images[0, :14, :14] = np.nan
    assert frame(shown, 0).shape == frame(film(), 0).shape


def test_a_gif_shows_the_frames_with_their_steps(tmp_path):
    shown = film()
    save(tmp_path / "a.gif", shown)
    with Image.open(tmp_path / "a.gif") as image:
        assert image.n_frames == 6  # type: ignore[attr-defined]
        for at in range(6):
            image.seek(at)
            np.testing.assert_array_equal(np.asarray(image.convert("RGB")), frame(shown, at, 300))
    captions = [frame(shown, at, 300)[-18:] for at in range(6)]
    assert len({caption.tobytes() for caption in captions}) == 6


def test_a_film_has_few_colours():
    shown = film(NINE, 28, 3)
    packed = [frame(shown, at, 252).astype(np.int64) @ [65536, 256, 1] for at in range(3)]
    assert len(np.unique(np.concatenate(packed))) < 60


def test_a_png_is_the_end(tmp_path):
    save(tmp_path / "a.png", film())
    with Image.open(tmp_path / "a.png") as image:
        np.testing.assert_array_equal(np.asarray(image), frame(film(), 5, caption=False))


def test_a_json_says_what_was_read(tmp_path):
    save(tmp_path / "a.json", film(), {"model": "some"})
    value = json.loads((tmp_path / "a.json").read_text())
    assert value["format"] == canvas.TRACE_FORMAT and value["model"] == "some"
    assert [moment["step"] for moment in value["frames"]] == [0, 1000, 2000, 3000, 4000, 5000]
    assert value["frames"][-1] == {"step": 5000, "confidence": 0.5, "grid": to_text(FOUR.target[0])}


def test_other_files_are_refused(tmp_path):
    with pytest.raises(ConfigError) as refusal:
        save(tmp_path / "a.svg", film())
    assert str(refusal.value) == (
        f"Cannot tell from the name {tmp_path}/a.svg what to save; let it end in .gif, .mp4, .json or .png."
    )


def test_boards_as_text():
    grid = np.array([[1, 2, 3, 4], [3, 4, 0, 2], [2, 1, 4, 3], [4, 3, 2, 1]], np.uint8)
    assert to_text(grid) == "123434.221434321"
    assert pretty(grid) == " 1 2 | 3 4\n 3 4 | . 2\n-----+-----\n 2 1 | 4 3\n 4 3 | 2 1"
    assert pretty(NINE.target[0]).count("\n") == 10
