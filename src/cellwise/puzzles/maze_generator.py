"""Mazes in the manner of Maze-OOD: a random depth-first spanning tree over a square of rooms.

A maze of nominal size s has k x k rooms, k = (s + 1) / 2, and (s + 2) x (s + 2) cells: rooms at odd rows and
columns, walls or doors between them, a ring of walls around. The search that carves it sets out from a
random room: the start itself, as in the public generator, unless the endpoints are to be dead ends. Every
choice is a hash of (seed, size, maze, room), so a maze is the same in any batch.

Mazes that are not square, and trees that grow otherwise (`maze_trees`), are to see how far a model carries.
"""

import numpy as np
from jaxtyping import Bool, Int64, UInt8, UInt64

from ..errors import PuzzleError
from .board import Boards
from .maze import EMPTY, PATH, START, WALL
from .maze_braid import add_loops, count_doors, doors
from .maze_growth import DIRECTIONS, ORDERS, Trees, grow
from .maze_trees import TREES

MAX_SIZE = 1001
"""The largest nominal size."""

_ROOMS_AT_ONCE = 2**20  # Bounds the memory for intermediate arrays.
_TREE, _ENDPOINTS, _DEAD_ENDS, _LOOPS, _LOOP_ORDERS = range(5)  # What a random number is for.


