"""What one step of an automaton is, as a small frozen value: all that a kernel needs besides arrays."""

from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float32

Weights = dict[str, Float32[Array, "..."]]
"""The parameters of a step by their checkpoint names, such as `perceive.kernels` or `update.w_in`."""

Padding = Literal["wrap", "zero", "token"]


@dataclass(frozen=True)
class StepSpec:
    """The shape of a rule.

    - `perception`: `kernels` are `heads` scalar 3×3 kernels shared by all channels, so that a cell perceives
      `heads × channels` numbers; `attention` projects every neighbour to `channels / heads` numbers a head
      and weighs the nine with fixed, signed weights, so that a cell perceives `channels` numbers; `sobel`
      is fixed: each channel itself and its slopes along x and y, so `heads` is 3. `self-attention` weighs
      by how well keys fit queries instead, and every place has a learned vector of its own; it is there to
      be compared with.
    - `update`: `mlp` (one hidden layer, ReLU), `bare` (the same without biases) or `swiglu`, all `hidden`
      wide.
    - `padding`: what lies beyond the edge: the opposite edge, zeros, or token `padding_token` (whose vector
      must then have all `channels`).
    - `frozen`: at given cells the first `frozen` channels never change.
    - `unit`: channels from `first_unit` on are split into units of this width that are kept at length one;
      `None` for no normalisation. With `tangent`, an update loses its component along the unit first.
      `eps_inside` is the variant `v / sqrt(|v|² + eps)` instead of `v / (|v| + eps)`.
    """

    channels: int
    perception: Literal["kernels", "attention", "sobel", "self-attention"]
    heads: int
    hidden: int
    padding: Padding
    frozen: int
    update: Literal["mlp", "swiglu", "bare"] = "mlp"
    unit: int | None = None
    first_unit: int = 0
    tangent: bool = True
    eps_inside: bool = False
    padding_token: int = 0

    @property
    def perceived(self) -> int:
        """How many numbers a cell perceives."""
        return self.channels if "attention" in self.perception else self.channels * self.heads


def beyond_edge(spec: StepSpec, weights: Weights) -> Float32[Array, " c"]:
    """The state of the imagined cells beyond an edge that does not wrap."""
    if spec.padding == "token":
        return weights["layout.tokens"][spec.padding_token]
    return jnp.zeros(spec.channels, jnp.float32)


OFFSETS = tuple((dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1))
"""The neighbourhood in raster order; index 4 is the cell itself."""
SOBEL = (
    (0, 0, 0, 0, 1, 0, 0, 0, 0),
    (-1 / 8, 0, 1 / 8, -2 / 8, 0, 2 / 8, -1 / 8, 0, 1 / 8),
    (-1 / 8, -2 / 8, -1 / 8, 0, 0, 0, 1 / 8, 2 / 8, 1 / 8),
)
"""What a cell with fixed perception sees of each channel: the channel, its slope to the right, and down."""
EPS = 1e-6
