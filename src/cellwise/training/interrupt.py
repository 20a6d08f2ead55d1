"""Ctrl-C and SIGTERM as a wish that the loop grants when it has finished its iteration."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType


@dataclass
class Wish:
    """The signal that asked to stop, or None."""

    signal: int | None = None


class Stopped(KeyboardInterrupt):
    """A run that was asked to stop and has saved its state; the message says how to resume it.

    Like any Ctrl-C it is no error, so that a program which goes on to the next run after an error does not.
    """

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.status = 128 + signal_number
        """What a command that was stopped this way exits with."""


@contextlib.contextmanager
def deferred(tell: Callable[[], None]) -> Iterator[Wish]:
    """Collects the first Ctrl-C or SIGTERM inside the block and calls `tell`; the next acts as it always did.

    Signals reach only the main thread of a program; in any other thread this does nothing.
    """
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # A signal that is ignored, as Ctrl-C is for a background job of a script, stays ignored.
    before = {number: old for number, old in handlers.items() if old not in (signal.SIG_IGN, None)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def remember(number: int, frame: FrameType | None) -> None:
        wish.signal = number
        restore()
        tell()

    for number in before:
        signal.signal(number, remember)
    try:
        yield wish
    finally:
        restore()
