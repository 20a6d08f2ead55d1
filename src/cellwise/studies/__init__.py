"""The paper's claims, one file each, measured again; `cellwise study` and `cellwise report` are the commands.

A study is a module of this room with a `STUDY`, a value of `study.Study`:

- `quick` and `full` are its settings, two values of a frozen dataclass of its own; quick takes minutes on a
  laptop, full wants a GPU;
- `jobs(settings)` are the parts of a run, small dictionaries such as `{"policy": "uniform"}`;
- `measure(settings, job)` computes one of them and gives what was seen, as JSON. After each job the result
  file is on disk, so a run that was stopped goes on where it was;
- `compare(result)` says, for each number of the paper, what was measured here; `None` where a job is missing;
- `draw(result, figure)` draws on an empty matplotlib figure, from the result alone and whatever is missing.

To add one, write the module and put its name into `NAMES`; docs/studies.md has an example.
"""

import importlib

from ..names import nearest
from .study import Study

NAMES: tuple[str, ...] = (
    "flops",
    "training_ingredients",
    "fixed_attention",
    "backtracking",
    "trial_and_error",
    "exact_algorithm",
    "noise",
    "depth_and_width",
    "pruning",
    "adaptive_firing",
    "damage",
    "sudoku_damage",
)
"""The modules with a study, in the order of the report."""


def studies() -> list[Study]:
    """All of them."""
    return [importlib.import_module(f"{__package__}.{name}").STUDY for name in NAMES]


def find(name: str) -> Study:
    """The study of this name, which is that of its module with hyphens."""
    from ..errors import ConfigError

    known = {study.name: study for study in studies()}
    if name not in known:
        raise ConfigError(nearest("study", name, known))
    return known[name]
