"""The arrays of a run by their names, and back."""

from typing import TypeVar

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path

from .folder import Tensors

T = TypeVar("T")
"""The state of a run, of any kind."""


def to_tensors(run: object) -> Tensors:
    """Every array of a run by its name, such as `average.update.w_in` or `pool.state`.

    Of bfloat16, which NumPy does not know, the bits.
    """
    leaves, _ = tree_flatten_with_path(jax.device_get(run))
    arrays = {keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in leaves}
    return {name: a.view(np.uint16) if a.dtype == ml_dtypes.bfloat16 else a for name, a in arrays.items()}


def from_tensors(like: T, tensors: Tensors) -> T | None:
    """A run of the form of `like`, whose leaves have only a shape and a type; None if the form differs."""
    leaves, form = tree_flatten_with_path(like)
    expected = {keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
    if {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()} != {
        name: (leaf.shape, np.uint16 if leaf.dtype == ml_dtypes.bfloat16 else leaf.dtype)
        for name, leaf in expected.items()
    }:
        return None
    # Copies, because an iteration reuses the memory of the state it gets.
    return form.unflatten(
        jnp.array(tensors[name].view(leaf.dtype), copy=True) for name, leaf in expected.items()
    )


def first_infinite(tensors: Tensors) -> str | None:
    """The name of an array with a number that is not finite, if there is one."""
    for name, tensor in tensors.items():
        if tensor.dtype.kind == "f" and not np.isfinite(tensor).all():
            return name
    return None
