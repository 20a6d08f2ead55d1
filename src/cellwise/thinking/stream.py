"""Any number of trajectories through a crowd of bounded size: who has finished makes room for the next.

Which trajectories share the crowd changes nothing but rounding: each is a function of seed, board and trial,
is looked at after the same steps of its own, and what ends it does not depend on who came first.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Bool, Float32, Int32, UInt8

from .crowd import Crowd, sizes
from .mind import Mind

Tell = Callable[[int, int], None]
"""Called as work gets done: how many trajectories have ended, and how many steps were taken or saved."""


@dataclass(frozen=True)
class Puzzles:
    """What is thought about. `numbers` are what the random bits of each board are made from."""

    inputs: UInt8[np.ndarray, "n h w"]
    given: Bool[np.ndarray, "n h w"]
    numbers: Int32[np.ndarray, " n"]

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of a board."""
        return self.inputs.shape[1], self.inputs.shape[2]


@dataclass(frozen=True)
class Tasks:
    """Trajectories to be: `row` is the place of the board among the puzzles."""

    row: Int32[np.ndarray, " t"]
    trial: Int32[np.ndarray, " t"]

    def __getitem__(self, index: np.ndarray) -> "Tasks":
        return Tasks(self.row[index], self.trial[index])


class Look(NamedTuple):
    """What `k` trajectories say after `done` steps, at looks that their watcher asked for."""

    tasks: Tasks
    done: Int32[np.ndarray, " k"]
    grid: UInt8[np.ndarray, "k h w"]
    cells: Float32[np.ndarray, "k h w"]
    rested: Bool[np.ndarray, " k"]


@runtime_checkable
class Watcher(Protocol):
    """Whoever reads the answers and decides which trajectories go on."""

    @property
    def looks(self) -> Int32[np.ndarray, " looks"]:
        """After how many steps to look, ascending; the last is where a trajectory ends."""
        ...

    @property
    def rest(self) -> float | None:
        """Below which change a trajectory counts as `rested`, or None not to find out."""
        ...

    @property
    def early(self) -> bool:
        """Whether any trajectory may end before the last look."""
        ...

    def see(self, look: Look) -> Bool[np.ndarray, " k"]:
        """Takes what is said; true for the trajectories that end here."""
        ...

    def wanted(self, tasks: Tasks, done: Int32[np.ndarray, " k"]) -> Bool[np.ndarray, " k"]:
        """Which trajectories should take another step after `done` of them."""
        ...