def generate(
    size: int | tuple[int, int],
    count: int,
    seed: int,
    first: int = 0,
    *,
    braid: float = 0.0,
    endpoints: str = "rooms",
    tree: str = "depth-first",
) -> Boards:
    """Mazes `first` to `first + count - 1` of the endless series (size, seed), solved.

    A size is one number, or height and width. `tree` is how the maze grows: "depth-first" as in training,
    with long corridors, or as "kruskal", "prim" or "wilson" do it.

    Each maze has a single shortest path. Its endpoints are two of its "rooms" or two of its "dead-ends", all
    pairs equally likely. `braid` is the share of other dead ends that gets a second door, which makes loops;
    one that would allow a second shortest path is closed again. Difficulty is the number of path cells
    without the endpoints.
    """
    height, width = (size, size) if isinstance(size, int) else size
    for side in (height, width):
        if not (side % 2 and 3 <= side <= MAX_SIZE):
            raise PuzzleError(
                f"There are no mazes of size {side:,}; choose an odd size from 3 to {MAX_SIZE:,}."
            )
    if count < 0 or first < 0:
        raise PuzzleError(f"Cannot make {count:,} mazes from number {first:,} on; use numbers of at least 0.")
    if not 0 <= braid <= 1:
        raise PuzzleError(f"The share of dead ends to open cannot be {braid}; choose one from 0 to 1.")
    if endpoints not in ("rooms", "dead-ends"):
        raise PuzzleError(f"Endpoints cannot be {endpoints!r}; choose 'rooms' or 'dead-ends'.")
    if tree != "depth-first" and tree not in TREES:
        choices = " or ".join(map(repr, ("depth-first", *TREES)))
        raise PuzzleError(f"A tree cannot grow by {tree!r}; choose {choices}.")
    rooms = (height + 1) // 2, (width + 1) // 2
    target = np.empty((count, height + 2, width + 2), np.uint8)
    step = max(1, _ROOMS_AT_ONCE // (rooms[0] * rooms[1]))
    for begin in range(0, count, step):
        indices = np.arange(first + begin, first + min(begin + step, count), dtype=np.uint64)
        target[begin : begin + step] = _solved(rooms, seed, indices, braid, endpoints == "dead-ends", tree)
    path = target == PATH
    return Boards(target, (target == WALL) | (target == START), path.sum((1, 2), dtype=np.int32))


def _solved(
    rooms: tuple[int, int],
    seed: int,
    indices: UInt64[np.ndarray, " n"],
    braid: float,
    at_dead_ends: bool,
    tree: str,
) -> UInt8[np.ndarray, "n h w"]:
    ends = _two_smallest(_draws(seed, rooms, indices, _ENDPOINTS))
    mazes = np.full((len(indices), 2 * rooms[0] + 1, 2 * rooms[1] + 1), WALL, np.uint8)
    growth = _draws(seed, rooms, indices, _TREE)
    trees = None
    if tree == "depth-first":
        trees = grow(_orders(growth), ends[:, 0])
        _paint(mazes, trees, np.ones(trees.towards.shape, bool), EMPTY)
    else:
        for maze, word in zip(mazes, growth[:, 0, 0].tolist(), strict=True):
            _open(maze, TREES[tree](*rooms, np.random.PCG64(word)))
    if at_dead_ends:
        draws = _draws(seed, rooms, indices, _DEAD_ENDS)
        draws[count_doors(mazes) != 1] = np.iinfo(np.uint64).max
        ends = _two_smallest(draws)
    if braid or trees is None:
        chosen = _draws(seed, rooms, indices, _LOOPS) < braid * 2.0**64
        mazes = add_loops(mazes, ends, chosen, _orders(_draws(seed, rooms, indices, _LOOP_ORDERS)))
    else:
        _draw_path(mazes, trees, ends)
    maze = np.arange(len(indices))[:, None]
    mazes[maze, 2 * ends[..., 0] + 1, 2 * ends[..., 1] + 1] = START
    return mazes


def _open(maze: UInt8[np.ndarray, "h w"], doors: Bool[np.ndarray, " doors"]) -> None:
    """Empties the rooms of a maze that is all walls, and these of its doors."""
    maze[1::2, 1::2] = EMPTY
    right, down = maze[1::2, 2:-1:2], maze[2:-1:2, 1::2]
    right[doors[: right.size].reshape(right.shape)] = EMPTY
    down[doors[right.size :].reshape(down.shape)] = EMPTY


def _draw_path(mazes: UInt8[np.ndarray, "n h w"], trees: Trees, ends: Int64[np.ndarray, "n 2 2"]) -> None:
    """Draws the way through each tree: the rooms above just one end, and the lowest above both."""
    maze = np.arange(len(mazes))
    above = []
    for row, column in ends.transpose(1, 2, 0):
        entered = trees.entered[maze, row, column, None, None]
        above.append((trees.entered <= entered) & (entered <= trees.last))
    _paint(mazes, trees, above[0] ^ above[1], PATH)
    top = np.where(above[0] & above[1], trees.entered, -1).reshape(len(mazes), -1).argmax(axis=1)
    row, column = np.divmod(top, trees.entered.shape[2])
    mazes[maze, 2 * row + 1, 2 * column + 1] = PATH


def _paint(
    mazes: UInt8[np.ndarray, "n h w"], trees: Trees, rooms: Bool[np.ndarray, "n r c"], token: int
) -> None:
    """Sets the given rooms and the doors through which the search entered them."""
    mazes[:, 1::2, 1::2][rooms] = token
    for direction in DIRECTIONS:
        doors(mazes, 3 - direction)[rooms & (trees.towards == direction)] = token


def _two_smallest(draws: UInt64[np.ndarray, "n r c"]) -> Int64[np.ndarray, "n 2 2"]:
    """Row and column of the rooms with the smallest and the second smallest draw."""
    flat = draws.reshape(len(draws), draws.shape[1] * draws.shape[2])
    return np.stack(np.divmod(np.argpartition(flat, 1, axis=1)[:, :2], draws.shape[2]), axis=-1)


def _orders(draws: UInt64[np.ndarray, "n r c"]) -> UInt8[np.ndarray, "n r c"]:
    """A uniform index into `ORDERS` from the upper half of each draw."""
    return ((draws >> 32) * len(ORDERS) >> 32).astype(np.uint8)


def _draws(
    seed: int, rooms: tuple[int, int], indices: UInt64[np.ndarray, " n"], purpose: int
) -> UInt64[np.ndarray, "n {rooms[0]} {rooms[1]}"]:
    """One uniform 64-bit number per room: a hash of every coordinate, the same whatever the batch."""
    mazes = np.array([seed % 2**64], np.uint64)
    rows, columns = rooms
    shape = rows if rows == columns else rows + (columns << 32)
    for coordinate in (shape, purpose, indices):
        mazes = _mix(mazes) + coordinate
    places = np.arange(rows * columns, dtype=np.uint64)
    return _mix(_mix(mazes)[:, None] + places * np.uint64(0x9E3779B97F4A7C15)).reshape(-1, rows, columns)


def _mix(x: UInt64[np.ndarray, "*n"]) -> UInt64[np.ndarray, "*n"]:
    """The finaliser of SplitMix64: every bit of the result depends on every bit of `x`."""
    x = x + 0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)
