"""Every number and every choice of learning from pairs, in one frozen value."""

from dataclasses import dataclass
from typing import Literal

from ..training.recipe import Schedule, Updates


@dataclass(frozen=True)
class PairRecipe(Updates):
    """How an automaton is trained on pairs of grids of many tasks.

    One iteration lays `batch` pairs on canvases, each with a new scale and place, thinks for `rollout` steps
    from the start and learns from the last of them.
    """

    steps: int
    """How many times the weights are updated."""
    schedule: Schedule
    """The learning rate."""
    batch: int
    """Pairs in one update."""
    canvases: tuple[int, ...]
    """Sides of the canvases; a pair goes on the smallest that has room for it."""
    small: float = 0.0
    """How much small canvases are preferred: 0 draws all pairs alike, 1 spends the same time on each size."""
    rollout: int = 64
    """Steps thought in one iteration."""
    learned: int = 64
    """Steps through which the gradient flows."""
    window: Literal["end", "random"] = "end"
    """Where they are: the last of the rollout, or at a random place, where the rollout then ends."""
    judged: int = 16
    """Steps, the last of those, after which the answer is judged."""
    judge: Literal["cells", "pairs"] = "cells"
    """Whether all judged cells of a batch count alike, or all its pairs."""
    clock: Literal["local", "global", "global-kept"] = "global"
    """What time it is for a cell while it learns; see `Clock`."""
    fire_rate: float = 0.9
    """How likely a cell is to fire at a step."""
    precision: Literal["bf16", "float32"] = "bf16"
    """Factors of products."""
    remember: Literal["steps", "products"] = "steps"
    """What is kept for the gradient: the states between steps, or also what matrix products come to."""

    def __post_init__(self) -> None:
        """Refuses what could not be computed."""
        problems = {
            "steps must be positive": not 1 <= self.steps < 2**31,
            "batch must be between 1 and 65536": not 1 <= self.batch <= 65536,
            "canvases must be sides from 3 to 64, the largest at least 32": not self.canvases
            or not all(3 <= side <= 64 for side in self.canvases)
            or max(self.canvases) < 32,
            "small must be between 0 and 4": not 0 <= self.small <= 4,
            "learned must be between 1 and rollout": not 1 <= self.learned <= self.rollout <= 4096,
            "judged must be between 1 and learned": not 1 <= self.judged <= self.learned,
            "fire_rate must be in (0, 1]": not 0 < self.fire_rate <= 1,
        }
        self.check(self.schedule, self.steps, problems)
