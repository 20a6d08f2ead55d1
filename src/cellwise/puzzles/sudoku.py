"""What a Sudoku is: its written forms, its rules and the sentences that refuse a bad one.

Tokens: 0 is an empty cell, 1-9 are the digits. The grid always has 9 x 9 cells.
"""

import numpy as np
from jaxtyping import Bool, UInt8

from ..errors import PuzzleError
from .sudoku_solver import count_solutions

_DIGITS = np.arange(1, 10, dtype=np.uint8)
_ALL_DIGITS = 0b1111111110  # Bit d stands for digit d.
_BLANKS = "0._*"
_SEPARATORS = "|-+"

# The 27 houses: nine rows, nine columns, nine boxes; a cell counts row by row.
_INDEX = np.arange(81).reshape(9, 9)
_BOXES = _INDEX.reshape(3, 3, 3, 3).swapaxes(1, 2).reshape(9, 9)
_CELLS_OF = np.concatenate([_INDEX, _INDEX.T, _BOXES])
_HOUSES_OF = np.stack([_INDEX // 9, 9 + _INDEX % 9, 18 + _INDEX // 27 * 3 + _INDEX % 9 // 3], axis=2)


def parse(text: str) -> UInt8[np.ndarray, "9 9"]:
    """Reads a puzzle: 81 cells in a row, nine lines, or a drawn grid.

    `.`, `0`, `_` and `*` are empty cells; white space, `|`, `-`, `+` and box-drawing characters only
    separate. Raises PuzzleError for anything else and for a repeated clue.
    """
    cells = []
    for line_number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        for place, character in enumerate(line, start=1):
            if character in _BLANKS:
                cells.append(0)
            elif "1" <= character <= "9":
                cells.append(int(character))
            elif not (character.isspace() or character in _SEPARATORS or "\u2500" <= character <= "\u257f"):
                raise PuzzleError(
                    f"The Sudoku contains {character!r} at line {line_number}, character {place}; "
                    "write digits 1-9 and '.', '0', '_' or '*' for an empty cell."
                )
    if len(cells) != 81:
        raise PuzzleError(
            f"The Sudoku has {len(cells)} cells; write exactly 81, with '.' for each empty one."
        )
    grid = np.array(cells, np.uint8).reshape(9, 9)
    _refuse_repeated_clue(grid)
    return grid


def check(grid: UInt8[np.ndarray, "h w"], unique: bool = True) -> None:
    """Raises PuzzleError unless `grid` is a puzzle with a solution and, if `unique`, with only one."""
    if grid.shape != (9, 9):
        height, width = grid.shape
        raise PuzzleError(f"The Sudoku has {height} x {width} cells; hand over a 9 x 9 grid.")
    if grid.max() > 9:
        row, column = np.argwhere(grid > 9)[0]
        raise PuzzleError(
            f"The Sudoku holds {grid[row, column]} at row {row + 1}, column {column + 1}; "
            "use 1-9 for digits and 0 for an empty cell."
        )
    _refuse_repeated_clue(grid)
    solutions = count_solutions(grid, limit=2 if unique else 1)
    if solutions == 0:
        raise PuzzleError("The Sudoku has no solution; check its clues for a typing mistake.")
    if solutions > 1:
        raise PuzzleError(
            f"The Sudoku has several solutions with its {np.count_nonzero(grid)} clues; "
            "add clues until only one is left."
        )


def _refuse_repeated_clue(grid: UInt8[np.ndarray, "9 9"]) -> None:
    repeats = np.argwhere(_counts(grid[None])[0] > 1)
    if len(repeats):
        house, digit = repeats[0].tolist()
        row, column = np.argwhere((house == _HOUSES_OF).any(axis=2) & (grid == digit + 1))[-1] + 1
        raise PuzzleError(
            f"The Sudoku repeats the digit {digit + 1} in {_house_name(house)}; "
            f"remove or correct one of the clues, for instance at row {row}, column {column}."
        )


def _house_name(house: int) -> str:
    kind, number = divmod(house, 9)
    if kind < 2:
        return f"{('row', 'column')[kind]} {number + 1}"
    top, left = number // 3 * 3 + 1, number % 3 * 3 + 1
    return f"the box of rows {top}-{top + 2} and columns {left}-{left + 2}"


def to_text(grid: UInt8[np.ndarray, "9 9"]) -> str:
    """The grid as 81 characters, `.` for an empty cell; `parse` reads it back."""
    return "".join(".123456789"[digit] for digit in grid.ravel().tolist())


def pretty(grid: UInt8[np.ndarray, "9 9"]) -> str:
    """The grid drawn with its boxes, eleven lines; `parse` reads it back."""
    text = to_text(grid)
    lines = [
        " " + " | ".join(" ".join(text[start + box : start + box + 3]) for box in (0, 3, 6))
        for start in range(0, 81, 9)
    ]
    rule = "-------+-------+-------"
    return "\n".join([*lines[:3], rule, *lines[3:6], rule, *lines[6:]])


def conflicts(grid: UInt8[np.ndarray, "n 9 9"]) -> Bool[np.ndarray, "n 9 9"]:
    """True at every digit that its row, column or box holds more than once."""
    crowded = (_counts(grid) > 1)[:, _HOUSES_OF].any(axis=3)
    return ((grid[..., None] == _DIGITS) & crowded).any(axis=3)


def is_valid(grid: UInt8[np.ndarray, "9 9"]) -> bool:
    """Whether no row, column or box repeats a digit; empty cells are fine."""
    return not conflicts(grid[None]).any()


def is_solution(
    puzzle: UInt8[np.ndarray, "n 9 9"], grid: UInt8[np.ndarray, "n 9 9"]
) -> Bool[np.ndarray, " n"]:
    """Whether each grid is complete, obeys the rules and keeps every clue of its puzzle."""
    keeps_clues = ((puzzle == 0) | (puzzle == grid)).all(axis=(1, 2))
    bits = np.left_shift(np.uint16(1), grid.reshape(-1, 81))
    present = np.bitwise_or.reduce(bits[:, _CELLS_OF], axis=2)
    return keeps_clues & (present == _ALL_DIGITS).all(axis=1)


def _counts(grid: UInt8[np.ndarray, "n 9 9"]) -> UInt8[np.ndarray, "n 27 9"]:
    """How often every house holds every digit."""
    cells = grid.reshape(-1, 81)[:, _CELLS_OF]
    return (cells[..., None] == _DIGITS).sum(axis=2, dtype=np.uint8)
