"""Which implementation runs a step, and why the others do not.

A path is a small hashable value, so that it can be a static argument of a compiled function. It makes a
plan from the given cells once for a rollout and then steps; the random bits are its business too, so that
a path can make them where and when it needs them.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool

from . import attention, awake, bits, compact, precision, reference, resident, sobel, streamed
from .bits import Keys, Rate, Step
from .noise import Noise, kicks
from .precision import Precision
from .reference import State
from .spec import StepSpec, Weights


@runtime_checkable
class Path(Protocol):
    """One way to compute a step."""

    @property
    def name(self) -> str:
        """What `cellwise info` calls it."""
        ...

    def plan(self, spec: StepSpec, given: Bool[Array, "b h w"]) -> Any:
        """Whatever the step needs to know of the board; made once for a rollout."""
        ...

    def step(
        self, spec: StepSpec, weights: Weights, state: State, plan: Any, keys: Keys, step: Step, rate: Rate
    ) -> State:
        """The state after one step, without noise."""
        ...

    def kick(self, spec: StepSpec, state: State, plan: Any, keys: Keys, step: Step, noise: Noise) -> State:
        """The state after the noise that follows a step."""
        ...


def fired(given: Bool[Array, "b h w"], keys: Keys, step: Step, rate: Rate) -> Bool[Array, "b h w"]:
    """Which cells of boards of this form fire at a step."""
    b, h, w = given.shape
    cells = jnp.arange(h * w, dtype=jnp.int32)[None]
    words = bits.at_cells(bits.at_step(keys, bits.FIRE, step), cells)
    return bits.chance(words, rate if isinstance(rate, float | int) else rate.reshape(b, -1)).reshape(b, h, w)


@dataclass(frozen=True)
class Reference:
    """Every cell, as the definition has it."""

    name: str = "reference"

    def plan(self, spec: StepSpec, given: Bool[Array, "b h w"]) -> Array:
        """The definition needs only to know which cells are given."""
        return given

    def step(
        self, spec: StepSpec, weights: Weights, state: State, plan: Array, keys: Keys, step: Step, rate: Rate
    ) -> State:
        """One step of every cell."""
        return reference.step(spec, weights, state, plan, fired(plan, keys, step, rate))

    def kick(self, spec: StepSpec, state: State, plan: Array, keys: Keys, step: Step, noise: Noise) -> State:
        """Noise on every entry that is not frozen."""
        cells = jnp.arange(state.shape[1] * state.shape[2], dtype=jnp.int32)[None]
        kick = kicks(noise, spec.channels, cells, keys, step).reshape(state.shape)
        return state + jnp.where(reference.frozen_entries(spec, plan), 0.0, kick)


@dataclass(frozen=True)
class Compact:
    """Only the cells that are not frozen, at most `capacity` of them on a board."""

    capacity: int
    name: str = "compact"

    def plan(self, spec: StepSpec, given: Bool[Array, "b h w"]) -> compact.Plan:
        """Finds the free cells."""
        return compact.plan(spec, given, self.capacity)

    def step(
        self,
        spec: StepSpec,
        weights: Weights,
        state: State,
        plan: compact.Plan,
        keys: Keys,
        step: Step,
        rate: Rate,
    ) -> State:
        """One step of the free cells."""
        return compact.step(spec, weights, state, plan, fired_of(plan, keys, step, rate))

    def kick(
        self, spec: StepSpec, state: State, plan: compact.Plan, keys: Keys, step: Step, noise: Noise
    ) -> State:
        """Noise on the free cells."""
        return compact.add(state, plan, kicks(noise, spec.channels, plan.cells, keys, step))


def fired_of(plan: compact.Plan, keys: Keys, step: Step, rate: Rate) -> Bool[Array, "b capacity"]:
    """Which of the free cells fire at a step."""
    words = bits.at_cells(bits.at_step(keys, bits.FIRE, step), plan.cells)
    if not isinstance(rate, float | int):
        rate = jnp.take_along_axis(rate.reshape(len(keys), -1), plan.cells, axis=1)
    return bits.chance(words, rate)


@dataclass(frozen=True)
class Awake(Compact):
    """Only the cells that fire, on a CPU, for thinking; at most `capacity` cells of a board are free."""

    name: str = "awake"

    def step(
        self,
        spec: StepSpec,
        weights: Weights,
        state: State,
        plan: compact.Plan,
        keys: Keys,
        step: Step,
        rate: Rate,
    ) -> State:
        """One step of the cells that fire."""
        return awake.step(spec, weights, state, plan, fired_of(plan, keys, step, rate))


@dataclass(frozen=True)
class Resident:
    """The free cells on a GPU, all steps of a rollout in one launch.

    A single step, or one whose cells have rates of their own, is taken as `Compact` takes it.
    """

    capacity: int
    name: str = "resident"

    def plan(self, spec: StepSpec, given: Bool[Array, "b h w"]) -> resident.Plan:
        """Finds the free cells and where their neighbours lie."""
        return resident.plan(spec, given, self.capacity)

    def step(
        self,
        spec: StepSpec,
        weights: Weights,
        state: State,
        plan: resident.Plan,
        keys: Keys,
        step: Step,
        rate: Rate,
    ) -> State:
        """One step of the free cells."""
        return Compact(self.capacity).step(spec, weights, state, plan.compact, keys, step, rate)

    def kick(
        self, spec: StepSpec, state: State, plan: resident.Plan, keys: Keys, step: Step, noise: Noise
    ) -> State:
        """Noise on the free cells."""
        return Compact(self.capacity).kick(spec, state, plan.compact, keys, step, noise)

    def takes(self, rate: Rate) -> bool:
        """Whether many steps at this rate go in one launch."""
        return isinstance(rate, float | int)

    def learns(self, spec: StepSpec, plan: resident.Plan, rate: Rate) -> bool:
        """Whether the same goes for learning, which holds a board's gradient on the chip."""
        return self.takes(rate) and self.call(spec, rate, None, keep=1).fits(*plan.cells.shape)

    def call(self, spec: StepSpec, rate: Rate, noise: Noise | None, keep: int = 0) -> resident.Call:
        """What the kernel is compiled for."""
        assert isinstance(rate, float | int)
        return resident.Call(spec, float(rate), noise, exact_products(), keep)


