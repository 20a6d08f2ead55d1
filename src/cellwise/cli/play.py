"""`cellwise play`: the page on which people watch cells think, and break them."""

import webbrowser
from dataclasses import dataclass
from typing import Annotated

import tyro

from ..config import whole_number
from ..web.pages import choose, files
from ..web.server import Server
from .console import Console

Models = Annotated[
    tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(name="model", metavar="NAME|DIR")
]


@dataclass(frozen=True)
class Play:
    """Opens a page in the browser on which you draw a maze, watch the cells solve it, and break them.

    The page is served to this machine alone and computes in the browser. Ctrl-C stops it.
    """

    models: Models = ()
    """Show this model as well, one that comes with the package or your own; may be given several times."""
    port: Annotated[int, tyro.conf.arg(metavar="PORT")] = 8765
    """Where the page is served; 0 takes any port that is free."""
    no_browser: bool = False
    """Only serve the page, and open no browser."""

    def run(self) -> int:
        """Serves the page until Ctrl-C."""
        port = whole_number("The port", self.port, 0, 65535)
        with Server(files(choose(self.models)), port) as server:
            try:
                where = f"The page is at {server.address} – Ctrl-C stops it."
                Console().print(where, soft_wrap=True, highlight=False)
                if not self.no_browser:
                    webbrowser.open(server.address)
                server.serve_forever()
            except KeyboardInterrupt:  # The usual end, not a mishap.
                pass
        return 0
