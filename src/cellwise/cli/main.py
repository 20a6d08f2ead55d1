"""`cellwise`: finds the command, runs it, and turns errors meant for people into one sentence."""

import errno
import importlib
import os
import sys
from collections.abc import Sequence

from rich.table import Table

from ..errors import CellwiseError, ConfigError
from ..names import nearest
from ..version import __version__
from .arguments import parse
from .console import Console

COMMANDS = {
    "solve": ("solve", "Solve", "Solve a maze, a Sudoku or a task learnt before, and watch the cells do it"),
    "play": ("play", "Play", "Open a page on which you watch cells think, and break them"),
    "train": ("train", "Train", "Train an automaton, or go on where a run stopped"),
    "adapt": ("adapt", "Adapt", "Learn an ARC task from its demonstrations and answer it"),
    "eval": ("eval", "Eval", "Measure a model on a benchmark"),
    "bench": ("bench", "Bench", "Measure how fast it is here, every way to run a rule side by side"),
    "flops": ("flops", "Flops", "Count parameters and operations, beside the paper's table"),
    "study": ("study", "Study", "Measure the paper's claims again, one by one"),
    "report": ("report", "Report", "Write a page with the paper and ours side by side"),
    "export": ("export", "Export", "Write a model as a page for any host, or as an ONNX file"),
    "data": ("data", "Data", "Fetch, make, list and verify datasets"),
    "info": ("info", "Info", "Show versions, devices, models and which code path runs them"),
}
"""Module, class and purpose of each command; a module is imported only when its command is called."""

EXAMPLES = """\
  cellwise solve maze --size 59 --watch
  cellwise train maze-laptop --out runs/laptop
  cellwise eval maze-ood --size 9 --limit 100
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns 0 for done or verified, 1 for not solved, 2 for bad input, 130 for Ctrl-C."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = _run(arguments)
        if sys.stdout is not None:  # It is None if the caller has closed it.
            sys.stdout.flush()
        return status
    except CellwiseError as error:
        return _refused(str(error))
    except KeyboardInterrupt:
        print("cellwise: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # The reader of our output, such as `head`, has seen enough.
        _close_output()
        return 0
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            _close_output()
            return _refused("The output cannot be written because the disk is full; free some space.")
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):  # NumPy's way; JAX's way
            return _refused("There is not enough memory for this; ask for fewer or smaller boards.")
        raise


def _refused(why: str) -> int:
    print(f"cellwise: {why}", file=sys.stderr)
    return 2


def _close_output() -> None:
    """Sends what is still to be printed nowhere, or Python would try again at its end and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        _help()
        return 0 if arguments else 2
    name, rest = arguments[0], arguments[1:]
    if name in ("-V", "--version", "version"):
        print(f"cellwise {__version__}")
        return 0
    if name not in COMMANDS:
        raise ConfigError(nearest("command", name, COMMANDS))
    module, kind, _ = COMMANDS[name]
    command = getattr(importlib.import_module(f"{__package__}.{module}"), kind)
    return parse(command, f"cellwise {name}", rest).run()


def _help() -> None:
    console = Console()
    console.print("[bold]cellwise[/]: neural cellular automata that reason\n\nusage: cellwise COMMAND …\n")
    table = Table(box=None, show_header=False, pad_edge=True)
    for name, (_, _, purpose) in COMMANDS.items():
        table.add_row(f"[bold]{name}[/]", purpose)
    console.print(table)
    console.print(f"\nexamples:\n{EXAMPLES}\nEvery command explains itself with --help.", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
