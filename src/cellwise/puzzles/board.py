"""The one record that every dataset becomes."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int32, UInt8


@dataclass(frozen=True)
class Boards:
    """`n` puzzles of one size with their solutions.

    `target` holds the solved grid, `given` is true where the token belongs to the puzzle (a wall, an
    endpoint, a clue), `difficulty` is whatever number the dataset ranks its puzzles by.
    """

    target: UInt8[np.ndarray, "n h w"]
    given: Bool[np.ndarray, "n h w"]
    difficulty: Int32[np.ndarray, " n"]

    @property
    def inputs(self) -> UInt8[np.ndarray, "n h w"]:
        """What the solver sees: `target` where given, 0 elsewhere."""
        return self.target * self.given

    def __len__(self) -> int:
        return len(self.target)

    def __getitem__(self, index: slice | np.ndarray) -> "Boards":
        return Boards(self.target[index], self.given[index], self.difficulty[index])
