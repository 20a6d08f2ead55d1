import gzip
import io
import re
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwise.errors import DataError
from cellwise.puzzles import archive
from cellwise.puzzles.board import Boards
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.maze_path import label_maze_hard

SHARED = Path(__file__).parents[2] / "shared" / "data"
AGAIN = "; fetch the dataset again or check where the file came from."
SOLVED = "".join(str((3 * (row % 3) + row // 3 + column) % 9 + 1) for row in range(9) for column in range(9))


def quiz(blanks: int, blank: str = ".") -> str:
    return blank * blanks + SOLVED[blanks:]


def sudoku_csv(ratings: list[int]) -> str:
    rows = [f"somewhere,{quiz(40 + place)},{SOLVED},{rating}" for place, rating in enumerate(ratings)]
    return "\n".join(["source,question,answer,rating", *rows, ""])


def pixels(boards: Boards, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Boards as the Maze-OOD archives draw them: 2x2 pixels a cell and a rim of one more."""
    colours = np.array([[1, 1, 1], [1, 1, 1], [0, 0, 0], [1, 0, 0]])
    colours = np.stack([colours, colours])
    colours[1, 3] = (0, 1, 0)
    goal = (boards.target == 3) & (np.cumsum(boards.target == 3, axis=2) + np.arange(1) > 0)
    which = np.zeros(boards.target.shape, int)
    which[goal & (np.cumsum((boards.target == 3).reshape(len(boards), -1), 1).reshape(goal.shape) == 2)] = 1
    image = colours[which, boards.target].transpose(0, 3, 1, 2)
    line = (boards.target == 1) | (boards.target == 3)

    def grown(grid: np.ndarray) -> np.ndarray:
        return np.pad(grid.repeat(2, -1).repeat(2, -2), [(0, 0)] * (grid.ndim - 2) + [(1, 1)] * 2).astype(
            kind
        )

    return grown(image), grown(line)


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def tar_gz(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as bundle:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            bundle.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in members.items():
            bundle.writestr(name, data)
    return buffer.getvalue()


def mood(boards: Boards, kind: str = "float64") -> dict[str, bytes]:
    images, lines = pixels(boards, kind)
    return {"maze_data_test_9/inputs.npy": npy(images), "maze_data_test_9/solutions.npy": npy(lines)}


def tensor(array: np.ndarray, form: str) -> bytes:
    raw = array.astype("<f4").tobytes()
    if form == "zip":
        return zipped(
            {"features/data.pkl": b"never read", "features/data/0": raw, "features/version": b"3\n"}
        )
    return b"\x80\x02never read." * 9 + struct.pack("<q", array.size) + raw


def satnet(form: str, clues: np.ndarray, target: np.ndarray) -> bytes:
    def hot(grids: np.ndarray) -> np.ndarray:
        return (grids[..., None] == np.arange(1, 10)).astype(float)

    parts = {"features": clues, "labels": target}
    return zipped({f"sudoku/{name}.pt": tensor(hot(grids), form) for name, grids in parts.items()})


def refused(read, path: Path) -> str:
    with pytest.raises(DataError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(str(path)) and message.count("\n") == 0
    return message.removeprefix(str(path))


@pytest.fixture
def save(tmp_path):
    def save(data: bytes | str) -> Path:
        path = tmp_path / "file"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    return save


# ---- Sudoku ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_rated_csv_is_read_packed_or_plain(save, pack):
    boards = archive.read_sudoku_csv(save(pack(sudoku_csv([0, 5, 300]).encode())))
    assert boards.difficulty.tolist() == [0, 5, 300]
    assert boards.given.sum((1, 2)).tolist() == [41, 40, 39]
    assert (boards.target == np.array(list(SOLVED), np.uint8).reshape(9, 9)).all()
    assert boards.target.dtype == np.uint8 and boards.difficulty.dtype == np.int32


def test_without_a_rating_the_blanks_rank(save):
    boards = archive.read_sudoku_csv(
        save(f"answer,question\n{SOLVED},{quiz(64)}\n{SOLVED},{quiz(3)}\n"), limit=1
    )
    assert boards.difficulty.tolist() == [64]


def test_limit_and_block_borders(save, monkeypatch):
    monkeypatch.setattr(archive, "_BLOCK_ROWS", 2)
    path = save(sudoku_csv([1, 2, 3, 4, 5]))
    assert archive.read_sudoku_csv(path).difficulty.tolist() == [1, 2, 3, 4, 5]
    assert archive.read_sudoku_csv(path, limit=3).difficulty.tolist() == [1, 2, 3]


def test_rows_come_in_the_asked_order(save):
    path = save(sudoku_csv([10, 11, 12, 13, 14]))
    boards = archive.read_extreme_rows(path, np.array([3, 0, 4]), count=5)
    assert boards.difficulty.tolist() == [13, 10, 14]
    for count, problem in [(6, " has 5 rows instead of 6"), (4, " has more than 4 rows")]:
        assert (
            refused(lambda p, n=count: archive.read_extreme_rows(p, np.array([0]), n), path)
            == problem + AGAIN
        )


def test_the_released_rows_of_sudoku_extreme():
    train, evaluation = archive.extreme_rows("train"), archive.extreme_rows("eval")
    assert len(train) == 1000 and len(evaluation) == 200
    assert not set(train.tolist()) & set(evaluation.tolist())
    again = np.random.RandomState(0).permutation(3831994)
    assert train.tolist() == again[:1000].tolist() and evaluation.tolist() == again[-200:].tolist()


def test_bins_are_half_open():
    ratings = np.array([0, 1, 2, 5, 6, 10, 11, 53, 54, 289, 290, 100_000], np.int32)
    assert archive.bin_of(ratings).tolist() == [0, 1, 2, 2, 3, 3, 4, 9, 10, 10, 11, 11]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", " is empty"),
        ("question,rating\n", " has no column `answer`"),
        ("question,answer\n", " holds no board"),
        (f"question,answer\n{quiz(9)}\n", " has a row without exactly 2 columns"),
        (f"question,answer\n{quiz(9)[1:]},{SOLVED}\n", " has a board that is not 81 characters long"),
        (
            f"question,answer\n{quiz(9, 'x')},{SOLVED}\n",
            " has a board with a character that is none of `0123456789`",
        ),
        (f"question,answer\n{quiz(9)},{SOLVED[1:]}1\n", " has an answer that changes a clue of its question"),
        (f"question,answer\n{quiz(81)},{SOLVED[:-1]}1\n", " has an answer that is not a solved Sudoku"),
        (f"question,answer,rating\n{quiz(9)},{SOLVED},-1\n", " has a rating that is not a number"),
        ("question,answer\n" + "1" * 5000, " has more or longer lines than any of our datasets"),
    ],
)
def test_bad_sudoku_tables(save, text, problem):
    assert refused(archive.read_sudoku_csv, save(text)) == problem + AGAIN


def test_a_cut_gzip_is_damaged(save):
    problem = refused(archive.read_sudoku_csv, save(gzip.compress(sudoku_csv([1] * 99).encode())[:-20]))
    assert re.fullmatch(r" is damaged or of another kind \(.+\)" + re.escape(AGAIN), problem)


def test_sudoku_hard(save):
    def bundle(blanks: np.ndarray) -> bytes:
        rows = "".join(f"{quiz(count, '0')},{SOLVED}\n" for count in blanks)
        return zipped({"sudoku-hard/test.csv": rows.encode(), "sudoku-hard/train.csv": b"ignored"})

    blanks = np.repeat(np.arange(47, 65), 1000)
    boards = archive.read_sudoku_hard(save(bundle(blanks)))
    assert len(boards) == 18_000 and boards.difficulty[9767] == 56
    problem = " does not hold 1,000 boards for each number of blanks from 47 to 64, in that order" + AGAIN
    assert refused(archive.read_sudoku_hard, save(bundle(blanks[::-1]))) == problem
    empty = save(zipped({"sudoku-hard/test.csv": b""}))
    assert refused(archive.read_sudoku_hard, empty) == problem
    other = save(zipped({"test.csv": b""}))
    assert refused(archive.read_sudoku_hard, other) == " has no member sudoku-hard/test.csv" + AGAIN


def test_a_zip_that_points_outside_itself(save):
    data = bytearray(zipped({"sudoku-hard/test.csv": b""}))
    data[-10:-6] = b"\xff\xff\xff\x0f"  # the size of its directory
    assert refused(archive.read_sudoku_hard, save(bytes(data))).startswith(" is damaged or of another kind (")


@pytest.fixture
def satnet_grids():
    target = np.stack(
        [np.roll(np.array(list(SOLVED), np.uint8).reshape(9, 9), 3 * n, axis=0) for n in range(3)]
    )
    clues = target.copy()
    clues[:, 4:] = 0
    return clues, target


@pytest.mark.parametrize("form", ["zip", "tail"])
def test_satnet_tensors_are_read_without_their_pickle(save, satnet_grids, form):
    clues, target = satnet_grids
    boards = archive.read_sudoku_easy(save(satnet(form, clues, target)), count=3)
    assert (boards.target == target).all() and (boards.inputs == clues).all()
    assert boards.difficulty.tolist() == [45, 45, 45]


@pytest.mark.parametrize("form", ["zip", "tail"])
def test_bad_satnet_tensors(save, satnet_grids, form):
    clues, target = satnet_grids

    def problem(data: bytes, count: int = 3) -> str:
        return refused(lambda path: archive.read_sudoku_easy(path, count), save(data)).removesuffix(AGAIN)

    whole = satnet(form, clues, target)
    assert problem(whole, 2) == ", sudoku/features.pt does not hold a tensor of 1,458 numbers"
    wrong = clues.copy()
    wrong[0, 0, 0] = 10 - wrong[0, 0, 0]
    assert problem(satnet(form, wrong, target)) == " has labels that change a clue of the features"
    assert problem(satnet(form, clues, clues)) == " has an answer that is not a solved Sudoku"
    for value in (0.5, np.nan):
        hot = zipped({"sudoku/features.pt": tensor(np.full((3, 9, 9, 9), value), form)})
        assert problem(hot) == " has a cell in sudoku/features.pt that is not one-hot"
    two = zipped({"sudoku/features.pt": tensor(np.ones((3, 9, 9, 9)), form)})
    assert problem(two) == " has a cell in sudoku/features.pt that is not one-hot"
    pair = zipped({"sudoku/features.pt": zipped({"a/data/0": b"", "a/data/1": b""})})
    assert problem(pair) == ", sudoku/features.pt does not hold exactly one tensor"
    large = zipped({"sudoku/features.pt": bytes(3 << 20)})
    assert problem(large) == " has a member sudoku/features.pt that is far too large"


# ---- mazes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bool", "uint8", "int64", "float32", "float64"])
def test_maze_ood_round_trip(save, kind):
    boards = generate(9, 20, 7)
    read = archive.read_maze_ood(save(tar_gz(mood(boards, kind))), 9)
    assert read.target.shape == (20, 11, 11)
    assert (read.target == boards.target).all() and (read.given == boards.given).all()
    assert (read.difficulty == boards.difficulty).all()
    outside_path = read.target != 1
    assert (read.target == read.inputs)[outside_path].all()


def test_maze_ood_is_read_in_pieces_and_in_any_order(save, monkeypatch):
    monkeypatch.setattr(archive, "_BLOCK_BYTES", 3 * 24 * 24 * 8 * 3)
    boards = generate(9, 8, 7)
    members = dict(reversed(mood(boards).items())) | {"maze_data_test_9/readme.txt": b"hello"}
    assert (archive.read_maze_ood(save(tar_gz(members)), 9).target == boards.target).all()


def test_bad_maze_archives(save):
    boards = generate(9, 4, 7)
    good = mood(boards)
    inputs, solutions = good

    def problem(changes: dict[str, bytes], size: int = 9) -> str:
        path = save(tar_gz({name: data for name, data in (good | changes).items() if data}))
        return refused(lambda p: archive.read_maze_ood(p, size), path).removesuffix(AGAIN)

    def changed(name: str, where: tuple, value: float) -> dict[str, bytes]:
        array = np.load(io.BytesIO(good[name]))
        array[where] = value
        return {name: npy(array)}

    path = Path("x")
    assert problem({solutions: b""}) == " does not hold both inputs.npy and solutions.npy"
    assert problem({}, 11) == ", inputs.npy, has boards of the shape (3, 24, 24) instead of (3, 28, 28)"
    assert problem(mood(boards[:3]) | {inputs: good[inputs]}) == " has 4 inputs but 3 solutions"
    assert problem({inputs: b"hello"}) == ", inputs.npy, is not a .npy array"
    assert problem({inputs: good[inputs][:-9]}) == ", inputs.npy, ends too early"
    objects = npy(np.array([{}, [path]], dtype=object))
    assert problem({inputs: objects}) == ", inputs.npy, is not a plain row-major array of numbers"
    fortran = npy(np.asfortranarray(np.zeros((4, 24, 24))))
    assert problem({solutions: fortran}) == ", solutions.npy, is not a plain row-major array of numbers"
    none = npy(np.zeros((0, 24, 24)))
    assert problem({solutions: none}) == ", solutions.npy, has the impossible shape (0, 24, 24)"
    corner = (0, slice(None), slice(1, 3), slice(1, 3))
    assert problem(changed(inputs, corner, 1)) == " has a maze that is not surrounded by walls"
    row, column = np.argwhere(boards.target[0] == 2)[20] * 2 + 1
    wall = (0, row, column)
    assert problem(changed(solutions, wall, 1)) == " has a solution that runs through a wall"
    row, column = np.argwhere(boards.target[0] == 1)[0] * 2 + 1
    cut = changed(solutions, (0, slice(row, row + 2), slice(column, column + 2)), 0)
    assert problem(cut) == " has an answer that is not a simple path between the endpoints"
    row, column = np.argwhere(boards.target[0] == 3)[0] * 2 + 1
    lone = changed(inputs, (0, slice(None), slice(row, row + 2), slice(column, column + 2)), 1)
    assert problem(lone) == " has a maze without exactly two endpoints"


def hard_maze() -> tuple[str, str]:
    grid = np.zeros((30, 30), np.uint8)
    grid[1::2, :] = 2
    grid[1::4, 29] = 0
    grid[3::4, 0] = 0
    grid[0, 0], grid[28, 10] = 3, 4
    texts = ["".join(" o#SG"[token] for token in board.ravel()) for board in (grid, label_maze_hard(grid))]
    return texts[0], texts[1]


def test_maze_hard(save):
    question, answer = hard_maze()
    boards = archive.read_maze_hard(save(f"question,answer,rating\n{question},{answer},7\n"))
    assert boards.difficulty.tolist() == [answer.count("o")] and answer.count("o") > 400
    assert boards.target.shape == (1, 30, 30)
    assert (boards.target[0] == label_maze_hard(boards.inputs[0])).all()
    assert (boards.given == np.isin(boards.target, [2, 3, 4])).all()


def test_bad_mazes(save):
    question, answer = hard_maze()

    def problem(question: str, answer: str) -> str:
        text = f"question,answer\n{question},{answer}\n"
        return refused(archive.read_maze_hard, save(text)).removesuffix(AGAIN)

    changes = " has an answer that changes more of its maze than adding a path"
    assert problem(answer, answer) == changes
    assert problem(question, answer.replace("#", " ", 1)) == changes
    ends = " has a maze without exactly one start and one goal"
    assert problem(question.replace("S", "G"), answer.replace("S", "G")) == ends
    broken = " has an answer that is not a simple path between the endpoints"
    assert problem(question, answer.replace("o", " ", 1)) == broken
    assert problem(question[:-1], answer) == " has a board that is not 900 characters long"
    assert problem(question, answer.replace("o", "x")).endswith("is none of ` o#SG`")


@pytest.mark.parametrize(("split", "longest", "mean"), [("train", 145, 113.06), ("test", 152, 112.52)])
def test_the_published_maze_hard_answers_follow_the_label_rule(split, longest, mean):
    path = SHARED / "maze-hard" / f"{split}.csv.gz"
    if not path.exists():
        pytest.skip("the benchmark data is not beside the repository")
    boards = archive.read_maze_hard(path)
    assert len(boards) == 1000
    assert boards.difficulty.min() == 108 and boards.difficulty.max() == longest
    assert boards.difficulty.mean() == pytest.approx(mean, abs=0.005)
    for board in range(0, 1000, 10):
        assert (label_maze_hard(boards.inputs[board]) == boards.target[board]).all()


# ---- arrays ----------------------------------------------------------------------------------------------


def test_saved_boards_come_back_and_the_bytes_are_the_same(tmp_path):
    boards = generate(9, 5, 1)
    first, second = tmp_path / "a.npz", tmp_path / "b.npz"
    archive.write_boards(first, boards)
    archive.write_boards(second, boards)
    assert first.read_bytes() == second.read_bytes()
    back = archive.read_boards(first)
    for name in ("target", "given", "difficulty"):
        assert (getattr(back, name) == getattr(boards, name)).all()
        assert getattr(back, name).dtype == getattr(boards, name).dtype


def test_bad_saved_boards(save):
    boards = generate(9, 2, 1)
    good = {name: npy(getattr(boards, name)) for name in ("target", "given", "difficulty")}

    def problem(changes: dict[str, np.ndarray | None]) -> str:
        arrays = good | {name: npy(array) if array is not None else b"" for name, array in changes.items()}
        path = save(zipped({f"{name}.npy": data for name, data in arrays.items() if data}))
        return refused(archive.read_boards, path).removesuffix(AGAIN)

    assert problem({"given": None}) == " has no array `given`"
    assert (
        problem({"target": boards.target.astype(float)})
        == " has an array `target` of float64 instead of uint8"
    )
    assert problem({"given": boards.given[:1]}) == " has arrays that do not fit each other"
    assert problem({"difficulty": boards.difficulty[:1]}) == " has arrays that do not fit each other"
    wrong = problem({"given": boards.given[0]})
    assert wrong == ", given, has boards of the shape (11,) instead of (None, None)"


# ---- anything --------------------------------------------------------------------------------------------

READERS = {
    "sudoku csv": (archive.read_sudoku_csv, sudoku_csv([1, 2]).encode()),
    "rows": (
        lambda p: archive.read_extreme_rows(p, np.array([1]), 2),
        gzip.compress(sudoku_csv([1, 2]).encode()),
    ),
    "sudoku hard": (archive.read_sudoku_hard, zipped({"sudoku-hard/test.csv": b"1,2\n"})),
    "sudoku easy": (
        lambda p: archive.read_sudoku_easy(p, 1),
        satnet("zip", np.zeros((1, 9, 9), np.uint8), np.ones((1, 9, 9), np.uint8)),
    ),
    "maze hard": (archive.read_maze_hard, "question,answer\n{},{}\n".format(*hard_maze()).encode()),
    "maze ood": (lambda p: archive.read_maze_ood(p, 9), tar_gz(mood(generate(9, 2, 1), "bool"))),
    "boards": (archive.read_boards, zipped({"target.npy": npy(np.zeros((1, 9, 9), np.uint8))})),
}


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_and_damaged_bytes_raise_nothing_but_a_data_error(tmp_path, kind, data):
    read, sample = READERS[kind]
    if data.draw(st.booleans()):
        junk = data.draw(st.sampled_from([b"", b"\x1f\x8b\x08\x00", b"PK\x03\x04", b"question,answer\n"]))
        damaged = junk + data.draw(st.binary(max_size=200))
    else:
        damaged = bytearray(sample)
        for _ in range(data.draw(st.integers(1, 4))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    path = tmp_path / "file"
    path.write_bytes(damaged)
    try:
        boards = read(path)
    except DataError as error:
        assert str(error).startswith(str(path))
    else:
        assert isinstance(boards, Boards) and len(boards)
