"""The maze rule put together from the parts of CAX, as its notebooks do it, to be measured beside ours."""

import warnings
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..kernels.dispatch import Reference
from .contenders import Setting
from .measure import Contender

MISSING = 'CAX is left out because it is not installed; get it with: pip install -e ".[bench]"'


def installed() -> bool:
    """Whether there is anything to measure."""
    return find_spec("cax") is not None


def contender(at: Setting) -> Contender:
    """A forward or a gradient run.

    What differs: its kernels belong to one channel each where ours are shared by all channels; nothing can be
    frozen; what survives its cell dropout is divided by the fire rate; random bits come from JAX's generator.
    None of this changes the arithmetic of a cell. States of all steps are sown, as its notebooks do it.
    """
    from cax.core import ComplexSystem  # pyright: ignore[reportMissingImports]
    from cax.core.perceive import ConvPerceive  # pyright: ignore[reportMissingImports]
    from cax.core.update import ResidualUpdate  # pyright: ignore[reportMissingImports]
    from flax import nnx  # pyright: ignore[reportMissingImports]

    warnings.filterwarnings("ignore", "Using 'Module.sow", DeprecationWarning)
    spec, write, steps = at.preset.automaton.step, at.preset.automaton.layout.write, at.workload.steps
    fire_rate = at.preset.recipe.fire_rate

    class Maze(ComplexSystem):
        """Depthwise convolution, then a residual MLP with cell dropout."""

        def __init__(self, *, rngs: Any) -> None:
            c, z = spec.channels, spec.perceived
            self.perceive = ConvPerceive(c, z, padding="CIRCULAR", feature_group_count=c, rngs=rngs)
            self.update = ResidualUpdate(
                2, c, z, (spec.hidden,), cell_dropout_rate=1 - fire_rate, zeros_init=True, rngs=rngs
            )

        def _step(self, state: Any, input: Any = None, *, sow: bool = False) -> Any:  # noqa: A002 its name
            state = self.update(state, self.perceive(state), input)
            if sow:
                self.sow(nnx.Intermediate, "state", state)
            return state

    @nnx.jit
    def learn(system: Any, state: Array, target: Array) -> Any:
        def loss(system: Any) -> Array:
            system(state, num_steps=steps, sow=True)
            states = nnx.pop(system, nnx.Intermediate)["state"].get_value()[0]
            return jnp.mean((states[..., :write] - target) ** 2)

        return nnx.value_and_grad(loss)(system)

    shape = at.boards.target.shape
    state = 0.15 * jax.random.normal(jax.random.key(0), (*shape, spec.channels))
    target = 0.15 * jax.random.normal(jax.random.key(1), (*shape, write))
    system = Maze(rngs=nnx.Rngs(0))

    def run() -> Any:
        if at.workload.task == "gradient":
            return jax.block_until_ready(learn(system, state, target))
        return jax.block_until_ready(system(state, num_steps=steps))

    passes = 3 * steps if at.workload.task == "gradient" else steps
    return at.contender(f"CAX {version('cax')}", Reference(), "float32", shape[0], steps, passes, run)
