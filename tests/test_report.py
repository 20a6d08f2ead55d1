import dataclasses
import itertools
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from rich.color import Color, ColorSystem

from cellwise.errors import ConfigError, FileError
from cellwise.model import Trace
from cellwise.puzzles import maze_text, sudoku
from cellwise.puzzles.maze import PATH, START, Vocabulary
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.maze_picture import read_picture
from cellwise.puzzles.sudoku_solver import solve
from cellwise.report import animation
from cellwise.report.palette import DARK, LIGHT, SHADES, maze_colours, sureness
from cellwise.report.picture import picture, save_picture

SMALL = maze_text.parse("#####\n#S*E#\n#####\n")
CLUES = sudoku.parse("53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79")
SOLVED = solve(CLUES)


# ---- colours ---------------------------------------------------------------------------------------------

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
COLOUR_BLINDNESS = {
    "none": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def lab(colour, kind: str) -> np.ndarray:
    share = np.array(colour) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.array(COLOUR_BLINDNESS[kind]) @ linear, 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ linear / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("kind", COLOUR_BLINDNESS)
def test_tokens_look_different_to_everyone(palette, kind):
    tokens = [palette.empty, palette.path, palette.wall, palette.start, palette.goal]
    for one, other in itertools.combinations(tokens, 2):
        assert np.linalg.norm(lab(one, kind) - lab(other, kind)) > 20, (one, other)
    for colours in [
        (palette.ground, palette.found, palette.clash),
        (palette.ground, palette.clue, palette.clash),
    ]:
        for one, other in itertools.combinations(colours, 2):
            assert np.linalg.norm(lab(one, kind) - lab(other, kind)) > 20, (one, other)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_tokens_differ_on_a_terminal_of_16_colours(palette):
    tokens = [palette.empty, palette.path, palette.wall, palette.start, palette.goal, palette.unsure]
    assert len({Color.from_rgb(*token).downgrade(ColorSystem.STANDARD).number for token in tokens}) == 6


def test_sureness_has_few_shades_and_takes_anything():
    confidence = np.linspace(-2, 2, 1001, dtype=np.float32)
    shares = sureness(confidence)
    assert len(np.unique(shares)) == SHADES and (np.diff(shares) >= 0).all()
    assert sureness(np.array([np.nan, np.inf, -np.inf], np.float32)).tolist() == [0, 1, 0]


def test_doubt_fades_towards_one_colour():
    confidence = np.zeros(SMALL.shape, np.float32)
    assert (maze_colours(SMALL, confidence, LIGHT) == LIGHT.unsure).all()
    confidence[1, 2] = 1
    assert tuple(maze_colours(SMALL, confidence, LIGHT)[1, 2]) == LIGHT.path


# ---- pictures --------------------------------------------------------------------------------------------


def test_every_cell_is_a_square_of_its_colour():
    pixels = np.asarray(picture(SMALL, scale=4))
    assert pixels.shape == (12, 20, 3)
    for (row, column), colour in zip(
        np.ndindex(SMALL.shape), maze_colours(SMALL, None, LIGHT).reshape(-1, 3), strict=True
    ):
        assert (pixels[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] == colour).all()
    assert tuple(pixels[4, 8]) == LIGHT.path and tuple(pixels[0, 0]) == LIGHT.wall


@pytest.mark.parametrize("vocabulary", Vocabulary)
def test_a_picture_of_a_maze_can_be_read_back(tmp_path, vocabulary):
    maze = generate(13, 1, 5).inputs[0]
    if vocabulary is Vocabulary.DISTINCT:
        maze[tuple(np.argwhere(maze == START)[0])] = 4
    save_picture(picture(maze), tmp_path / "maze.png")
    np.testing.assert_array_equal(read_picture(tmp_path / "maze.png", vocabulary), maze)


def test_sudoku_picture_has_lines_digits_and_few_colours():
    confidence = np.linspace(0, 1, 81, dtype=np.float32).reshape(9, 9)
    pixels = np.asarray(picture(SOLVED, confidence, CLUES, scale=48))
    assert pixels.shape == (9 * 48 + 3, 9 * 48 + 3, 3)
    assert (pixels[0] == LIGHT.rule).all() and (pixels[:, 3 * 48 + 1] == LIGHT.rule).all()
    assert tuple(pixels[20, 48 + 2]) == LIGHT.ground  # A thin line is thinner than a thick one.
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) < 200
    inks = {(0, 0): LIGHT.clue, (8, 6): LIGHT.unsure, (8, 2): LIGHT.found}
    assert CLUES[0, 0] and not CLUES[8, 6] and not CLUES[8, 2]
    confidence[8, 6], confidence[8, 2] = 0, 1
    pixels = np.asarray(picture(SOLVED, confidence, CLUES, scale=48))
    for (row, column), ink in inks.items():
        cell = pixels[row * 48 + 4 : row * 48 + 47, column * 48 + 4 : column * 48 + 47].reshape(-1, 3)
        assert (cell == ink).all(axis=1).sum() > 50
    blank = np.asarray(picture(CLUES, clues=CLUES, scale=48))[2 * 48 + 4 : 3 * 48 - 4, 4 : 48 - 4]
    assert (blank == LIGHT.ground).all()


