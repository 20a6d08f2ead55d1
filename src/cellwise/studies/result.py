"""Result files: JSON lines, the first about the run as a whole, then one for each job that is done.

Everything a number needs to be measured again is in its file: the command, the settings with their seeds, the
data, and for every job the device, the date, the commit and the versions, because a run may have gone on
somewhere else.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..config import from_json, to_json
from ..errors import ConfigError, FileError
from ..files import read_bytes, write_text
from .study import Measured, Result, Scale, Study

FORMAT = 1
_MOST_BYTES = 16 * 2**20


def path_of(folder: Path, study: str, scale: Scale) -> Path:
    """Where the result of a study is in a folder of results."""
    return folder / (f"{study}.quick.jsonl" if scale == "quick" else f"{study}.jsonl")


def text_of(result: Result) -> str:
    """The content of a result file."""
    head = {
        "format": FORMAT,
        "study": result.study,
        "scale": result.scale,
        "command": result.command,
        "data": result.data,
        "settings": to_json(result.settings),
    }
    lines = [head, *(to_json(one) for one in result.done)]
    return "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)


def write(path: Path, result: Result) -> None:
    """Writes a result, all or nothing."""
    write_text(path, text_of(result))


def read(path: Path, study: Study) -> Result | None:
    """The result in a file, or None if there is no such file."""
    if not path.exists():
        return None
    try:
        head, *lines = [json.loads(line) for line in read_bytes(path, _MOST_BYTES).decode().splitlines()]
        if head.get("format") != FORMAT or head.get("study") != study.name:
            raise FileError(
                f"{path} is not a result of {study.name} that this version reads; "
                f"move it away and run the study again."
            )
        settings = from_json(type(study.settings(head["scale"])), head["settings"], f"{path}: settings")
        done = tuple(Measured(**line) for line in lines)
        about = {name: head[name] for name in ("study", "scale", "command", "data")}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(
            f"{path} is not a whole result file; get it again, or move it away and run the study again."
        ) from error
    return Result(**about, settings=settings, done=done)


def shown(folder: Path, study: Study) -> Result | None:
    """What there is to show of a study: the full result if there is any of it, or else the quick one."""
    scales: tuple[Scale, ...] = ("full", "quick")
    found = (read(path_of(folder, study.name, scale), study) for scale in scales)
    return next((result for result in found if result is not None and result.done), None)


def begun(path: Path, study: Study, scale: Scale, settings: Any, command: str, anew: bool) -> Result:
    """The result to go on with: what is in the file, if it was begun with the same settings."""
    fresh = Result(study.name, scale, settings, command, study.data(settings))
    there = None if anew else read(path, study)
    if there is None:
        return fresh
    if there.settings != settings:
        raise ConfigError(
            f"{path} was begun with other settings; measure into another folder with --out, "
            f"or throw it away with --anew."
        )
    return replace(fresh, done=there.done)
