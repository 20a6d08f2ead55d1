"""One step of a model as an ONNX graph, for runtimes that know nothing of cellwise.

The graph takes `state` [b, h, w, c], `given` [b, h, w] (true where a token is part of the puzzle) and `fire`
[b, h, w] (true where a cell fires), and gives `next` [b, h, w, c]: what `kernels/reference.py` gives. Boards
may have any number and, unless the model has a size, any size. How states are made and read is in the
metadata, as in `config.json`, with the token vectors.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float32

from .config import to_json
from .errors import ConfigError
from .files import write_bytes
from .kernels.spec import EPS, OFFSETS, SOBEL
from .model import Model
from .version import __version__

if TYPE_CHECKING:
    import onnx

OPSET = 17
"""The version of the ONNX operators that is used."""

_IR = 8  # The file format that came with it.
_END = np.iinfo(np.int64).max


def save(model: Model, path: str | Path) -> None:
    """Writes the graph of one step of a model."""
    write_bytes(path, graph(model).SerializeToString())


def graph(model: Model) -> "onnx.ModelProto":
    """The graph of one step of a model, checked."""
    try:
        import onnx
        from onnx import TensorProto, helper
    except ImportError as error:
        raise ConfigError(
            'Writing an ONNX file needs the package onnx; install it with `pip install "cellwise[onnx]"`.'
        ) from error
    if model.automaton.step.perception == "self-attention":
        raise ConfigError(
            f"{model.name} has self-attention, which no ONNX file is written for; export another model."
        )
    spec, builder = model.automaton.step, _Builder(model)
    builder.step()
    size = model.size or ("height", "width")
    cells, states = ["boards", *size], ["boards", *size, spec.channels]
    built = helper.make_graph(
        builder.nodes,
        f"one step of {model.name}",
        [
            helper.make_tensor_value_info("state", TensorProto.FLOAT, states),
            helper.make_tensor_value_info("given", TensorProto.BOOL, cells),
            helper.make_tensor_value_info("fire", TensorProto.BOOL, cells),
        ],
        [helper.make_tensor_value_info("next", TensorProto.FLOAT, states)],
        [onnx.numpy_helper.from_array(array, name) for name, array in builder.arrays.items()],
    )
    opset = helper.make_operatorsetid("", OPSET)
    whole = helper.make_model(
        built, opset_imports=[opset], ir_version=_IR, producer_name="cellwise", producer_version=__version__
    )
    about = {
        "name": model.name,
        "puzzle": model.puzzle,
        "automaton": to_json(model.automaton),
        "fire_rate": model.fire_rate,
        "pace": to_json(model.pace),
        "tokens": model.weights["layout.tokens"].tolist(),
    }
    helper.set_model_props(whole, {f"cellwise.{key}": json.dumps(value) for key, value in about.items()})
    onnx.checker.check_model(whole, full_check=True)
    return whole


class _Builder:
    """Collects nodes and constants; every method that adds a node returns the name of its output."""

    def __init__(self, model: Model) -> None:
        self.spec, self.weights = model.automaton.step, model.weights
        self.nodes: list[Any] = []
        self.arrays: dict[str, np.ndarray] = {}

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Adds an operator."""
        from onnx import helper

        output = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, name: str, value: Any, kind: type = np.float32) -> str:
        """A constant by its name."""
        self.arrays[name] = np.ascontiguousarray(value, kind)
        return name

    def whole(self, *numbers: int) -> str:
        """A list of whole numbers, such as axes."""
        return self.constant("list_" + "_".join(map(str, numbers)).replace("-", "m"), numbers, np.int64)

    def step(self) -> None:
        """The whole step, as the definition has it."""
        spec = self.spec
        change = self.update(self.attention() if spec.perception == "attention" else self.kernels())
        axis = self.whole(-1)
        channel = self.constant("frozen_channels", np.arange(spec.channels) < spec.frozen, np.bool_)
        frozen = self.node("And", self.node("Unsqueeze", "given", axis), channel)
        moves = self.node("And", self.node("Unsqueeze", "fire", axis), self.node("Not", frozen))
        change = self.node("Where", moves, change, self.constant("nothing", 0.0))
        if spec.unit is None:
            self.node("Add", "state", change, output="next")
            return
        x, d = self.units("state"), self.units(change)
        if spec.tangent:
            along = self.total(self.node("Mul", d, x))
            d = self.node("Sub", d, self.node("Mul", along, x))
        moved = self.node("Add", x, d)
        square = self.total(self.node("Mul", moved, moved))
        eps = self.constant("eps", EPS)
        if spec.eps_inside:
            length = self.node("Sqrt", self.node("Add", square, eps))
        else:
            length = self.node("Add", self.node("Sqrt", square), eps)
        flat = self.whole(0, 0, 0, spec.channels - spec.first_unit)
        if not spec.first_unit:
            self.node("Reshape", self.node("Div", moved, length), flat, output="next")
            return
        kept = self.node("Add", self.channels("state", 0), self.channels(change, 0))
        units = self.node("Reshape", self.node("Div", moved, length), flat)
        self.node("Concat", kept, units, axis=-1, output="next")

    def kernels(self) -> str:
        """What every cell perceives by kernels: a convolution of each channel by itself."""
        spec = self.spec
        padded = self.padded("state", self.beyond())
        fixed = spec.perception == "sobel"
        kernels = np.array(SOBEL, np.float32) if fixed else self.weights["perceive.kernels"]
        kernels = kernels.reshape(spec.heads, 1, 3, 3)
        weights = self.constant("perceive.kernels", np.tile(kernels, (spec.channels, 1, 1, 1)))
        planes = self.node("Transpose", padded, perm=[0, 3, 1, 2])
        z = self.node("Conv", planes, weights, group=spec.channels, kernel_shape=[3, 3])
        return self.node("Transpose", z, perm=[0, 2, 3, 1])

    def attention(self) -> str:
        """What every cell perceives by attention: projected neighbours, weighed head by head."""
        spec, c = self.spec, self.spec.channels
        value = self.weights["perceive.value"].reshape(c, c)
        projected = self.node("MatMul", "state", self.constant("perceive.value", value.T))
        padded = self.padded(projected, value @ self.beyond())
        parts = []
        for n, (dy, dx) in enumerate(OFFSETS):
            # An end of -1 leaves out the last row; one that is left in needs an end beyond all.
            ends = self.whole(dy - 1 or _END, dx - 1 or _END)
            near = self.node("Slice", padded, self.whole(1 + dy, 1 + dx), ends, self.whole(1, 2))
            share = np.repeat(self.weights["perceive.attention"][..., n], c // spec.heads, axis=-1)
            parts.append(self.node("Mul", near, self.constant(f"perceive.attention.{n}", share)))
        return self.node("Sum", *parts)

    def beyond(self) -> Float32[np.ndarray, " c"]:
        """The state of the imagined cells beyond an edge that does not wrap."""
        if self.spec.padding == "token":
            return self.weights["layout.tokens"][self.spec.padding_token]
        return np.zeros(self.spec.channels, np.float32)

    def padded(self, grid: str, beyond: Float32[np.ndarray, " c"]) -> str:
        """The grid with one more cell on every side."""
        if self.spec.padding == "wrap":
            for axis in (1, 2):
                last = self.node("Slice", grid, self.whole(-1), self.whole(_END), self.whole(axis))
                first = self.node("Slice", grid, self.whole(0), self.whole(1), self.whole(axis))
                grid = self.node("Concat", last, grid, first, axis=axis)
            return grid
        edge = self.whole(0, 1, 1, 0, 0, 1, 1, 0)
        if not beyond.any():
            return self.node("Pad", grid, edge)
        # Zeros around what differs from the edge are the edge around the whole.
        vector = self.constant("beyond", beyond)
        return self.node("Add", self.node("Pad", self.node("Sub", grid, vector), edge), vector)

    def update(self, z: str) -> str:
        """The change that a cell proposes for itself."""
        hidden = self.affine(z, "w_in", "b_in")
        if self.spec.update == "swiglu":
            gate = self.affine(z, "w_gate", "b_gate")
            hidden = self.node("Mul", self.node("Mul", gate, self.node("Sigmoid", gate)), hidden)
        else:
            hidden = self.node("Relu", hidden)
        change = self.node("MatMul", hidden, self.constant("update.w_out", self.weights["update.w_out"].T))
        return change if self.spec.update == "bare" else self.biased(change, "b_out")

    def affine(self, z: str, weight: str, bias: str) -> str:
        """z @ weight, with the bias that belongs to it.

        The numbers of a convolution come channel by channel, those of `z` head by head.
        """
        matrix = self.weights[f"update.{weight}"]
        if self.spec.perception != "attention":
            heads = matrix.reshape(self.spec.heads, self.spec.channels, -1)
            matrix = heads.swapaxes(0, 1).reshape(matrix.shape)
        product = self.node("MatMul", z, self.constant(f"update.{weight}", matrix))
        return product if self.spec.update == "bare" else self.biased(product, bias)

    def biased(self, product: str, bias: str) -> str:
        """What a product comes to with its bias."""
        return self.node("Add", product, self.constant(f"update.{bias}", self.weights[f"update.{bias}"]))

    def channels(self, state: str, first: int) -> str:
        """The channels before the units, or from the first unit on."""
        begin, end = (0, self.spec.first_unit) if first == 0 else (first, _END)
        return self.node("Slice", state, self.whole(begin), self.whole(end), self.whole(3))

    def units(self, state: str) -> str:
        """The normalised channels as units."""
        part = self.channels(state, self.spec.first_unit) if self.spec.first_unit else state
        return self.node("Reshape", part, self.whole(0, 0, 0, -1, self.spec.unit or 1))

    def total(self, units: str) -> str:
        """The sum over each unit."""
        return self.node("ReduceSum", units, self.whole(-1), keepdims=1)
