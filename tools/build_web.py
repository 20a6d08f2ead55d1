"""Compiles src/cellwise/web/step.ts to the wasm that the page loads.

    python tools/build_web.py            # writes src/cellwise/web/page/engine/step.wasm
    python tools/build_web.py --check    # only says whether it would be written as it is

Needs Node and AssemblyScript: `npm install assemblyscript@0.28.20` somewhere, and its `asc` on the PATH.
Only who changes step.ts needs them; the compiled file is part of the repository and of the wheel. It ends
with the hash of its source, by which a test tells that the two belong together.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "0.28.20"
WEB = Path(__file__).resolve().parents[1] / "src" / "cellwise" / "web"
SOURCE, TARGET = WEB / "step.ts", WEB / "page" / "engine" / "step.wasm"
OPTIONS = [
    "--enable",
    "simd",
    "--runtime",
    "stub",
    "--importMemory",
    "--noExportMemory",
    "--noAssert",
    "-O3",
    "--converge",
]
SECTION = b"source-sha256"


def compiler() -> str | None:
    """The compiler, if it is here in the right version."""
    asc = shutil.which("asc")
    if asc is None:
        return None
    told = subprocess.run([asc, "--version"], capture_output=True, text=True).stdout
    return asc if told.split()[-1:] == [VERSION] else None


def build(asc: str) -> bytes:
    """The compiled module with the hash of its source."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "step.wasm"
        subprocess.run([asc, SOURCE.name, *OPTIONS, "-o", str(out)], check=True, cwd=SOURCE.parent)
        return out.read_bytes() + stamp()


def stamp() -> bytes:
    """A section of a wasm module that holds the hash of the source and is ignored by every engine."""
    body = bytes([len(SECTION)]) + SECTION + hashlib.sha256(SOURCE.read_bytes()).hexdigest().encode()
    return bytes([0, len(body)]) + body


def main() -> int:
    """Builds, or checks that building would change nothing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    asc = compiler()
    if asc is None:
        print(f"AssemblyScript {VERSION} is not on the PATH; run npm install assemblyscript@{VERSION}.")
        return 2
    data = build(asc)
    if check:
        return int(data != TARGET.read_bytes())
    TARGET.write_bytes(data)
    print(f"Wrote {TARGET.name}, {len(data):,} bytes.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
