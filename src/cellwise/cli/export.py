"""`cellwise export`: a model for where there is no cellwise, as a page or as an ONNX file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ..model import load
from ..web import pages
from .console import Console
from .play import Models, chosen


@dataclass(frozen=True)
class Web:
    """Writes the page of `cellwise play` into a folder that any static host can serve."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """An empty folder, or one that was written by this command before."""
    models: Models = ()
    """Show this model as well, one that comes with the package or your own; may be given several times."""

    def run(self) -> int:
        """Writes the files and says how many."""
        written = pages.write(self.folder, chosen(self.models))
        size = sum(path.stat().st_size for path in written)
        Console(stderr=True).print(
            f"Wrote {len(written)} files, {size:,} bytes, to {self.folder}.", soft_wrap=True, highlight=False
        )
        return 0


Export = Annotated[Web, tyro.conf.subcommand("web")]
