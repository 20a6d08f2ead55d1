"""Everything one training run needs, put together by a benchmark."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32

from ..automaton.layout import Automaton
from ..model import Pace, Puzzle
from ..puzzles.board import Boards
from .recipe import Recipe


@dataclass(frozen=True)
class Check:
    """Boards that are solved from time to time during training, to see how it goes; never trained on."""

    name: str
    boards: Boards
    steps: int


@dataclass(frozen=True)
class Job:
    """A recipe with its automaton and its data.

    `size` is the board size if each place has attention of its own; `fixed` holds the arrays that are not
    trained; `puzzle` is what the trained model will solve and `pace` how long it
    thinks about it; `provenance` says where the boards come from, for
    the model's card.
    """

    name: str
    puzzle: Puzzle
    automaton: Automaton
    size: tuple[int, int] | None
    fixed: dict[str, Float32[np.ndarray, "..."]]
    recipe: Recipe
    seed: int
    boards: Boards
    checks: tuple[Check, ...]
    provenance: dict[str, Any]
    pace: Pace = Pace()  # noqa: RUF009 a frozen value
