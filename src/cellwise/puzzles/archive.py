"""The published files of every dataset, read into `Boards` and believed only as far as they can be checked.

Nothing here unpickles, extracts to disk or trusts a length: lines, members and arrays are read up to a
bound, and whatever is not exactly the documented format raises a DataError that names the file, the problem
and the remedy. Each reader also checks what the labels claim: a Sudoku answer is a solved grid that keeps its
clues, a maze answer is one simple path between its two endpoints.
"""

import csv
import io
import itertools
import math
import re
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32, Int32, Int64, Shaped, UInt8

from ..files import written_atomically
from . import sudoku
from .board import Boards
from .decoding import decoding, member, plain, refuse
from .maze import EMPTY, PATH, START, WALL, has_ring
from .maze_path import count_neighbours

EXTREME_ROWS = 3_831_994
POOL_ROWS = 20_000
POOL_KEPT = 500
EXTREME_EDGES = (0, 1, 2, 6, 11, 16, 21, 27, 33, 42, 54, 290)

_LINE_LIMIT = 4096  # the longest honest line, two 900-character mazes, is under half of this
_ROW_LIMIT = 8_000_000
_BLOCK_ROWS = 8192
_BLOCK_BYTES = 1 << 25
_MEMBER_LIMIT = 1 << 36
_SATNET_BOARDS = 10_000
_NPY_HEADER = re.compile(
    r"\{'descr': '(\|b1|[|<](?:[iu][1248]|f[248]))', 'fortran_order': False, "
    r"'shape': \(([0-9, ]{1,60})\), ?\}\s*"
)


# ---- tables ----------------------------------------------------------------------------------------------


def _lines(
    file: io.BufferedIOBase, name: str | Path, skipped: int, keep: Bool[np.ndarray, " rows"] | None
) -> Iterator[str]:
    """The lines of a table; with `keep`, only the first `skipped` and the kept rows of exactly that many."""
    for number in itertools.count():
        line = file.readline(_LINE_LIMIT + 1)
        row = number - skipped
        if not line:
            if keep is not None and row != len(keep):
                refuse(name, f"has {row:,} rows instead of {len(keep):,}")
            return
        if len(line) > _LINE_LIMIT or row > _ROW_LIMIT:
            refuse(name, "has more or longer lines than any of our datasets")
        if keep is not None and row >= len(keep):
            refuse(name, f"has more than {len(keep):,} rows")
        if keep is None or row < 0 or keep[row]:
            yield line.decode("latin-1")


def _table(
    file: io.BufferedIOBase,
    name: str | Path,
    columns: tuple[str, ...],
    header: bool = True,
    keep: Bool[np.ndarray, " rows"] | None = None,
) -> Iterator[list[tuple[str, ...]]]:
    """Blocks of rows reduced to `columns`; one whose name ends in `?` may be absent and is then empty."""
    rows = csv.reader(_lines(file, name, int(header), keep), strict=True)
    names = next(rows, None) if header else list(columns)
    if names is None:
        refuse(name, "is empty")
    places = []
    for column in columns:
        wanted = column.rstrip("?")
        if wanted not in names and wanted == column:
            refuse(name, f"has no column `{column}`")
        places.append(names.index(wanted) if wanted in names else None)
    while block := list(itertools.islice(rows, _BLOCK_ROWS)):
        if any(len(row) != len(names) for row in block):
            refuse(name, f"has a row without exactly {len(names)} columns")
        yield [tuple("" if place is None else row[place] for place in places) for row in block]


def _characters(
    texts: list[str], alphabet: str, side: int, name: str | Path
) -> UInt8[np.ndarray, "n side side"]:
    """The position of every character in `alphabet`, as grids."""
    if any(len(text) != side * side for text in texts):
        refuse(name, f"has a board that is not {side * side} characters long")
    table = np.full(256, 255, np.uint8)
    table[np.frombuffer(alphabet.encode("latin-1"), np.uint8)] = np.arange(len(alphabet))
    codes = table[np.frombuffer("".join(texts).encode("latin-1"), np.uint8)]
    if codes.max(initial=0) == 255:
        refuse(name, f"has a board with a character that is none of `{alphabet}`")
    return codes.reshape(-1, side, side)


def _joined(blocks: Iterator[Boards], name: str | Path, limit: int | None) -> Boards:
    parts, count = [], 0
    for boards in blocks:
        parts.append(boards)
        count += len(boards)
        if limit is not None and count >= limit:
            break
    if not count:
        refuse(name, "holds no board")
    whole = Boards(
        np.concatenate([part.target for part in parts]),
        np.concatenate([part.given for part in parts]),
        np.concatenate([part.difficulty for part in parts]),
    )
    return whole[slice(limit)]


