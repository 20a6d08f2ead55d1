"""MNIST's four files, and which of its digits are for what.

Digits for training are those that MNIST calls its test set, digits that no training sees those that it calls
its training set. The paper swaps them like this so that there are more unseen digits than seen ones. Of the
60,000 unseen digits 5,000 chosen by lot are for choosing between models and the others are for testing. (The
last ones, or every twelfth, would not do for choosing: they are easier or harder to read than the rest.)
"""

import hashlib
import struct
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8

from .decoding import decoding, plain, refuse
from .digits import Digits

FILES = {
    "t10k": (10_000, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    "t10k-labels": (10_000, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    "train": (60_000, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    "train-labels": (60_000, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
}
"""How many digits each file has and the SHA-256 of what it holds when unpacked."""

CHOOSING = 5_000
"""How many of the unseen digits are kept for choosing between models."""

_SIDE = 28


def rows_of(split: str) -> tuple[str, Int64[np.ndarray, " n"]]:
    """Which file the digits of a split are in, and which of its digits they are."""
    if split == "train":
        return "t10k", np.arange(FILES["t10k"][0])
    order = np.random.RandomState(0).permutation(FILES["train"][0])
    return "train", np.sort(order[:CHOOSING] if split == "eval" else order[CHOOSING:])


def file_name(kind: str) -> str:
    """The published name of a file of `FILES`, without `.gz`."""
    return f"{kind}-idx1-ubyte" if kind.endswith("labels") else f"{kind}-images-idx3-ubyte"


def check(path: Path, kind: str) -> None:
    """Raises DataError unless the file holds, packed or not, what was published."""
    count, sha256 = FILES[kind]
    if hashlib.sha256(_unpacked(path, _length(kind, count))).hexdigest() != sha256:
        refuse(path, "holds other digits than MNIST's")


def read_digits(path: Path, kind: str, count: int) -> Digits:
    """The digits of an image file, with their classes from the file of labels beside it."""
    images = _array(path, kind, count).reshape(-1, _SIDE, _SIDE)
    stem = path.name.removeprefix(file_name(kind))
    beside = (path.with_name(file_name(f"{kind}-labels") + end) for end in (stem, ".gz", ""))
    labels = next((place for place in beside if place.is_file()), None)
    if labels is None:
        refuse(path, "has no file of labels beside it")
    classes = _array(labels, f"{kind}-labels", count)
    if classes.max() > 9:
        refuse(labels, "has a label beyond 9")
    return Digits((images / np.float32(255)).astype(np.float32), classes)


def _header(kind: str, count: int) -> bytes:
    """How a file of so many digits must begin."""
    if kind.endswith("labels"):
        return struct.pack(">2i", 2049, count)
    return struct.pack(">4i", 2051, count, _SIDE, _SIDE)


def _length(kind: str, count: int) -> int:
    return len(_header(kind, count)) + count * (1 if kind.endswith("labels") else _SIDE * _SIDE)


def _array(path: Path, kind: str, count: int) -> UInt8[np.ndarray, " bytes"]:
    """The bytes behind the header, which must say what is expected."""
    data, header = _unpacked(path, _length(kind, count)), _header(kind, count)
    if not data.startswith(header) or len(data) != _length(kind, count):
        what = "labels" if kind.endswith("labels") else "pictures"
        refuse(path, f"does not hold the {what} of {count:,} digits")
    return np.frombuffer(data, np.uint8, offset=len(header))


def _unpacked(path: Path, length: int) -> bytes:
    """What the file holds, read no further than a byte past what it should be."""
    with decoding(path), plain(path) as file:
        return file.read(length + 1)
