"""The gate for a maze from outside: it comes back ready to be solved, or a sentence says why not."""

import numpy as np
from jaxtyping import Shaped, UInt8

from ..errors import PuzzleError
from .maze import GOAL, endpoints, refuse_large, unsolved
from .maze_path import distances, unreachable


def check(grid: Shaped[np.ndarray, "..."], odd_sides: bool = False) -> UInt8[np.ndarray, "h w"]:
    """The maze to solve, tokens in either vocabulary, or a PuzzleError.

    Path cells are emptied, because a person may paste a maze that is already solved. `odd_sides` asks for
    what Maze-OOD models were trained on. A maze that is too large is refused before anything is computed.
    """
    if grid.ndim != 2:
        raise PuzzleError(f"The maze has {grid.ndim} dimensions; hand over one grid of rows and columns.")
    if grid.dtype.kind not in "iu":
        raise PuzzleError(
            f"The maze holds values of type {grid.dtype}; use whole numbers, such as NumPy's uint8."
        )
    height, width = grid.shape
    refuse_large(height, width)
    if odd_sides and not (height % 2 and width % 2):
        raise PuzzleError(
            f"The maze has {height:,} x {width:,} cells, but rooms and walls alternate in the mazes this "
            "model knows; use an odd number of rows and of columns."
        )
    unknown = np.argwhere((grid < 0) | (grid > GOAL))
    if len(unknown):
        row, column = unknown[0]
        raise PuzzleError(
            f"The maze holds the token {grid[row, column]} at row {row + 1}, column {column + 1}; "
            "use 0 for empty, 1 for path, 2 for wall, 3 for the start and 3 or 4 for the goal."
        )
    maze = unsolved(grid.astype(np.uint8))
    start, goal = endpoints(maze)
    if distances(maze, start)[goal] < 0:
        raise unreachable(start, goal)
    return maze
