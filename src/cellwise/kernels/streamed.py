"""Many steps of a rule with attention in one launch, the weights streamed past the boards.

A Sudoku rule has half a million weights and more, too many for a multiprocessor, but each of its steps uses
every weight for every cell. So in `cuda/attention.cu` a block of the GPU has a few boards from the first step
to the last, while the weights come by again and again from the L2 cache. Factors of products are bf16, sums
and states float32. Here is what surrounds the kernel: weights in the order in which it wants them, how many
boards a block takes, and the gradient.

To learn, the kernel keeps all that the gradients of the weights are products of. These are a few large
products over all steps, boards and cells.
"""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import BFloat16, Bool, Float32, Int32

from . import launch
from .bits import Keys
from .launch import Kernel
from .noise import Noise
from .reference import State
from .resident import SHARED_BYTES, below, of_noise
from .spec import OFFSETS, StepSpec, Weights

NAMES = (
    "perceive.attention",
    "perceive.value",
    "update.w_in",
    "update.b_in",
    "update.w_out",
    "update.b_out",
)
CHANNELS = (64, 128, 256)
UNIT = 32
CHUNK = 128
"""Hidden numbers that are computed at a time."""
PANEL = 64
"""Numbers of a row of a factor that lie together."""
TILE = 128
"""Rows that a block computes at a time, half of them by each of two warpgroups."""
THREADS = 384
MOST_STAGES = 5
"""The ring of weights that are on their way."""
CLUSTER = 2
"""Blocks that fetch weights for each other, because L2 cannot bring all of them to every block."""


