"""Damage: discs are wiped out of a finished thought, once or again and again, and the cells repair it.

    cellwise study run damage --quick     # mazes of size 31, minutes on two CPU cores
    cellwise study run damage             # mazes of size 201, ten minutes on an H200

The paper does not say how many discs or how large: there are four, placed as in training, of several radii.
"""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from ..benchmarks.maze_ood import TEST_SEED
from ..model import load
from ..puzzles.maze_generator import generate
from ..thinking.follow import continued, discs
from . import figure
from .courses import POLICIES, Group, curve, reached, said, times
from .packed import pack, unpack
from .study import Comparison, Job, Result, Row, Study

CLAIMED = {"steps": "0.94×", "updates": "0.52×"}
DISCS = 4
_WINDOWS = {"before": "before", "first": "after the damage", "last": "later"}


@dataclass(frozen=True)
class Settings:
    """Discs of a radius, in half sides, are wiped at step `when`; `again` times every `pause` steps."""

    model: str = "maze-ood"
    size: int = 31
    mazes: int = 40
    when: int = 500
    after: int = 500
    every: int = 5
    radii: tuple[float, ...] = (0.1, 0.2, 0.4)
    again: int = 5
    pause: int = 150
    repeated_radius: float = 0.2
    window: int = 50
    seed: int = 3


QUICK = Settings()
FULL = Settings(
    size=201, mazes=20, when=6_000, after=7_000, every=50, radii=(0.1, 0.2, 0.3, 0.4), pause=3_000, window=500
)


def jobs(settings: Settings) -> list[Job]:
    """Each way to fire with each radius, then again and again."""
    once = [
        {"part": "once", "policy": name, "radius": radius} for radius in settings.radii for name in POLICIES
    ]
    return [*once, *({"part": "repeated", "policy": name} for name in POLICIES)]