@dataclass(frozen=True)
class Attention:
    """Every cell of rules with attention, whole rollouts at a time, channels first.

    `form` is how the neighbours are weighed and `unroll` how many steps of a loop are written out; without
    them it is what suits the device and the size of the boards.
    """

    form: attention.Form | None = None
    unroll: int | None = None
    name: str = "attention"
    bf16: ClassVar = True
    """It multiplies bfloat16 if asked; paths that do not say so multiply something better."""

    def plan(self, spec: StepSpec, given: Bool[Array, "b h w"]) -> Array:
        """Which cells are given."""
        return given

    def step(
        self, spec: StepSpec, weights: Weights, state: State, plan: Array, keys: Keys, step: Step, rate: Rate
    ) -> State:
        """One step of every cell."""
        call = self.call(spec, state.shape, rate, None, steps=1)
        return attention.trajectory(call, weights, state, attention.boards(call, plan, keys, step, rate))[1]

    def kick(self, spec: StepSpec, state: State, plan: Array, keys: Keys, step: Step, noise: Noise) -> State:
        """Noise on every entry that is not frozen."""
        return Reference().kick(spec, state, plan, keys, step, noise)

    def call(
        self,
        spec: StepSpec,
        shape: tuple[int, ...],
        rate: Rate,
        noise: Noise | None,
        steps: int = 0,
        answers: tuple[int, int] | None = None,
    ) -> attention.Call:
        """What a rollout of such states is compiled for; `steps` and `answers` if it is learnt from."""
        size = (shape[1], shape[2])
        form, unroll = attention.suitable(size, steps)
        return attention.Call(
            spec,
            self.form or form,
            precision.current(),
            size,
            float(rate) if isinstance(rate, float | int) else None,
            noise,
            self.unroll or unroll,
            steps,
            answers,
        )


@dataclass(frozen=True)
class Sobel(Reference):
    """Every cell of rules that see slopes, by products of whole matrices; `form` is how it finds slopes."""

    name: str = "sobel"
    form: sobel.Form = "pad"
    bf16: ClassVar = True

    def step(
        self, spec: StepSpec, weights: Weights, state: State, plan: Array, keys: Keys, step: Step, rate: Rate
    ) -> State:
        """One step of every cell."""
        return sobel.step(spec, weights, state, fired(plan, keys, step, rate), self.form)


