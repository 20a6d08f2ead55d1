"""Many steps in one launch: each board stays with a few blocks of the GPU from the first step to the last.

A small rule is a few thousand operations a cell, so on a GPU a step of a few boards is over sooner than its
kernels can be launched. `cuda/maze.cu` takes all steps in one launch, for the free cells only, with the
weights in registers, products on tensor cores and random bits made where they are used. Here is what
surrounds it: the rows that it works on, its sizes, and its gradient.

To learn, the kernel keeps every state and hidden layer. The gradients of the matrices are then single large
products over all steps, boards and cells; only those of the 3 × 3 kernels are summed in the kernel.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int32

from . import compact, launch
from .bits import Keys
from .launch import Kernel
from .noise import Noise
from .reference import State
from .spec import StepSpec, Weights, beyond_edge

NAMES = ("perceive.kernels", "update.w_in", "update.b_in", "update.w_out", "update.b_out")
SHARED_BYTES = 227 * 1024
"""The most shared memory of a block."""
REGISTERS = 200
"""Of a thread's 255, those that may hold weights."""


class Plan(NamedTuple):
    """A compact plan, and the same neighbourhoods as rows of a board of its own.

    `near[b, n, i]` is where neighbour `n` of free cell `i` is: in the table of the board's cells and of what
    lies beyond an edge, or from `h·w + 1` on a free cell. `back[b, n, i]` is the number of the free cell
    whose neighbour `n` is free cell `i`, or -1. Rows from `free[b]` on are idle.
    """

    compact: compact.Plan
    near: Int32[Array, "b 9 r"]
    back: Int32[Array, "b 9 r"]
    cells: Int32[Array, "b r"]
    free: Int32[Array, " b"]


@dataclass(frozen=True)
class Shape:
    """How a rule is cut into tiles: `row_tiles` × 16 rows at a time, the hidden layer in `split` parts."""

    row_tiles: int
    split: int

    @property
    def tile(self) -> int:
        """Rows computed at a time."""
        return 16 * self.row_tiles

    @property
    def threads(self) -> int:
        """One warp for each part of each tile."""
        return 32 * self.row_tiles * self.split


