import numpy as np
import pytest
from PIL import Image, ImageFilter

from cellwise.errors import FileError, PuzzleError
from cellwise.puzzles import store
from cellwise.puzzles.board_picture import read_board
from cellwise.puzzles.digits import prototypes
from cellwise.puzzles.sudoku_four import generate_four
from cellwise.puzzles.sudoku_generator import generate_easy
from cellwise.puzzles.visual_sudoku import NOISE, cut, read, render
from handwriting import digits, drawing

NINE = generate_easy(2, 7).inputs
FOUR = generate_four(2, 7).inputs


@pytest.fixture
def saved(tmp_path):
    def save(pixels, name="board.png", **how):
        image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
        image.save(tmp_path / name, **how)
        return tmp_path / name

    return save


def tokens(board, cells, side):
    image = board.canvas(np.random.default_rng(0))
    return read(image[None], prototypes(digits(side), cells))[0]


@pytest.mark.parametrize("puzzle", [*NINE, *FOUR], ids=["nine", "other nine", "four", "other four"])
@pytest.mark.parametrize("side", [14, 28])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"tone": 255, "ground": 0},
        {"lines": 1},
        {"lines": 1, "thick": 4, "margin": 13},
        {"lines": 0, "thick": 2},
        {"lines": 2, "tone": 230, "ground": 20},
    ],
    ids=["no lines", "light on dark", "lines", "thick lines and margin", "box lines", "dull"],
)
def test_boards_of_every_style_are_read(saved, puzzle, side, how):
    board = read_board(saved(drawing(puzzle, 28, **how)), len(puzzle), side)
    np.testing.assert_array_equal(board.clues, puzzle > 0)
    np.testing.assert_array_equal(tokens(board, len(puzzle), side), puzzle)


@pytest.mark.parametrize("zoom", [1, 2, 3])
def test_digits_like_mnists_are_only_scaled(saved, zoom):
    puzzle, side = NINE[0], 28
    pixels = drawing(puzzle, side)
    board = read_board(saved(pixels.repeat(zoom, 0).repeat(zoom, 1)), 9, side)
    wanted = cut(1 - pixels[None].astype(np.float32) / 255, 9, side)[0]
    np.testing.assert_allclose(board.tiles, wanted * (puzzle > 0)[..., None, None], atol=1e-6)


