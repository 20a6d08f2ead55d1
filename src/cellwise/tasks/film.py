"""One rollout, step by step: what the cells of a canvas say while they find the answer."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, UInt32

from ..automaton import clock, layout
from ..automaton.layout import Automaton
from ..errors import ConfigError
from ..kernels import bits
from ..kernels.bits import Keys
from ..kernels.dispatch import Path
from ..kernels.precision import products
from ..kernels.spec import Weights
from ..model import Frame, Model
from ..puzzles.arc import Grid, Task
from ..puzzles.arc_canvas import PAD, Canvas, Placement, crop, question, smallest
from .adapted import SIDES, check_lesson, side_of
from .guess import lay_out
from .learn import begin, path_for


@dataclass(frozen=True)
class Scene:
    """A canvas before the first step: what the cells are given, who they are, and by what they are told."""

    model: Model
    canvas: Canvas
    at: Placement
    context: int
    keys: UInt32[np.ndarray, " 1"]
    precision: str = "bf16"

    @property
    def asked(self) -> Bool[np.ndarray, "s s"]:
        """The cells that are given a colour, whose answers count in any case."""
        return self.canvas != PAD

    def frames(self) -> Iterator[Frame]:
        """What the cells say at the start and after every step, as it is computed."""
        model = self.model
        weights = {name: jnp.asarray(array) for name, array in model.weights.items()}
        keys, path = jnp.asarray(self.keys), path_for(model.automaton.step, self.precision)
        with products("float32"):
            now = _begin(model.automaton, weights, jnp.asarray(self.canvas[None]), self.context, keys)
        for step in range(model.pace.base + 1):
            with products("float32"):
                if step:
                    now = _tick(
                        model.automaton, weights, now, keys, step - 1, path=path, rate=model.fire_rate
                    )
                grid, sure = _read(model.automaton, weights, now)
            yield Frame(step, np.asarray(grid)[0], np.asarray(sure)[0])

    def shown(self, frame: Frame) -> Grid | None:
        """The grid that the cells show at a moment, if they show one."""
        return crop(frame.grid, self.at)


def first_guess(model: Model, task: Task, number: int) -> Scene:
    """The rollout that gives the first guess for a question: the task as it is, in no other guise."""
    lesson = check_lesson(model, task)
    canvases, places, keys = lay_out(replace(task, name=lesson.task), number, 0, side_of(task), lesson.seed)
    return Scene(model, canvases[0], places[0], 0, keys[:1], lesson.precision)


def told(model: Model, grid: Grid, name: str, seed: int = 0) -> Scene:
    """A grid before the cells of a pre-trained model that are told to treat it like a task they know.

    Whatever the context, the grid lies at the same place, and cells begin and fire alike.
    """
    names = model.provenance.get("contexts")
    if not isinstance(names, list) or len(names) != model.automaton.layout.contexts:
        raise ConfigError(
            f"{model.name} knows no tasks by name; name a pre-trained model of `cellwise train arc`."
        )
    if name not in names:
        raise ConfigError(
            f"{model.name} knows no task {name[:40]!r}; name one of its {len(names)}, such as {names[0]}."
        )
    height, width = grid.shape
    at = Placement(smallest(SIDES, height, width), 1, 1, 1)
    keys = np.asarray(bits.trajectory_keys(seed, jnp.zeros(1, jnp.int32), jnp.zeros(1, jnp.int32)))
    return Scene(model, question(grid, at), at, names.index(name), keys)


@partial(jax.jit, static_argnames=("automaton",))
def _begin(automaton: Automaton, weights: Weights, canvas: Array, context: Array, keys: Keys) -> clock.Moment:
    return begin(automaton, weights, canvas, weights["context.vectors"][context][None], keys)


@partial(jax.jit, static_argnames=("automaton", "path", "rate"))
def _tick(
    automaton: Automaton,
    weights: Weights,
    now: clock.Moment,
    keys: Keys,
    step: Array,
    *,
    path: Path,
    rate: float,
) -> clock.Moment:
    plan = path.plan(automaton.step, jnp.ones(now.state.shape[:3], bool))
    return clock.tick(automaton, weights, now, plan, keys, step, path=path, rate=rate)


@partial(jax.jit, static_argnames=("automaton",))
def _read(automaton: Automaton, weights: Weights, now: clock.Moment) -> tuple[Array, Array]:
    return layout.read(automaton.layout, weights, now.state)
