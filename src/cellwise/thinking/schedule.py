"""Noise while thinking: during the first share of the steps, then silence."""

from dataclasses import dataclass

from ..errors import ConfigError
from ..kernels.dispatch import Noise


@dataclass(frozen=True)
class Schedule:
    """Kicks of `size`, with chances `when` for a board and `where` for a cell, in this share of the steps."""

    share: float
    when: float
    where: float
    size: float

    def over(self, steps: int) -> Noise:
        """The noise of a thought of so many steps."""
        if not 0 <= self.share <= 1:
            raise ConfigError(f"The share of noisy steps cannot be {self.share}; choose one from 0 to 1.")
        return Noise(self.when, self.where, self.size, until=int(self.share * steps))


RELEASED = Schedule(0.25, 0.1, 0.2, 0.3)
"""What the released pruning code kicks Sudokus with."""

PAPER = Schedule(0.25, 0.2, 0.8, 0.1)
"""What the paper says that pruning was done with."""


def usual(puzzle: str, size: float) -> Schedule:
    """The paper's sweep of sizes: in the first quarter, 0.2 of a Sudoku's cells, 0.3 of a maze's."""
    return Schedule(0.25, 0.1, 0.2 if puzzle == "sudoku" else 0.3, size)
