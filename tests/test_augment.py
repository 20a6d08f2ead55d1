import functools

import jax
import numpy as np
import pytest

from cellwise.puzzles import sudoku
from cellwise.puzzles.dihedral import dihedral
from cellwise.puzzles.sudoku_generator import generate_easy
from cellwise.puzzles.sudoku_symmetry import Symmetry
from cellwise.training.augment import augment_maze, augment_sudoku, draw_sudoku

BOARDS = generate_easy(8, seed=0)


@pytest.fixture(autouse=True)
def strict_promotion():
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        yield


@functools.cache
def compiled(function, **static):
    return jax.jit(functools.partial(function, **static))


def augmented(function, seed, target, given, **static):
    images = compiled(function, **static)(jax.random.key(seed), target, given)
    moved_target, moved_given = (np.asarray(image) for image in images)
    assert moved_target.dtype == np.uint8 and moved_given.dtype == bool
    return moved_target, moved_given


def drawn_symmetries(seed, count, bands):
    return compiled(draw_sudoku, count=count, bands=bands)(jax.random.key(seed))


def symmetries(draw):
    return [
        Symmetry(bool(transpose), *(tuple(part.tolist()) for part in parts))
        for transpose, *parts in zip(*(np.asarray(field) for field in draw), strict=True)
    ]


@pytest.mark.parametrize("bands", ["free", "tied"])
@pytest.mark.parametrize("per", ["sample", "batch"])
def test_sudoku_boards_become_what_the_drawn_symmetries_make_of_them(per, bands):
    for seed in range(4):
        target, given = augmented(augment_sudoku, seed, BOARDS.target, BOARDS.given, per=per, bands=bands)
        assert sudoku.is_solution(target * given, target).all()
        drawn = symmetries(drawn_symmetries(seed, len(BOARDS) if per == "sample" else 1, bands))
        drawn *= len(BOARDS) // len(drawn)
        assert (len(set(drawn)) > 1) == (per == "sample")
        for index, symmetry in enumerate(drawn):
            assert (target[index] == symmetry.apply(BOARDS.target[index])).all()
            assert (given[index] == symmetry.move(BOARDS.given[index])).all()


@pytest.mark.parametrize(("bands", "count", "size"), [("free", 20_000, 6**4), ("tied", 2000, 6**2)])
def test_sudoku_draws_reach_their_whole_group_evenly(bands, count, size):
    transpose, rows, columns, digits = map(np.asarray, drawn_symmetries(1, count, bands))
    for orders in (rows, columns):
        blocks = orders.reshape(count, 3, 3)
        assert (blocks // 3 == blocks[:, :, :1] // 3).all()
        assert (blocks % 3 == blocks[:, :1] % 3).all() == (bands == "tied")
        counts = np.unique(orders, axis=0, return_counts=True)[1]
        assert len(counts) == size
        assert chi_squared_per_degree(counts) < 1.6
    assert (rows == columns).all(axis=1).mean() < 2 / size
    assert 0.45 < transpose.mean() < 0.55
    assert (digits[:, 0] == 0).all() and (np.sort(digits) == np.arange(10)).all()
    renamed = np.stack([np.bincount(digits[:, digit], minlength=10)[1:] for digit in range(1, 10)])
    assert np.sum((renamed - count / 9) ** 2 / (count / 9)) / 64 < 1.6


def chi_squared_per_degree(counts):
    """About 1 for counts of equally likely outcomes."""
    expected = np.mean(counts)
    return np.sum((counts - expected) ** 2 / expected) / (len(counts) - 1)


def asymmetric_board(height, width):
    rng = np.random.default_rng(0)
    return rng.integers(0, 5, (1, height, width), np.uint8), rng.random((1, height, width)) < 0.5


@pytest.mark.parametrize(("height", "width", "ways"), [(5, 5, 8), (1, 1, 1), (3, 6, 4), (7, 2, 4)])
def test_maze_boards_reach_every_image_that_keeps_the_shape_evenly(height, width, ways):
    target, given = (np.repeat(cells, 800, axis=0) for cells in asymmetric_board(height, width))
    targets, givens = augmented(augment_maze, 0, target, given, per="sample")
    pairs = {
        (image.tobytes(), mask.tobytes())
        for image, mask in ((dihedral(target[0], k), dihedral(given[0], k)) for k in range(8))
        if image.shape == (height, width)
    }
    assert len(pairs) == ways
    drawn = [(image.tobytes(), mask.tobytes()) for image, mask in zip(targets, givens, strict=True)]
    assert set(drawn) == pairs
    assert all(0.75 < drawn.count(pair) * ways / 800 < 1.25 for pair in pairs)


@pytest.mark.parametrize("shape", [(5, 5), (3, 6)])
def test_maze_batches_share_one_map_that_changes_with_the_key(shape):
    target, given = (np.repeat(cells, 6, axis=0) for cells in asymmetric_board(*shape))
    seen = set()
    for seed in range(60):
        targets, givens = augmented(augment_maze, seed, target, given, per="batch")
        assert (targets == targets[0]).all() and (givens == givens[0]).all()
        seen.add(targets[0].tobytes())
    assert len(seen) == (8 if shape == (5, 5) else 4)


def test_the_same_key_gives_the_same_boards_and_another_key_others():
    first, again, other = (
        augmented(augment_sudoku, seed, BOARDS.target, BOARDS.given, per="sample", bands="free")[0]
        for seed in (3, 3, 4)
    )
    assert (first == again).all()
    assert (first != other).any(axis=(1, 2)).all()
