"""The parameters of a rule: their names, shapes, first values and number."""

import math

import numpy as np
from jaxtyping import Float32

from ..kernels.spec import StepSpec
from .layout import Automaton

Shapes = dict[str, tuple[int, ...]]
FIXED = ("layout.tokens",)
"""Arrays that belong to a model but are not trained."""


def trained_shapes(spec: StepSpec, size: tuple[int, int] | None) -> Shapes:
    """The shape of every trained array; `size` gives attention of its own to each place of such a board."""
    c, z, hidden, place = spec.channels, spec.perceived, spec.hidden, size or ()
    if spec.perception == "kernels":
        perceive: Shapes = {"perceive.kernels": (spec.heads, 9)}
    elif spec.perception == "sobel":
        perceive = {}
    elif spec.perception == "self-attention":
        maps = ("perceive.query", "perceive.key", "perceive.value")
        perceive = {"perceive.places": (*place, c)} | dict.fromkeys(maps, (spec.heads, c // spec.heads, c))
    else:
        perceive = {
            "perceive.attention": (*place, spec.heads, 9),
            "perceive.value": (spec.heads, c // spec.heads, c),
        }
    gate: Shapes = (
        {"update.w_gate": (z, hidden), "update.b_gate": (hidden,)} if spec.update == "swiglu" else {}
    )
    update = {
        "update.w_in": (z, hidden),
        "update.b_in": (hidden,),
        "update.w_out": (c, hidden),
        "update.b_out": (c,),
    }
    if spec.update == "bare":
        update = {"update.w_in": (z, hidden), "update.w_out": (c, hidden)}
    return perceive | gate | update


def table_shapes(automaton: Automaton) -> Shapes:
    """The shape of every trained array that is not part of the step: contexts, clock and head."""
    layout, clock = automaton.layout, automaton.clock
    shapes: Shapes = {}
    if layout.contexts:
        shapes["context.vectors"] = (layout.contexts, layout.context)
    if clock is not None:
        shapes["clock.vectors"] = (clock.ticks, automaton.step.channels - clock.first)
    if layout.head == "linear":
        shapes |= {"head.w": (layout.tokens, layout.write), "head.b": (layout.tokens,)}
    return shapes


def all_shapes(automaton: Automaton, size: tuple[int, int] | None) -> Shapes:
    """The shape of every array of a model, fixed ones included."""
    layout = automaton.layout
    fixed: Shapes = {"layout.tokens": (layout.tokens, layout.read)}
    return trained_shapes(automaton.step, size) | table_shapes(automaton) | fixed


def first_weights(
    spec: StepSpec, size: tuple[int, int] | None, seed: int
) -> dict[str, Float32[np.ndarray, "..."]]:
    """The trained arrays before training: perception of unit scale, an update that does almost nothing."""
    rng = np.random.default_rng(seed)
    scale = {"perceive.kernels": 1 / 3, "perceive.attention": 1 / 3, "perceive.places": 0.02}
    scale |= {f"perceive.{name}": spec.channels**-0.5 for name in ("query", "key", "value")}
    if spec.update == "bare":  # A hidden layer of unit scale (Glorot's), and at first no change at all.
        scale |= {"update.w_in": (2 / (spec.perceived + spec.hidden)) ** 0.5, "update.w_out": 0.0}
    weights = {}
    for name, shape in trained_shapes(spec, size).items():
        size_of_name = 0.0 if ".b_" in name else scale.get(name, 1e-3)
        weights[name] = np.asarray(size_of_name * rng.standard_normal(shape), np.float32)
    return weights


def first_tables(automaton: Automaton, seed: int) -> dict[str, Float32[np.ndarray, "..."]]:
    """The arrays of `table_shapes` before training: small vectors, a head that does not know yet.

    Units are brought to length one, so of a context only its direction counts, and the smaller it starts,
    the faster it turns.
    """
    rng = np.random.default_rng([seed, 1])
    scale = {"context.vectors": 0.02, "clock.vectors": 0.02, "head.w": 1e-2, "head.b": 0.0}
    return {
        name: np.asarray(scale[name] * rng.standard_normal(shape), np.float32)
        for name, shape in table_shapes(automaton).items()
    }


def count(spec: StepSpec, size: tuple[int, int] | None) -> int:
    """How many numbers of the step are trained."""
    return sum(math.prod(shape) for shape in trained_shapes(spec, size).values())


def count_all(automaton: Automaton, size: tuple[int, int] | None) -> int:
    """How many numbers are trained, those of contexts, clock and head included."""
    return count(automaton.step, size) + sum(math.prod(shape) for shape in table_shapes(automaton).values())
