"""Shortest paths through a maze: the exact solver, the two labelling rules and the verdict on an answer."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64, UInt8

from ..errors import PuzzleError
from .maze import EMPTY, PATH, START, Cell, endpoints, free_cells, unsolved


def distances(grid: UInt8[np.ndarray, "h w"], start: Cell) -> Int32[np.ndarray, "h w"]:
    """The number of steps from `start` to every cell, -1 where there is no way."""
    height, width = grid.shape
    order, waves = _flood(free_cells(grid), start)
    steps = np.full((height + 2) * (width + 2), -1, np.int32)
    steps[order] = np.repeat(np.arange(len(waves), dtype=np.int32), waves)
    return steps.reshape(height + 2, width + 2)[1:-1, 1:-1].copy()


def shortest_path(grid: UInt8[np.ndarray, "h w"]) -> Int64[np.ndarray, "length 2"]:
    """The cells from start to goal, both included, along one shortest path.

    Among several it is the one of Maze-Hard's answers: breadth-first from the start, neighbours queued in the
    order down, left, right, up, each cell's parent being whoever discovered it first.
    """
    start, goal = endpoints(grid)
    height, width = grid.shape
    order, _ = _flood(free_cells(grid), start)
    turn = np.full((height + 2) * (width + 2), len(order), np.int64)
    turn[order] = np.arange(len(order))
    first, here = _padded(start, width), _padded(goal, width)
    if turn[here] == len(order):
        raise unreachable(start, goal)
    path = [here]
    while here != first:
        # The first discoverer is the neighbour that left the queue earliest.
        here = min(_neighbours(here, width), key=turn.__getitem__)
        path.append(here)
    rows, columns = np.divmod(np.array(path[::-1]), width + 2)
    return np.stack([rows, columns], axis=1) - 1


def label_maze_hard(grid: UInt8[np.ndarray, "h w"]) -> UInt8[np.ndarray, "h w"]:
    """The maze with the answer of Maze-Hard (the "A*" labels) drawn in; any old path is dropped."""
    return _draw(grid, shortest_path(grid))


def label_bfs(grid: UInt8[np.ndarray, "h w"]) -> UInt8[np.ndarray, "h w"]:
    """The maze with the answer of the "BFS" labels drawn in; any old path is dropped.

    A flood counts steps from the endpoint that comes first in raster order; from the other endpoint the path
    follows falling counts, always by the first way that works in the order up, left, right, down.
    """
    start, goal = endpoints(grid)
    source, here = sorted((start, goal))
    steps = np.pad(distances(grid, source), 1, constant_values=-1)
    if steps[here[0] + 1, here[1] + 1] < 0:
        raise unreachable(start, goal)
    path = [here]
    while here != source:
        row, column = here
        count = steps[row + 1, column + 1]
        around = ((row - 1, column), (row, column - 1), (row, column + 1), (row + 1, column))
        here = next(cell for cell in around if steps[cell[0] + 1, cell[1] + 1] == count - 1)
        path.append(here)
    return _draw(grid, np.array(path))


def unreachable(start: Cell, goal: Cell) -> PuzzleError:
    """The sentence for a maze without a way through."""
    places = [f"row {row + 1}, column {column + 1}" for row, column in (goal, start)]
    return PuzzleError(
        f"The goal at {places[0]} cannot be reached from the start at {places[1]}; open a wall between them."
    )


def has_unique_shortest_path(grid: UInt8[np.ndarray, "h w"]) -> bool:
    """Whether exactly one shortest path joins the endpoints."""
    start, goal = endpoints(grid)
    from_start = distances(grid, start)
    on_some = on_shortest_paths(from_start, distances(grid, goal), goal)
    return bool(on_some.sum() == from_start[goal] + 1)


def on_shortest_paths(
    from_start: Int32[np.ndarray, "h w"], from_goal: Int32[np.ndarray, "h w"], goal: Cell
) -> Bool[np.ndarray, "h w"]:
    """The cells that lie on at least one shortest path, given the distances from both endpoints."""
    return (from_start >= 0) & (from_start + from_goal == from_start[goal])


@dataclass(frozen=True)
class Verdict:
    """What predictions for `n` mazes are worth.

    `valid`: the path is simple, joins the endpoints, crosses no wall and has no spur, loop or island.
    `optimal`: valid and as short as can be. `exact` (every cell is the target's) and `cell_accuracy` (the
    share of such cells, given ones included) are None where there is no target.
    """

    valid: Bool[np.ndarray, " n"]
    optimal: Bool[np.ndarray, " n"]
    exact: Bool[np.ndarray, " n"] | None
    cell_accuracy: Float64[np.ndarray, " n"] | None


def judge(
    inputs: UInt8[np.ndarray, "n h w"],
    target: UInt8[np.ndarray, "n h w"] | None,
    prediction: UInt8[np.ndarray, "n h w"],
) -> Verdict:
    """The verdict on each prediction; walls and endpoints are those of `inputs`, whatever it says there."""
    terminal = inputs >= START
    odd_one_out = np.flatnonzero(terminal.sum((1, 2)) != 2)
    if len(odd_one_out):
        raise PuzzleError(f"Maze {odd_one_out[0]} does not have two endpoints; check the inputs first.")
    route = (prediction == PATH) | terminal
    # A path has one neighbour at its ends and two elsewhere. Loops apart from it have two as well, so what
    # passes is a path if the flood from one end fills it.
    fits = (count_neighbours(route) == 2 - terminal) & free_cells(inputs)
    may_be_path = (fits | ~route).all((1, 2))
    valid, optimal = np.zeros((2, len(inputs)), bool)
    for board in np.flatnonzero(may_be_path):
        start, goal = endpoints(inputs[board])
        order, _ = _flood(route[board], start)
        valid[board] = len(order) == route[board].sum()
        optimal[board] = valid[board] and len(order) - 1 == distances(inputs[board], start)[goal]
    if target is None:
        return Verdict(valid, optimal, exact=None, cell_accuracy=None)
    right = prediction == target
    return Verdict(valid, optimal, exact=right.all((1, 2)), cell_accuracy=right.mean((1, 2)))


def count_neighbours(cells: Bool[np.ndarray, "n h w"]) -> UInt8[np.ndarray, "n h w"]:
    """How many of the four neighbours of each cell are true; outside the grid is false."""
    count = np.zeros(cells.shape, np.uint8)
    count[:, 1:] += cells[:, :-1]
    count[:, :-1] += cells[:, 1:]
    count[:, :, 1:] += cells[:, :, :-1]
    count[:, :, :-1] += cells[:, :, 1:]
    return count


def _flood(open_cells: Bool[np.ndarray, "h w"], start: Cell) -> tuple[list[int], list[int]]:
    """Breadth-first from `start`: the cells as they are found and how many each wave finds.

    Cells are flat indices into the grid padded by one closed cell. Plain lists: the corridors of a maze
    make for tens of thousands of tiny waves, for which array operations cost more than they save.
    """
    width = open_cells.shape[1] + 2
    unseen = bytearray(np.pad(open_cells, 1).tobytes())
    wave = [_padded(start, width - 2)]
    unseen[wave[0]] = False
    order, waves = [], []
    while wave:
        order += wave
        waves.append(len(wave))
        found = []
        for cell in wave:
            for neighbour in (cell + width, cell - 1, cell + 1, cell - width):
                if unseen[neighbour]:
                    unseen[neighbour] = False
                    found.append(neighbour)
        wave = found
    return order, waves


def _padded(cell: Cell, width: int) -> int:
    return (cell[0] + 1) * (width + 2) + cell[1] + 1


def _neighbours(cell: int, width: int) -> tuple[int, int, int, int]:
    return cell + width + 2, cell - 1, cell + 1, cell - width - 2


def _draw(grid: UInt8[np.ndarray, "h w"], path: Int64[np.ndarray, "length 2"]) -> UInt8[np.ndarray, "h w"]:
    solved = unsolved(grid)
    rows, columns = path.T
    solved[rows, columns] = np.where(solved[rows, columns] == EMPTY, PATH, solved[rows, columns])
    return solved