@dataclass(frozen=True)
class Call:
    """All that a kernel is compiled for besides sizes that it reads."""

    spec: StepSpec
    size: tuple[int, int]
    rate: float
    noise: Noise | None
    keep: int = 0
    """The steps to keep all of, or 0 to keep none."""
    answers: tuple[int, int] | None = None
    """When learning from every step, the channels that are judged."""

    @property
    def answer_units(self) -> tuple[int, int]:
        """The first of the units that hold the judged channels, and how many there are."""
        first, last = self.answers or (0, 0)
        return first // UNIT, -(-last // UNIT) - first // UNIT

    @property
    def cells(self) -> int:
        """Cells of a board."""
        return self.size[0] * self.size[1]

    @property
    def stage(self) -> int:
        """Weights that are brought at a time."""
        return CHUNK * min(self.spec.channels, 128)

    def kernel(self, entry: str, blocks: int) -> Kernel:
        """An entry of the kernel's file, for this call and so many blocks."""
        spec = self.spec
        rows = 2 * TILE * spec.channels
        stages = min(MOST_STAGES, (SHARED_BYTES - 2048 - rows) // (2 * self.stage))
        cluster = min(CLUSTER, blocks)
        definitions = {
            "HEIGHT": self.size[0],
            "WIDTH": self.size[1],
            "CHANNELS": spec.channels,
            "HEADS": spec.heads,
            "HIDDEN": spec.hidden,
            "FROZEN": spec.frozen,
            "STAGES": stages,
            "CLUSTER": cluster,
            "FIRE_BELOW": below(self.rate),
        }
        if self.keep:
            definitions["KEEP"] = 1
        if self.answers is not None:
            definitions |= dict(zip(("ANSWER_FIRST", "ANSWERS"), self.answer_units, strict=True))
        definitions |= of_noise(self.noise)
        pairs = tuple((name, str(value)) for name, value in definitions.items())
        # Room for the counters of the stages, and to begin at a multiple of 1,024 bytes.
        shared = (rows + stages * (2 * self.stage + 16) + 1024) // 4
        return Kernel("attention.cu", entry, pairs, THREADS, shared, cluster, hopper=True)


def refusal(spec: StepSpec) -> str | None:
    """Why the kernel cannot run a rule here, or None."""
    if spec.perception != "attention" or spec.update != "mlp":
        return f"it knows attention with an MLP, not {spec.perception} with {spec.update}"
    if spec.padding == "token":
        return "it knows boards that wrap or end in zeros, not those that end in a token"
    if spec.unit != UNIT or spec.first_unit or not spec.tangent or spec.eps_inside:
        return f"it knows units of {UNIT} channels, all of them, with updates along the sphere"
    if spec.channels not in CHANNELS or spec.hidden % CHUNK or spec.frozen % UNIT:
        return f"it knows 64, 128 or 256 channels, hidden layers by {CHUNK} and frozen channels by {UNIT}"
    if spec.channels % (8 * spec.heads):
        return "it knows heads of eight channels or a multiple of that"
    return launch.hopper_refusal()


def boards_each(boards: int, cells: int, processors: int) -> int:
    """How many boards a block takes, so that all multiprocessors are done as soon as possible."""

    def cost(each: int) -> float:
        tiles, rest = divmod(each * cells, TILE)
        # Half a tile takes a little more than half of the time.
        last = 0.0 if rest == 0 else 0.6 if rest <= TILE // 2 else 1.0
        return math.ceil(math.ceil(boards / each) / processors) * (tiles + last)

    return min(range(1, min(boards, 16) + 1), key=cost)


def rollout(
    call: Call,
    weights: Weights,
    state: State,
    given: Bool[Array, "b h w"],
    keys: Keys,
    first: Int32[Array, "..."],
    steps: Int32[Array, "..."],
) -> State:
    """The state after steps `first … first + steps - 1` of each board, not differentiable."""
    b, c = len(state), call.spec.channels
    steps = jnp.broadcast_to(steps, keys.shape).astype(jnp.int32)
    operands, blocks = _operands(call, weights, rows(state), given, keys, first, steps)
    results = [
        jax.ShapeDtypeStruct((b, call.cells, c), jnp.float32),
        jax.ShapeDtypeStruct((b, 2, call.cells, c), jnp.bfloat16),
    ]
    states, _ = launch.launch(call.kernel("steps_forward", blocks), blocks, results, *operands)
    return states.reshape(state.shape)


def trajectory(
    call: Call, weights: Weights, state: State, given: Bool[Array, "b h w"], keys: Keys, first: Array
) -> tuple[Float32[Array, "b steps n k"] | None, State]:
    """The judged channels after each of the kept steps, and the state after the last; differentiable."""
    trained = {name: weights[name] for name in NAMES}
    first = jnp.broadcast_to(first, keys.shape).astype(jnp.int32)
    units, last = _trajectory(call, trained, rows(state), (given, keys, first))
    answers = None
    if call.answers is not None:
        before = UNIT * call.answer_units[0]
        answers = units[..., call.answers[0] - before : call.answers[1] - before]
    return answers, last.reshape(state.shape)


def rows(grid: Float32[Array, "b h w k"]) -> Float32[Array, "b n k"]:
    """The cells of each board in a row."""
    return grid.reshape(len(grid), -1, grid.shape[-1])


def _operands(
    call: Call, weights: Weights, begin: Array, given: Array, keys: Keys, first: Array, steps: Array
) -> tuple[tuple[Array, ...], int]:
    """What the forward kernel reads, and in how many blocks."""
    sizes, blocks = _sizes(call, len(begin))
    operands = (
        sizes,
        keys,
        jnp.broadcast_to(first, keys.shape).astype(jnp.int32),
        steps,
        given.reshape(len(given), -1).astype(jnp.uint8),
        _twelve(_attention(call, weights["perceive.attention"])),
        _stages(call, weights["update.w_in"].T, weights["update.w_out"], _woven(_value(call, weights), 1)),
        weights["update.b_in"],
        weights["update.b_out"],
        begin,
    )
    return operands, blocks


def _sizes(call: Call, boards: int) -> tuple[Int32[Array, "3"], int]:
    each = _each(call, boards)
    blocks = -(-boards // each)
    cluster = min(CLUSTER, blocks)
    return jnp.array([boards, each, call.keep], jnp.int32), -(-blocks // cluster) * cluster


def _each(call: Call, boards: int) -> int:
    return boards_each(boards, call.cells, launch.multiprocessors())


def _value(call: Call, weights: Weights) -> Float32[Array, "c c"]:
    return weights["perceive.value"].reshape(call.spec.channels, call.spec.channels)


# ---- weights as the kernel wants them ---------------------------------------------------------------------


def _woven(matrix: Float32[Array, "m n"], axis: int) -> Float32[Array, "m n"]:
    """Columns or rows in the order in which tensor cores give their sums to threads.

    Of 32 numbers in a row, place 8j + 2t + i gets number 8t + 2j + i.
    """
    split = jnp.moveaxis(matrix, axis, 0).reshape(-1, 4, 4, 2, matrix.shape[1 - axis])
    return jnp.moveaxis(split.swapaxes(1, 2).reshape(-1, matrix.shape[1 - axis]), 0, axis)


def _panels(matrix: Float32[Array, "*a n k"]) -> Float32[Array, "*a p n w"]:
    """Rows of 64 numbers, in which the eight pieces of row r are at places piece ^ (r % 8)."""
    *ahead, n, k = matrix.shape
    pieces = jnp.moveaxis(matrix.reshape(*ahead, n // 8, 8, k // PANEL, 8, 8), -3, -5)
    row = np.arange(8)[:, None]
    return pieces[..., row, row ^ np.arange(8)[None], :].reshape(*ahead, k // PANEL, n, PANEL)


def _stages(
    call: Call,
    one: Float32[Array, "hidden c"],
    two: Float32[Array, "c hidden"],
    value: Float32[Array, "c c"],
) -> BFloat16[Array, " s"]:
    """All weights in the order in which a step uses them; products give the tensor cores' order."""
    chunks, c = call.spec.hidden // CHUNK, call.spec.channels
    first = _panels(_woven(one, 0).reshape(chunks, CHUNK, c)).reshape(chunks, -1)
    into = _woven(_woven(two, 0), 1).reshape(c, chunks, CHUNK).transpose(1, 0, 2)
    both = jnp.concatenate([first, _panels(into).reshape(chunks, -1)], axis=1).reshape(-1)
    last = _panels(_woven(value, 0)).reshape(-1)
    return jnp.concatenate([both, jnp.pad(last, (0, -last.size % call.stage))]).astype(jnp.bfloat16)


def _neighbours(call: Call) -> tuple[np.ndarray, np.ndarray]:
    """Which cell each neighbour of each cell is, on boards that wrap, and whether it is to be seen."""
    h, w = call.size
    y, x = np.divmod(np.arange(h * w), w)
    offsets = np.array(OFFSETS)
    y, x = y[:, None] + offsets[:, 0], x[:, None] + offsets[:, 1]
    inside = (y >= 0) & (y < h) & (x >= 0) & (x < w)
    return y % h * w + x % w, inside | (call.spec.padding == "wrap")


def _attention(call: Call, attention: Float32[Array, "..."]) -> Float32[Array, "n m 9"]:
    """How each cell weighs its neighbours."""
    heads = call.spec.heads
    placed = jnp.broadcast_to(attention, (*call.size, heads, 9)).reshape(call.cells, heads, 9)
    _, seen = _neighbours(call)
    return jnp.where(seen[:, None], placed, 0.0)


def _twelve(attention: Float32[Array, "n m 9"]) -> Float32[Array, "n m 12"]:
    """Three more, so that a thread reads four at a time."""
    return jnp.pad(attention, ((0, 0), (0, 0), (0, 3)))


# ---- learning ---------------------------------------------------------------------------------------------


def _trajectory_value(call: Call, weights: Weights, begin: Array, constants: tuple) -> tuple:
    return _trajectory_forward(call, weights, begin, constants)[0]


def _trajectory_forward(call: Call, weights: Weights, begin: Array, constants: tuple) -> tuple:
    given, keys, first = constants
    (b, n, c), t, hidden = begin.shape, call.keep, call.spec.hidden
    operands, blocks = _operands(call, weights, begin, given, keys, first, jnp.full(b, t, jnp.int32))
    tiles = -(-_each(call, b) * n // TILE)
    rounded = {
        "values": c,
        "states": c,
        "perceived": c,
        "hidden": hidden,
    }
    kept = [jax.ShapeDtypeStruct((b, t, n, width), jnp.bfloat16) for width in rounded.values()]
    # Which hidden numbers are above zero, a bit each, in the order of the threads.
    active = jax.ShapeDtypeStruct((blocks, t, tiles, hidden // CHUNK, 2, TILE * 2), jnp.uint32)
    results = [jax.ShapeDtypeStruct((b, t + 1, n, c), jnp.float32), *kept, active, kept[0]]
    states, *others = launch.launch(call.kernel("steps_forward", blocks), blocks, results, *operands)
    names = (*rounded, "active", "changes")
    found = dict(zip(names, others, strict=True)) | {"exact": states}
    answers = None
    if call.answers is not None:
        first_unit, units = call.answer_units
        answers = states[:, 1:, :, UNIT * first_unit : UNIT * (first_unit + units)]
    return (answers, states[:, -1]), (weights, constants, found)


def _trajectory_backward(call: Call, residuals: tuple, d_seen: tuple) -> tuple:
    weights, (given, keys, first), kept = residuals
    d_answers, d_last = d_seen
    b, t, n, c = kept["changes"].shape
    near, _ = _neighbours(call)
    # What a cell gets from its neighbours: how they weigh it, which is neighbour 8 - n of its neighbour n.
    returned = _attention(call, weights["perceive.attention"])[near, :, 8 - np.arange(9)[None]]
    sizes, blocks = _sizes(call, b)
    operands = (
        sizes,
        keys,
        first,
        given.reshape(b, n).astype(jnp.uint8),
        _twelve(returned.swapaxes(1, 2)),
        _stages(call, weights["update.w_out"].T, weights["update.w_in"], _value(call, weights).T),
        kept["exact"],
        kept["changes"],
        kept["active"],
        d_last,
        *(() if d_answers is None else (d_answers,)),
    )
    rounded = {"changes": c, "hidden": call.spec.hidden, "perceived": c, "values": c}
    results = [
        *(jax.ShapeDtypeStruct((b, t, n, width), jnp.bfloat16) for width in rounded.values()),
        *(jax.ShapeDtypeStruct((b, n, c), jnp.float32) for _ in range(2)),
    ]
    *found, d_begin, _ = launch.launch(call.kernel("steps_backward", blocks), blocks, results, *operands)
    d = dict(zip(rounded, found, strict=True))
    d_weights = {
        "perceive.attention": _attention_gradient(call, weights, d["perceived"], kept["values"]),
        "perceive.value": _product("btnc,btnk->bck", d["values"], kept["states"]),
        "update.w_in": _product("btnz,btnh->bzh", kept["perceived"], d["hidden"]),
        "update.b_in": jnp.sum(d["hidden"], (0, 1, 2), jnp.float32),
        "update.w_out": _product("btnc,btnh->bch", d["changes"], kept["hidden"]),
        "update.b_out": jnp.sum(d["changes"], (0, 1, 2), jnp.float32),
    }
    shaped = {name: slope.reshape(weights[name].shape) for name, slope in d_weights.items()}
    return shaped, d_begin, None


def _product(how: str, a: Array, b: Array) -> Float32[Array, "..."]:
    """A product of kept numbers, over the steps and cells of each board and then over the boards."""
    each: Any = jnp.einsum(how, a, b, preferred_element_type=jnp.float32)
    return each.sum(0)


def _attention_gradient(
    call: Call, weights: Weights, d_perceived: Array, values: Array
) -> Float32[Array, "..."]:
    """How the loss depends on each weight of a neighbour.

    The product of all places with all, of which nine in a row are wanted, is the fastest way to get them.
    """
    heads = call.spec.heads
    split = (*values.shape[:3], heads, -1)
    all_pairs = _product("btpmd,btqmd->bmpq", d_perceived.reshape(split), values.reshape(split))
    near, seen = _neighbours(call)
    of_near = all_pairs[:, np.arange(call.cells)[:, None], near].transpose(1, 0, 2)
    placed = jnp.where(seen[:, None], of_near, 0.0)
    return placed.sum(0) if weights["perceive.attention"].ndim == 2 else placed


_trajectory = jax.custom_vjp(_trajectory_value, nondiff_argnums=(0,))
_trajectory.defvjp(_trajectory_forward, _trajectory_backward)