@dataclass
class Effort:
    """What it took: steps of single trajectories, and how many were asked for."""

    taken: int = 0
    asked: int = 0

    @property
    def saved(self) -> int:
        """Steps that were asked for and not needed."""
        return self.asked - self.taken

    def __add__(self, other: "Effort") -> "Effort":
        return Effort(self.taken + other.taken, self.asked + other.asked)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether JAX says that a device has no room."""
    return isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)


def say_halved(places: int) -> None:
    """Tells a person that less is done at a time."""
    print(
        f"cellwise: The device memory is too small; going on with {places} boards at a time.", file=sys.stderr
    )


def stream(
    mind: Mind,
    puzzles: Puzzles,
    tasks: Tasks,
    seed: int,
    watcher: Watcher,
    tell: Tell | None = None,
    expect: int | None = None,
) -> Effort:
    """Lets every trajectory run until its watcher has seen enough.

    `expect` is how many trajectories there will be in several calls, so that all have crowds of one size.
    If the device has too little memory, the trajectories that were under way begin anew in a smaller crowd.
    """
    places, block = sizes(mind, max(len(tasks.row), expect or 0), puzzles.size)
    if not watcher.early:  # Nobody leaves, so one block wastes nothing and runs most smoothly.
        block = places
    flow = _Flow(mind, puzzles, tasks, seed, watcher, tell)
    while True:
        try:
            flow.run(Crowd(mind, puzzles.size, places, block))
            return flow.effort
        except jax.errors.JaxRuntimeError as error:
            if not is_out_of_memory(error) or places == 1:
                raise
        places, block = -(-places // 2), -(-block // 2)
        say_halved(places)
        flow.step_back()


class _Flow:
    """The trajectories of one call: who waits, who is under way and how far, who has ended."""

    def __init__(
        self, mind: Mind, puzzles: Puzzles, tasks: Tasks, seed: int, watcher: Watcher, tell: Tell | None
    ) -> None:
        self.mind, self.puzzles, self.tasks, self.seed = mind, puzzles, tasks, seed
        self.watcher, self.tell = watcher, tell
        self.looks = np.asarray(watcher.looks, np.int32)
        self.effort = Effort(asked=len(tasks.row) * int(self.looks[-1]))
        self.waiting = np.arange(len(tasks.row), dtype=np.int32)
        self.active, self.done = np.zeros((2, 0), np.int32)

    def step_back(self) -> None:
        """Sends whoever is under way back to the beginning."""
        self.effort.taken -= int(self.done.sum())
        self.waiting = np.concatenate([self.active, self.waiting])
        self.active, self.done = np.zeros((2, 0), np.int32)

    def run(self, crowd: Crowd) -> None:
        """Until nobody waits and nobody is under way."""
        while True:
            self._fill(crowd)
            if not len(self.active):
                return
            following = self.looks[np.searchsorted(self.looks, self.done, side="right")]
            ahead = int((following - self.done).min())
            crowd.advance(self.done, ahead)
            self.done = self.done + np.int32(ahead)
            self.effort.taken += ahead * len(self.active)
            at = np.flatnonzero(self.done == following).astype(np.int32)
            ended = np.zeros(len(self.active), bool)
            ended[at] = self.watcher.see(self._look(crowd, at)) | (self.done[at] == self.looks[-1])
            ended |= ~self.watcher.wanted(self.tasks[self.active], self.done)
            if self.tell is not None:
                unneeded = int((self.looks[-1] - self.done[ended]).sum())
                self.tell(int(ended.sum()), ahead * len(self.active) + unneeded)
            self._leave(crowd, ended)

    def _look(self, crowd: Crowd, at: Int32[np.ndarray, " k"]) -> Look:
        grid, cells = crowd.read(len(self.active))
        rested = np.zeros(len(at), bool)
        if self.watcher.rest is not None:
            rested = crowd.unrest(self.done)[at] <= self.watcher.rest
        return Look(self.tasks[self.active[at]], self.done[at], grid[at], cells[at], rested)

    def _leave(self, crowd: Crowd, ended: Bool[np.ndarray, " k"]) -> None:
        """Who has ended goes; the places are closed up if that frees a block or nobody waits for them."""
        if ended.any():
            stay = np.flatnonzero(~ended).astype(np.int32)
            if len(stay):
                crowd.keep(stay)
            self.active, self.done = self.active[stay], self.done[stay]

    def _fill(self, crowd: Crowd) -> None:
        """Lets those who wait and are still wanted take the free places."""
        free = len(crowd) - len(self.active)
        entering = np.zeros(0, np.int32)
        while free > len(entering) and len(self.waiting):
            more, self.waiting = np.split(self.waiting, [free - len(entering)])
            wanted = self.watcher.wanted(self.tasks[more], np.zeros(len(more), np.int32))
            if self.tell is not None and not wanted.all():
                missing = int((~wanted).sum())
                self.tell(missing, missing * int(self.looks[-1]))
            entering = np.concatenate([entering, more[wanted]])
        if not len(entering):
            return
        where = np.arange(len(self.active), len(self.active) + len(entering), dtype=np.int32)
        row, trial = self.tasks.row[entering], self.tasks.trial[entering]
        puzzles = self.puzzles
        crowd.begin(
            where,
            puzzles.inputs[row],
            puzzles.given[row],
            self.seed,
            puzzles.numbers[row],
            trial,
            trial,
        )
        self.active = np.concatenate([self.active, entering])
        self.done = np.concatenate([self.done, np.zeros(len(entering), np.int32)])
