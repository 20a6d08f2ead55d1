"""One file over HTTP, with patience: stalls time out, failures are retried, a stopped download goes on."""

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..errors import DataError, FileError
from ..files import explained, write_json

_PASSING = {408, 425, 429}  # client errors that mean "later", as all 5xx do
_LARGEST = 8 << 30


class _NetworkError(Exception):
    """The network failed in a way that another attempt may mend."""


class _WebRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if not _is_web(newurl):  # the base class would follow ftp
            raise urllib.error.HTTPError(newurl, code, msg, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _is_web(url: str) -> bool:
    return urlsplit(url).scheme in ("http", "https")


def download(
    url: str,
    path: Path,
    report: Callable[[int, int | None], None],
    timeout: float = 30.0,
    attempts: int = 5,
    pause: float = 1.0,
) -> None:
    """Fetches `url` into `path` and goes on where an earlier call for the same `path` stopped.

    Only a part that the server can vouch for, by the ETag or date it sent with the beginning, is continued.
    `report` hears the bytes so far and in all. `attempts` counts failures in a row without a new byte;
    `pause` is the first wait in seconds, doubled each time.
    """
    if not _is_web(url):
        raise DataError(f"{url} is not a web address and was not opened; use one that starts with https://.")
    opener = urllib.request.build_opener(_WebRedirects)
    farthest, failures = 0, 0
    while True:
        try:
            _attempt(opener, url, path, report, timeout)
        except _NetworkError as interruption:
            have = _size(path)
            failures = 1 if have > farthest else failures + 1
            farthest = max(farthest, have)
            if failures >= attempts:
                raise DataError(
                    f"{url} could not be downloaded ({interruption}); check the network and run the same "
                    "command again, it goes on where it stopped if the server allows."
                ) from interruption
            time.sleep(pause * 2 ** (failures - 1))
        else:
            _note(path).unlink(missing_ok=True)
            return


def discard(path: Path) -> None:
    """Forgets a partial download."""
    path.unlink(missing_ok=True)
    _note(path).unlink(missing_ok=True)


def _attempt(
    opener: urllib.request.OpenerDirector,
    url: str,
    path: Path,
    report: Callable[[int, int | None], None],
    timeout: float,
) -> None:
    headers = {"User-Agent": "cellwise", "Accept-Encoding": "identity"}
    have, voucher = _size(path), _voucher(path, url)
    if have and voucher:
        headers |= {"Range": f"bytes={have}-", "If-Range": voucher}
    try:
        response: HTTPResponse = opener.open(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # what we have cannot be continued
            discard(path)
        if error.code == 416 or error.code in _PASSING or error.code >= 500:
            raise _NetworkError(f"the server answered {error.code}") from error
        answer = f"it redirects to {error.url}" if error.code < 400 else f"the server answered {error.code}"
        raise DataError(
            f"{url} cannot be fetched because {answer}; get the file another way and hand its folder over "
            "with --from."
        ) from error
    except (urllib.error.URLError, HTTPException, OSError, ValueError) as error:
        raise _NetworkError(_reason(error, timeout)) from error
    with response:
        continued = response.status == 206 and response.headers.get("Content-Range", "").startswith(
            f"bytes {have}-"
        )
        if response.status not in (200, 206) or (response.status == 206 and not continued):
            discard(path)
            raise _NetworkError(f"the server answered {response.status} with another part than asked for")
        try:
            with explained("write", path):
                _receive(response, url, path, have if continued else 0, report, timeout)
        except FileError:
            discard(path)
            raise


def _receive(
    response: HTTPResponse,
    url: str,
    path: Path,
    have: int,
    report: Callable[[int, int | None], None],
    timeout: float,
) -> None:
    """Writes the body behind the `have` bytes that are there."""
    total = have + response.length if response.length is not None else None
    path.parent.mkdir(parents=True, exist_ok=True)
    if not have:
        discard(path)
        etag = response.headers.get("ETag", "")
        voucher = response.headers.get("Last-Modified") if etag.startswith("W/") or not etag else etag
        write_json(_note(path), {"url": url, "voucher": voucher})
    with path.open("ab") as file:
        while True:
            report(have, total)
            try:
                piece = response.read1(1 << 17)
            except (HTTPException, OSError, ValueError) as error:
                raise _NetworkError(_reason(error, timeout)) from error
            if not piece:
                break
            have += len(piece)
            if have > _LARGEST:
                raise DataError(f"{url} sends more than any of our datasets holds; check the address.")
            file.write(piece)
            file.flush()  # so that a killed process has kept what it received
    if total is not None and have < total:
        raise _NetworkError(f"the connection ended after {have:,} of {total:,} bytes")


def _reason(error: Exception, timeout: float) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer for {timeout:g} seconds"
    return (str(cause) or type(cause).__name__).rstrip(".")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _note(path: Path) -> Path:
    """Where the address and voucher of a partial download are kept."""
    return path.with_name(path.name + ".json")


def _voucher(path: Path, url: str) -> str | None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        note = json.loads(_note(path).read_text())
        return note.get("voucher") if note.get("url") == url else None
    return None
