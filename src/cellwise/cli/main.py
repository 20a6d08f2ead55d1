"""`cellwise`: finds the command, runs it, and turns errors meant for people into one sentence."""

import importlib
import os
import sys
from collections.abc import Sequence

import tyro
from rich.console import Console
from rich.table import Table

from ..errors import CellwiseError, ConfigError
from ..names import nearest
from ..version import __version__

COMMANDS = {
    "solve": ("solve", "Solve", "Solve a maze or a Sudoku, and watch the cells do it"),
    "train": ("train", "Train", "Train an automaton, or go on where a run stopped"),
    "eval": ("eval", "Eval", "Measure a model on a benchmark"),
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
        return _run(arguments)
    except CellwiseError as error:
        print(f"cellwise: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("cellwise: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


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
    return tyro.cli(command, prog=f"cellwise {name}", args=rest).run()


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
