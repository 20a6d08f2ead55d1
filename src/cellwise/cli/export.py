"""`cellwise export`: a model for where there is no cellwise, as a page or as an ONNX file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from .. import onnx_step
from ..files import check_writable
from ..model import load
from ..web import pages
from .arguments import option
from .console import Console
from .play import Models


@dataclass(frozen=True)
class Web:
    """Writes the page of `cellwise play` into a folder that any static host can serve."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """An empty folder, or one that was written by this command before."""
    models: Models = ()
    """Show this model as well, one that comes with the package or your own; may be given several times."""

    def run(self) -> int:
        """Writes the files and says how many."""
        written = pages.write(self.folder, pages.choose(self.models))
        size = sum(path.stat().st_size for path in written)
        Console(stderr=True).print(
            f"Wrote {len(written)} files, {size:,} bytes, to {self.folder}.", soft_wrap=True, highlight=False
        )
        return 0


@dataclass(frozen=True)
class Onnx:
    """Writes one step of a model as an ONNX file, for any runtime that knows ONNX.

    Its inputs are `state`, `given` and `fire`, its output is `next`; docs/play.md has an example.
    """

    path: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL.onnx")]
    """The file to write."""
    model: Annotated[str, option("NAME|DIR", "maze-ood")] = "maze-ood"
    """A model that comes with the package, or the folder of your own."""

    def run(self) -> int:
        """Writes the file and says what it needs."""
        model = load(self.model)
        check_writable(self.path)
        onnx_step.save(model, self.path)
        Console(stderr=True).print(
            f"Wrote {self.path}: one step of {model.name}, ONNX opset {onnx_step.OPSET}.",
            soft_wrap=True,
            highlight=False,
        )
        return 0


COMMANDS = {"web": Web, "onnx": Onnx}

Export = Annotated[Web, tyro.conf.subcommand("web")] | Annotated[Onnx, tyro.conf.subcommand("onnx")]
