"""The files of the page: what is shipped, and beside it the models that it shows."""

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ..errors import ConfigError, FileError
from ..files import explained, read_bytes, write_bytes
from ..model import Model, load, shipped

PAGE = Path(__file__).parent / "page"

POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data: blob:; media-src blob:; base-uri 'none'; form-action 'none'"
)
"""What the page may do: compute and draw, and fetch from where it came from. It is in the page as well."""

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".safetensors": "application/octet-stream",
}
"""The media type of every kind of file that the page has."""


_PUZZLES = ("maze", "directed-maze", "sudoku")


def refusal(model: Model) -> str | None:
    """Why the page cannot show a model, or None."""
    if model.puzzle not in _PUZZLES:
        return f"it knows mazes and Sudokus, not {model.puzzle}"
    if model.automaton.step.update != "mlp" or model.automaton.step.channels % 4:
        return "it knows rules with one hidden layer and a multiple of four channels only"
    if model.puzzle != "sudoku" and model.size is not None:
        return "it knows no mazes of one size only"
    return None


def choose(names: Iterable[str]) -> list[Model]:
    """The models that are named, then those that come with the package and that the page can show."""
    named = [load(name) for name in names]
    for model in named:
        if why := refusal(model):
            raise ConfigError(f"The page cannot show {model.name}: {why}; name another model.")
    others = [model for model in map(load, shipped()) if refusal(model) is None]
    return named + sorted(others, key=lambda model: (model.puzzle != "maze", model.name))


def files(models: Iterable[Model]) -> dict[str, bytes]:
    """Every file of a page with these models, by its path below the page's address."""
    page = {
        path.relative_to(PAGE).as_posix(): read_bytes(path)
        for path in sorted(PAGE.rglob("*"))
        if path.suffix in KINDS
    }
    by_name: dict[str, Model] = {}
    for model in models:  # Of two with one name, the first.
        by_name.setdefault(model.name, model)
    for name, model in by_name.items():
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder)
            for file in ("config.json", "model.safetensors"):
                page[f"models/{name}/{file}"] = read_bytes(Path(folder) / file)
    index = [{"name": name, "puzzle": model.puzzle} for name, model in by_name.items()]
    page["models/index.json"] = json.dumps({"models": index}).encode() + b"\n"
    return page


def write(folder: Path, models: Iterable[Model]) -> list[Path]:
    """Writes the page into a folder, ready for any static host; refuses a folder that holds anything else."""
    with explained("write", folder):
        taken = folder.is_dir() and any(folder.iterdir()) and not (folder / "models" / "index.json").is_file()
    if taken:
        raise FileError(f"Cannot write the page into {folder}: it holds other files; choose an empty folder.")
    written = []
    for path, data in files(models).items():
        write_bytes(folder / path, data)
        written.append(folder / path)
    return written
