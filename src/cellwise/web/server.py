"""A server for the page, for this machine alone: a fixed set of files from memory, and nothing else."""

import errno
import http.server
import socketserver
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from ..errors import ConfigError
from ..files import explained
from .pages import KINDS, POLICY

HOST = "127.0.0.1"

_HEADERS = {
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Serves files, by their paths, at `address`; port 0 takes any that is free."""

    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes], port: int) -> None:
        self.files = dict(files)
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                raise ConfigError(
                    f"Port {port} cannot be had; choose another with --port, or 0 for any that is free."
                ) from error
            with explained("open a port on", HOST):
                raise

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/"


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers GET and HEAD for the known files."""

    server_version = "cellwise"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Sends a file."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Sends what a file's answer begins with."""
        self._answer(with_body=False)

    def _answer(self, with_body: bool) -> None:
        assert isinstance(self.server, Server)
        port, files = self.server.server_port, self.server.files
        path = self.path.partition("?")[0].removeprefix("/") or "index.html"
        # A page of someone else's that got its name to lead here must not read what is served here.
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            status, body, kind = 403, b"This server answers to its own address only.\n", "text/plain"
        elif path in files:
            status, body = 200, files[path]
            kind = KINDS[PurePosixPath(path).suffix]
        else:
            status, body, kind = 404, b"There is no such file.\n", "text/plain"
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Says nothing: the terminal is for people."""
