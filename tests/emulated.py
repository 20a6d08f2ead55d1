"""CUDA kernels on a CPU: their own source, compiled by the host's C++ compiler with `emulator/cuda.h`."""

import ctypes
import functools
import hashlib
import math
import shutil
import subprocess
import tempfile
from pathlib import Path

import jax
import numpy as np

from cellwise.kernels import launch

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent / "src" / "cellwise" / "kernels" / "cuda"
COMPILER = shutil.which("g++") or shutil.which("clang++")
FOLDER = tempfile.TemporaryDirectory(prefix="cellwise-emulated-")

STRIDES = (7, 5, 11, 1)
"""Orders in which threads take turns; the first that suits their number is used."""
launches = []
"""The kernels that were run, newest last."""


@functools.cache
def library(file, definitions):
    """The entries of a file that there are with these definitions, each as `run_` and its name."""
    entries = ("steps_forward", "steps_backward") if ("KEEP", "1") in definitions else ("steps_forward",)
    wrapper = "\n".join(
        [
            *(f"#define {key} {value}" for key, value in definitions),
            f'#include "{HERE / "emulator" / "cuda.h"}"',
            f'#include "{SOURCES / file}"',
            "#define RUN(entry) \\",
            '  extern "C" void run_##entry(void** args, int grid, int threads, int cluster, \\',
            "                              size_t shared, size_t stride) { \\",
            "    emulator::run(entry, args, grid, threads, cluster, shared, stride); \\",
            "  }",
            *(f"RUN({entry})" for entry in entries),
        ]
    )
    stem = Path(FOLDER.name) / hashlib.sha256(wrapper.encode()).hexdigest()[:16]
    stem.with_suffix(".cpp").write_text(wrapper + "\n")
    options = ["-std=c++20", "-O1", "-shared", "-fPIC", "-U_FORTIFY_SOURCE", "-Wno-unknown-pragmas"]
    command = [COMPILER, *options, "-o", str(stem.with_suffix(".so")), str(stem.with_suffix(".cpp"))]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return ctypes.CDLL(str(stem.with_suffix(".so")))


def entry(file, name, definitions):
    """A kernel's entry as a function of argument pointers and sizes."""
    return getattr(library(file, definitions), f"run_{name}")


def poisoned(result):
    """An array that nothing was written to."""
    whole = np.issubdtype(result.dtype, np.integer)
    return np.full(result.shape, np.iinfo(result.dtype).max if whole else np.nan, result.dtype)


def emulated(kernel, blocks, results, *operands):
    """`launch.launch` without a GPU; results start as NaN, so what a kernel leaves out shows."""

    def host(*arrays):
        run = entry(kernel.file, kernel.entry, kernel.definitions)
        ins = [np.ascontiguousarray(array) for array in arrays]
        outs = [poisoned(r) for r in results]
        pointers = (ctypes.c_void_p * (len(ins) + len(outs)))(*(a.ctypes.data for a in ins + outs))
        fibres = kernel.threads * kernel.cluster
        stride = next(n for n in STRIDES if math.gcd(n, fibres) == 1)
        sizes = (blocks, kernel.threads, kernel.cluster)
        run(pointers, *sizes, ctypes.c_size_t(kernel.shared_floats), ctypes.c_size_t(stride))
        launches.append(kernel)
        return outs

    return list(jax.pure_callback(host, list(results), *operands))


def install(patch, multiprocessors=8):
    """Makes paths that need a GPU run here, until `patch` is undone."""
    patch.setattr(launch, "launch", emulated)
    patch.setattr(launch, "refusal", lambda: None)
    patch.setattr(launch, "hopper_refusal", lambda: None)
    patch.setattr(launch, "multiprocessors", lambda: multiprocessors)


def count(patch):
    """Notes the kernels that a GPU runs, until `patch` is undone."""
    launched = launch.launch

    def counted(kernel, *rest):
        launches.append(kernel)
        return launched(kernel, *rest)

    patch.setattr(launch, "launch", counted)