def test_large_and_small_digits_get_the_size_of_mnists(saved):
    for height, at in ((44, 6), (16, 2)):
        place = np.zeros((56, 56), np.uint8)
        glyph = Image.fromarray((digits(28).images[8] * 255).astype(np.uint8)[4:24]).resize(
            (height // 2, height)
        )
        place[at : at + height, at : at + height // 2] = np.asarray(glyph)
        pixels = np.zeros((4 * 56, 4 * 56), np.uint8)
        pixels[56:112, 112:168] = place
        board = read_board(saved(pixels), 4, 28)
        assert np.argwhere(board.clues).tolist() == [[1, 2]]
        tile = board.tiles[1, 2]
        rows = np.flatnonzero((tile > 0.2).any(1))
        assert 19 <= rows[-1] - rows[0] + 1 <= 20
        middle = (tile.sum(1) * (np.arange(28) + 0.5)).sum() / tile.sum()
        assert abs(middle - 14) < 1


@pytest.mark.parametrize("seed", range(12))
def test_framed_boards_of_any_size_and_quality(saved, seed):
    rng = np.random.default_rng(seed)
    thick, margin, side = (int(rng.integers(*between)) for between in ((1, 6), (0, 30), (200, 900)))
    lines = int(rng.integers(1, thick + 1))
    image = Image.fromarray(drawing(NINE[0], 28, seed, lines, thick, margin))
    image = image.resize((side, side), Image.Resampling.BICUBIC)
    blurred = image.filter(ImageFilter.GaussianBlur(0.8)) if side > 400 and seed % 2 else image
    noisy = np.asarray(blurred) + rng.normal(0, 6, (side, side))
    pixels = np.clip(noisy, 0, 255).astype(np.uint8)
    board = read_board(saved(pixels, "board.jpg", quality=85), 9, 28)
    np.testing.assert_array_equal(board.clues, NINE[0] > 0)
    assert (tokens(board, 9, 28) == NINE[0]).mean() > 0.97


def test_boards_in_real_handwriting(saved, shared_data, tmp_path, monkeypatch):
    """What is read out of a picture is what would be read if the digits had been handed over as they are."""
    monkeypatch.setenv("CELLWISE_DATA", str(tmp_path / "data"))
    store.import_from("mnist", shared_data, "train")
    real = store.load_digits("mnist", "train", limit=2000)
    means = prototypes(real, 9)
    for seed, puzzle in enumerate(NINE):
        image = render(puzzle[None], real, np.random.default_rng(seed), blank="zero")
        pixels = np.rint(255 * (1 - image[0, :252, :252])).astype(np.uint8)
        board = read_board(saved(pixels), 9, 28)
        np.testing.assert_array_equal(board.clues, puzzle > 0)
        again = read(board.canvas(np.random.default_rng(0))[None], means)
        np.testing.assert_array_equal(again[0][puzzle > 0], read(image, means)[0][puzzle > 0])


def test_a_canvas_has_noise_in_its_blanks_and_zeros_in_its_margin(saved):
    board = read_board(saved(drawing(NINE[0])), 9, 28)
    image = board.canvas(np.random.default_rng(3))
    assert image.shape == (256, 256) and image.dtype == np.float32
    tiles = cut(image[None], 9, 28)[0]
    blanks = tiles[~board.clues]
    assert np.abs(blanks).max() <= NOISE and (blanks.std((1, 2)) > 0.04).all()
    np.testing.assert_array_equal(tiles[board.clues], board.tiles[board.clues])
    assert not image[252:].any() and not image[:, 252:].any()
    assert not np.array_equal(image, board.canvas(np.random.default_rng(4)))


@pytest.mark.parametrize("name", ["board.jpg", "board.webp", "board.bmp", "board.gif", "board.ppm"])
def test_other_formats(saved, name):
    board = read_board(saved(drawing(NINE[0], lines=2, margin=5), name), 9, 28)
    np.testing.assert_array_equal(tokens(board, 9, 28), NINE[0])


@pytest.mark.parametrize("mode", ["1", "P", "RGB", "RGBA", "LA"])
def test_other_modes_of_eight_bits(saved, mode):
    image = Image.fromarray(drawing(NINE[0], lines=2, margin=5)).convert(mode)
    np.testing.assert_array_equal(tokens(read_board(saved(image), 9, 28), 9, 28), NINE[0])


# ---- what is refused -------------------------------------------------------------------------------------


def refusal(path, cells=9, digit=28):
    with pytest.raises(PuzzleError) as error:
        read_board(path, cells, digit)
    return str(error.value)


def test_colours(saved):
    pixels = np.repeat(drawing(NINE[0])[..., None], 3, axis=2)
    pixels[..., 2] = 255 - (255 - pixels[..., 2]) // 3
    path = saved(pixels)
    assert refusal(path) == f"{path} has colours; hand over a grey picture."


@pytest.mark.parametrize("pixels", [np.full((252, 252), 255, np.uint8), np.full((252, 252), 120, np.uint8)])
def test_nothing_drawn(saved, pixels):
    path = saved(pixels)
    assert refusal(path) == (f"{path} is empty; hand over a board with digits that differ from their ground.")


def test_lines_without_digits(saved):
    path = saved(drawing(np.zeros((9, 9), np.uint8), lines=2))
    assert refusal(path) == f"{path} shows no digits; hand over a board with some clues."


def test_no_square(saved):
    path = saved(drawing(NINE[0])[:-28])
    assert refusal(path) == f"{path} shows 252 x 224 pixels and no square; crop it to the board."


def test_a_size_that_cannot_be_divided(saved):
    path = saved(np.pad(drawing(NINE[0]), ((0, 4), (0, 4)), constant_values=255))
    assert refusal(path) == (
        f"{path} has no lines, and 9 places do not divide 256 x 256 pixels; crop it to the board and scale "
        "it to a multiple of 9, such as 252 x 252."
    )


def test_too_small(saved):
    path = saved(Image.fromarray(drawing(NINE[0])).resize((54, 54), Image.Resampling.BOX))
    assert refusal(path) == f"{path} has only 6 pixels for a digit; hand over at least 7."


def test_too_large(saved):
    path = saved(Image.new("L", (4097, 4097), 255))
    assert refusal(path) == (
        f"{path} has more than 16,777,216 pixels; scale it down to about 504 pixels a side."
    )


def turned(path):
    return (
        f"{path} shows no 9 x 9 places with a digit or nothing in each, because something runs from one into "
        "the next; turn it upright, straighten it and crop it to the board."
    )


@pytest.mark.parametrize("angle", [3, -7, 20, 45])
@pytest.mark.parametrize("lines", [0, 2])
def test_turned_boards(saved, angle, lines):
    image = Image.fromarray(drawing(NINE[0], lines=lines, margin=9 if lines else 0))
    side = image.width - image.width % 9
    image = image.rotate(angle, Image.Resampling.BILINEAR, expand=False, fillcolor=255).resize((side, side))
    path = saved(image)
    assert refusal(path) == turned(path)


def test_a_board_that_is_shifted(saved):
    path = saved(np.roll(drawing(NINE[0]), (11, 13), (0, 1)))
    assert refusal(path) == turned(path)


def test_something_else(saved):
    rows, columns = np.mgrid[:252, :252]
    rings = (np.hypot(rows - 126, columns - 126) // 6 % 4 == 0) * 255
    path = saved(rings.astype(np.uint8))
    assert refusal(path) == turned(path)


@pytest.mark.parametrize(("puzzle", "cells"), [(NINE[0], 4), (FOUR[0], 9)])
def test_a_board_of_another_size(saved, puzzle, cells):
    path = saved(drawing(puzzle, lines=2))
    assert refusal(path, cells) == (
        f"{path} has lines that do not divide it into {cells} x {cells} equal places; hand over such a "
        "board, or choose a model for boards of another size."
    )


def test_uneven_light(saved):
    shade = np.linspace(0.2, 1, 252)[None] * drawing(NINE[0])
    path = saved(shade.astype(np.uint8))
    assert refusal(path) == (
        f"{path} is not evenly lit; hand over digits on a plain ground, without shadows."
    )


def test_a_filled_place(saved):
    pixels = drawing(NINE[0])
    pixels[28 * 3 + 2 : 28 * 4 - 2, 2:26] = 0
    path = saved(pixels)
    assert refusal(path) == f"{path} has a filled place at row 4, column 1; draw a digit or nothing."


@pytest.mark.parametrize(("mode", "stored"), [("I;16", "I;16"), ("I", "I;16"), ("CMYK", "CMYK")])
def test_other_modes(saved, mode, stored):
    grey = drawing(NINE[0])
    if mode == "CMYK":
        path = saved(Image.fromarray(grey).convert("CMYK"), "board.jpg")
    else:
        path = saved(Image.fromarray(grey.astype(np.uint16) * 256))
    found = refusal(path)
    assert found == f"{path} stores pixels as {stored}; save it as a grey PNG of 8 bits a pixel."


def test_no_picture(tmp_path):
    path = tmp_path / "board.png"
    path.write_text("53..7....")
    assert refusal(path) == f"{path} is not a picture that can be read; save it as PNG and try again."
    with pytest.raises(FileError) as missing:
        read_board(tmp_path / "none.png", 9, 28)
    assert str(missing.value) == (
        f"Cannot read {tmp_path}/none.png: there is no such file or folder; check the path."
    )


def test_random_pixels_never_surprise(saved):
    rng = np.random.default_rng(0)
    for _ in range(20):
        side = int(rng.integers(1, 200))
        density = rng.random()
        pixels = (rng.random((side, side + int(rng.integers(2)))) < density).astype(np.uint8) * 255
        try:
            read_board(saved(pixels), 9, 14)
        except PuzzleError as error:
            assert str(error).count(". ") == 0 and str(error).endswith(".")