def shape(spec: StepSpec) -> Shape | None:
    """The tiles for a rule, or None if its weights do not fit into the registers of a block."""
    numbers = spec.hidden * (spec.perceived + spec.channels) // 32
    for row_tiles, split in ((3, 4), (2, 4), (1, 8)):
        most = min(REGISTERS, 65536 // Shape(row_tiles, split).threads - 72)
        if spec.hidden % (8 * split) == 0 and numbers // split <= most:
            return Shape(row_tiles, split)
    return None


def refusal(spec: StepSpec) -> str | None:
    """Why the kernel cannot run a rule that the compact path can run, or None."""
    if spec.channels % 8 or spec.heads % 2 or spec.hidden % 32:
        return "it knows channels by eights, heads by twos and hidden layers by 32"
    if shape(spec) is None:
        return f"{spec.hidden} × {spec.perceived} weights do not fit into the registers of a block"
    return launch.refusal()


def padded(spec: StepSpec, free: int) -> int:
    """The number of rows for so many free cells: full tiles."""
    form = shape(spec)
    assert form is not None
    return -(-max(free, 1) // form.tile) * form.tile


def plan(spec: StepSpec, given: Bool[Array, "b h w"], capacity: int) -> Plan:
    """Finds the free cells of every board and their neighbours in its memory."""
    b, h, w = given.shape
    found = compact.plan(spec, given, min(capacity, h * w))
    per_board, rows = found.cells.shape[1], padded(spec, capacity)
    board = jnp.arange(b, dtype=jnp.int32)[:, None, None]
    around = found.around.reshape(b, per_board, 9)
    slot = jnp.append(found.slot, np.int32(b * per_board))[around]
    inside = jnp.where(around == b * h * w, h * w, around - board * (h * w))
    near = jnp.where(slot == b * per_board, inside, h * w + 1 + slot - board * per_board)
    sources = found.sources.reshape(b, per_board, 9)
    back = jnp.where(sources == b * per_board, -1, sources - board * per_board)

    def fill(x: Array, value: int) -> Array:
        idle = ((0, 0), (0, rows - per_board), *((0, 0),) * (x.ndim - 2))
        return jnp.pad(x, idle, constant_values=value)

    def by_neighbour(x: Array, value: int) -> Array:
        return fill(x, value).transpose(0, 2, 1)

    free = jnp.sum(found.alive, axis=1, dtype=jnp.int32)
    return Plan(found, by_neighbour(near, 0), by_neighbour(back, -1), fill(found.cells, 0), free)


@dataclass(frozen=True)
class Call:
    """All that a kernel is compiled for besides sizes that it reads."""

    spec: StepSpec
    rate: float
    noise: Noise | None
    exact: bool
    """Products as good as float32, not with factors rounded to TF32."""
    keep: int = 0
    """The steps to keep all of, or 0 to keep none."""

    def kernel(self, entry: str, boards: int, rows: int) -> Kernel:
        """An entry of the kernel's file, for this call."""
        spec, form = self.spec, shape(self.spec)
        assert form is not None
        cluster = self.cluster(boards, rows)
        definitions = {
            "CHANNELS": spec.channels,
            "HEADS": spec.heads,
            "HIDDEN": spec.hidden,
            "ROW_TILES": form.row_tiles,
            "HIDDEN_SPLIT": form.split,
            "CLUSTER": cluster,
            "PASSES": 3 if self.exact else 1,
            "FIRE_BELOW": below(self.rate),
        }
        if self.keep:
            definitions["KEEP"] = 1
        definitions |= of_noise(self.noise)
        perceived, channels = spec.perceived, spec.channels
        if entry == "steps_forward":
            early = 2 * form.tile * (9 * channels + 1)
            shared = form.tile * (perceived + 4) + form.split * form.tile * (channels + 8) + early
        else:
            own = -(-rows // (form.tile * cluster)) * form.tile
            parts = max(form.split * form.tile * (perceived + 8), spec.heads * form.threads)
            shared = form.tile * (channels + 4) + parts + form.tile * (perceived + 8) + own * channels
        pairs = tuple((name, str(value)) for name, value in definitions.items())
        return Kernel("maze.cu", entry, pairs, form.threads, shared, cluster)

    def fits(self, boards: int, rows: int) -> bool:
        """Whether a block's shared memory holds what is learned from boards of this size."""
        return 4 * self.kernel("steps_backward", boards, rows).shared_floats <= SHARED_BYTES

    def cluster(self, boards: int, rows: int) -> int:
        """How many blocks share a board: as many as keep the device busy, up to eight."""
        form = shape(self.spec)
        assert form is not None
        cluster, most = 1, min(8, rows // form.tile)
        while 2 * cluster <= most and 2 * cluster * boards <= launch.multiprocessors():
            cluster *= 2
        return cluster


def of_noise(noise: Noise | None) -> dict[str, int | str]:
    """The definitions by which a kernel knows its noise."""
    if noise is None:
        return {}
    return {
        "NOISE": 1,
        "NOISE_WHEN_BELOW": below(noise.when),
        "NOISE_WHERE_BELOW": below(noise.where),
        "NOISE_SIZE": f"{float(np.float32(noise.size))!r}f",
        "NOISE_UNTIL": 2**31 - 1 if noise.until is None else noise.until,
    }


def below(rate: float) -> str:
    """The 24-bit number below which a word has this chance (`bits.chance`)."""
    return f"{int(np.round(np.float32(rate) * np.float32(2**24)))}u"


def rollout(
    call: Call, weights: Weights, state: State, plan: Plan, keys: Keys, first: Array, steps: Array
) -> State:
    """The state after steps `first … first + steps - 1` of each board, not differentiable."""
    b, rows = plan.cells.shape
    steps = jnp.broadcast_to(steps, keys.shape).astype(jnp.int32)
    kernel = call.kernel("steps_forward", b, rows)
    slots = jax.ShapeDtypeStruct((b, 2, rows, call.spec.channels), jnp.float32)
    (slots,) = launch.launch(
        kernel, b * kernel.cluster, [slots], *_operands(call, weights, state, plan, keys, first, steps, 2)
    )
    last = jnp.take_along_axis(slots, (steps % 2).reshape(b, 1, 1, 1), axis=1)[:, 0]
    return _with_free(state, plan, last)


def trajectory(
    call: Call, weights: Weights, state: State, plan: Plan, keys: Keys, first: Array
) -> tuple[Float32[Array, "b steps r c"], State]:
    """The free cells after each of the kept steps, and the state after the last; differentiable."""
    steps = jnp.full(keys.shape, call.keep, jnp.int32)
    operands = _operands(call, weights, state, plan, keys, first, steps, call.keep + 1)
    trained = {name: weights[name] for name in NAMES}
    slots = _trajectory(call, trained, operands[8], (*operands[:8], plan.back))
    return slots[:, 1:], _with_free(state, plan, slots[:, -1])


def free_rows(grid: Float32[Array, "b h w k"], plan: Plan) -> Float32[Array, "b r k"]:
    """The free cells of a grid, in the order of the plan; idle rows are zeros."""
    b = len(plan.cells)
    flat = grid.reshape(b, -1, grid.shape[-1])
    return jnp.where(alive(plan)[:, :, None], jnp.take_along_axis(flat, plan.cells[:, :, None], axis=1), 0.0)


def alive(plan: Plan) -> Bool[Array, "b r"]:
    """Which rows are free cells."""
    return jnp.arange(plan.cells.shape[1], dtype=jnp.int32)[None] < plan.free[:, None]


def _operands(
    call: Call,
    weights: Weights,
    state: State,
    plan: Plan,
    keys: Keys,
    first: Array,
    steps: Array,
    kept: int,
) -> tuple[Array, ...]:
    """What the forward kernel reads: what is constant, the rows before the first step, the weights."""
    b, h, w, c = state.shape
    beyond = jnp.broadcast_to(beyond_edge(call.spec, weights), (b, 1, c))
    table = jax.lax.stop_gradient(jnp.concatenate([state.reshape(b, -1, c), beyond], axis=1))
    sizes = jnp.array([plan.cells.shape[1], h * w + 1, kept], jnp.int32)
    first = jnp.broadcast_to(first, keys.shape).astype(jnp.int32)
    constants = (keys, first, steps, plan.free, sizes, plan.cells, plan.near, table)
    return (*constants, free_rows(state, plan), *(weights[name] for name in NAMES))


def _with_free(state: State, plan: Plan, rows: Float32[Array, "b r c"]) -> State:
    """The state with its free cells replaced."""
    found = plan.compact
    b, per_board = found.cells.shape
    free = (found.slot < b * per_board).reshape(*state.shape[:3], 1)
    flat = rows[:, :per_board].reshape(b * per_board, -1)
    back = flat.at[found.slot].get(mode="clip").reshape(state.shape)
    return jnp.where(free, back, jax.lax.stop_gradient(state))


def _trajectory_value(
    call: Call, weights: Weights, begin: Float32[Array, "b r c"], constants: tuple[Array, ...]
) -> Float32[Array, "b slots r c"]:
    return _trajectory_forward(call, weights, begin, constants)[0]


def _trajectory_forward(
    call: Call, weights: Weights, begin: Array, constants: tuple[Array, ...]
) -> tuple[Array, tuple]:
    b, rows, c = begin.shape
    kernel = call.kernel("steps_forward", b, rows)
    widths = (call.spec.perceived, call.spec.hidden)
    results = [
        jax.ShapeDtypeStruct((b, call.keep + 1, rows, c), jnp.float32),
        *(jax.ShapeDtypeStruct((b, call.keep, rows, width), jnp.float32) for width in widths),
    ]
    *shared, _ = constants
    operands = (*shared, begin, *(weights[name] for name in NAMES))
    slots, perceived, hidden = launch.launch(kernel, b * kernel.cluster, results, *operands)
    return slots, (weights, constants, slots, perceived, hidden)


def _trajectory_backward(call: Call, residuals: tuple, d_slots: Array) -> tuple:
    weights, constants, slots, perceived, hidden = residuals
    keys, first, _, free, sizes, cells, near, table, back = constants
    b, kept, rows, c = slots.shape
    spec, kernel = call.spec, call.kernel("steps_backward", b, rows)
    shapes = {
        "change": (b, kept - 1, rows, c),
        "hidden": (b, kept - 1, rows, spec.hidden),
        "kernels": (b, kernel.cluster, spec.heads, 9),
        "begin": (b, rows, c),
        "sent": (b, 2, 9, rows, c),
    }
    matrices = (weights[name] for name in ("perceive.kernels", "update.w_in", "update.w_out"))
    operands = (keys, first, free, sizes, cells, near, back, table, *matrices, slots, hidden, d_slots)
    results = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes.values()]
    found = dict(zip(shapes, launch.launch(kernel, b * kernel.cluster, results, *operands), strict=True))
    d_weights = {
        "perceive.kernels": found["kernels"].sum((0, 1)),
        "update.w_in": _summed_product(perceived, found["hidden"]),
        "update.b_in": found["hidden"].sum((0, 1, 2)),
        "update.w_out": _summed_product(found["change"], hidden),
        "update.b_out": found["change"].sum((0, 1, 2)),
    }
    return d_weights, found["begin"], None


def _summed_product(a: Float32[Array, "b t r m"], b: Float32[Array, "b t r n"]) -> Float32[Array, "m n"]:
    """aᵀ b over all rows, first within a board and then over the boards."""
    each = jnp.einsum("btrm,btrn->bmn", a, b)
    return each.sum(0)


_trajectory = jax.custom_vjp(_trajectory_value, nondiff_argnums=(0,))
_trajectory.defvjp(_trajectory_forward, _trajectory_backward)
