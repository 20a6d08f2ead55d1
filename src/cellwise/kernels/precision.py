"""How exact the factors of matrix products are: a choice that a recipe or a thought makes and JAX carries.

It is kept where JAX keeps it, in `jax.default_matmul_precision`, because that is part of what a compiled
program is looked up by. Whatever the choice, sums, states and the gradients of weights are float32.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import jax

from ..errors import ConfigError

Precision = Literal["float32", "tf32", "bf16"]
"""Factors with 24, 11 or 8 bits; a path or a device that gains nothing by fewer takes more."""

JAX_NAMES: dict[str, str] = {"float32": "highest", "tf32": "tensorfloat32", "bf16": "bfloat16"}
_AS_GOOD_AS_FLOAT32 = ("highest", "float32", "high", "tensorfloat32_x3", "tf32_tf32_f32_x3")
_BF16 = ("bfloat16", "bf16_bf16_f32")


@contextmanager
def products(precision: str) -> Iterator[None]:
    """Makes the programs that are traced inside multiply with this precision."""
    if precision not in JAX_NAMES:
        raise ConfigError(f"The precision cannot be {precision!r}; choose float32, tf32 or bf16.")
    with jax.default_matmul_precision(JAX_NAMES[precision]):
        yield


def current() -> Precision:
    """The precision in force; unless told otherwise, JAX takes TF32 where a device has it."""
    return named(jax.config.jax_default_matmul_precision)  # type: ignore[attr-defined]


def named(chosen: object) -> Precision:
    """What one of JAX's names for a precision comes to."""
    name = str(chosen).lower()
    return "float32" if name in _AS_GOOD_AS_FLOAT32 else "bf16" if name in _BF16 else "tf32"
