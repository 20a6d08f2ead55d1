import numpy as np
import pytest

from cellwise.errors import ConfigError, DataError
from cellwise.puzzles.digits import Digits, prototypes, shrink


def some(count=60, side=28, classes=10):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, count).astype(np.uint8)
    return Digits(rng.random((count, side, side), np.float32), labels)


def test_a_smaller_pixel_is_the_mean_of_those_it_covers():
    digits = some(5)
    for side in (14, 7):
        factor, small = 28 // side, digits.resized(side)
        assert small.images.dtype == np.float32 and small.side == side
        for i, row, column in [(0, 0, 0), (3, side - 1, 2), (4, 5, side - 1)]:
            square = digits.images[
                i, factor * row : factor * (row + 1), factor * column : factor * (column + 1)
            ]
            np.testing.assert_allclose(small.images[i, row, column], square.mean(), rtol=1e-6)
    np.testing.assert_array_equal(digits.resized(28).images, digits.images)
    np.testing.assert_allclose(shrink(digits.images, 14).mean(), digits.images.mean(), rtol=1e-5)


def test_sizes_that_do_not_divide_are_refused():
    with pytest.raises(ConfigError) as refusal:
        some().resized(12)
    assert str(refusal.value) == (
        "Digits of 28 pixels cannot be drawn in 12; choose one of: 1, 2, 4, 7, 14, 28."
    )


def test_the_table_holds_every_digit_of_its_class_and_none_of_another():
    digits = some(300, 7)
    table = digits.by_class(9)
    largest = np.bincount(digits.labels)[1:].max()
    assert table.shape == (10, largest, 7, 7) and table.dtype == np.float32 and not table[0].any()
    for digit in range(1, 10):
        own = {image.tobytes() for image in digits.images[digits.labels == digit]}
        assert {image.tobytes() for image in table[digit]} == own
        often = np.unique([image.tobytes() for image in table[digit]], return_counts=True)[1]
        assert often.max() - often.min() <= 1


def test_a_prototype_is_the_mean_of_its_class():
    digits = some(200, 7)
    means = prototypes(digits, 4)
    assert means.shape == (5, 7, 7) and means.dtype == np.float32 and not means[0].any()
    for digit in range(1, 5):
        np.testing.assert_allclose(means[digit], digits.images[digits.labels == digit].mean(0), rtol=1e-5)


@pytest.mark.parametrize("what", [lambda d: d.by_class(9), lambda d: prototypes(d, 9)])
def test_a_class_without_digits_is_refused(what):
    digits = some(100)
    with pytest.raises(DataError) as refusal:
        what(digits[digits.labels != 7])
    assert str(refusal.value) == "There is no picture of the digit 7; hand over some of every class."
