"""Many pairs of many tasks, packed: grids one after another, so that a million of them fit in memory."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int32, Int64, UInt8

from .arc import Pair

_AT_ONCE = 4096
"""Pairs padded together, so that the places of their cells need little memory."""


@dataclass(frozen=True)
class Pairs:
    """`n` pairs of the tasks `names`.

    Pair `i` belongs to task `names[task[i]]`; `shapes[i]` are the rows and columns of its input and of its
    output, `starts[i]` where the two begin in `cells`.
    """

    names: tuple[str, ...]
    task: Int32[np.ndarray, " n"]
    shapes: Int32[np.ndarray, "n 4"]
    starts: Int64[np.ndarray, "n 2"]
    cells: UInt8[np.ndarray, " k"]

    def __len__(self) -> int:
        return len(self.task)

    def __iter__(self) -> Iterator[Pair]:
        return map(self.pair, range(len(self)))

    def pair(self, index: int) -> Pair:
        """One of the pairs."""
        shapes, starts = self.shapes[index].reshape(2, 2), self.starts[index]
        return Pair(
            *(
                self.cells[start : start + height * width].reshape(height, width)
                for (height, width), start in zip(shapes, starts, strict=True)
            )
        )

    @property
    def longest(self) -> Int32[np.ndarray, " n"]:
        """The longest side of each pair's grids."""
        return self.shapes.max(1)

    def where(self, chosen: Bool[np.ndarray, " n"]) -> "Pairs":
        """Some of the pairs; their cells are shared, not copied."""
        return Pairs(self.names, self.task[chosen], self.shapes[chosen], self.starts[chosen], self.cells)

    def of(self, names: Sequence[str]) -> "Pairs":
        """The pairs of some tasks, which are then numbered in the order of `names`."""
        number = {name: place for place, name in enumerate(names)}
        places = np.array([number.get(name, -1) for name in self.names], np.int32)[self.task]
        kept = self.where(places >= 0)
        return Pairs(tuple(names), places[places >= 0], kept.shapes, kept.starts, kept.cells)

    def padded(
        self, side: int
    ) -> tuple[UInt8[np.ndarray, "n {side} {side}"], UInt8[np.ndarray, "n {side} {side}"]]:
        """Inputs and outputs, each in the upper left corner of a square of zeros."""
        both = np.zeros((2, len(self), side, side), np.uint8)
        rows, columns = np.ogrid[:side, :side]
        for first in range(0, len(self), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            for part, grids in enumerate(both):
                height, width = self.shapes[some, 2 * part : 2 * part + 2].T[:, :, None, None]
                inside = (rows < height) & (columns < width)
                place = self.starts[some, part, None, None] + rows * width + columns
                grids[some] = self.cells[np.where(inside, place, 0)] * inside
        return both[0], both[1]


def pack(pairs: Iterable[tuple[str, Pair]]) -> Pairs:
    """Pairs with the names of their tasks, in the order in which they come."""
    names: dict[str, int] = {}
    task, shapes, starts, grids = [], [], [], []
    end = 0
    for name, pair in pairs:
        task.append(names.setdefault(name, len(names)))
        shapes.append((*pair.input.shape, *pair.output.shape))
        starts.append((end, end + pair.input.size))
        grids += [pair.input.reshape(-1), pair.output.reshape(-1)]
        end += pair.input.size + pair.output.size
    return Pairs(
        tuple(names),
        np.array(task, np.int32),
        np.array(shapes, np.int32).reshape(-1, 4),
        np.array(starts, np.int64).reshape(-1, 2),
        np.concatenate(grids) if grids else np.zeros(0, np.uint8),
    )


def join(first: Pairs, second: Pairs) -> Pairs:
    """The pairs of both; tasks of the same name are one task."""
    names = tuple(dict.fromkeys((*first.names, *second.names)))
    number = {name: place for place, name in enumerate(names)}
    places = [np.array([number[name] for name in part.names], np.int32) for part in (first, second)]
    return Pairs(
        names,
        np.concatenate(
            [place[part.task] for place, part in zip(places, (first, second), strict=True)], dtype=np.int32
        ),
        np.concatenate([first.shapes, second.shapes]),
        np.concatenate([first.starts, second.starts + len(first.cells)]),
        np.concatenate([first.cells, second.cells]),
    )