# ---- Sudoku ----------------------------------------------------------------------------------------------


def check_sudoku(boards: Boards, name: str | Path) -> Boards:
    """The same boards, if every target is a solved 9×9 grid."""
    if boards.target.shape[1:] != (9, 9) or not sudoku.is_solution(boards.inputs, boards.target).all():
        refuse(name, "has an answer that is not a solved Sudoku")
    return boards


def _sudoku(questions: list[str], answers: list[str], name: str | Path) -> Boards:
    """Boards ranked by their number of blanks."""
    clues = _characters([text.replace(".", "0") for text in questions], "0123456789", 9, name)
    target = _characters(answers, "0123456789", 9, name)
    given = clues > 0
    if np.any(given & (clues != target)):
        refuse(name, "has an answer that changes a clue of its question")
    boards = Boards(target, given, (81 - given.sum((1, 2))).astype(np.int32))
    return check_sudoku(boards, name)


def sudoku_blocks(path: Path, keep: Bool[np.ndarray, " rows"] | None = None) -> Iterator[Boards]:
    """The boards of a CSV file with `question` and `answer`, in blocks; ranked by `rating` if it has one."""
    with decoding(path), plain(path) as file:
        for block in _table(file, path, ("question", "answer", "rating?"), keep=keep):
            questions, answers, ratings = (list(column) for column in zip(*block, strict=True))
            boards = _sudoku(questions, answers, path)
            if any(ratings):
                if not all(re.fullmatch(r"[0-9]{1,9}", rating) for rating in ratings):
                    refuse(path, "has a rating that is not a number")
                boards = Boards(boards.target, boards.given, np.array(ratings).astype(np.int32))
            yield boards


def read_sudoku_csv(path: Path, limit: int | None = None) -> Boards:
    """The first `limit` boards of a Sudoku CSV file, packed or plain."""
    return _joined(sudoku_blocks(path), path, limit)


def extreme_rows(split: str) -> Int64[np.ndarray, " rows"]:
    """Which rows of Sudoku-Extreme's train.csv are the released `train` and `eval` splits, in their order."""
    order = np.random.RandomState(0).permutation(EXTREME_ROWS)  # the released split is this very stream
    return order[:1000] if split == "train" else order[-200:]


def pool_rows(split: str) -> Int64[np.ndarray, " rows"]:
    """Which of the 20,000 rows of train-pool.csv are in a split, in their order.

    `train-1k` is the first thousand of a permutation, `eval` the last 500, `train` all but these.
    """
    order = np.random.RandomState(0).permutation(POOL_ROWS)
    rows = {"train-1k": slice(1000), "train": slice(-POOL_KEPT), "eval": slice(-POOL_KEPT, None)}
    return order[rows[split]]


def read_extreme_rows(path: Path, rows: Int64[np.ndarray, " rows"], count: int = EXTREME_ROWS) -> Boards:
    """The boards in the given rows of a Sudoku CSV file of exactly `count` rows, in the order of `rows`."""
    keep = np.zeros(count, bool)
    keep[rows] = True
    in_file_order = _joined(sudoku_blocks(path, keep), path, None)
    return in_file_order[np.argsort(np.argsort(rows))]


