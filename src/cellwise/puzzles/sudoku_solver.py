"""An exact Sudoku solver: the oracle that says whether a board has a solution, and whether only one.

Sudoku is an exact cover: every cell holds one digit, and every row, column and box holds every digit
once, which makes 4 * 81 = 324 constraints of nine candidates each. A search node is a single Python
integer that lists, constraint after constraint, which of its nine candidates are still possible, so
one addition or subtraction counts the candidates of all 324 constraints at once. Naked and hidden
singles are the same thing here: a constraint with one candidate left.
"""

import numpy as np
from jaxtyping import UInt8

_CELLS = 81
_CANDIDATES = 729
_CONSTRAINTS = 324
_FIELD = 10  # nine candidate bits and one guard bit that catches carries and borrows

_LOWEST = sum(1 << _FIELD * constraint for constraint in range(_CONSTRAINTS))
_FULL = 511 * _LOWEST
_GUARD = 512 * _LOWEST


def _constraint_bits(cell: int, digit: int) -> tuple[int, ...]:
    """Where the candidate `digit` (0-8) at `cell` stands in its cell, row, column and box constraints."""
    row, column = divmod(cell, 9)
    box, place = row // 3 * 3 + column // 3, row % 3 * 3 + column % 3
    members = ((cell, digit), (row * 9 + digit, column), (column * 9 + digit, row), (box * 9 + digit, place))
    return tuple((kind * _CELLS + group) * _FIELD + member for kind, (group, member) in enumerate(members))


_BITS = [_constraint_bits(*divmod(candidate, 9)) for candidate in range(_CANDIDATES)]
_CANDIDATE_AT = {bit: candidate for candidate, bits in enumerate(_BITS) for bit in bits}
_IMAGE = [sum(1 << bit for bit in bits) for bits in _BITS]
# The guard bits of the four constraints that a candidate meets.
_MEETS = [sum(1 << (bit // _FIELD * _FIELD + 9) for bit in bits) for bits in _BITS]


def _compatible_with(candidate: int) -> int:
    """Every candidate that may stand together with `candidate`, itself included."""
    rivals = 0
    for bit in _BITS[candidate]:
        first = bit // _FIELD * _FIELD
        for other in range(first, first + 9):
            rivals |= _IMAGE[_CANDIDATE_AT[other]]
    return _FULL & ~rivals | _IMAGE[candidate]


_COMPATIBLE = [_compatible_with(candidate) for candidate in range(_CANDIDATES)]


def _candidates(bits: int) -> list[int]:
    """The candidates whose bits are set, each once, highest bit first."""
    found = []
    while bits:
        candidate = _CANDIDATE_AT[bits.bit_length() - 1]
        found.append(candidate)
        bits &= ~_IMAGE[candidate]
    return found


def _propagate(possible: int, undecided: int) -> tuple[int, int, int] | None:
    """Places every forced digit; None on a contradiction.

    `undecided` holds the guard bits of the constraints without a digit yet. Returns the new pair and
    `possible` less one candidate of every constraint.
    """
    while True:
        if (possible + _FULL) & _GUARD != _GUARD:
            return None
        beyond_first = possible & (possible - _LOWEST)
        single = undecided & ~(beyond_first + _FULL)
        if not single:
            return possible, undecided, beyond_first
        for candidate in _candidates(possible & (single - (single >> 9))):
            possible &= _COMPATIBLE[candidate]
            undecided &= ~_MEETS[candidate]


def _branches(possible: int, undecided: int, beyond_first: int) -> list[int]:
    """The candidates of one of the constraints that have fewest."""
    rest = beyond_first
    while True:
        rest &= (rest | _GUARD) - _LOWEST
        fewest = undecided & ~(rest + _FULL)
        if fewest:
            guard = 1 << (fewest.bit_length() - 1)
            return _candidates(possible & (guard - (guard >> 9)))


def _solutions(grid: UInt8[np.ndarray, "9 9"], limit: int, preference: list[int] | None = None) -> list[int]:
    """At most `limit` solutions by depth-first search, candidates of lower `preference` first."""
    possible, undecided = _FULL, _GUARD
    for cell, digit in enumerate(grid.ravel().tolist()):
        if digit:
            candidate = cell * 9 + digit - 1
            possible &= _COMPATIBLE[candidate]
            undecided &= ~_MEETS[candidate]
    found: list[int] = []
    stack = [(possible, undecided)]
    while stack and len(found) < limit:
        node = _propagate(*stack.pop())
        if node is None:
            continue
        possible, undecided, beyond_first = node
        if not undecided:
            found.append(possible)
            continue
        branches = _branches(possible, undecided, beyond_first)
        if preference is not None:
            branches.sort(key=preference.__getitem__, reverse=True)
        for candidate in branches:
            stack.append((possible & _COMPATIBLE[candidate], undecided & ~_MEETS[candidate]))
    return found


def _decode(solution: int) -> UInt8[np.ndarray, "9 9"]:
    """The grid of a search node in which every constraint has one candidate."""
    digits = [(solution >> _FIELD * cell & 511).bit_length() for cell in range(_CELLS)]
    return np.array(digits, np.uint8).reshape(9, 9)


def solve(grid: UInt8[np.ndarray, "9 9"]) -> UInt8[np.ndarray, "9 9"] | None:
    """A solution of `grid` (0 = empty), or None if it has none."""
    solutions = _solutions(grid, limit=1)
    return _decode(solutions[0]) if solutions else None


def count_solutions(grid: UInt8[np.ndarray, "9 9"], limit: int = 2) -> int:
    """The number of solutions of `grid`, counted no further than `limit`."""
    return len(_solutions(grid, limit))


def random_solution(rng: np.random.Generator) -> UInt8[np.ndarray, "9 9"]:
    """A random complete grid; every one can come up, though not all with the same probability."""
    preference = rng.permutation(_CANDIDATES).tolist()
    return _decode(_solutions(np.zeros((9, 9), np.uint8), limit=1, preference=preference)[0])
