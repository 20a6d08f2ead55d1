"""Everything one run of learning from pictures needs, put together by a benchmark."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, UInt64

from ..automaton import picture
from ..automaton.layout import Automaton
from ..errors import ConfigError
from ..model import Model, Pace, Puzzle
from ..puzzles.board import Boards
from ..puzzles.digits import Digits, prototypes
from ..puzzles.equivalence import fingerprints
from ..puzzles.visual_sudoku import VisualSet
from ..training.folder import digest_of
from .draw import Data
from .recipe import PictureRecipe

_MOST_POOL = 2**36
"""Bytes of states: more than any device of today has room for besides everything else."""


@dataclass(frozen=True)
class PictureCheck:
    """Drawn boards that are solved from time to time during training; never trained on."""

    name: str
    boards: VisualSet
    images: Float32[np.ndarray, "n side side"]
    steps: int


@dataclass(frozen=True)
class PictureJob:
    """A recipe with its automaton and its data.

    `digits` are those that are drawn; their means are the pictures by which places are read. A run begins
    with the weights of `source`, if there is one. `pace` is how long the trained model thinks; `provenance`
    says where the boards come from.
    """

    name: str
    automaton: Automaton
    recipe: PictureRecipe
    seed: int
    boards: VisualSet
    digits: Digits
    checks: tuple[PictureCheck, ...]
    provenance: dict[str, Any]
    pace: Pace = Pace()  # noqa: RUF009 a frozen value
    source: Model | None = None
    puzzle: Puzzle = "visual-sudoku"

    @property
    def fixed(self) -> dict[str, Float32[np.ndarray, "..."]]:
        """The mean picture of each digit, and of a blank."""
        layout = self.automaton.layout
        return {"layout.tokens": prototypes(self.digits, layout.tokens - 1).reshape(layout.tokens, -1)}

    def data(self) -> Data:
        """What is drawn, on the device."""
        table = self.digits.by_class(self.boards.cells)
        return Data(
            jnp.asarray(self.boards.puzzles),
            jnp.asarray(self.boards.solutions),
            jnp.asarray(table.reshape(*table.shape[:2], -1)),
        )

    def trained_on(self) -> UInt64[np.ndarray, " m"] | None:
        """The fingerprints of the boards of this run and of the model it begins with; only 9 x 9 have any."""
        if self.boards.cells != 9:
            return None
        given, blanks = self.boards.puzzles > 0, (self.boards.puzzles == 0).sum((1, 2), dtype=np.int32)
        own = fingerprints(Boards(self.boards.solutions, given, blanks), sudoku=True)
        before = None if self.source is None else self.source.trained_on
        return own if before is None else np.union1d(own, before)

    def about(self) -> dict[str, Any]:
        """What the settings of a run say of its data."""
        arrays = {
            "puzzles": self.boards.puzzles,
            "solutions": self.boards.solutions,
            "digits": self.digits.images,
            "labels": self.digits.labels,
        }
        started = {} if self.source is None else {"start_from": self.source.name}
        return {"boards": len(self.boards), "boards_sha256": digest_of(arrays)} | started

    def __post_init__(self) -> None:
        """Refuses, before anything is computed, what does not fit together."""
        layout, recipe = self.automaton.layout, self.recipe
        cells, digit = picture.places(layout)
        pool = 4 * recipe.pool * picture.canvas(layout) ** 2 * self.automaton.step.channels
        if (self.boards.cells, self.digits.side) != (cells, digit):
            raise ConfigError(
                f"{self.name} draws {cells} x {cells} digits of {digit} pixels, not {self.boards.cells} x "
                f"{self.boards.cells} of {self.digits.side}; use other boards and digits."
            )
        if recipe.augment == "sudoku" and cells != 9:
            raise ConfigError(
                "This recipe cannot be trained: augment by sudoku needs boards of 9 x 9; change that number."
            )
        if pool > _MOST_POOL:
            raise ConfigError(
                f"This recipe cannot be trained: its pool needs {pool / 2**30:,.0f} GiB; change that number."
            )
        if self.source is None:
            return
        if self.source.puzzle != self.puzzle or self.source.automaton.step != self.automaton.step:
            raise ConfigError(
                f"{self.name} cannot start from {self.source.name}, whose rule is another; choose a model of "
                f"pictures with {self.automaton.step.channels} channels and a hidden layer of "
                f"{self.automaton.step.hidden}."
            )
