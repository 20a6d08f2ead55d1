"""Files that are either whole or absent: every write of the project goes through here."""

import contextlib
import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import FileError

_REMEDY = {
    errno.ENOSPC: "the disk is full; free some space and run the command again",
    errno.EDQUOT: "your disk quota is used up; free some space and run the command again",
    errno.EACCES: "permission was denied; choose another folder or change its permissions",
    errno.EPERM: "permission was denied; choose another folder or change its permissions",
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.ENOENT: "there is no such file or folder; check the path",
    errno.EISDIR: "it is a folder; name a file",
    errno.ENOTDIR: "a part of the path is a file, not a folder; check the path",
    errno.EEXIST: "a part of the path is a file, not a folder; check the path",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
}


@contextlib.contextmanager
def explained(action: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns an OSError inside the block into one sentence: `cannot ACTION PATH: REASON; REMEDY`."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDY.get(error.errno or 0, (error.strerror or str(error)).lower())
        raise FileError(f"Cannot {action} {os.fspath(path)}: {remedy}.") from error


@contextlib.contextmanager
def written_atomically(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a temporary path beside `path`; on success it replaces `path`, on any failure it is removed.

    The data is flushed to disk before the rename and the folder after it, so a reader, a crash or a
    `kill -9` sees the old file or the new one and never a part of one.
    """
    path = Path(path)
    with explained("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
            temporary.replace(path)
            sync_folder(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def sync_folder(folder: Path) -> None:
    """Makes a rename inside `folder` durable where the platform can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes `data` to `path`, all or nothing."""
    with written_atomically(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes `text` to `path` as UTF-8, all or nothing."""
    write_bytes(path, text.encode())


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Writes `value` as indented JSON with a final newline, all or nothing."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_bytes(path: str | os.PathLike[str], limit: int | None = None) -> bytes:
    """Reads a whole file, refusing one of more than `limit` bytes without reading more of it than that.

    A device or a pipe has no size that could be asked for, so it is read up to the limit to know.
    """
    with explained("read", path), Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if limit is None:
            return file.read()
        data = b"" if size > limit else file.read(limit + 1)
    if len(data) > limit or size > limit:
        raise FileError(
            f"{os.fspath(path)} has {f'{size:,}' if size > limit else 'too many'} bytes, more than the "
            f"{limit:,} allowed here; check the file."
        )
    return data


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises FileError if no file can appear at `path`, so that no long work is done for nothing."""
    if Path(path).is_dir():
        raise FileError(f"Cannot write {os.fspath(path)}: {_REMEDY[errno.EISDIR]}.")
    with explained("write", path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=Path(path).parent):
            pass


def sha256_of(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file in hexadecimal."""
    with explained("read", path), Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
