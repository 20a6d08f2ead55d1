"""What every trial said about every board at chosen depths, kept so that any curve can be drawn later.

Of an answer is kept how sure its cells were (their mean) and a few marks: is it right, does it obey the
rules. From that follow accuracy against depth and against the number of trials, by the surest trial or by the
rules, without thinking again.
"""

import io
import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int32, UInt8

from ..errors import FileError
from ..files import read_bytes, write_bytes

MOST_BYTES = 2**30


@dataclass
class Outcomes:
    """`n` boards, `k` trials, `d` depths; `boards` numbers the boards within their case.

    Where a trial was not at a depth, because it was pruned or its board had left, `confidence` is NaN.
    `settled` is the first look from which a trial was right at every later look, or -1 if it was not in the
    end; `steps` is how many steps it took. `answer` is what the surest trial said at the last depth.
    """

    boards: Int32[np.ndarray, " n"]
    depths: Int32[np.ndarray, " d"]
    confidence: Float32[np.ndarray, "n k d"]
    marks: dict[str, Bool[np.ndarray, "n k d"]]
    settled: Int32[np.ndarray, "n k"]
    steps: Int32[np.ndarray, "n k"]
    answer: UInt8[np.ndarray, "n h w"]

    @classmethod
    def empty(
        cls,
        boards: Int32[np.ndarray, " n"],
        trials: int,
        depths: Int32[np.ndarray, " d"],
        size: tuple[int, int],
        marks: tuple[str, ...],
    ) -> "Outcomes":
        """Nothing is known yet."""
        shape = (len(boards), trials, len(depths))
        return cls(
            boards=boards,
            depths=depths,
            confidence=np.full(shape, np.nan, np.float32),
            marks={name: np.zeros(shape, bool) for name in marks},
            settled=np.full(shape[:2], -1, np.int32),
            steps=np.zeros(shape[:2], np.int32),
            answer=np.zeros((len(boards), *size), np.uint8),
        )

    def __len__(self) -> int:
        return len(self.boards)

    def joined(self, other: "Outcomes") -> "Outcomes":
        """These boards and then others, of the same trials and depths."""

        def both(name: str) -> Any:
            return np.concatenate([getattr(self, name), getattr(other, name)])

        marks = {name: np.concatenate([mark, other.marks[name]]) for name, mark in self.marks.items()}
        names = ("boards", "confidence", "settled", "steps", "answer")
        return Outcomes(depths=self.depths, marks=marks, **{name: both(name) for name in names})

    def in_order(self) -> "Outcomes":
        """The same by the numbers of the boards."""
        order = np.argsort(self.boards)
        marks = {name: mark[order] for name, mark in self.marks.items()}
        names = ("boards", "confidence", "settled", "steps", "answer")
        return Outcomes(depths=self.depths, marks=marks, **{n: getattr(self, n)[order] for n in names})

    def surest(
        self, depth: int = -1, trials: int | None = None, among: str | None = None
    ) -> Int32[np.ndarray, " n"]:
        """The surest of the first `trials` trials at a depth, by its place; ties go to the lowest.

        With `among`, trials that have this mark come before all others: `verified` makes this verified
        selection.
        """
        sure = self.confidence[:, :trials, depth]
        sure = np.where(np.isnan(sure), -np.inf, sure)
        if among is None:
            return sure.argmax(1).astype(np.int32)
        marked = self.marks[among][:, :trials, depth] & (sure > -np.inf)
        preferred = np.where(marked, sure, -np.inf).argmax(1)
        return np.where(marked.any(1), preferred, sure.argmax(1)).astype(np.int32)

    def share(self, mark: str, depth: int = -1, trials: int | None = None, among: str | None = None) -> float:
        """The share of boards whose chosen answer has a mark: conf@K, or by the rules with `among`."""
        chosen = self.surest(depth, trials, among)
        return float(self.marks[mark][np.arange(len(self)), chosen, depth].mean())

    def curve(self, mark: str, among: str | None = None) -> list[dict[str, Any]]:
        """`share` at every depth for 1, 2, 4, … and all trials."""
        trials = self.confidence.shape[1]
        counts = sorted({*(2**i for i in range(trials.bit_length()) if 2**i <= trials), trials})
        return [
            {"steps": int(depth), "trials": count, "share": round(self.share(mark, at, count, among), 6)}
            for at, depth in enumerate(self.depths)
            for count in counts
        ]


def save(path: Path, outcomes: Outcomes, about: dict[str, Any]) -> None:
    """Writes outcomes with what they were obtained with; bits are packed, the file is compressed."""
    header = np.frombuffer(json.dumps(about, sort_keys=True).encode(), np.uint8)
    plain = ("boards", "depths", "confidence", "settled", "steps", "answer")
    marks = {f"mark.{name}": np.packbits(mark) for name, mark in outcomes.marks.items()}
    buffer = io.BytesIO()
    arrays = {"about": header, **{name: getattr(outcomes, name) for name in plain}, **marks}
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_bytes(path, buffer.getvalue())


def load(path: Path) -> tuple[Outcomes, dict[str, Any]]:
    """What `save` wrote."""
    try:
        with np.load(io.BytesIO(read_bytes(path, MOST_BYTES)), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(arrays.pop("about").tobytes())
        shape = arrays["confidence"].shape
        marks = {
            name.removeprefix("mark."): np.unpackbits(arrays.pop(name), count=int(np.prod(shape)))
            .astype(bool)
            .reshape(shape)
            for name in [name for name in arrays if name.startswith("mark.")]
        }
        return Outcomes(marks=marks, **arrays), about
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise FileError(f"{path} is damaged; delete it and measure again.") from error
