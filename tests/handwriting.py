"""Digits for tests: a printed one of every class, where MNIST's stand, in a few tones and widths."""

from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cellwise.puzzles.digits import Digits


@cache
def digits(side=28, per_class=4):
    """`per_class` digits of each class 0 to 9, `side` pixels wide."""
    images, labels = [], []
    for label in range(10):
        glyph = _glyph(label)
        for variant in range(per_class):
            width = max(1, round(glyph.width * 20 / glyph.height * (1 + 0.1 * variant)))
            box = np.asarray(glyph.resize((min(width, 20), 20), Image.Resampling.BOX), np.float32) / 255
            images.append(_centred(box) * (1 - 0.05 * variant))
            labels.append(label)
    return Digits(np.stack(images), np.array(labels, np.uint8)).resized(side)


def _glyph(label):
    image = Image.new("L", (200, 200))
    font = ImageFont.load_default(120.0)
    ImageDraw.Draw(image).text((100, 100), str(label), fill=255, font=font, anchor="mm", stroke_width=4)
    return image.crop(image.getbbox())


def _centred(box):
    """The centre of mass of a box in the middle of 28 x 28 pixels, as far as it fits."""
    whole = np.zeros((28, 28), np.float32)
    mass = box.sum()
    y, x = ((box.sum(1 - axis) * (np.arange(box.shape[axis]) + 0.5)).sum() / mass for axis in (0, 1))
    top, left = (
        int(np.clip(round(14 - at), 0, 28 - size)) for at, size in zip((y, x), box.shape, strict=True)
    )
    whole[top : top + box.shape[0], left : left + box.shape[1]] = box
    return whole


def drawing(puzzle, side=28, seed=0, lines=0, thick=None, margin=0, tone=0, ground=255):
    """A board as grey pixels: no lines or lines so many pixels wide, thick ones around boxes."""
    cells = len(puzzle)
    box = round(cells**0.5)
    thick = lines if thick is None else thick
    rng = np.random.default_rng(seed)
    table = digits(side).by_class(cells)
    widths = [thick if edge % box == 0 else lines for edge in range(cells + 1)]
    starts = np.concatenate([[0], np.cumsum([width + side for width in widths])])
    total = int(starts[-1]) - side
    ink = np.zeros((total, total), np.float32)
    for edge in range(cells + 1):
        ink[starts[edge] : starts[edge] + widths[edge]] = 1
        ink[:, starts[edge] : starts[edge] + widths[edge]] = 1
    for i, j in np.argwhere(puzzle > 0):
        top, left = starts[i] + widths[i], starts[j] + widths[j]
        ink[top : top + side, left : left + side] = table[puzzle[i, j], rng.integers(table.shape[1])]
    ink = np.pad(ink, margin)
    return np.rint(ground + (tone - ground) * ink).astype(np.uint8)
