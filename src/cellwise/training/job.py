"""Everything one training run needs, put together by a benchmark."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32

from ..automaton.layout import Automaton
from ..config import MOST, to_json
from ..errors import ConfigError
from ..model import Pace, Puzzle, check_noise
from ..puzzles.board import Boards
from .folder import digest_of
from .recipe import Recipe

_MOST_DISCS = 100
_MOST_POOL = 2**36
"""Bytes of states: more than any device of today has room for besides everything else."""


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

    def about(self) -> dict[str, Any]:
        """What the settings of a run say of its data."""
        boards = {"target": self.boards.target, "given": self.boards.given}
        return {
            "size": to_json(self.size),
            "boards": len(self.boards),
            "boards_sha256": digest_of(boards),
        }

    def __post_init__(self) -> None:
        """Refuses, before anything is computed, what would end in nonsense or in a breakdown."""
        recipe, (height, width) = self.recipe, self.boards.target.shape[1:]
        schedule, state = recipe.schedule, 4 * height * width * self.automaton.step.channels
        check_noise(recipe.noise)
        problems = {
            "its learning rates must be between 0 and 1": not all(
                0 <= rate <= 1 for rate in (schedule.first, schedule.peak, schedule.last)
            ),
            "steps and rollout are too large": max(recipe.steps, recipe.rollout) > MOST,
            "clip must be positive": not 0 < recipe.clip <= 1e9,
            "beta1 and beta2 must be in [0, 1)": not (0 <= recipe.beta1 < 1 and 0 <= recipe.beta2 < 1),
            "weight_decay must be in [0, 1]": not 0 <= recipe.weight_decay <= 1,
            f"discs must be between 0 and {_MOST_DISCS}": not 0 <= recipe.discs <= _MOST_DISCS,
            "damage_fill must be between -100 and 100": not -100 <= recipe.damage_fill <= 100,
            "augment by maze needs square boards": recipe.augment == "maze" and height != width,
            "augment by sudoku needs boards of 9 x 9": recipe.augment == "sudoku"
            and (height, width) != (9, 9),
            f"its pool needs {recipe.pool * state / 2**30:,.0f} GiB": recipe.pool * state > _MOST_POOL,
        }
        for problem, present in problems.items():
            if present:
                raise ConfigError(f"This recipe cannot be trained: {problem}; change that number.")
