"""The randomised depth-first search that grows a spanning tree over r x c rooms.

Two ways to the same trees: in lockstep, every maze of a batch making its next move together, and one maze
at a time for batches too small to pay for array operations.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int8, Int32, Int64, UInt8

UP, LEFT, RIGHT, DOWN = DIRECTIONS = range(4)
"""Ways out of a room; the opposite of `d` is `3 - d`."""

ORDERS = np.array(list(itertools.permutations(DIRECTIONS)), np.uint8)
"""The 24 orders in which a room may try its neighbours."""

_LOCKSTEP_FROM = 80
"""The batch size from which lockstep is faster (measured)."""


@dataclass(frozen=True)
class Trees:
    """`n` spanning trees as the search saw them.

    Rooms are numbered in the order they are entered. `entered` is that number, `last` the highest number in
    the branch that starts at the room, so room a is above room b, or is b, exactly if
    `entered[a] <= entered[b] <= last[a]`. `towards` is the direction the room was entered in, -1 at the root.
    """

    entered: Int32[np.ndarray, "n r c"]
    last: Int32[np.ndarray, "n r c"]
    towards: Int8[np.ndarray, "n r c"]


def grow(orders: UInt8[np.ndarray, "n r c"], roots: Int64[np.ndarray, "n 2"]) -> Trees:
    """The trees of searches that start at `roots` (row, column) and try neighbours in each room's order.

    A room always takes the first direction of its order that leads to a new room, for which a fixed
    random order is as good as a fresh draw at every visit.
    """
    return (grow_in_lockstep if len(orders) >= _LOCKSTEP_FROM else grow_one_by_one)(orders, roots)


def grow_in_lockstep(orders: UInt8[np.ndarray, "n r c"], roots: Int64[np.ndarray, "n 2"]) -> Trees:
    """`grow` for many mazes."""
    count, rows, columns = orders.shape
    order, tries, visited = _padded(orders)
    maze = np.arange(count)
    here = (maze * (rows + 2) + roots[:, 0] + 1) * (columns + 2) + roots[:, 1] + 1
    order, visited = order.ravel(), visited.ravel()
    visited[here] = True
    root, number = here, np.zeros(count, np.int32)
    entered, last, back = np.zeros((3, order.size), np.int32)
    # Every room but the root is entered once and left once, in all mazes alike.
    for _ in range(2 * (rows * columns - 1)):
        around = here[:, None] + tries[order[here]]
        new = ~visited[around]
        choice = new.argmax(axis=1)
        advance = new[maze, choice]
        there = np.where(advance, around[maze, choice], here - back[here])
        last[here] = number
        number += advance
        entered[there] = np.where(advance, number, entered[there])
        back[there] = np.where(advance, there - here, back[there])
        visited[there] = True
        here = there
    last[root] = number
    return _trees(entered, last, back, (rows, columns))


def grow_one_by_one(orders: UInt8[np.ndarray, "n r c"], roots: Int64[np.ndarray, "n 2"]) -> Trees:
    """`grow` for few mazes, however large."""
    _, rows, columns = orders.shape
    padded, steps, visited = _padded(orders)
    tries = steps.tolist()
    searches = []
    for order, closed, (row, column) in zip(padded, visited, roots.tolist(), strict=True):
        order, closed = bytes(order), bytearray(closed)
        entered, last, back = [0] * len(order), [0] * len(order), [0] * len(order)
        here = root = (row + 1) * (columns + 2) + column + 1
        closed[here] = True
        number = 0
        while True:
            for step in tries[order[here]]:
                if not closed[here + step]:
                    here += step
                    closed[here] = True
                    number += 1
                    entered[here], back[here] = number, step
                    break
            else:
                last[here] = number
                if here == root:
                    break
                here -= back[here]
        searches.append((entered, last, back))
    entered, last, back = np.array(searches, np.int32).swapaxes(0, 1)
    return _trees(entered, last, back, (rows, columns))


def _padded(
    orders: UInt8[np.ndarray, "n r c"],
) -> tuple[UInt8[np.ndarray, "n framed"], Int64[np.ndarray, "24 4"], Bool[np.ndarray, "n framed"]]:
    """Orders in a frame one room wide; the steps of each order; the rooms closed to the search."""
    count, _, columns = orders.shape
    frame = ((0, 0), (1, 1), (1, 1))
    steps = np.array([-(columns + 2), -1, 1, columns + 2])[ORDERS]
    closed = np.pad(np.zeros(orders.shape, bool), frame, constant_values=True)
    return np.pad(orders, frame).reshape(count, -1), steps, closed.reshape(count, -1)


def _trees(
    entered: Int32[np.ndarray, "..."],
    last: Int32[np.ndarray, "..."],
    back: Int32[np.ndarray, "..."],
    rooms: tuple[int, int],
) -> Trees:
    """Takes the frame off and turns steps into directions."""
    rows, columns = rooms
    entered, last, back = (
        flat.reshape(-1, rows + 2, columns + 2)[:, 1:-1, 1:-1].copy() for flat in (entered, last, back)
    )
    towards = np.full(back.shape, -1, np.int8)
    for direction, step in zip(DIRECTIONS, (-(columns + 2), -1, 1, columns + 2), strict=True):
        towards[back == step] = direction
    return Trees(entered, last, towards)
