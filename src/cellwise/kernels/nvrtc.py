"""CUDA source to PTX, by the compiler library that comes with JAX's CUDA packages.

Nothing is compiled when cellwise is installed, and no compiler has to be there: `jax[cuda13]` brings NVRTC,
which compiles a kernel for the sizes of a rule in about a second. Where it is missing, `problem` says so and
another path is chosen.
"""

import contextlib
import ctypes
import ctypes.util
import functools
import re
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from ..errors import CellwiseError

PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")
VERSION = "8.0"
NAMES = ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12")


class CompileError(CellwiseError):
    """A kernel that could not be compiled; a defect of cellwise or of the CUDA installation."""


@functools.cache
def _library() -> ctypes.CDLL | None:
    """NVRTC: the one of JAX's packages, else the system's."""
    for file in (*_packaged(), *NAMES, ctypes.util.find_library("nvrtc")):
        try:
            if file:
                return ctypes.CDLL(file)
        except OSError:
            continue
    return None


def _packaged() -> list[str]:
    """NVRTC's own file in each installed package that has one."""
    found = []
    for package in PACKAGES:
        try:
            paths = [Path(str(f.locate())) for f in files(package) or () if f.name.startswith("libnvrtc")]
        except PackageNotFoundError:
            continue
        for path in sorted(paths, key=lambda path: "builtins" not in path.name):
            if "builtins" in path.name:
                # NVRTC looks this one up by its bare name, which succeeds once it is loaded.
                with contextlib.suppress(OSError):
                    ctypes.CDLL(str(path))
            else:
                found.append(str(path))
    return found


def problem() -> str | None:
    """Why nothing can be compiled here, or None."""
    if _library() is None:
        return "CUDA's compiler library NVRTC was not found; install JAX with pip install 'jax[cuda13]'"
    return None


@functools.cache
def compiled(file: str, architecture: str, definitions: tuple[tuple[str, str], ...]) -> str:
    """The PTX of a file in `kernels/cuda` for an architecture such as `sm_90`."""
    library = _library()
    if library is None:
        raise CompileError(f"A CUDA kernel is needed, but {problem()}.")
    folder = Path(__file__).parent / "cuda"
    source = (folder / file).read_text()
    defines = [f"-D{name}={value}" for name, value in definitions]
    virtual = architecture.replace("sm_", "compute_")
    how = ("-std=c++17", f"-arch={virtual}", "-default-device", f"-I{folder}", *defines)
    options = [option.encode() for option in how]
    program = ctypes.c_void_p()
    _check(
        library,
        library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), file.encode(), 0, None, None),
    )
    try:
        array = (ctypes.c_char_p * len(options))(*options)
        failed = library.nvrtcCompileProgram(program, len(options), array)
        if failed:
            log = _text(library, program, library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog)
            raise CompileError(f"{file} does not compile with {' '.join(defines)}: {log.strip()}")
        ptx = _text(library, program, library.nvrtcGetPTXSize, library.nvrtcGetPTX)
        # The compiler may be newer than the driver, which reads no newer version of PTX than its own. Nothing
        # here needs more than the version that has clusters. Notes on which bytes of a load are used need a
        # later one, and are only notes.
        ptx = re.sub(r'^\s*\.pragma "used_bytes_mask[^"]*";\n', "", ptx, flags=re.MULTILINE)
        return re.sub(r"^\.version .*$", f".version {VERSION}", ptx, count=1, flags=re.MULTILINE)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, size_of: object, get: object) -> str:
    size = ctypes.c_size_t()
    _check(library, size_of(program, ctypes.byref(size)))  # type: ignore[operator]
    buffer = ctypes.create_string_buffer(size.value)
    _check(library, get(program, buffer))  # type: ignore[operator]
    return buffer.value.decode()


def _check(library: ctypes.CDLL, status: int) -> None:
    if status:
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise CompileError(f"NVRTC failed: {library.nvrtcGetErrorString(status).decode()}.")
