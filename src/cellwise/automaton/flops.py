"""What a step costs, in floating-point operations.

The convention is the paper's: what XLA's CPU cost analysis counts for one compiled step, every cell computed
whether it fires or not, readout and random bits left out. Counts of a GPU back end omit library products.
"""

from typing import Literal

import jax
import jax.numpy as jnp

from ..kernels import paper, reference
from ..kernels.spec import StepSpec
from .layout import Automaton
from .rule import all_shapes

Formulation = Literal["cellwise", "paper"]
"""Whether attention projects each cell once, or each neighbour of each cell as the paper does."""


def step_flops(automaton: Automaton, size: tuple[int, int], formulation: Formulation = "cellwise") -> int:
    """The operations of one step of one board, counted by XLA; compiles the step and runs nothing."""
    spec, cpu = automaton.step, jax.sharding.SingleDeviceSharding(jax.devices("cpu")[0])

    def array(shape: tuple[int, ...], kind: type = jnp.float32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, kind, sharding=cpu)

    # Attention shared by all places costs the same as attention of their own.
    weights = {name: array(shape) for name, shape in all_shapes(automaton, size).items()}
    step = jax.jit(paper.step if formulation == "paper" else reference.step, static_argnums=0)
    cells = array((1, *size), jnp.bool_)
    compiled = step.lower(spec, weights, array((1, *size, spec.channels)), cells, cells).compile()
    return int((compiled.cost_analysis() or {})["flops"])


def closed_form(spec: StepSpec, formulation: Formulation = "cellwise") -> int:
    """The operations of one cell in one step by hand: a product and a sum count one each.

    Leaves out what grows only with the channels, mostly the normalisation of units.
    """
    c, z, hidden = spec.channels, spec.perceived, spec.hidden
    # Nine products and eight sums; of the Sobel filters only what is not zero, six of each for two slopes.
    sparse = spec.perception == "sobel" and formulation == "cellwise"
    weighing = 2 * 11 * c if sparse else 17 * z
    projections = (9 if formulation == "paper" else 1) if spec.perception == "attention" else 0
    if (
        spec.perception == "self-attention"
    ):  # Besides nine products of keys and queries; no other formulation.
        weighing, projections = weighing + 18 * c, 3
    branches = 2 if spec.update == "swiglu" else 1
    if spec.update == "bare":
        return weighing + 2 * z * hidden + 2 * hidden * c
    update = branches * 2 * (z + 1) * hidden + 2 * (hidden + 1) * c
    return projections * 2 * c * c + weighing + update