def bin_of(rating: Int32[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    """The difficulty bin of each Sudoku-Extreme rating: 0-10 as published, 11 from 290 guesses on."""
    return np.searchsorted(EXTREME_EDGES, rating, side="right") - 1


def read_sudoku_hard(path: Path) -> Boards:
    """The 18 × 1000 boards of sudoku-hard.zip, 47 to 64 blanks in blocks of a thousand."""
    with decoding(path), zipfile.ZipFile(path) as bundle:
        table = io.BytesIO(member(bundle, "sudoku-hard/test.csv", path, 1 << 24))
        rows = itertools.chain.from_iterable(_table(table, path, ("quiz", "solution"), header=False))
        quizzes, solutions = zip(*rows, strict=True) if (rows := list(rows)) else ((), ())
        boards = _sudoku(list(quizzes), list(solutions), path)
    if not np.array_equal(boards.difficulty, np.repeat(np.arange(47, 65), 1000)):
        refuse(path, "does not hold 1,000 boards for each number of blanks from 47 to 64, in that order")
    return boards


def read_sudoku_easy(path: Path, count: int = _SATNET_BOARDS) -> Boards:
    """The 10 000 one-hot boards of sudoku.zip."""
    grids = {}
    with decoding(path), zipfile.ZipFile(path) as bundle:
        for kind in ("features", "labels"):
            tensor = member(bundle, f"sudoku/{kind}.pt", path, 4 * 729 * count + (1 << 20))
            hot = _storage(tensor, 729 * count, f"{path}, sudoku/{kind}.pt").reshape(count, 9, 9, 9)
            if np.any((hot != 0) & (hot != 1)) or np.any(hot.sum(-1) > 1):
                refuse(path, f"has a cell in sudoku/{kind}.pt that is not one-hot")
            grids[kind] = np.where(hot.any(-1), hot.argmax(-1) + 1, 0).astype(np.uint8)
    target, given = grids["labels"], grids["features"] > 0
    if np.any(given & (grids["features"] != target)):
        refuse(path, "has labels that change a clue of the features")
    return check_sudoku(Boards(target, given, (81 - given.sum((1, 2))).astype(np.int32)), path)


def _storage(data: bytes, count: int, name: str) -> Float32[np.ndarray, " count"]:
    """The float32 storage inside a saved tensor, found by its place in the file; the pickle is never read.

    The zip format keeps it in a member of its own. The older format ends with the number of elements as an
    int64 and then the elements themselves.
    """
    size = 4 * count
    if data[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(data)) as bundle:
            storages = [name for name in bundle.namelist() if re.fullmatch(r"[^/]+/data/[0-9]+", name)]
            if len(storages) != 1 or not storages[0].endswith("/data/0"):
                refuse(name, "does not hold exactly one tensor")
            raw = bundle.open(storages[0]).read(size + 1)
    else:
        raw = data[-size:]
        if data[-size - 8 : -size] != struct.pack("<q", count):
            raw = b""
    if len(raw) != size:
        refuse(name, f"does not hold a tensor of {count:,} numbers")
    return np.frombuffer(raw, "<f4")


# ---- mazes -----------------------------------------------------------------------------------------------


def check_maze(boards: Boards, name: str | Path) -> Boards:
    """The same boards, if every maze has two endpoints and its path cells only link one to the other."""
    ends = boards.target >= START
    line = ends | (boards.target == PATH)
    if np.any(ends.sum((1, 2)) != 2):
        refuse(name, "has a maze without exactly two endpoints")
    if np.any(line & (count_neighbours(line) != 2 - ends)):
        refuse(name, "has an answer that is not a simple path between the endpoints")
    return boards


def read_maze_hard(path: Path, limit: int | None = None) -> Boards:
    """The 30×30 mazes of a CSV file with `question` and `answer`, ranked by their number of path cells."""
    alphabet = " o#SG"

    def blocks() -> Iterator[Boards]:
        with decoding(path), plain(path) as file:
            for block in _table(file, path, ("question", "answer")):
                questions, answers = (
                    _characters(list(texts), alphabet, 30, path) for texts in zip(*block, strict=True)
                )
                if np.any(questions == PATH) or np.any(
                    np.where(answers == PATH, EMPTY, answers) != questions
                ):
                    refuse(path, "has an answer that changes more of its maze than adding a path")
                if any(np.any((questions == token).sum((1, 2)) != 1) for token in (3, 4)):
                    refuse(path, "has a maze without exactly one start and one goal")
                yield _mazes(answers, path)

    return _joined(blocks(), path, limit)


def _mazes(target: UInt8[np.ndarray, "n h w"], name: str | Path) -> Boards:
    return check_maze(Boards(target, target >= WALL, (target == PATH).sum((1, 2)).astype(np.int32)), name)


def read_maze_ood(path: Path, size: int) -> Boards:
    """The mazes of maze_data_*_{size}.tar.gz, size + 2 cells a side, ranked by their number of path cells."""
    side = 2 * size + 6
    wanted: dict[str, tuple[tuple[int, ...], Callable[[np.ndarray], np.ndarray]]] = {
        "inputs.npy": ((3, side, side), _cells),
        "solutions.npy": ((side, side), _solved),
    }
    found: dict[str, np.ndarray] = {}
    with decoding(path), plain(path) as stream, tarfile.open(fileobj=stream, mode="r|") as bundle:
        for entry in bundle:
            name = entry.name.rpartition("/")[2]
            if entry.size > _MEMBER_LIMIT:
                refuse(path, f"has a member {name!r} that is far too large")
            file = bundle.extractfile(entry) if name in wanted and entry.isreg() else None
            if file is not None:
                shape, decode = wanted[name]
                parts = _npy_parts(file.read, f"{path}, {name},", shape)
                found[name] = np.concatenate([decode(part) for part in parts])
        while stream.read(_BLOCK_BYTES):  # the checksum of a gzip file is behind its last byte
            pass
    if len(found) != len(wanted):
        refuse(path, "does not hold both inputs.npy and solutions.npy")
    cells, solved = found["inputs.npy"], found["solutions.npy"]
    if len(cells) != len(solved):
        refuse(path, f"has {len(cells):,} inputs but {len(solved):,} solutions")
    if np.any(solved & (cells == WALL)):
        refuse(path, "has a solution that runs through a wall")
    if not has_ring(cells):
        refuse(path, "has a maze that is not surrounded by walls")
    return _mazes(np.where(solved & (cells == EMPTY), np.uint8(PATH), cells), path)


def _cells(pixels: Shaped[np.ndarray, "n 3 p p"]) -> UInt8[np.ndarray, "n c c"]:
    """One token per 2×2 block of pixels: black is wall, more red or green than blue is an endpoint."""
    red, green, blue = np.moveaxis(pixels[:, :, 1:-1:2, 1:-1:2], 1, 0)
    endpoint = (red > blue) | (green > blue)
    wall = (red == 0) & (green == 0)
    return np.where(endpoint, np.uint8(START), np.where(wall, np.uint8(WALL), np.uint8(EMPTY)))


def _solved(pixels: Shaped[np.ndarray, "n p p"]) -> Bool[np.ndarray, "n c c"]:
    return pixels[:, 1:-1:2, 1:-1:2] == 1


# ---- arrays ----------------------------------------------------------------------------------------------


def _npy_parts(
    read: Callable[[int], bytes], name: str, shape: tuple[int | None, ...]
) -> Iterator[np.ndarray]:
    """The array of a .npy file, some boards at a time, each of the given `shape` (None: any length)."""
    magic = read(8)
    width = {b"\x93NUMPY\x01\x00": 2, b"\x93NUMPY\x02\x00": 4}.get(magic)
    if width is None:
        refuse(name, "is not a .npy array")
    length = int.from_bytes(read(width), "little")
    header = _NPY_HEADER.fullmatch(read(min(length, 4096)).decode("latin-1"))
    if header is None:
        refuse(name, "is not a plain row-major array of numbers")
    dtype = np.dtype(header[1])
    count, *board = (int(axis) for axis in header[2].split(",") if axis.strip())
    if len(board) != len(shape) or any(
        want not in (None, have) for want, have in zip(shape, board, strict=True)
    ):
        refuse(name, f"has boards of the shape {tuple(board)} instead of {shape}")
    size = math.prod(board) * dtype.itemsize
    if not 0 < count <= _ROW_LIMIT or not 0 < size <= _BLOCK_BYTES:
        refuse(name, f"has the impossible shape {(count, *board)}")
    step = _BLOCK_BYTES // size
    for first in range(0, count, step):
        rows = min(step, count - first)
        data = read(rows * size)
        if len(data) != rows * size:
            refuse(name, "ends too early")
        array = np.frombuffer(data, np.uint8) != 0 if dtype.kind == "b" else np.frombuffer(data, dtype)
        yield array.reshape(rows, *board)


def write_boards(path: Path, boards: Boards) -> None:
    """Saves boards as .npz, the same bytes for the same boards."""
    with written_atomically(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, target=boards.target, given=boards.given, difficulty=boards.difficulty)


def read_boards(path: Path) -> Boards:
    """What `write_boards` saved."""
    kinds: dict[str, tuple[type, tuple[None, ...]]] = {
        "target": (np.uint8, (None, None)),
        "given": (np.bool_, (None, None)),
        "difficulty": (np.int32, ()),
    }
    arrays = {}
    with decoding(path), zipfile.ZipFile(path) as bundle:
        for name, (kind, shape) in kinds.items():
            if f"{name}.npy" not in bundle.namelist():
                refuse(path, f"has no array `{name}`")
            with bundle.open(f"{name}.npy") as file:
                array = np.concatenate(list(_npy_parts(file.read, f"{path}, {name},", shape)))
            if array.dtype != kind:
                refuse(path, f"has an array `{name}` of {array.dtype} instead of {np.dtype(kind)}")
            arrays[name] = array
    grids = arrays["target"].shape
    if arrays["given"].shape != grids or len(arrays["difficulty"]) != grids[0]:
        refuse(path, "has arrays that do not fit each other")
    return Boards(**arrays)