def measure(settings: Settings, job: Job) -> Row:
    """One way to fire."""
    mazes = generate(settings.size, settings.mazes, TEST_SEED)
    group = Group(load(settings.model), mazes.inputs, POLICIES[job["policy"]])
    rng = np.random.default_rng(settings.seed)
    every, target, size = settings.every, mazes.target, mazes.target.shape[1:]

    def struck(radius: float) -> float:
        """Wipes discs and says which share of the open cells they hit."""
        where = discs(rng, settings.mazes, DISCS, radius, size)
        group.hit(where)
        return round(float((where & ~group.given).sum() / group.open), 4)

    if job["part"] == "repeated":
        course = group.follow(target, settings.when // every, every)
        kept = []
        for _ in range(settings.again):
            struck(settings.repeated_radius)
            course = continued(course, group.follow(target, settings.pause // every, every))
            kept.append(round(float(course.solved[-1].mean()), 4))
        return {"right_before_each_next": kept, "curve": curve(course, group.open)}
    quiet, window = settings.when - settings.window, settings.window
    whole = group.follow(target, quiet // every, every)
    before = group.follow(target, window // every, every)
    hit = struck(job["radius"])
    first = group.follow(target, window // every, every)
    # As much of what follows as can have been repaired, then the last steps on their own.
    middle = group.follow(target, (settings.after - 2 * window) // every, every)
    last = group.follow(target, window // every, every)
    after = continued(continued(first, middle), last)
    whole = continued(continued(whole, before), after)
    row = reached(after, group.open) | {
        "hit": hit,
        "right_before": round(float(before.solved[-1].mean()), 4),
        "curve": curve(whole, group.open),
    }
    if job["radius"] == settings.radii[1]:
        windows = {"before": before, "first": first, "last": last}
        maps = {name: pack(np.rint(255 * one.activity[0] / window)) for name, one in windows.items()}
        row["activity"] = maps
    return row


def compare(result: Result) -> list[Comparison]:
    """Repair by adaptive firing relative to uniform firing, and what is left of the answers in the end."""
    settings: Settings = result.settings
    rows = []
    for radius in settings.radii:
        uniform = result.row(part="once", policy="uniform", radius=radius)
        for name, title in (("paper's", "the paper's adaptive firing"), ("frugal", "frugal firing")):
            row = result.row(part="once", policy=name, radius=radius)
            for what, word in (("steps", "steps"), ("updates", "cell updates")):
                ours = said(times(row, uniform, "boards", what))
                if row is not None and uniform is not None and ours is None:
                    ours = "not repaired by both"
                words = f"{title}: {word} until 95 % of mazes are right again, radius {radius:g}"
                rows.append(Comparison(words, CLAIMED[what] if name == "paper's" else None, ours))
    for radius in settings.radii:
        for name in POLICIES:
            row = result.row(part="once", policy=name, radius=radius)
            shares = _percent(row["right_before"], row["right_in_the_end"]) if row else None
            words = f"{name} firing: mazes right before and in the end, radius {radius:g}"
            rows.append(Comparison(words, None, shares))
    for name in POLICIES:
        row = result.row(part="repeated", policy=name)
        words = f"{name} firing: mazes right {settings.pause:,} steps after each of {settings.again} damages"
        rows.append(Comparison(words, None, _percent(*row["right_before_each_next"]) if row else None))
    return rows


def _percent(*shares: float) -> str:
    return ", ".join(f"{100 * share:.0f} %" for share in shares)


def draw(result: Result, picture: Figure) -> None:
    """Right cells over time, hit once and again and again; how often the cells of a maze fired."""
    settings: Settings = result.settings
    above, below = np.ravel(np.array(picture.subfigures(2, 1)))
    once, repeated = above.subplots(1, 2)
    radius = settings.radii[1]
    for number, name in enumerate(POLICIES):
        look = figure.style(number) | {"markevery": 6, "label": name}
        for axes, row in (
            (once, result.row(part="once", policy=name, radius=radius)),
            (repeated, result.row(part="repeated", policy=name)),
        ):
            if row:
                axes.plot(row["curve"]["steps"], 100 * np.array(row["curve"]["cells"]), **look)
    once.set(title=f"Hit once, radius {radius:g}", xlabel="steps", ylabel="open cells right, %")
    again = f"Hit {settings.again} times, radius {settings.repeated_radius:g}"
    repeated.set(title=again, xlabel="steps", ylabel="open cells right, %")
    for axes in (once, repeated):
        if axes.lines:
            axes.legend(loc="lower right")
    maps = below.subplots(1, 2 * len(_WINDOWS))
    shown = None
    shown_maps = [(name, window) for name in ("uniform", "frugal") for window in _WINDOWS]
    for axes, (name, window) in zip(maps, shown_maps, strict=True):
        row = result.row(part="once", policy=name, radius=radius)
        axes.set(xticks=[], yticks=[], title=f"{name},\n{_WINDOWS[window]}" + ("" if row else ": not run"))
        axes.grid(False)
        if row:
            image = unpack(row["activity"][window]) / 255
            shown = axes.imshow(image, cmap="viridis", vmin=0, vmax=1)
    if shown is not None:
        below.colorbar(shown, ax=maps, label="share of steps at which a cell fired", shrink=0.7)


def data(settings: Settings) -> str:
    """What was measured on what."""
    return (
        f"{settings.mazes} generated test mazes of size {settings.size} (seed {TEST_SEED}); {DISCS} discs in "
        f"each (seed {settings.seed}) at step {settings.when:,}; thoughts of seed 0; model {settings.model}"
    )


STUDY = Study(
    name="damage",
    title="Damage: a wiped part of a thought is thought again",
    claim=(
        "When discs are wiped out of the state of mazes of size 201 at step 6,000, the cells repair the "
        "answer. Adaptive firing needs 0.94 times the steps and 0.52 times the updates of uniform firing."
    ),
    quick=QUICK,
    full=FULL,
    data=data,
    jobs=jobs,
    measure=measure,
    compare=compare,
    draw=draw,
    alt=(
        "Open cells right over time, when discs are wiped once and when repeatedly; for uniform and "
        "frugal firing, how often each cell of a maze fired before the damage, after it and later."
    ),
    inches=(10.5, 6.5),
)
