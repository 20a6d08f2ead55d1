"""Reading what others have written: damaged or dishonest files end in one sentence, never in a surprise."""

import contextlib
import csv
import errno
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from ..errors import DataError
from ..files import explained


def refuse(name: str | Path, problem: str) -> NoReturn:
    """Raises the DataError of a file that is not what it should be."""
    raise DataError(f"{name} {problem}; fetch the dataset again or check where the file came from.")


@contextlib.contextmanager
def decoding(path: Path) -> Iterator[None]:
    """Turns whatever a decoder says about damaged bytes into one sentence."""
    with explained("read", path):
        try:
            yield
        except (
            gzip.BadGzipFile,
            tarfile.TarError,
            zipfile.BadZipFile,
            zlib.error,
            lzma.LZMAError,
            csv.Error,
            struct.error,
            EOFError,
            NotImplementedError,  # zipfile: an unknown compression method
            RuntimeError,  # zipfile: an encrypted member
            ValueError,  # tarfile, zipfile: nonsense numbers in headers
        ) as error:
            refuse(path, f"is damaged or of another kind ({str(error).rstrip('.') or 'it ends too early'})")
        except OSError as error:
            if error.errno == errno.EINVAL:  # zipfile: a place before the beginning
                refuse(path, "is damaged or of another kind (it points outside itself)")
            raise


@contextlib.contextmanager
def plain(path: Path) -> Iterator[io.BufferedIOBase]:
    """The file's bytes, unpacked if they are gzip, whatever the file is called."""
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if packed:
            with gzip.open(raw) as unpacked:
                yield unpacked
        else:
            yield raw


def member(bundle: zipfile.ZipFile, name: str, path: Path, limit: int) -> bytes:
    """One member of a zip file, never unpacked past `limit` bytes."""
    if name not in bundle.namelist():
        refuse(path, f"has no member {name}")
    with bundle.open(name) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        refuse(path, f"has a member {name} that is far too large")
    return data
