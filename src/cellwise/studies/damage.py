"""Damage: discs are wiped out of a finished thought, once or again and again, and the cells repair it.

    cellwise study run damage --quick     # mazes of size 31, minutes on two CPU cores
    cellwise study run damage             # mazes of size 201, ten minutes on an H200

The paper does not say how many discs or how large: there are four, placed as in training, of several radii.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np
from matplotlib.figure import Figure

from ..benchmarks.maze_ood import TEST_SEED
from ..model import load
from ..puzzles.maze_generator import generate
from ..thinking.follow import continued, discs
from . import figure
from .courses import POLICIES, TITLES, Group, curve, reached, settled
from .packed import pack, unpack
from .study import Comparison, Job, Result, Row, Study

DISCS = 4
_WINDOWS = {"first": "after the damage", "last": "later"}


@dataclass(frozen=True)
class Settings:
    """Discs of a radius, in half sides, are wiped at step `when`; `again` times every `pause` steps."""

    model: str = "maze-ood"
    size: int = 31
    mazes: int = 40
    when: int = 1_000
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

    window = settings.window
    group.follow(target, (settings.when - window) // every, every)
    before = group.follow(target, window // every, every)
    row: Row = {"right_before": round(float(before.solved[-1].mean()), 4)}
    if job["part"] == "repeated":
        courses = []
        for _ in range(settings.again):
            struck(settings.repeated_radius)
            courses.append(group.follow(target, settings.pause // every, every))
        ends = [round(float(course.solved[-1].mean()), 4) for course in courses]
        return row | {
            "right_in_the_end_of_each": ends,
            "curve": curve(reduce(continued, courses), group.open),
        }
    row["hit"] = struck(job["radius"])
    first = group.follow(target, window // every, every)
    middle = group.follow(target, (settings.after - 2 * window) // every, every)
    last = group.follow(target, window // every, every)
    after = continued(continued(first, middle), last)
    row |= reached(after, group.open) | {"settled": settled(after), "curve": curve(after, group.open)}
    if job["radius"] == settings.radii[1]:
        windows = {"before": before, "first": first, "last": last}
        row["activity"] = {
            name: pack(np.rint(255 * one.activity[0] / window)) for name, one in windows.items()
        }
    return row


def compare(result: Result) -> list[Comparison]:
    """Repair by adaptive firing beside uniform firing, and what is left of the answers in the end."""
    settings: Settings = result.settings
    rows = []
    for radius in settings.radii:
        uniform = result.row(part="once", policy="uniform", radius=radius)
        for name, title in TITLES.items():
            row = result.row(part="once", policy=name, radius=radius)
            again = f"{title}, radius {radius:g}: until 95 % of mazes are right again"
            paper = "0.94× steps, 0.52× updates" if name == "paper's" else None
            rows.append(Comparison(again, paper, _beside(row, uniform, "boards")))
            good = f"{title}, radius {radius:g}: until right for good, mean of mazes"
            rows.append(Comparison(good, None, _beside(row, uniform, "settled")))
    for radius in settings.radii:
        found = {name: result.row(part="once", policy=name, radius=radius) for name in POLICIES}
        ours = [
            f"{name}: {_percent(row['right_before'], row['right_in_the_end'])}"
            for name, row in found.items()
            if row
        ]
        words = f"radius {radius:g}: mazes right before the damage, and {settings.after:,} steps after it"
        rows.append(Comparison(words, None, "; ".join(ours) or None))
    for name in POLICIES:
        row = result.row(part="repeated", policy=name)
        words = f"{name} firing: mazes right {settings.pause:,} steps after each of {settings.again} damages"
        rows.append(Comparison(words, None, _percent(*row["right_in_the_end_of_each"]) if row else None))
    return rows


def _beside(row: Row | None, uniform: Row | None, criterion: str) -> str | None:
    """Ratios to uniform firing, with the numbers that they are made of."""
    if row is None or uniform is None:
        return None
    ours, theirs = row[criterion], uniform[criterion]
    if not ours or not theirs or not ours["steps"] or not theirs["steps"]:
        return "not repaired by both"
    return ", ".join(
        f"{ours[what] / theirs[what]:.2f}× {what} ({ours[what]:,.0f} beside {theirs[what]:,.0f})"
        for what in ("steps", "updates")
    )


def _percent(*shares: float) -> str:
    return ", ".join(f"{100 * share:.0f} %" for share in shares)


def draw(result: Result, picture: Figure) -> None:
    """Right mazes over time, hit once and again and again; how often the cells of a maze fired."""
    settings: Settings = result.settings
    above, below = np.ravel(np.array(picture.subfigures(2, 1, height_ratios=(1.0, 0.6))))
    once, repeated = above.subplots(1, 2)
    radius = settings.radii[1]
    for number, name in enumerate(POLICIES):
        look = figure.style(number) | {"markevery": 6, "label": name}
        for axes, row in (
            (once, result.row(part="once", policy=name, radius=radius)),
            (repeated, result.row(part="repeated", policy=name)),
        ):
            if row:
                since = np.array(row["curve"]["steps"]) - settings.when
                axes.plot(since, 100 * np.array(row["curve"]["boards"]), **look)
    once.set(title=f"Hit once, radius {radius:g}", xlabel="steps since the damage", ylabel="mazes right, %")
    again = f"Hit {settings.again} times, radius {settings.repeated_radius:g}"
    repeated.set(title=again, xlabel="steps since the first damage", ylabel="mazes right, %")
    for axes in (once, repeated):
        if axes.lines:
            axes.legend(loc="lower right")
    maps = below.subplots(1, len(POLICIES) * len(_WINDOWS))
    shown = None
    shown_maps = [(name, window) for name in POLICIES for window in _WINDOWS]
    for axes, (name, window) in zip(maps, shown_maps, strict=True):
        row = result.row(part="once", policy=name, radius=radius)
        axes.set(xticks=[], yticks=[], title=f"{name},\n{_WINDOWS[window]}" + ("" if row else ": not run"))
        axes.grid(False)
        if row:
            image = unpack(row["activity"][window]) / 255
            shown = axes.imshow(image, cmap="viridis", vmin=0, vmax=1)
    if shown is not None:
        below.colorbar(shown, ax=maps, label="share of steps", shrink=0.8)


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
    here=(
        "The paper gives neither the number nor the size of the discs, nor from when it counts: here "
        "four discs are wiped, steps and updates are counted from the damage, and all are relative to "
        "uniform firing, with both numbers beside the ratio."
    ),
    quick=QUICK,
    full=FULL,
    data=data,
    jobs=jobs,
    measure=measure,
    compare=compare,
    draw=draw,
    alt=(
        "Mazes right over time, when discs are wiped once and when repeatedly; for each way to "
        "fire, how often the cells of a maze fired right after the damage and later."
    ),
    inches=(10.5, 5.6),
)
