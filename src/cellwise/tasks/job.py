"""Everything one run of learning from pairs needs, put together by a benchmark."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32

from ..automaton.layout import Automaton
from ..puzzles.arc import Known
from ..puzzles.arc_pairs import Pairs
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
