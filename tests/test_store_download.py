import errno
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cellwise.errors import DataError, FileError
from cellwise.puzzles import catalog, store
from cellwise.puzzles.download import download
from test_archive import sudoku_csv
from test_store import files_in, folder, message, tiny

CONTENT = sudoku_csv([1, 2, 3]).encode()
__all__ = ["folder"]  # the fixture that puts the store into a temporary folder


class Server(ThreadingHTTPServer):
    """Serves CONTENT; `moods` says how each request is treated, then all is well."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.moods: deque[str] = deque()
        self.seen: list[str | None] = []
        self.release = threading.Event()
        self.etag = '"one"'
        self.content = CONTENT

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/tiny.csv"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_) -> None:
        pass

    def do_GET(self) -> None:
        mood = self.server.moods.popleft() if self.server.moods else "well"
        self.server.seen.append(self.headers["Range"])
        if mood.isdigit():
            self.send_response(int(mood))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if mood.startswith("to "):
            self.send_response(302)
            self.send_header("Location", mood[3:])
            self.end_headers()
            return
        body, start = b"<html>Log in</html>" if mood == "other" else self.server.content, 0
        asked = self.headers["Range"]
        if asked and mood != "whole" and self.headers["If-Range"] == self.server.etag:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            self.send_response(206)
            shown = start + 1 if mood == "shifted" else start
            self.send_header("Content-Range", f"bytes {shown}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        if mood != "unmarked":
            self.send_header("ETag", self.server.etag)
        if mood != "endless":
            self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        rest = body[start:]
        if mood in ("cut", "unmarked"):
            rest = rest[: len(rest) // 2]
        elif mood == "stall":
            self.wfile.write(rest[: len(rest) // 2])
            self.server.release.wait(10)
            return
        self.wfile.write(rest)


@pytest.fixture
def server(monkeypatch):
    server = Server()
    thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.01))
    thread.start()
    monkeypatch.setitem(catalog.DATASETS, "tiny", tiny(server.url))
    monkeypatch.setattr(store, "download", partial(download, timeout=0.7, pause=0.001))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield server
    server.release.set()
    server.shutdown()
    server.server_close()
    thread.join()


HALF = f"bytes={len(CONTENT) // 2}-"


@pytest.mark.parametrize(
    ("moods", "ranges"),
    [
        ([], [None]),
        (["endless"], [None]),
        (["500", "503", "429"], [None] * 4),
        (["cut"], [None, HALF]),
        (["stall"], [None, HALF]),
        (["cut", "whole"], [None, HALF]),
        (["cut", "416"], [None, HALF, None]),
        (["cut", "shifted"], [None, HALF, None]),
        (["unmarked"], [None, None]),
        (["cut", "500", "500", "500"], [None, *[HALF] * 4]),
    ],
)
def test_a_moody_server_is_outlived(server, folder, moods, ranges):
    server.moods.extend(moods)
    (path,) = store.fetch("tiny")
    assert path.read_bytes() == CONTENT
    assert server.seen == ranges
    assert files_in(folder) == ["tiny/.lock", "tiny/manifest.json", "tiny/tiny.csv"]
    assert store.verify("tiny")[0].source == server.url


def test_what_is_here_is_not_fetched_again_unless_it_is_damaged(server, folder):
    (path,) = store.fetch("tiny")
    store.fetch("tiny")
    assert len(server.seen) == 1
    path.write_bytes(CONTENT[:-2] + b"4\n")
    store.fetch("tiny")
    assert len(server.seen) == 2 and path.read_bytes() == CONTENT


def test_a_changed_file_is_not_patched_together(server):
    server.moods.extend(["cut"] + ["500"] * 4)
    with pytest.raises(DataError):
        store.fetch("tiny")
    server.etag, server.content = '"two"', sudoku_csv([7, 8, 9]).encode()
    (path,) = store.fetch("tiny")
    assert path.read_bytes() == server.content


def test_redirects_lead_to_web_addresses_only(server, folder):
    server.moods.append(f"to {server.url}")
    store.fetch("tiny")
    assert len(server.seen) == 2
    (folder / "tiny" / "tiny.csv").unlink()
    for place in ("file:///etc/hostname", "ftp://127.0.0.1/x", server.url):
        server.moods.extend([f"to {place}"] * 20)
        assert message(DataError, store.fetch, "tiny") == (
            f"{server.url} cannot be fetched because it redirects to {place}; get the file another way and "
            "hand its folder over with --from."
        )
        server.moods.clear()


def test_only_web_addresses_are_opened(tmp_path):
    for url in ("file:///etc/hostname", "ftp://127.0.0.1/x", "/etc/hostname", "data:,x"):
        assert message(DataError, download, url, tmp_path / "x", print).startswith(
            f"{url} is not a web address"
        )


def test_a_file_that_is_not_there(server, folder):
    server.moods.append("404")
    assert message(DataError, store.fetch, "tiny") == (
        f"{server.url} cannot be fetched because the server answered 404; get the file another way and "
        "hand its folder over with --from."
    )
    assert len(server.seen) == 1 and files_in(folder) == ["tiny/.lock"]


def test_wrong_bytes_are_not_kept(server, folder):
    server.moods.append("other")
    error = message(DataError, store.fetch, "tiny")
    assert error.startswith(
        f"What {server.url} sent is not tiny: {folder}/tiny/.partial/tiny.csv has no column"
    )
    assert files_in(folder) == ["tiny/.lock"]


GIVING_UP = (
    "check the network and run the same command again, it goes on where it stopped if the server allows."
)


def test_a_server_that_never_recovers(server, folder):
    server.moods.extend(["503"] * 9)
    assert message(DataError, store.fetch, "tiny") == (
        f"{server.url} could not be downloaded (the server answered 503); {GIVING_UP}"
    )
    assert len(server.seen) == 5


def test_a_server_that_always_cuts_at_the_same_place(server):
    server.moods.extend(["unmarked"] * 9)
    half = len(CONTENT) // 2
    assert message(DataError, store.fetch, "tiny") == (
        f"{server.url} could not be downloaded (the connection ended after {half:,} of {len(CONTENT):,} "
        f"bytes); {GIVING_UP}"
    )
    assert len(server.seen) == 5


def test_a_stalled_server_and_a_later_call(server, folder):
    server.moods.extend(["stall", "503", "503", "503", "503"])
    error = message(DataError, store.fetch, "tiny")
    assert "(the server answered 503)" in error
    assert files_in(folder) == ["tiny/.lock", "tiny/.partial/tiny.csv", "tiny/.partial/tiny.csv.json"]
    store.fetch("tiny")
    assert server.seen[-1] == HALF


def test_no_server_at_all(server, tmp_path):
    server.moods.extend(["stall"])
    url = "http://127.0.0.1:9/x"
    error = message(DataError, download, url, tmp_path / "x", lambda *_: None, timeout=0.2, pause=0.001)
    assert error.startswith(f"{url} could not be downloaded (") and error.endswith(GIVING_UP)
    stalled = message(
        DataError, download, server.url, tmp_path / "y", lambda *_: None, timeout=0.1, pause=0.001, attempts=1
    )
    assert "(no answer for 0.1 seconds)" in stalled


def test_a_full_disk(server, folder, monkeypatch):
    opened = pathlib.Path.open

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, data):
            self.file.write(data[:9])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open_full(self, mode="r", *args, **kwargs):
        file = opened(self, mode, *args, **kwargs)
        return Full(file) if mode == "ab" else file

    monkeypatch.setattr(pathlib.Path, "open", open_full)
    assert message(FileError, store.fetch, "tiny") == (
        f"Cannot write {folder}/tiny/.partial/tiny.csv: the disk is full; free some space and run the "
        "command again."
    )
    assert files_in(folder) == ["tiny/.lock"] and len(server.seen) == 1


def test_two_fetches_at_once_make_one_download(server, capsys):
    server.moods.append("stall")
    results: list[list] = []
    threads = [threading.Thread(target=lambda: results.append(store.fetch("tiny"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(results) == 2 and results[0] == results[1]
    assert server.seen == [None, HALF]
    assert "waiting for it" in capsys.readouterr().err


def test_a_killed_download_goes_on(server, folder):
    server.moods.append("stall")
    program = (
        "import sys; from pathlib import Path; from cellwise.puzzles.download import download; "
        "download(sys.argv[1], Path(sys.argv[2]), lambda *_: None)"
    )
    partial_file = folder / "tiny" / ".partial" / "tiny.csv"
    process = subprocess.Popen([sys.executable, "-c", program, server.url, str(partial_file)])
    deadline = time.monotonic() + 20
    while not (partial_file.exists() and partial_file.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    server.release.set()
    assert not (folder / "tiny" / "tiny.csv").exists()
    (path,) = store.fetch("tiny")
    assert path.read_bytes() == CONTENT
    assert server.seen == [None, HALF]
