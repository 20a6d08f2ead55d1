import numpy as np
import pytest

from cellwise.puzzles.dihedral import NAMES, dihedral, inverse

GRID = np.array([[1, 2, 3], [4, 5, 6]])
EXPECTED = {
    "identity": [[1, 2, 3], [4, 5, 6]],
    "rotate 90": [[3, 6], [2, 5], [1, 4]],
    "rotate 180": [[6, 5, 4], [3, 2, 1]],
    "rotate 270": [[4, 1], [5, 2], [6, 3]],
    "flip columns": [[3, 2, 1], [6, 5, 4]],
    "flip rows": [[4, 5, 6], [1, 2, 3]],
    "transpose": [[1, 4], [2, 5], [3, 6]],
    "anti-transpose": [[6, 3], [5, 2], [4, 1]],
}


@pytest.mark.parametrize("k", range(8))
def test_every_map_does_what_its_name_says(k: int):
    np.testing.assert_array_equal(dihedral(GRID, k), EXPECTED[NAMES[k]])


@pytest.mark.parametrize("k", range(8))
def test_inverse_undoes_the_map_on_any_leading_axes(k: int):
    grids = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)
    np.testing.assert_array_equal(dihedral(dihedral(grids, k), inverse(k)), grids)


def test_the_maps_are_a_group_of_eight():
    grid = np.arange(9).reshape(3, 3)
    images = {dihedral(grid, k).tobytes() for k in range(8)}
    assert len(images) == 8
    assert {dihedral(dihedral(grid, j), k).tobytes() for j in range(8) for k in range(8)} == images


@pytest.mark.parametrize("k", range(8))
def test_the_result_never_shares_memory_with_the_argument(k: int):
    assert not np.shares_memory(dihedral(GRID, k), GRID)
