"""ARC-AGI-1: four hundred tasks by one automaton, as a beginning for tasks it has never seen.

    cellwise data fetch arc-agi-1 --from downloads   # docs/arc.md says from where
    cellwise data fetch re-arc            # or re-arc-150 --from DIR: 150 pairs a task instead of 1,000
    cellwise train arc-small --out runs/arc-small --minutes 20     # a GPU; again with --resume
    cellwise train arc --out runs/arc --minutes 20                 # the paper's size
    cellwise eval arc-held-out --model runs/arc-small/model        # for choices
    cellwise eval arc-agi-1 --model runs/arc-small/model           # once, at the end

Pre-training knows the demonstrations of 360 training tasks and RE-ARC's pairs of them. The other forty
(`puzzles/arc_held_out.py`) are for choices; the evaluation tasks are for nothing but the final score.
"""

from dataclasses import replace
from typing import Any

from ..automaton.layout import Automaton, Clock, Layout, orthonormal_tokens
from ..errors import DataError
from ..kernels.spec import StepSpec
from ..puzzles import store
from ..puzzles.arc import Known
from ..puzzles.arc_held_out import HELD_OUT
from ..puzzles.arc_pairs import Pairs, join, pack
from ..tasks.job import PairCheck
from ..tasks.recipe import PairRecipe
from ..training.recipe import Schedule
from .preset import PairPreset, TaskBenchmark

TASKS = 400
UNIT = 16


def automaton(channels: int, read: int, context: int, ticks: int) -> Automaton:
    """Channels are the token, the context, the answer, and all else, which also hears the clock."""
    spec = StepSpec(
        channels=channels,
        perception="attention",
        heads=channels // UNIT,
        hidden=4 * channels,
        padding="zero",
        frozen=read,
        update="swiglu",
        unit=UNIT,
        first_unit=read,
        tangent=False,
        eps_inside=True,
    )
    first = read + context
    layout = Layout(
        tokens=12,
        read=read,
        write=read,
        head="linear",
        spread=0.1,
        write_first=first,
        context=context,
        contexts=TASKS,
    )
    return Automaton(spec, layout, Clock(ticks=ticks, first=first + read))


PAPER = PairRecipe(
    steps=650_000,
    schedule=Schedule(first=0.0, peak=1e-3, last=1e-4, warmup=6_500, shape="cosine"),
    batch=128,
    canvases=(32,),
)
"""What the paper does, as far as it says; warm-up, memories and averaging are ours."""

RECIPE = replace(PAPER, steps=60_000, canvases=(12, 18, 24, 32), small=1.0)
"""The paper's size with the same time for each size of canvas."""

SMALL = replace(
    RECIPE,
    steps=12_000,
    schedule=Schedule(first=0.0, peak=3e-3, last=0.0, warmup=300, shape="cosine"),
    batch=256,
    rollout=32,
    learned=32,
    judged=8,
    remember="products",
)
"""Meant for about half an hour of one large GPU, which was not measured; tools/arc_levers.py does that."""


def training_pairs() -> tuple[Pairs, dict[str, Any]]:
    """Demonstrations of the training tasks and RE-ARC's pairs, all held-out tasks left out."""
    known = store.load_tasks("arc-agi-1", "train", training=True)
    names = [one.task.name for one in known]
    demos = pack((one.task.name, demo) for one in known for demo in one.task.demos)
    try:
        more, source = store.load_pairs("re-arc", "train", training=True), "re-arc"
    except DataError:
        more, source = store.load_pairs("re-arc-150", "train", training=True), "re-arc-150"
    pairs = join(demos, more).of([name for name in names if name not in HELD_OUT])
    # All tasks keep their number, so that the vectors of held-out tasks are there, though nothing moves them.
    about = f"demonstrations of {len(pairs.names)} ARC-AGI-1 training tasks and their pairs of {source}"
    return pairs.of(names), {"data": about, "held_out": list(HELD_OUT)}


def checks() -> tuple[PairCheck, ...]:
    """The tests of the tasks that are trained on: new questions about known tasks."""
    known = store.load_tasks("arc-agi-1", "train")
    return (PairCheck("tests of known tasks", tuple(one for one in known if one.task.name not in HELD_OUT)),)


ARC = PairPreset(
    name="arc",
    about="ARC tasks at the paper's size, most of the time on small canvases",
    puzzle="arc",
    automaton=automaton(channels=512, read=32, context=128, ticks=64),
    tokens=orthonormal_tokens(12, 32, seed=0),
    recipe=RECIPE,
    pairs=training_pairs,
    checks=checks,
)
ARC_PAPER = replace(ARC, name="arc-paper", about="The same with the paper's recipe", recipe=PAPER)
ARC_SMALL = replace(
    ARC,
    name="arc-small",
    about="A quarter of its numbers and half of its steps, for one GPU in an evening or less",
    automaton=automaton(channels=256, read=32, context=64, ticks=32),
    recipe=SMALL,
)


def held_out() -> list[Known]:
    """The forty training tasks that pre-training has never seen."""
    return [one for one in store.load_tasks("arc-agi-1", "train") if one.task.name in HELD_OUT]


BENCHMARKS = (
    TaskBenchmark("arc-held-out", "Forty training tasks kept from pre-training, for choices", held_out),
    TaskBenchmark(
        "arc-agi-1",
        "The 400 public evaluation tasks",
        lambda: store.load_tasks("arc-agi-1", "evaluation"),
    ),
)
