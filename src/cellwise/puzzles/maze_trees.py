"""Other ways to a spanning tree over rooms than the depth-first search: Kruskal's, Prim's and Wilson's.

They give mazes of another texture: shorter ways, more and shallower dead ends. Rooms are numbered row by row,
and so are doors: first all that lead right, then all that lead down. One maze at a time, its random numbers
the words of PCG64, which NumPy promises to keep.
"""

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Bool, Int64

Words = np.random.PCG64


def doors_between(rows: int, columns: int) -> Int64[np.ndarray, "doors 2"]:
    """The two rooms on either side of each door."""
    rooms = np.arange(rows * columns).reshape(rows, columns)
    right = np.stack([rooms[:, :-1].ravel(), rooms[:, 1:].ravel()], axis=1)
    down = np.stack([rooms[:-1].ravel(), rooms[1:].ravel()], axis=1)
    return np.concatenate([right, down])


def kruskal(rows: int, columns: int, words: Words) -> Bool[np.ndarray, " doors"]:
    """All doors in random order, each opened unless that would close a loop."""
    doors = doors_between(rows, columns)
    order = np.argsort(words.random_raw(len(doors)), kind="stable")
    leader = list(range(rows * columns))
    opened = np.zeros(len(doors), bool)
    for door, (here, there) in zip(order.tolist(), doors[order].tolist(), strict=True):
        one, other = _lead(leader, here), _lead(leader, there)
        if one != other:
            leader[one] = other
            opened[door] = True
    return opened


def prim(rows: int, columns: int, words: Words) -> Bool[np.ndarray, " doors"]:
    """Growth from one random room, each time through a random one of the doors that lead out."""
    doors = doors_between(rows, columns)
    sides = doors.tolist()
    around: list[list[int]] = [[] for _ in range(rows * columns)]
    for door, (here, there) in enumerate(sides):
        around[here].append(door)
        around[there].append(door)
    draws = iter(words.random_raw(len(doors) + 1).tolist())
    opened = np.zeros(len(doors), bool)
    inside = bytearray(rows * columns)
    room = next(draws) * len(inside) >> 64
    inside[room] = True
    leading_out = around[room].copy()
    while leading_out:
        place = next(draws) * len(leading_out) >> 64
        leading_out[place], leading_out[-1] = leading_out[-1], leading_out[place]
        door = leading_out.pop()
        new = [room for room in sides[door] if not inside[room]]
        if new:
            opened[door] = inside[new[0]] = True
            leading_out += [way for way in around[new[0]] if not all(inside[room] for room in sides[way])]
    return opened


def wilson(rows: int, columns: int, words: Words) -> Bool[np.ndarray, " doors"]:
    """Random walks, their loops erased, so that all trees are equally likely."""
    steps = _steps(words)
    down = rows * (columns - 1)  # The number of the first door that leads down.
    opened = np.zeros(len(doors_between(rows, columns)), bool)
    inside = bytearray(rows * columns)
    inside[-1] = True
    left_by: list[tuple[int, int]] = [(0, 0)] * len(inside)
    for first in range(len(inside)):
        room = first
        while not inside[room]:
            row, column = divmod(room, columns)
            way_down, way_right = next(steps)
            if 0 <= row + way_down < rows and 0 <= column + way_right < columns:
                left_by[room] = way_down, way_right
                room += way_down * columns + way_right
        room = first
        while not inside[room]:
            inside[room] = True
            row, column = divmod(room, columns)
            way_down, way_right = left_by[room]
            if way_right:
                opened[row * (columns - 1) + column + min(way_right, 0)] = True
            else:
                opened[down + (row + min(way_down, 0)) * columns + column] = True
            room += way_down * columns + way_right
    return opened


TREES: dict[str, Callable[[int, int, Words], Bool[np.ndarray, " doors"]]] = {
    "kruskal": kruskal,
    "prim": prim,
    "wilson": wilson,
}


def _lead(leader: list[int], room: int) -> int:
    """The room that stands for all that are joined to this one."""
    while leader[room] != room:
        leader[room] = room = leader[leader[room]]
    return room


def _steps(words: Words) -> Iterator[tuple[int, int]]:
    """Random steps down or to the right, or back, thirty-two from each word."""
    ways = ((-1, 0), (0, -1), (0, 1), (1, 0))
    shifts = np.arange(0, 64, 2, dtype=np.uint64)
    while True:
        for way in ((words.random_raw(64)[:, None] >> shifts) & np.uint64(3)).ravel().tolist():
            yield ways[way]
