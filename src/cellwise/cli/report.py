"""`cellwise report`: one page with the paper and ours side by side."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ..files import write_text
from ..studies import figure, studies
from ..studies.page import Section, page
from ..studies.result import shown
from .console import Console
from .study import FOLDER


@dataclass(frozen=True)
class Report:
    """Writes the report of all studies: `report.html`, which needs no other file, and the figures.

    It computes nothing: all is drawn from result files, and what was not run is said to be so.
    """

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("out/report")
    """The folder to write."""
    results: Annotated[Path, tyro.conf.arg(metavar="DIR")] = FOLDER
    """The folder with the result files."""
    png: bool = False
    """Write each figure as .png as well."""

    def run(self) -> int:
        """Draws and writes."""
        sections = []
        for study in studies():
            result = shown(self.results, study)
            svg = None
            if result is not None and study.draw is not None:
                picture = figure.make(study, result)
                path = self.out / f"{study.name}.svg"
                figure.save(picture, path)
                if self.png:
                    figure.save(picture, path.with_suffix(".png"))
                svg = path.read_text()
            sections.append(Section(study, result, svg))
        write_text(self.out / "report.html", page(sections))
        Console(stderr=True).print(f"Written to {self.out / 'report.html'}.", soft_wrap=True, highlight=False)
        return 0
