"""Pictures of others, decoded with care: nothing large, nothing damaged, nothing that PIL would guess at."""

import io
import os
import warnings

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from ..errors import PuzzleError
from ..files import read_bytes

MAX_PIXELS = 4096 * 4096
"""A larger picture is refused before it is decoded."""

_MAX_BYTES = 64 * 1024 * 1024
_FORMATS = ("PNG", "GIF", "BMP", "JPEG", "PPM", "WEBP")
_MODES = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "YCbCr")
"""How a pixel may be stored: eight bits or fewer for each of its colours."""


def read_pixels(
    path: str | os.PathLike[str], if_large: str, eight_bits: bool = False
) -> UInt8[np.ndarray, "h w 3"]:
    """The pixels of a PNG, GIF, BMP, JPEG, PPM or WebP file over a white ground.

    The number of pixels is checked before they are decoded; `if_large` is the remedy. With `eight_bits`, a
    picture that stores pixels in another way is refused, because its brightness would be lost.
    """
    name = os.fspath(path)
    data = read_bytes(path, _MAX_BYTES)
    too_large = PuzzleError(f"{name} has more than {MAX_PIXELS:,} pixels; {if_large}.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise too_large
                if eight_bits and image.mode not in _MODES:
                    raise PuzzleError(
                        f"{name} stores pixels as {image.mode}; save it as a grey PNG of 8 bits a pixel."
                    )
                opaque = Image.new("RGBA", image.size, "white")
                opaque.alpha_composite(image.convert("RGBA"))
        except Image.DecompressionBombError:
            raise too_large from None
        except PuzzleError:
            raise
        except Exception as error:  # A damaged file makes a decoder raise anything.
            raise PuzzleError(
                f"{name} is not a picture that can be read; save it as PNG and try again."
            ) from error
    return np.asarray(opaque.convert("RGB"))
