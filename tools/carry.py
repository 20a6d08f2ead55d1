"""Packs a run into a few small files, to go on with it on a machine to which only such files can be brought.

    python tools/carry.py pack runs/arc carried        # carried/arc.000, arc.001, …, each at most 15 MiB
    python tools/carry.py unpack carried runs          # runs/arc, ready for cellwise train --resume

Of the checkpoints only the newest goes along, and the model only if asked for with --model, since the
checkpoint has its weights. With --light the pool of a run on pictures stays behind as well, which is nearly
all of it; the run then goes on with a new one. A folder of guesses is packed in the same way. The parts are
a tar file cut into pieces; its SHA-256 is part of their names, so that pieces of two packings are not mixed
up.
"""

import argparse
import hashlib
import io
import json
import re
import tarfile
from pathlib import Path

from safetensors import numpy as safetensors
from safetensors import safe_open

from cellwise.errors import CellwiseError, RunError
from cellwise.files import read_bytes, write_bytes
from cellwise.training.folder import RunFolder, digest_of

MIB = 2**20
_PART = re.compile(r"(?P<name>[A-Za-z0-9_-][A-Za-z0-9._-]*)\.(?P<digest>[0-9a-f]{16})\.(?P<number>\d{3})")


def pack(run: Path, out: Path, limit: int = 15, model: bool = False, light: bool = False) -> list[Path]:
    """Writes the parts of a run and removes older ones of the same name; returns their paths."""
    if not (run / "config.json").exists():
        raise RunError(f"There is no run in {run}; name the folder of a run or of guesses.")
    stale = {path for _, path in RunFolder(run).checkpoint_files()[:-1]}
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as bundle:
        for path in sorted(run.rglob("*")):
            inside = path.relative_to(run)
            unwanted = path in stale or any(part.startswith(".") for part in inside.parts)
            if path.is_file() and not unwanted and (model or inside.parts[0] != "model"):
                if light and inside.parts[0] == "checkpoints":
                    _add(bundle, f"{run.name}/{inside}", without_pool(path))
                else:
                    bundle.add(path, arcname=f"{run.name}/{inside}")
    whole = data.getvalue()
    digest, size = hashlib.sha256(whole).hexdigest()[:16], limit * MIB
    out.mkdir(parents=True, exist_ok=True)
    parts = []
    for number, first in enumerate(range(0, len(whole), size)):
        parts.append(out / f"{run.name}.{digest}.{number:03d}")
        write_bytes(parts[-1], whole[first : first + size])
    for path in out.iterdir():
        match = _PART.fullmatch(path.name)
        if match and match["name"] == run.name and path not in parts:
            path.unlink()
    return parts


def without_pool(path: Path) -> bytes:
    """A checkpoint of a run on pictures without the states it works on."""
    with safe_open(path, framework="numpy") as file:
        about = json.loads(file.metadata()["cellwise"])
        names = [name for name in file.keys() if not name.startswith("pool.")]  # noqa: SIM118 not a mapping
        if "recovery.pace" not in names:
            raise RunError(f"{path} belongs to a run that needs its pool; leave out --light.")
        tensors = {name: file.get_tensor(name) for name in names}
    about["tensors_sha256"] = digest_of(tensors)
    return safetensors.save(tensors, {"cellwise": json.dumps(about)})


def _add(bundle: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    bundle.addfile(member, io.BytesIO(data))


def unpack(folder: Path, out: Path) -> list[Path]:
    """Restores every run whose parts are in a folder; returns the runs' folders."""
    found: dict[tuple[str, str], list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if match := _PART.fullmatch(path.name):
            found.setdefault((match["name"], match["digest"]), []).append(path)
    if not found:
        raise RunError(f"{folder} holds no parts of a run; name the folder that `pack` wrote.")
    runs = []
    for (name, digest), parts in found.items():
        whole = b"".join(read_bytes(path) for path in parts)
        if hashlib.sha256(whole).hexdigest()[:16] != digest:
            raise RunError(f"A part of {name} is missing or damaged in {folder}; bring all of them again.")
        out.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(whole)) as bundle:
            bundle.extractall(out, filter="data")
        runs.append(out / name)
    return runs


def main() -> int:
    """Packs or unpacks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("pack", "unpack"))
    parser.add_argument("source", type=Path, help="the run, or the folder with its parts")
    parser.add_argument("target", type=Path, help="the folder for the parts, or for the runs")
    parser.add_argument("--limit", type=int, default=15, help="MiB in a part")
    parser.add_argument("--model", action="store_true", help="take the model folder along")
    parser.add_argument("--light", action="store_true", help="leave the pool of a run on pictures behind")
    words = parser.parse_args()
    try:
        if words.what == "pack":
            paths = pack(words.source, words.target, words.limit, words.model, words.light)
        else:
            paths = unpack(words.source, words.target)
    except CellwiseError as error:
        raise SystemExit(str(error)) from None
    for path in paths:
        print(path, f"{path.stat().st_size / MIB:.1f} MiB" if path.is_file() else "")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