@dataclass(frozen=True)
class Streamed:
    """Every cell of rules with attention on a Hopper GPU, all steps of a rollout in one launch.

    It rounds the factors of products to bf16. Where that is not asked for, and for a single step or cells
    with rates of their own, `otherwise` takes its place.
    """

    name: str = "streamed"
    bf16: ClassVar = True

    @property
    def otherwise(self) -> Attention:
        """The path for all else; it makes the same plan."""
        return Attention()

    def plan(self, spec: StepSpec, given: Bool[Array, "b h w"]) -> Array:
        """Which cells are given."""
        return given

    def step(
        self, spec: StepSpec, weights: Weights, state: State, plan: Array, keys: Keys, step: Step, rate: Rate
    ) -> State:
        """One step of every cell."""
        return self.otherwise.step(spec, weights, state, plan, keys, step, rate)

    def kick(self, spec: StepSpec, state: State, plan: Array, keys: Keys, step: Step, noise: Noise) -> State:
        """Noise on every entry that is not frozen."""
        return self.otherwise.kick(spec, state, plan, keys, step, noise)

    def takes(self, rate: Rate) -> bool:
        """Whether many steps at this rate go in one launch."""
        return isinstance(rate, float | int) and precision.current() == "bf16"

    def call(
        self,
        spec: StepSpec,
        shape: tuple[int, ...],
        rate: Rate,
        noise: Noise | None,
        steps: int = 0,
        answers: tuple[int, int] | None = None,
    ) -> streamed.Call:
        """What the kernel is compiled for; `steps` and `answers` if it is learnt from."""
        assert isinstance(rate, float | int)
        return streamed.Call(spec, (shape[1], shape[2]), float(rate), noise, steps, answers)


def exact_products() -> bool:
    """Whether float32 products must be as good as float32."""
    return precision.current() == "float32"


@dataclass(frozen=True)
class Verdict:
    """Whether a path can run a rule, and if not, why, in words for a person."""

    path: str
    reason: str | None


def compact_refusal(spec: StepSpec) -> str | None:
    """Why `Compact` cannot run this rule, or None."""
    if spec.frozen < spec.channels:
        return f"given cells keep only {spec.frozen} of {spec.channels} channels, so all cells are computed"
    if spec.perception != "kernels" or spec.update != "mlp":
        return f"it knows shared kernels with an MLP, not {spec.perception} with {spec.update}"
    if spec.unit is not None:
        return "it does not normalise units"
    return None


def attention_refusal(spec: StepSpec) -> str | None:
    """Why `Attention` cannot run this rule, or None."""
    return attention.refusal(spec)


ALIKE = "it knows one rate for all cells, and here those that are sure fire at another"


def awake_refusal(spec: StepSpec, steady: bool) -> str | None:
    """Why `Awake` cannot run this rule here, or would not be faster, or None."""
    if reason := compact_refusal(spec):
        return reason
    if steady:
        return "it gains where few cells fire, and here all fire alike"
    return None if jax.default_backend() == "cpu" else "it gains on a CPU only"


def resident_refusal(spec: StepSpec, steady: bool = True) -> str | None:
    """Why `Resident` cannot run this rule here, or None."""
    return compact_refusal(spec) or resident.refusal(spec) or (None if steady else ALIKE)


def streamed_refusal(spec: StepSpec, steady: bool = True) -> str | None:
    """Why `Streamed` does not run this rule here and now, or None."""
    if reason := streamed.refusal(spec):
        return reason
    if precision.current() != "bf16":
        return "it rounds factors of products to bf16, which was not asked for"
    return None if steady else ALIKE


def verdicts(spec: StepSpec, steady: bool = True) -> list[Verdict]:
    """Every path with its reason for refusing this rule, in the order of preference.

    `steady` is whether all cells fire alike; if not, their rates change from step to step.
    """
    refusals = {
        "resident": resident_refusal(spec, steady),
        "awake": awake_refusal(spec, steady),
        "compact": compact_refusal(spec),
        "streamed": streamed_refusal(spec, steady),
        "attention": attention_refusal(spec),
        "sobel": sobel.refusal(spec),
        "reference": None,
    }
    return [Verdict(name, reason) for name, reason in refusals.items()]


def runnable(spec: StepSpec, free: int, steady: bool = True) -> list[Path]:
    """The paths that can run this rule on boards with at most `free` cells that are not given, best first."""
    made: dict[str, Path] = {
        "resident": Resident(max(free, 1)),
        "awake": Awake(max(free, 1)),
        "compact": Compact(max(free, 1)),
        "streamed": Streamed(),
        "attention": Attention(),
        "sobel": Sobel(),
        "reference": Reference(),
    }
    return [made[verdict.path] for verdict in verdicts(spec, steady) if verdict.reason is None]


def choose(spec: StepSpec, free: int, exactly: Precision, steady: bool = True) -> Path:
    """The fastest of them for products of this precision."""
    with precision.products(exactly):
        return runnable(spec, free, steady)[0]
