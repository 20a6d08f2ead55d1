"""Collects what a machine without package installs lacks, as a folder that can be carried there.

    python tools/vendor.py                 # writes .vendor/ (pure Python, under 5 MB)
    PYTHONPATH=src:.vendor python …        # on the other machine

For machines that have JAX and NumPy but not every package cellwise needs, and cannot install them.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("tyro", "docstring-parser", "typeguard", "typing-extensions", "platformdirs", "beartype")


def main() -> None:
    """Writes the folder anew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / ".vendor", help="the folder to write")
    folder = parser.parse_args().out
    shutil.rmtree(folder, ignore_errors=True)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*install, "--no-deps", "--only-binary=:all:", "--target", str(folder), *PACKAGES], check=True
    )
    compiled = list(folder.rglob("*.so"))
    if compiled:
        raise SystemExit(f"{compiled[0]} is compiled for this machine; choose a pure-Python version of it.")
    for cache in list(folder.rglob("__pycache__")):
        shutil.rmtree(cache)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"Written to {folder}: {', '.join(PACKAGES)}, {size / 1e6:.1f} MB.")


if __name__ == "__main__":
    main()
