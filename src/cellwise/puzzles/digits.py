"""Handwritten digits: grey pictures of one size with their classes, light ink on a dark ground."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, UInt8

from ..errors import ConfigError, DataError


@dataclass(frozen=True)
class Digits:
    """`m` square pictures, 0 for the ground and 1 for ink, and which digit each shows."""

    images: Float32[np.ndarray, "m s s"]
    labels: UInt8[np.ndarray, " m"]

    @property
    def side(self) -> int:
        """Pixels along a side."""
        return self.images.shape[1]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: slice | np.ndarray) -> "Digits":
        return Digits(self.images[index], self.labels[index])

    def resized(self, side: int) -> "Digits":
        """The same digits in a smaller size: every new pixel is the mean of those it covers."""
        return Digits(shrink(self.images, side), self.labels)

    def by_class(self, classes: int = 9) -> Float32[np.ndarray, "v per_class s s"]:
        """A table of equally many digits of each class 1 to `classes`; class 0, a blank, is all zeros.

        The largest class says how many; smaller ones begin again from their start. So one whole number below
        `per_class` draws from any class, and no digit more than twice as often as another of its class.
        """
        places = [np.flatnonzero(self.labels == digit) for digit in range(1, classes + 1)]
        if missing := [digit for digit, found in enumerate(places, start=1) if not len(found)]:
            raise DataError(f"There is no picture of the digit {missing[0]}; hand over some of every class.")
        most = max(len(found) for found in places)
        table = np.zeros((classes + 1, most, self.side, self.side), np.float32)
        for digit, found in enumerate(places, start=1):
            table[digit] = self.images[np.resize(found, most)]
        return table


def prototypes(digits: Digits, classes: int = 9) -> Float32[np.ndarray, "v s s"]:
    """The mean picture of every class; class 0, a blank, is all zeros."""
    means = np.zeros((classes + 1, digits.side, digits.side), np.float32)
    for digit in range(1, classes + 1):
        found = digits.images[digits.labels == digit]
        if not len(found):
            raise DataError(f"There is no picture of the digit {digit}; hand over some of every class.")
        means[digit] = found.mean(0, dtype=np.float64)
    return means


def shrink(images: Float32[np.ndarray, "m s s"], side: int) -> Float32[np.ndarray, "m t t"]:
    """Pictures scaled down by a whole number, each new pixel the mean of a square of old ones."""
    old = images.shape[1]
    if side < 1 or old % side:
        sizes = ", ".join(str(size) for size in range(1, old + 1) if old % size == 0)
        raise ConfigError(f"Digits of {old} pixels cannot be drawn in {side}; choose one of: {sizes}.")
    factor = old // side
    return images.reshape(-1, side, factor, side, factor).mean((2, 4), dtype=np.float32)
