"""How a run looks while it goes: a live line in a terminal, a plain line now and then elsewhere."""

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

PLAIN_SECONDS = 10.0
"""The shortest time between two plain lines."""


class Display:
    """Shows the run `name` from iteration `first` to `total`."""

    def __init__(self, console: Console, name: str, first: int, total: int) -> None:
        self._console = console
        self._name = name
        self._total = total
        self._shown = -PLAIN_SECONDS
        self._bar = Progress(
            TextColumn("{task.description} {task.completed:,}/{task.total:,}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[told]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(escape(name), completed=first, total=total, told="compiling")

    def __enter__(self) -> "Display":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def advance(self, step: int) -> None:
        """Moves the bar."""
        self._bar.update(self._task, completed=step)

    def tell(self, record: dict[str, Any]) -> None:
        """Shows what was logged."""
        speed = record["iterations_per_second"]
        told = f"loss {record['loss']:.4g}  boards {record['boards']:.1%}  {speed:.3g}/s"
        self._bar.update(self._task, told=told)
        due = time.monotonic() - self._shown >= PLAIN_SECONDS or record["step"] == self._total
        if not self._console.is_terminal and due:
            left = _clock((self._total - record["step"]) / speed)
            self.say(f"{record['step']:,}/{self._total:,}  {told}  {left} left")
            self._shown = time.monotonic()

    def tell_check(self, record: dict[str, Any]) -> None:
        """Shows what a check found; this line stays."""
        shown = {"boards": ".1%", "cells": ".2%", "tasks": ".1%"}
        shares = "  ".join(f"{name} {record[name]:{form}}" for name, form in shown.items() if name in record)
        self.say(f"{record['step']:,}/{self._total:,}  {record['check']}: {shares}")

    def say(self, line: str) -> None:
        """Prints a line above the live one."""
        say(self._console, f"{self._name} {line}")

    def stopping(self) -> None:
        """Says that a wish to stop was heard."""
        self._bar.update(self._task, told="stopping after this iteration")


def say(console: Console, line: str) -> None:
    """Prints one line as it is."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
