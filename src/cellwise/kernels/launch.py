"""Launching a CUDA kernel from inside a compiled JAX program.

XLA takes PTX as a custom call, so a kernel is part of the program like any other operation: in loops, under
`jit`, captured in CUDA graphs. Arguments are the pointers of the operands, then those of the results.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
from jax import Array

from . import nvrtc

TARGET = "__gpu$xla.gpu.ptx"


@dataclass(frozen=True)
class Kernel:
    """An entry of a file in `kernels/cuda`, with the definitions it is compiled for."""

    file: str
    entry: str
    definitions: tuple[tuple[str, str], ...]
    threads: int
    shared_floats: int
    cluster: int = 1
    """Blocks that run together; consecutive ones, and a grid is made of whole clusters."""
    hopper: bool = False
    """Whether it uses what only GPUs of the Hopper generation have."""


def launch(
    kernel: Kernel, blocks: int, results: Sequence[jax.ShapeDtypeStruct], *operands: Array
) -> list[Array]:
    """What `blocks` blocks of the kernel make of the operands."""
    # Code for `sm_90a` may use everything that this generation has, and runs on no other.
    target = architecture() + ("a" if kernel.hopper else "")
    ptx = nvrtc.compiled(kernel.file, target, kernel.definitions)
    places = ", ".join(f"{len(operands) + i} : i32" for i in range(len(results)))
    sizes = {"grid": (blocks, 1, 1), "block": (kernel.threads, 1, 1)}
    settings = [
        f'name = "{kernel.entry}"',
        'kernel_type = "ptx"',
        f"kernel_data = {_quoted(ptx)}",
        *(
            f"{name}_{axis} = {n} : i32"
            for name, ns in sizes.items()
            for axis, n in zip("xyz", ns, strict=True)
        ),
        f"shared_mem_bytes = {4 * kernel.shared_floats} : i32",
        f"output_indices = [{places}]",
    ]
    call = jax.ffi.ffi_call(
        TARGET,
        list(results),
        custom_call_api_version=2,
        legacy_backend_config="{" + ", ".join(settings) + "}",
    )
    return list(call(*operands))


def architecture() -> str:
    """The architecture of the GPU that programs run on, such as `sm_90`."""
    return "sm_" + str(jax.devices("gpu")[0].compute_capability).replace(".", "")


def multiprocessors() -> int:
    """How many blocks run at the same time at least."""
    return int(jax.devices("gpu")[0].core_count)


def refusal() -> str | None:
    """Why CUDA kernels cannot be launched here, or None."""
    if jax.default_backend() != "gpu":
        return "it needs an NVIDIA GPU"
    if not hasattr(jax.devices()[0], "compute_capability"):
        return "it needs an NVIDIA GPU"
    if int(architecture()[3:]) < 90:
        return f"it needs an NVIDIA GPU of the Hopper generation or newer, not {architecture()}"
    return nvrtc.problem()


def hopper_refusal() -> str | None:
    """Why kernels that are made for the Hopper generation cannot be launched here, or None."""
    if reason := refusal():
        return reason
    if architecture() != "sm_90":
        return f"it is made for GPUs of the Hopper generation and knows nothing of {architecture()}"
    return None


def _quoted(text: str) -> str:
    """The text as a string of XLA's configuration syntax."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(plain, escaped)
    return f'"{text}"'
