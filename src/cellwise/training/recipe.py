"""Every number and every choice of a training run, in one frozen value."""

from dataclasses import dataclass
from typing import Literal

from ..errors import ConfigError
from ..kernels.dispatch import Noise
from ..kernels.precision import Precision


@dataclass(frozen=True)
class Schedule:
    """The learning rate: a straight line from `first` to `peak`, then a shape that ends at `last`.

    The released code starts high and goes down to a constant (`shape="constant"`, `last == peak`); the
    paper's table reads as zero, peak, zero (`shape="cosine"`).
    """

    first: float
    peak: float
    last: float
    warmup: int
    shape: Literal["constant", "cosine", "linear"] = "constant"


@dataclass(frozen=True, kw_only=True)
class Updates:
    """How the numbers of any automaton are updated by a gradient."""

    clip: float = 1.0
    """The largest norm of a gradient."""
    beta1: float = 0.9
    """Adam's memory of the gradient."""
    beta2: float = 0.95
    """Adam's memory of its square."""
    weight_decay: float = 1e-4
    """Decoupled decay of every trained number."""
    average: float = 0.999
    """Memory of the running average of the weights, which is what is evaluated."""

    def check(self, schedule: Schedule, steps: int, problems: dict[str, bool]) -> None:
        """Raises ConfigError for the first of the problems that is there, and for updates that cannot be."""
        rates = (schedule.first, schedule.peak, schedule.last)
        refuse(
            problems
            | {
                "its learning rates must be between 0 and 1": not all(0 <= rate <= 1 for rate in rates),
                "schedule.warmup must be between 0 and steps": not 0 <= schedule.warmup <= steps,
                "clip must be positive": not 0 < self.clip <= 1e9,
                "beta1 and beta2 must be in [0, 1)": not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1),
                "weight_decay must be in [0, 1]": not 0 <= self.weight_decay <= 1,
                "average must be in [0, 1)": not 0 <= self.average < 1,
            }
        )


def refuse(problems: dict[str, bool]) -> None:
    """Raises ConfigError for the first problem that is there."""
    for problem, present in problems.items():
        if present:
            raise ConfigError(f"This recipe cannot be trained: {problem}.")


@dataclass(frozen=True)
class Recipe(Updates):
    """How an automaton is trained.

    One iteration takes `batch` of the `pool` states, replaces the first `fresh` of them by new boards,
    disturbs them, thinks for `rollout` steps and learns from a window of `chunk` steps at a random
    place in it.
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
    rollout: int
    """Steps thought in one iteration."""
    chunk: int
    """Steps at a random place of the rollout through which the gradient flows; divides `rollout`."""
    supervise: Literal["all", "last"] = "all"
    """Whether every step of the chunk is judged or only its last."""
    fire_rate: float = 0.8
    """How likely a cell is to fire at a step."""
    noise: Noise = Noise(when=0.1, where=0.2, size=0.15)  # noqa: RUF009 a frozen value
    """Kicks during the rollout."""
    noise_before: bool = True
    """Whether the same kind of kick also precedes the rollout, as the released code has it."""
    damage: float = 0.1
    """How often a state loses what is inside `discs` random discs."""
    discs: int = 4
    """Discs to a damaged state."""
    damage_fill: float = 0.0
    """What the damaged entries become, before units are normalised."""
    swap: float = 0.1
    """How often a state is given another board to solve, without warning."""
    swap_from: Literal["pool", "data"] = "pool"
    """Where the other board comes from: the released code takes the pool, the paper the dataset."""
    write_back: Literal["chunk", "rollout"] = "chunk"
    """The state that returns to the pool: the one after the chunk, or after the whole rollout."""
    augment: Literal["none", "maze", "sudoku"] = "none"
    """The symmetries that boards are drawn with."""
    augment_per: Literal["sample", "batch"] = "sample"
    """Whether each board of a batch is drawn with its own symmetry; the released code draws one for all."""
    bands: Literal["free", "tied"] = "free"
    """Whether Sudoku bands are permuted inside independently; the released code uses one order for all."""
    loss_scale: Literal["mean", "sum"] = "mean"
    """Whether squared errors are averaged over the answer's channels or added up."""
    precision: Precision = "float32"
    """Of matrix products; sums, states and gradients are float32 at any."""
    microbatch: int = 0
    """Boards computed together, or 0 for as many as suit the device; changes results only by rounding."""

    def __post_init__(self) -> None:
        problems = {
            "steps must be positive": self.steps < 1,
            "batch must be between 1 and pool": not 1 <= self.batch <= self.pool,
            "fresh must be between 1 and batch": not 1 <= self.fresh <= self.batch,
            "chunk must divide rollout": self.chunk < 1 or self.rollout < 1 or self.rollout % self.chunk != 0,
            "microbatch must divide batch": self.microbatch < 0
            or (self.microbatch and self.batch % self.microbatch != 0),
            "fire_rate must be in (0, 1]": not 0 < self.fire_rate <= 1,
            "damage and swap must be in [0, 1]": not (0 <= self.damage <= 1 and 0 <= self.swap <= 1),
            "average must be in [0, 1)": not 0 <= self.average < 1,
            "schedule.warmup must be between 0 and steps": not 0 <= self.schedule.warmup <= self.steps,
        }
        refuse(problems)
