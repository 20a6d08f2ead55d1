"""Everything one run of learning from pairs needs, put together by a benchmark."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32

from ..automaton.layout import Automaton
from ..model import Puzzle
from ..puzzles.arc import Known
from ..puzzles.arc_pairs import Pairs
from ..training.folder import digest_of
from .recipe import PairRecipe


@dataclass(frozen=True)
class PairCheck:
    """Questions of known tasks that are answered from time to time during training; never trained on."""

    name: str
    known: tuple[Known, ...]


@dataclass(frozen=True)
class PairJob:
    """A recipe with its automaton and its data; `fixed` holds the arrays that are not trained.

    Context `i` of the automaton is that of task `pairs.names[i]`; `provenance` says where the pairs come
    from.
    """

    name: str
    automaton: Automaton
    fixed: dict[str, Float32[np.ndarray, "..."]]
    recipe: PairRecipe
    seed: int
    pairs: Pairs
    checks: tuple[PairCheck, ...]
    provenance: dict[str, Any]
    puzzle: Puzzle = "arc"

    def about(self) -> dict[str, Any]:
        """What the settings of a run say of its data."""
        pairs = {name: getattr(self.pairs, name) for name in ("task", "shapes", "starts", "cells")}
        return {"pairs": len(self.pairs), "pairs_sha256": digest_of(pairs)}
