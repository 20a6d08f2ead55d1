"""The words of a command line as a command, or one sentence that says which of them is wrong."""

import contextlib
import io
import itertools
import re
from collections.abc import Sequence
from typing import Any

import tyro

from ..automaton.firing import FRUGAL, PAPER, Firing, check
from ..errors import ConfigError

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def option(metavar: str, default: str = "") -> Any:
    """How help shows an option that may be left out: its value, and what is taken without it."""
    hint = f"(default: {default})" if default else ""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=hint)


_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


def seconds(option: str, text: str) -> float:
    """A time such as `10s`, `500ms` or `2m`, in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|m|h|)", text.strip())
    if found is None:
        raise ConfigError(f"{option} cannot be {text[:20]!r}; write it as 10s, 500ms or 2m.")
    return float(found[1]) * _UNITS[found[2]]


_FIRING = {"paper": PAPER, "frugal": FRUGAL}


def firing(option: str, text: str) -> Firing:
    """A way to fire: by its name, or as a rate, perhaps with that of sure cells and how sure these are."""
    if text in _FIRING:
        return _FIRING[text]
    try:
        rate, *rest = (float(number) for number in text.split(","))
        dormant, above, reach = {0: [rate, 1.0, 0.0], 2: [*rest, 0.0], 3: rest}[len(rest)]
        found = Firing(rate, dormant, above, {0.0: 0, 1.0: 1}[reach])
    except (ValueError, KeyError):
        raise ConfigError(
            f"{option} cannot be {text[:40]!r}; choose one of: {', '.join(_FIRING)}, or write RATE or "
            "RATE,DORMANT,ABOVE[,REACH], such as 0.8,0.4,0.95."
        ) from None
    check(found)
    return found


def parse(command: Any, prog: str, words: Sequence[str]) -> Any:
    """The command that the words describe; a ConfigError if they describe none."""
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told):
            return tyro.cli(command, prog=prog, args=words, config=(tyro.conf.FlagCreatePairsOff,))
    except SystemExit as stop:
        if not stop.code:  # It was asked for help and has given it.
            raise
        raise ConfigError(sentence(told.getvalue(), prog, words)) from None


def sentence(box: str, prog: str, words: Sequence[str]) -> str:
    """What a framed message of tyro says, in the manner of this project."""
    _, *lines = (text for line in _COLOUR.sub("", box).splitlines() if (text := line.strip(" │╭╮╰╯─")))
    lines = [line for line in lines if line.strip("-")]
    told = " ".join(lines)
    helper = re.search(r"(?:run|see|run:) (cellwise[\w -]*) --help", told)
    look = f"see `{helper[1] if helper else prog} --help`."
    if found := re.match(r"Unrecognized options: (.+?)(?:,| Available| Perhaps| For full)", told):
        near = next((line.split()[0] for line in lines if line.startswith("--")), None)
        names = re.search(r"Available subcommands: (.*?) For full", told)
        hint = f"did you mean {near}?" if near else look
        return f"{prog} knows no {found[1]!r}; {f'choose one of: {names[1]}.' if names else hint}"
    if found := re.match(r"Error parsing (\S+):", told):
        usage = next((line for line in lines if line.startswith(found[1] + " ")), found[1])
        return f"{found[1]} cannot be {_given(found[1], words)!r}; write it as `{usage}`, {look}"
    if found := re.match(r"invalid choice '(.*?)' for argument '(.*?)'\. Expected one of \((.*?)\)", told):
        choices = sorted(name for name in re.findall(r"'(.*?)'", found[3]) if name != "None")
        return f"{found[2]} cannot be {found[1]!r}; choose one of: {', '.join(choices)}."
    if found := re.match(r"Missing value for argument .*?(--[\w.-]+)", told):
        return f"{found[1]} lacks a value; {look}"
    if told.startswith("Missing from"):
        return f"{prog} lacks {lines[1]}; {look}"
    if found := re.match(r"Expected one of \{(.*?)\}", told):
        return f"{prog} lacks a subcommand; choose one of: {found[1]}."
    return f"{prog} cannot be called like this ({told.partition(' For full')[0].rstrip('.')}); {look}"


def _given(option: str, words: Sequence[str]) -> str:
    """What was given to an option."""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else " ".join(itertools.takewhile(_is_value, words[place + 1 :]))
    return ""


def _is_value(word: str) -> bool:
    return not word.startswith("--")
