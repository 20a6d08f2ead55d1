"""Opening dead ends into loops without giving a maze a second shortest path."""

import numpy as np
from jaxtyping import Bool, Int64, Shaped, UInt8

from .maze import EMPTY, PATH, WALL, Cell
from .maze_growth import DIRECTIONS, ORDERS
from .maze_path import distances, on_shortest_paths


def doors(cells: Shaped[np.ndarray, "n h w"], direction: int) -> Shaped[np.ndarray, "n r c"]:
    """A view of the cell on the `direction` side of every room."""
    return (
        cells[:, :-1:2, 1::2],
        cells[:, 1::2, :-1:2],
        cells[:, 1::2, 2::2],
        cells[:, 2::2, 1::2],
    )[direction]


def count_doors(mazes: UInt8[np.ndarray, "n h w"]) -> Int64[np.ndarray, "n r c"]:
    """How many ways lead out of each room."""
    return np.stack([doors(mazes, direction) != WALL for direction in DIRECTIONS]).sum(axis=0)


def add_loops(
    mazes: UInt8[np.ndarray, "n h w"],
    ends: Int64[np.ndarray, "n 2 2"],
    chosen: Bool[np.ndarray, "n r c"],
    orders: UInt8[np.ndarray, "n r c"],
) -> UInt8[np.ndarray, "n h w"]:
    """Tree mazes with a second door in each chosen dead end, and their only shortest path drawn.

    `ends` are the rooms (row, column) of start and goal, which keep the doors they have. A dead end opens
    towards the first neighbour possible in its order (an index into `ORDERS`).
    """
    maze = np.arange(len(mazes))[:, None]
    untouched = np.pad(np.zeros(chosen.shape, bool), ((0, 0), (1, 1), (1, 1)), constant_values=True)
    untouched[maze, ends[..., 0] + 1, ends[..., 1] + 1] = True
    around = (np.s_[:-2, 1:-1], np.s_[1:-1, :-2], np.s_[1:-1, 2:], np.s_[2:, 1:-1])
    possible = np.stack(
        [(doors(mazes, direction) == WALL) & ~untouched[:, *around[direction]] for direction in DIRECTIONS],
        axis=-1,
    )
    possible &= (chosen & (count_doors(mazes) == 1) & ~untouched[:, 1:-1, 1:-1])[..., None]
    order = ORDERS[orders]
    first = np.take_along_axis(possible, order, axis=-1).argmax(axis=-1)[..., None]
    direction_of = np.take_along_axis(order, first, axis=-1)[..., 0]
    opened = np.zeros(mazes.shape, bool)
    for direction in DIRECTIONS:
        doors(opened, direction)[possible.any(axis=-1) & (direction_of == direction)] = True
    looped = np.where(opened, np.uint8(EMPTY), mazes)
    for maze, loops, (start, goal) in zip(looped, opened, (2 * ends + 1).tolist(), strict=True):
        _keep_one_path(maze, loops, tuple(start), tuple(goal))
    return looped


def _keep_one_path(
    maze: UInt8[np.ndarray, "h w"], loops: Bool[np.ndarray, "h w"], start: Cell, goal: Cell
) -> None:
    """Draws one shortest path into `maze` and closes every door of `loops` that would make a second.

    The path is the one with the fewest such doors. Closing all others on any shortest path leaves it the only
    one: where a rival parts from it, the two make a cycle; every cycle of a former tree goes through a door
    of `loops`; that door would have to be on our side, and then the rival would be the one with fewer.
    """
    from_start = distances(maze, start)
    candidates = on_shortest_paths(from_start, distances(maze, goal), goal)
    cells = np.argwhere(candidates)
    cost: dict[Cell, int] = {}
    parent: dict[Cell, Cell] = {}
    for row, column in cells[np.argsort(from_start[candidates], kind="stable")].tolist():
        cell = row, column
        before = [
            (cost[neighbour], neighbour)
            for neighbour in ((row - 1, column), (row, column - 1), (row, column + 1), (row + 1, column))
            if neighbour in cost
        ]
        cheapest, parent[cell] = min(before, default=(0, cell))
        cost[cell] = cheapest + int(loops[cell])
    maze[candidates & loops] = WALL
    here = goal
    while here != start:
        maze[here] = PATH
        here = parent[here]
    maze[start] = PATH
