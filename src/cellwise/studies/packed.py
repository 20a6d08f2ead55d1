"""Maps in result files: small whole numbers or tokens as compressed text."""

import base64
import zlib

import numpy as np
from jaxtyping import Shaped, UInt8

from .study import Row


def pack(values: Shaped[np.ndarray, "..."]) -> Row:
    """An array of whole numbers; those above 255 are stored as 255."""
    small = np.clip(values, 0, 255).astype(np.uint8)
    return {"shape": list(small.shape), "zlib": base64.b64encode(zlib.compress(small.tobytes(), 9)).decode()}


def unpack(packed: Row) -> UInt8[np.ndarray, "..."]:
    """The array again."""
    data = zlib.decompress(base64.b64decode(packed["zlib"]))
    return np.frombuffer(data, np.uint8).reshape(packed["shape"])