def test_the_digits_of_a_picture_are_those_of_the_grid():
    cells = [
        np.asarray(picture(SOLVED, clues=SOLVED, scale=32))[
            r * 32 + 3 : r * 32 + 32, c * 32 + 3 : c * 32 + 32
        ].tobytes()
        for r, c in np.ndindex(9, 9)
    ]
    assert len(set(cells)) == 9
    assert len(set(zip(cells, SOLVED.ravel().tolist(), strict=True))) == 9


@pytest.mark.parametrize("scale", [0, 257])
def test_an_impossible_scale(scale):
    with pytest.raises(ConfigError) as caught:
        picture(SMALL, scale=scale)
    assert str(caught.value) == (
        f"A cell cannot be {scale} pixels wide; choose a scale from 1 to 256 pixels."
    )


@pytest.mark.parametrize("scale", [1, 2, 3, 256])
def test_any_possible_scale_works_for_a_sudoku(scale):
    assert picture(CLUES, clues=CLUES, scale=scale).width == 9 * scale + max(1, scale // 16)


# ---- files -----------------------------------------------------------------------------------------------


def trace_of(grids, confidences) -> Trace:
    return Trace(np.arange(len(grids), dtype=np.int32), np.stack(grids), np.stack(confidences))


def noisy_trace(count=150, size=59) -> Trace:
    """A path that grows out of a storm: more restless than any trained automaton."""
    boards, rng = generate(size, 1, 0), np.random.default_rng(0)
    inputs, target = boards.inputs[0], boards.target[0]
    grids, confidences = [], []
    for step in range(count):
        wild = (inputs == 0) & (rng.random(inputs.shape) > step / count)
        grids.append(np.where(wild, rng.integers(0, 4, inputs.shape), target).astype(np.uint8))
        confidences.append(np.where(wild, rng.random(inputs.shape), 1).astype(np.float32))
    return trace_of(grids, confidences)


def read_back(path) -> list[np.ndarray]:
    with Image.open(path) as film:
        images = []
        for number in range(film.n_frames):
            film.seek(number)
            images.append(np.asarray(film.convert("RGB")))
    return images


def test_a_gif_shows_exactly_the_pictures_of_its_frames(tmp_path):
    trace = noisy_trace(count=12, size=9)
    animation.save(tmp_path / "a.gif", trace)
    images = read_back(tmp_path / "a.gif")
    assert len(images) == 12
    for image, grid, confidence in zip(images, trace.grid, trace.confidence, strict=True):
        np.testing.assert_array_equal(image, picture(grid, confidence, scale=300 // 11))


def test_a_gif_of_a_sudoku(tmp_path):
    confidences = [np.full((9, 9), share, np.float32) for share in (0.1, 0.6, 1.0)]
    grids = [CLUES, np.where(CLUES > 0, CLUES, 5).astype(np.uint8), SOLVED]
    animation.save(tmp_path / "a.gif", trace_of(grids, confidences), CLUES)
    for image, grid, confidence in zip(read_back(tmp_path / "a.gif"), grids, confidences, strict=True):
        np.testing.assert_array_equal(image, picture(grid, confidence, CLUES, scale=33))


def test_a_gif_of_150_restless_frames_of_61_cells_stays_small(tmp_path):
    trace = noisy_trace()
    animation.save(tmp_path / "a.gif", trace)
    assert (tmp_path / "a.gif").stat().st_size < 500_000
    images = read_back(tmp_path / "a.gif")
    assert len(images) > 50
    np.testing.assert_array_equal(images[0], picture(trace.grid[0], trace.confidence[0], scale=4))
    np.testing.assert_array_equal(images[-1], picture(trace.grid[-1], trace.confidence[-1], scale=4))


def test_frames_that_look_alike_become_one_and_the_last_stays_longest(tmp_path):
    sure = np.ones(SMALL.shape, np.float32)
    grids = [np.where(SMALL == PATH, np.uint8(token), SMALL) for token in (0, 0, 0, 1, 1)]
    animation.save(tmp_path / "a.gif", trace_of(grids, [sure] * 5))
    with Image.open(tmp_path / "a.gif") as film:
        assert film.n_frames == 2
        pauses = []
        for number in range(2):
            film.seek(number)
            pauses.append(film.info["duration"])
        assert pauses == [180, 2120] and film.info["loop"] == 0


def test_a_gif_of_one_frame(tmp_path):
    animation.save(tmp_path / "a.gif", trace_of([SMALL], [np.ones(SMALL.shape, np.float32)]))
    assert len(read_back(tmp_path / "a.gif")) == 1


def test_a_png_is_the_last_frame(tmp_path):
    trace = noisy_trace(count=3, size=9)
    animation.save(tmp_path / "a.PNG", trace)
    with Image.open(tmp_path / "a.PNG") as image:
        assert image.format == "PNG"
        np.testing.assert_array_equal(image, picture(trace.grid[-1], trace.confidence[-1]))


def test_a_json_trace_holds_every_frame_and_its_origin(tmp_path):
    trace = noisy_trace(count=4, size=9)
    animation.save(tmp_path / "a.json", trace, origin={"model": "some", "seed": 7})
    saved = json.loads((tmp_path / "a.json").read_text())
    assert list(saved) == ["format", "model", "seed", "frames"]
    assert (saved["format"], saved["model"], saved["seed"]) == ("cellwise trace 1", "some", 7)
    assert [frame["step"] for frame in saved["frames"]] == [0, 1, 2, 3]
    for frame, grid, confidence in zip(saved["frames"], trace.grid, trace.confidence, strict=True):
        np.testing.assert_array_equal(maze_text.parse(frame["grid"]), grid)
        assert frame["confidence"] == pytest.approx(confidence.mean(), abs=1e-4)
    animation.save(tmp_path / "s.json", trace_of([SOLVED], [np.full((9, 9), np.nan, np.float32)]), CLUES)
    (frame,) = json.loads((tmp_path / "s.json").read_text())["frames"]
    assert frame == {"step": 0, "confidence": 0.0, "grid": sudoku.to_text(SOLVED)}


class Encoder:
    """Stands in for imageio_ffmpeg: writes down what it is sent."""

    def __init__(self):
        self.frames = []

    def get_ffmpeg_exe(self):
        return "ffmpeg"

    def write_frames(self, path, size, **options):
        self.size, self.options = size, options
        while True:
            try:
                self.frames.append((yield))
            except GeneratorExit:
                with open(path, "wb") as file:  # noqa: PTH123
                    file.write(b"film")
                return


def test_an_mp4_gets_every_frame_with_even_sides(tmp_path, monkeypatch):
    encoder = Encoder()
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", encoder)
    trace = noisy_trace(count=5, size=9)
    animation.save(tmp_path / "a.mp4", trace)
    assert (tmp_path / "a.mp4").read_bytes() == b"film"
    assert encoder.size == (716, 716)  # 11 cells of 65 pixels, made even
    assert encoder.options == {
        "fps": 20, "macro_block_size": 2, "quality": 8, "output_params": ["-f", "mp4"],
    }  # fmt: skip
    assert len(encoder.frames) == 5
    width, height = encoder.size
    for sent, grid, confidence in zip(encoder.frames, trace.grid, trace.confidence, strict=True):
        drawn = np.asarray(picture(grid, confidence, scale=65))
        assert sent.shape == (height, width, 3) and sent.flags.c_contiguous
        np.testing.assert_array_equal(sent[: drawn.shape[0], : drawn.shape[1]], drawn)


def no_ffmpeg():
    raise RuntimeError("No ffmpeg exe could be found.")


@pytest.mark.parametrize(
    "package", [None, SimpleNamespace(get_ffmpeg_exe=no_ffmpeg)], ids=["absent", "empty"]
)
def test_an_mp4_without_ffmpeg(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", package)
    with pytest.raises(ConfigError) as caught:
        animation.save(tmp_path / "a.mp4", noisy_trace(count=1, size=9))
    assert (
        str(caught.value) == 'Saving an .mp4 needs ffmpeg; install it with `pip install "cellwise[video]"`.'
    )
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.avi", "a", "gif"])
def test_an_unknown_extension(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(ConfigError) as caught:
        animation.check_format(path)
    assert str(caught.value) == (
        f"Cannot tell from the name {path} what to save; let it end in .gif, .mp4, .json, .png, .svg or .pdf."
    )


@pytest.mark.parametrize("name", ["a.gif", "a.png", "a.json"])
def test_a_folder_in_the_way(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(FileError) as caught:
        animation.save(tmp_path / name, noisy_trace(count=1, size=9))
    assert str(caught.value) == f"Cannot write {tmp_path / name}: it is a folder; name a file."
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_which_files_move():
    assert [animation.moves(name) for name in ("a.gif", "b.mp4", "c.json", "d.png", "D.PNG")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_palettes_are_complete():
    for palette in (LIGHT, DARK):
        for colour in dataclasses.astuple(palette):
            assert len(colour) == 3 and all(0 <= part <= 255 for part in colour)
