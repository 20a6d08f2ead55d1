"""What a number was obtained with: device, versions, commit."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import jax

from .version import __version__


def device() -> str:
    """The device as a person knows it, such as `NVIDIA H200` or `AMD EPYC, 2 cores`."""
    first = jax.devices()[0]
    if first.platform != "cpu":
        return f"{len(jax.devices())} × {first.device_kind}" if len(jax.devices()) > 1 else first.device_kind
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{_processor()}, {cores} core{'s' if cores != 1 else ''}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """The versions that matter for a number."""
    names = ("jax", "jaxlib", "numpy", "optax")
    return {"cellwise": __version__, "python": platform.python_version()} | {n: version(n) for n in names}


def commit() -> str | None:
    """The commit this package runs from, with `+` if files differ from it; None outside a checkout.

    `CELLWISE_COMMIT` names it on a machine to which the files were copied without their history.
    """
    here = Path(__file__).parent
    if named := os.environ.get("CELLWISE_COMMIT"):
        return named
    try:
        seen = [
            subprocess.run(
                ["git", "-C", here, *words], capture_output=True, text=True, timeout=10, check=True
            )
            for words in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "--", "."))
        ]
    except (OSError, subprocess.SubprocessError):
        return None
    head, changed = (run.stdout.strip() for run in seen)
    return head + ("+" if changed else "")
