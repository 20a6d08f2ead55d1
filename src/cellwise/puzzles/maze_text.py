"""Mazes as text: one character a cell."""

from collections import Counter

import numpy as np
from jaxtyping import UInt8

from ..errors import PuzzleError
from .maze import EMPTY, GOAL, PATH, START, WALL, Vocabulary, refuse_large, translate

_TOKENS = {
    **dict.fromkeys("#█", WALL),
    **dict.fromkeys(" .", EMPTY),
    **dict.fromkeys("*o·", PATH),
    **dict.fromkeys("Ss", START),
    **dict.fromkeys("GgEe", GOAL),
}
_LEGEND = "use # for walls, . or space for free cells, S and G for start and goal, * for the path"


def parse(text: str, vocabulary: Vocabulary = Vocabulary.ALIKE) -> UInt8[np.ndarray, "h w"]:
    """Reads a maze of one line per row, or of one line that holds a square maze row after row.

    `#` or `█` is a wall, space or `.` a free cell, `S` the start, `G` or `E` the goal (two like letters serve
    as well), `*`, `o` or `·` the path. Rows of unequal length are refused rather than padded: with spaces for
    free cells, nothing tells a stripped end from a character that is missing elsewhere. Whether the maze can
    be solved is for `check` to say.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    body = text.strip("\n")
    if not body.strip():
        raise PuzzleError(f"The maze is empty; {_LEGEND}.")
    top = len(text) - len(text.lstrip("\n")) + 1
    lines = body.split("\n")
    for number, line in enumerate(lines, start=top):
        for place, character in enumerate(line, start=1):
            if character not in _TOKENS:
                raise PuzzleError(
                    f"The maze contains {character!r} at line {number}, character {place}; {_LEGEND}."
                )
    if len(lines) == 1:
        lines = _square(lines[0])
    refuse_large(len(lines), max(map(len, lines)))
    usual = max(Counter(map(len, lines)).items(), key=lambda length: (length[1], length[0]))[0]
    for number, line in enumerate(lines, start=top):
        if len(line) != usual:
            raise PuzzleError(
                f"Line {number} of the maze has {len(line)} characters where most have {usual}; make all "
                "lines equally long, with . for free cells if an editor strips spaces at the end."
            )
    cells = "".join(lines).translate({ord(character): token for character, token in _TOKENS.items()})
    grid = np.frombuffer(cells.encode("ascii"), np.uint8).reshape(len(lines), usual)
    return translate(grid, vocabulary)


def to_text(grid: UInt8[np.ndarray, "h w"]) -> str:
    """The maze as `parse` reads it, one line per row; free cells are `.`, which no editor strips."""
    characters = np.array(list(".*#SG" if (grid == GOAL).any() else ".*#E"))
    return "".join("".join(row) + "\n" for row in characters[grid])


def _square(line: str) -> list[str]:
    """The rows of a maze that was written as a single line."""
    side = round(len(line) ** 0.5)
    if side * side != len(line):
        raise PuzzleError(
            f"The maze is a single line of {len(line):,} characters, which is no square number; "
            "write one line per row."
        )
    refuse_large(side, side)
    return [line[row * side : (row + 1) * side] for row in range(side)]
