import gzip
import hashlib
import struct

import numpy as np
import pytest

from cellwise.errors import ConfigError, DataError
from cellwise.puzzles import catalog, mnist, store
from cellwise.puzzles.recipe import MazeOodMade

AGAIN = "fetch the dataset again or check where the file came from."
COUNT = 40


def idx(kind, count=COUNT, seed=0):
    """A file in the published form with other digits."""
    rng = np.random.default_rng([seed, len(kind)])
    if kind.endswith("labels"):
        return struct.pack(">2i", 2049, count) + (rng.permutation(count) % 10).astype(np.uint8).tobytes()
    return struct.pack(">4i", 2051, count, 28, 28) + rng.integers(0, 256, count * 784, np.uint8).tobytes()


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder of four small files that this MNIST consists of."""
    monkeypatch.setenv("CELLWISE_DATA", str(tmp_path / "data"))
    folder = tmp_path / "downloads"
    folder.mkdir()
    for seed, kind in enumerate(mnist.FILES):
        data = idx(kind, seed=seed)
        monkeypatch.setitem(mnist.FILES, kind, (COUNT, hashlib.sha256(data).hexdigest()))
        (folder / f"{mnist.file_name(kind)}.gz").write_bytes(gzip.compress(data))
    monkeypatch.setattr(mnist, "CHOOSING", 10)
    dataset = catalog._mnist()
    monkeypatch.setitem(catalog.DATASETS, "mnist", dataset)
    return folder


def test_digits_arrive_and_are_read(small):
    paths = store.import_from("mnist", small)
    assert [path.name for path in paths] == [f"{mnist.file_name(kind)}.gz" for kind in mnist.FILES]
    raw = gzip.decompress((small / "train-images-idx3-ubyte.gz").read_bytes())
    pixels = np.frombuffer(raw, np.uint8, offset=16).reshape(COUNT, 28, 28)
    labels = gzip.decompress((small / "train-labels-idx1-ubyte.gz").read_bytes())[8:]
    test, choosing = (store.load_digits("mnist", split) for split in ("test", "eval"))
    kept, rest = (mnist.rows_of(split)[1].tolist() for split in ("eval", "test"))
    assert len(kept) == 10 and sorted(kept + rest) == list(range(COUNT))
    np.testing.assert_array_equal(np.rint(test.images * 255), pixels[rest])
    np.testing.assert_array_equal(np.rint(choosing.images * 255), pixels[kept])
    assert bytes(test.labels) == bytes(labels[number] for number in rest)
    assert bytes(choosing.labels) == bytes(labels[number] for number in kept)
    assert test.images.dtype == np.float32 and test.images.max() <= 1
    assert len(store.load_digits("mnist", "train", limit=7)) == 7


def test_unseen_digits_are_never_trained_on(small):
    store.import_from("mnist", small)
    assert len(store.load_digits("mnist", "train", training=True)) == COUNT
    for split in ("eval", "test"):
        with pytest.raises(DataError) as refusal:
            store.load_digits("mnist", split, training=True)
        assert str(refusal.value) == (
            f"mnist {split} is for testing only; train on another split or dataset."
        )
    used = [store.load_digits("mnist", split).images for split in ("train", "eval", "test")]
    distinct = {image.tobytes() for images in used for image in images}
    assert len(distinct) == sum(map(len, used)) == 2 * COUNT


def test_files_may_be_unpacked(small):
    for path in list(small.iterdir()):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert [path.suffix for path in store.import_from("mnist", small)] == [""] * 4
    assert len(store.load_digits("mnist", "test")) == 30


def test_other_digits_are_refused(small):
    place = small / "t10k-images-idx3-ubyte.gz"
    place.write_bytes(gzip.compress(idx("t10k", seed=9)))
    with pytest.raises(DataError) as refusal:
        store.import_from("mnist", small)
    assert str(refusal.value) == f"{place} holds other digits than MNIST's; {AGAIN}"


def test_labels_must_be_there_too(small):
    (small / "t10k-labels-idx1-ubyte.gz").unlink()
    store.import_from("mnist", small)
    assert len(store.load_digits("mnist", "test")) == 30
    with pytest.raises(DataError) as refusal:
        store.load_digits("mnist", "train")
    assert str(refusal.value) == (
        "mnist train is not on this machine; run `cellwise data fetch mnist --split train` or "
        "`cellwise data fetch mnist --split train --from DIR`."
    )


def test_a_split_brings_its_two_files(small):
    paths = store.import_from("mnist", small, "train")
    assert [path.name for path in paths] == ["t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]


def test_missing_files_say_how_to_get_them(small):
    with pytest.raises(DataError) as refusal:
        store.load_digits("mnist", "test")
    assert str(refusal.value) == (
        "mnist test is not on this machine; run `cellwise data fetch mnist --split test` or "
        "`cellwise data fetch mnist --split test --from DIR`."
    )


def test_digits_are_no_boards(small):
    store.import_from("mnist", small)
    for load, said in [
        (store.load, "mnist holds no boards; see `cellwise data list` for others."),
        (store.load_tasks, "mnist holds no tasks; see `cellwise data list` for others."),
    ]:
        with pytest.raises(ConfigError) as refusal:
            load("mnist", "train")
        assert str(refusal.value) == said
    path = store.make(MazeOodMade(count=3))
    assert path.exists()
    with pytest.raises(ConfigError) as refusal:
        store.load_digits("maze-ood-made", "train")
    assert str(refusal.value) == (
        "maze-ood-made holds no handwritten digits; see `cellwise data list` for others."
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: data[:-1], "does not hold the pictures of 40 digits"),
        (lambda data: data + b"0", "does not hold the pictures of 40 digits"),
        (lambda data: b"\0" + data[1:-1], "does not hold the pictures of 40 digits"),
        (
            lambda data: data[:12] + struct.pack(">i", 32) + data[16:],
            "does not hold the pictures of 40 digits",
        ),
        (lambda data: b"", "does not hold the pictures of 40 digits"),
    ],
)
def test_damaged_files_are_refused(tmp_path, change, problem):
    path = tmp_path / mnist.file_name("t10k")
    path.write_bytes(change(idx("t10k")))
    path.with_name(mnist.file_name("t10k-labels")).write_bytes(idx("t10k-labels"))
    with pytest.raises(DataError) as refusal:
        mnist.read_digits(path, "t10k", COUNT)
    assert str(refusal.value) == f"{path} {problem}; {AGAIN}"


def test_labels_are_checked(tmp_path):
    path, labels = (tmp_path / mnist.file_name(kind) for kind in ("t10k", "t10k-labels"))
    path.write_bytes(idx("t10k"))
    with pytest.raises(DataError) as refusal:
        mnist.read_digits(path, "t10k", COUNT)
    assert str(refusal.value) == f"{path} has no file of labels beside it; {AGAIN}"
    labels.write_bytes(idx("t10k-labels")[:-1] + b"\x0a")
    with pytest.raises(DataError) as refusal:
        mnist.read_digits(path, "t10k", COUNT)
    assert str(refusal.value) == f"{labels} has a label beyond 9; {AGAIN}"


def test_a_damaged_archive_is_refused(small):
    place = small / "t10k-images-idx3-ubyte.gz"
    place.write_bytes(place.read_bytes()[:-9])
    with pytest.raises(DataError) as refusal:
        store.import_from("mnist", small)
    assert str(refusal.value).startswith(f"{place} is damaged or of another kind (")


def test_the_real_digits(shared_data, tmp_path, monkeypatch):
    monkeypatch.setenv("CELLWISE_DATA", str(tmp_path))
    store.import_from("mnist", shared_data)
    for split, count in (("train", 10_000), ("eval", 5_000), ("test", 55_000)):
        digits = store.load_digits("mnist", split)
        assert len(digits) == count and np.bincount(digits.labels).min() > 0.08 * count
        assert digits.images.min() == 0 and digits.images.max() == 1
