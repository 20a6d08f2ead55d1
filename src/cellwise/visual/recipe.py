"""Every number and every choice of learning to solve drawn Sudokus, in one frozen value."""

from dataclasses import dataclass, field
from typing import Literal

from ..kernels.noise import Noise
from ..kernels.precision import Precision
from ..training.recipe import Schedule, Updates


@dataclass(frozen=True)
class PictureRecipe(Updates):
    """How an automaton is trained on pictures of boards.

    One iteration takes `batch` of the `pool` states, replaces the first `fresh` of them by newly drawn
    boards, disturbs the others, thinks for `chunk` steps and learns from the last `judged` of them. With
    `pool`, `batch` and `fresh` alike every board is thought about once, from its beginning.
    """

    steps: int
    """How many times the weights are updated."""
    schedule: Schedule
    """The learning rate."""
    batch: int
    """Boards in one update."""
    pool: int
    """States kept for replay."""
    fresh: int
    """Boards of a batch that start anew; the rest come from the pool as they were left."""
    chunk: int
    """Steps thought in one iteration; the gradient flows through all of them."""
    judged: int
    """The last steps of a chunk, after each of which the picture is compared with what is wanted."""
    target: Literal["mean", "draw"] = "mean"
    """What is wanted: the mean picture of each digit, or for every place one that is drawn anew.

    The gradient is the same in expectation, but without the noise of the draws."""
    augment: Literal["none", "sudoku"] = "none"
    """The symmetries that boards are drawn with."""
    fire_rate: float = 0.5
    """How likely a cell is to fire at a step."""
    noise: Noise = Noise(when=0.25, where=0.2, size=0.1)  # noqa: RUF009 a frozen value
    """Kicks that states from the pool get before they are thought about."""
    damage: float = 0.1
    """How often a state that has been thought about `grown` times loses what is inside `discs` discs."""
    discs: int = 2
    """Discs to a damaged state."""
    grown: int = 4
    """Iterations after which a state should know its solution, so that it can heal."""
    overflow: float = 0.01
    """How much it costs that channels end a chunk further from zero than 3; they would drift on."""
    segment: int = 0
    """Steps that are computed again for the gradient, together, or 0 to keep all that it needs."""
    spike: float = 3.0
    """A loss that stays so many times above what it was is a spike: the run goes back to its last good
    checkpoint; 0 for never."""
    settle: int = 1_000
    """Iterations in the beginning in which a rise is no spike: the loss rises before it falls."""
    slower: float = 0.5
    """By how much the learning rate is multiplied after a spike."""
    beta2: float = field(default=0.99, kw_only=True)
    """Adam's memory of its square."""
    precision: Precision = "bf16"
    """Of matrix products; sums, states and gradients are float32 at any."""

    def __post_init__(self) -> None:
        """Refuses what could not be computed."""
        problems = {
            "steps must be positive": not 1 <= self.steps < 2**31,
            "batch must be between 1 and pool": not 1 <= self.batch <= self.pool,
            "fresh must be between 1 and batch": not 1 <= self.fresh <= self.batch,
            "chunk must be between 1 and 65536": not 1 <= self.chunk <= 65536,
            "judged must be between 1 and chunk": not 1 <= self.judged <= self.chunk,
            "segment must divide chunk": self.segment < 0
            or (self.segment and self.chunk % self.segment != 0),
            "fire_rate must be in (0, 1]": not 0 < self.fire_rate <= 1,
            "damage must be in [0, 1]": not 0 <= self.damage <= 1,
            "discs must be between 0 and 100": not 0 <= self.discs <= 100,
            "overflow must be between 0 and 1000": not 0 <= self.overflow <= 1000,
            "grown must not be negative": not 0 <= self.grown < 2**31,
            "spike must be 0 or above 1": not (self.spike == 0 or 1 < self.spike <= 1e9),
            "settle must not be negative": not 0 <= self.settle < 2**31,
            "slower must be in (0, 1]": not 0 < self.slower <= 1,
        }
        self.check(self.schedule, self.steps, problems)
