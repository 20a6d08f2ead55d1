"""Damage to a Sudoku: discs are wiped out of a thought that is under way, and out of one that is over.

    cellwise study run sudoku-damage --quick     # 20 boards, seconds on two CPU cores
    cellwise study run sudoku-damage             # 60 boards, a minute or two

The paper wipes mazes only. Clues keep their digits, but everything else that their cells know is wiped too.
"""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from ..model import load
from ..puzzles.sudoku_generator import generate_easy
from ..thinking.follow import discs
from . import figure
from .courses import Group, curve, settled
from .study import Comparison, Job, Result, Row, Study

DISCS = 2


@dataclass(frozen=True)
class Settings:
    """Discs of a radius, in half sides, are wiped at one of some moments; radius 0 is no damage."""

    model: str = "sudoku-ood"
    boards: int = 60
    givens: tuple[int, int] = (24, 26)
    moments: tuple[int, ...] = (24, 256)
    radii: tuple[float, ...] = (0.0, 0.3, 0.6)
    after: int = 512
    every: int = 4
    generator_seed: int = 11
    seed: int = 3


def jobs(settings: Settings) -> list[Job]:
    """Each moment with each radius."""
    return [{"when": when, "radius": radius} for when in settings.moments for radius in settings.radii]


def measure(settings: Settings, job: Job) -> Row:
    """The boards that were right before the damage, and what became of all of them."""
    boards = generate_easy(settings.boards, settings.generator_seed, settings.givens)
    model, every = load(settings.model), settings.every
    group = Group(model, boards.inputs, model.fire_rate)
    before = group.follow(boards.target, job["when"] // every, every)
    rng = np.random.default_rng(settings.seed)
    where = discs(rng, settings.boards, DISCS, job["radius"], boards.target.shape[1:])
    group.hit(where)
    after = group.follow(boards.target, settings.after // every, every)
    had, have = before.solved[-1], after.solved[-1]
    return {
        "hit": round(float((where & ~group.given).sum() / group.open), 4),
        "right_before": int(had.sum()),
        "right_in_the_end": int(have.sum()),
        "lost": int((had & ~have).sum()),
        "settled": settled(after),
        "curve": curve(after, group.open),
    }


def compare(result: Result) -> list[Comparison]:
    """How many boards are right in the end, beside thoughts that nobody wiped."""
    settings: Settings = result.settings
    rows = []
    for job in jobs(settings):
        words = f"step {job['when']}, " + (f"radius {job['radius']:g}" if job["radius"] else "no damage")
        row = result.row(**job)
        rows.append(Comparison(words, None, None if row is None else _told(row, settings)))
    return rows


def _told(row: Row, settings: Settings) -> str:
    steps = row["settled"]["steps"]
    end = f"{row['right_in_the_end']} of {settings.boards} right {settings.after} steps later"
    return (
        f"{100 * row['hit']:.0f} % of the open cells wiped; {row['right_before']} right before, {end}"
        + ("" if steps is None else f", for good after {steps:.0f} on average")
        + (f"; {row['lost']} were right before and are no more" if row["lost"] else "")
    )


def draw(result: Result, picture: Figure) -> None:
    """Right boards after the damage, a panel for each moment and a line for each radius."""
    settings: Settings = result.settings
    panels = np.ravel(np.array(picture.subplots(1, len(settings.moments), sharey=True)))
    for axes, when in zip(panels, settings.moments, strict=True):
        for number, radius in enumerate(settings.radii):
            if row := result.row(when=when, radius=radius):
                label = f"radius {radius:g}" if radius else "no damage"
                since = np.array(row["curve"]["steps"]) - when
                look = figure.style(number) | {"markevery": 8, "label": label}
                axes.plot(since, 100 * np.array(row["curve"]["boards"]), **look)
        axes.set(title=f"Wiped at step {when}", xlabel="steps since then", ylim=(0, 100))
        if axes.lines:
            axes.legend(loc="lower right")
    panels[0].set(ylabel="boards right, %")


STUDY = Study(
    name="sudoku-damage",
    title="Damage to a Sudoku in mid-thought",
    claim="Not in the paper, which wipes discs out of mazes only.",
    here=(
        "Two discs are wiped out of every board, when most boards are not solved yet and when most are. "
        "The same boards without damage stand beside them."
    ),
    quick=Settings(boards=20, after=256),
    full=Settings(),
    data=lambda settings: (
        f"{settings.boards} generated Sudokus with {settings.givens[0]} to {settings.givens[1]} clues, "
        f"generator seed {settings.generator_seed}; {DISCS} discs in each (seed {settings.seed}); "
        f"{settings.model}, thoughts of seed 0"
    ),
    jobs=jobs,
    measure=measure,
    compare=compare,
    draw=draw,
    alt="Boards right over the steps after discs were wiped; a panel a moment, a line a radius.",
    inches=(9.0, 3.6),
)
