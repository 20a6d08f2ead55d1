import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cellwise.errors import FileError, PuzzleError
from cellwise.puzzles.maze import Vocabulary
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.maze_path import label_bfs
from cellwise.puzzles.maze_picture import read_picture
from cellwise.puzzles.pixels import MAX_PIXELS
from cellwise.report.picture import picture, save_picture

MAZE = generate(9, 1, seed=3).inputs[0]
COLOURS = np.array([[255, 255, 255], [0, 0, 255], [0, 0, 0], [0, 255, 0], [255, 0, 0]], np.uint8)


def draw(grid: np.ndarray, zoom: int = 1) -> Image.Image:
    return Image.fromarray(COLOURS[grid].repeat(zoom, axis=0).repeat(zoom, axis=1))


def distinct(grid: np.ndarray) -> np.ndarray:
    """Makes the LAST endpoint in raster order the start, so that raster order cannot pass for colour."""
    grid = grid.copy()
    first = np.argwhere(grid == 3)[0]
    grid[tuple(first)] = 4
    return grid


@pytest.mark.parametrize("zoom", [1, 2, 3, 7, 10])
def test_round_trip_at_any_zoom(tmp_path: Path, zoom: int):
    maze = distinct(MAZE)
    draw(maze, zoom).save(tmp_path / "maze.png")
    np.testing.assert_array_equal(read_picture(tmp_path / "maze.png", Vocabulary.DISTINCT), maze)
    np.testing.assert_array_equal(read_picture(tmp_path / "maze.png"), MAZE)


@pytest.mark.parametrize("suffix", ["gif", "bmp", "ppm", "jpg", "webp"])
def test_other_formats(tmp_path: Path, suffix: str):
    draw(MAZE, 16).save(tmp_path / f"maze.{suffix}")
    np.testing.assert_array_equal(read_picture(tmp_path / f"maze.{suffix}"), MAZE)


def test_like_colours_are_start_and_goal_in_raster_order(tmp_path: Path):
    draw(MAZE, 4).save(tmp_path / "maze.png")
    grid = read_picture(tmp_path / "maze.png", Vocabulary.DISTINCT)
    np.testing.assert_array_equal(np.minimum(grid, 3), MAZE)
    assert grid[grid >= 3].tolist() == [3, 4]


def test_a_light_margin_of_any_width_is_cut_off(tmp_path: Path):
    framed = Image.new("RGB", (11 * 6 + 13, 11 * 6 + 20), "white")
    framed.paste(draw(MAZE, 6), (5, 9))
    framed.save(tmp_path / "maze.png")
    np.testing.assert_array_equal(read_picture(tmp_path / "maze.png"), MAZE)


def test_transparent_pixels_are_free_cells(tmp_path: Path):
    pixels = np.dstack([COLOURS[MAZE], np.where(MAZE == 0, 0, 255).astype(np.uint8)])
    pixels[MAZE == 0, :3] = 0
    Image.fromarray(pixels).save(tmp_path / "maze.png")
    np.testing.assert_array_equal(read_picture(tmp_path / "maze.png"), MAZE)


def refusal(path: Path) -> str:
    with pytest.raises(PuzzleError) as raised:
        read_picture(path)
    return str(raised.value).replace(str(path), "PICTURE")


def test_a_missing_file_is_a_file_error(tmp_path: Path):
    with pytest.raises(FileError, match="there is no such file"):
        read_picture(tmp_path / "maze.png")


@pytest.mark.parametrize("damage", ["text", "truncated", "empty"])
def test_what_is_no_picture_says_so(tmp_path: Path, damage: str):
    path = tmp_path / "maze.png"
    draw(generate(59, 1, seed=3).inputs[0], 4).save(path)
    data = {"text": b"#####\n#S.G#\n#####\n", "truncated": path.read_bytes()[:300], "empty": b""}[damage]
    path.write_bytes(data)
    assert refusal(path) == "PICTURE is not a picture that can be read; save it as PNG and try again."


@pytest.mark.parametrize("side", [4097, 10_000, 20_000])
def test_a_decompression_bomb_is_refused_undecoded(tmp_path: Path, side: int):
    """Only the header claims that size: whoever decoded the pixels would say that the file is damaged."""
    path = tmp_path / "maze.png"
    draw(MAZE).save(path)
    data = bytearray(path.read_bytes())
    data[16:24] = struct.pack(">2I", side, side)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    path.write_bytes(data)
    assert refusal(path) == (
        f"PICTURE has more than {MAX_PIXELS:,} pixels; scale it down without smoothing, to one pixel a cell."
    )


@pytest.mark.parametrize(("ends", "amount"), [(0, "0"), (1, "1"), (3, "3")])
def test_the_number_of_endpoints_is_told(tmp_path: Path, ends: int, amount: str):
    maze = np.where(MAZE == 3, 0, MAZE).astype(np.uint8)
    for row, column in [(1, 1), (1, 9), (9, 1)][:ends]:
        maze[row, column] = 4
    draw(maze, 5).save(tmp_path / "maze.png")
    assert refusal(tmp_path / "maze.png") == (
        f"PICTURE shows {amount} coloured cells of 5 x 5 pixels; "
        "colour exactly two cells, green for the start and red for the goal."
    )


def test_cells_off_the_grid_are_told(tmp_path: Path):
    pixels = np.asarray(draw(MAZE, 5)).copy()
    pixels[5:8, :5] = 255
    Image.fromarray(pixels).save(tmp_path / "maze.png")
    assert refusal(tmp_path / "maze.png") == (
        "The colours in PICTURE are larger than its finest detail of 1 x 1 pixels; draw walls, ways and "
        "the two endpoints as equal squares, and colour nothing else, no path either."
    )


def test_a_picture_of_a_solved_maze_is_told(tmp_path: Path):
    save_picture(picture(label_bfs(MAZE)), tmp_path / "maze.png")
    assert "colour nothing else, no path either" in refusal(tmp_path / "maze.png")


def test_too_many_cells_are_refused(tmp_path: Path):
    pixels = np.zeros((3, 2005), np.uint8)
    pixels[1, [1, 2]] = 3, 4
    pixels[1, 3] = 2
    pixels[0, ::2] = 2
    draw(pixels).save(tmp_path / "maze.png")
    assert refusal(tmp_path / "maze.png") == (
        "The maze has 3 x 2,005 cells; use one of at most 2,003 cells a side."
    )
