import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cellwise.errors import PuzzleError
from cellwise.puzzles.maze import Vocabulary
from cellwise.puzzles.maze_text import parse, to_text

DISTINCT = Vocabulary.DISTINCT


def test_every_character_has_its_token():
    np.testing.assert_array_equal(
        parse("#█ .\n*o·#\nG##S", DISTINCT), [[2, 2, 0, 0], [1, 1, 1, 2], [4, 2, 2, 3]]
    )
    np.testing.assert_array_equal(parse("s.\n.e", DISTINCT), [[3, 0], [0, 4]])
    np.testing.assert_array_equal(parse("E.\n.e", DISTINCT), [[3, 0], [0, 4]])
    np.testing.assert_array_equal(parse("g.\n.S"), [[3, 0], [0, 3]])


def test_byte_order_mark_windows_line_ends_and_blank_lines_around_do_no_harm():
    np.testing.assert_array_equal(parse("\ufeff\r\n\r\nS#\r\n G\r\n\r\n", DISTINCT), [[3, 2], [0, 4]])


def test_one_line_is_a_square():
    line = "S" + "# " * 449 + "G"
    grid = parse(line, DISTINCT)
    assert grid.shape == (30, 30)
    assert grid[0, 0] == 3 and grid[29, 29] == 4
    np.testing.assert_array_equal(grid[0, 1:4], [2, 0, 2])


def test_spaces_at_the_edges_are_free_cells():
    np.testing.assert_array_equal(parse(" S \n#G "), [[0, 3, 0], [2, 3, 0]])


LEGEND = "use # for walls, . or space for free cells, S and G for start and goal, * for the path"
REFUSALS = [
    ("", f"The maze is empty; {LEGEND}."),
    ("\n\n", f"The maze is empty; {LEGEND}."),
    ("S.#\n#x#", f"The maze contains 'x' at line 2, character 2; {LEGEND}."),
    ("\nS.#\n#\t#", f"The maze contains '\\t' at line 3, character 2; {LEGEND}."),
    (
        "S.#\n#.\n#.G",
        "Line 2 of the maze has 2 characters where most have 3; make all lines equally long, "
        "with . for free cells if an editor strips spaces at the end.",
    ),
    (
        "S.#\n#..\n#.G#",
        "Line 3 of the maze has 4 characters where most have 3; make all lines equally long, "
        "with . for free cells if an editor strips spaces at the end.",
    ),
    (
        "S" + " " * 897 + "G",
        "The maze is a single line of 899 characters, which is no square number; write one line per row.",
    ),
    ("#" * 2004 + "\n#", "The maze has 2 x 2,004 cells; use one of at most 2,003 cells a side."),
    ("#\n" * 2004, "The maze has 2,004 x 1 cells; use one of at most 2,003 cells a side."),
]


@pytest.mark.parametrize(("text", "sentence"), REFUSALS)
def test_a_refusal_names_the_place_and_the_remedy(text: str, sentence: str):
    with pytest.raises(PuzzleError) as refusal:
        parse(text)
    assert str(refusal.value) == sentence


def test_text_is_what_a_person_would_draw():
    grid = np.array([[2, 2, 2, 2], [2, 3, 1, 4], [2, 0, 2, 2]], np.uint8)
    assert to_text(grid) == "####\n#S*G\n#.##\n"
    assert to_text(np.minimum(grid, 3)) == "####\n#E*E\n#.##\n"


@settings(deadline=None, max_examples=50)
@given(
    arrays(np.uint8, st.tuples(st.integers(2, 9), st.integers(2, 9)), elements=st.integers(0, 2)),
    st.sampled_from(list(Vocabulary)),
    st.data(),
)
def test_text_round_trip(grid: np.ndarray, vocabulary: Vocabulary, data: st.DataObject):
    start, goal = data.draw(st.lists(st.integers(0, grid.size - 1), min_size=2, max_size=2, unique=True))
    grid.flat[start] = 3
    grid.flat[goal] = 4 if vocabulary is DISTINCT else 3
    np.testing.assert_array_equal(parse(to_text(grid), vocabulary), grid)


@settings(deadline=None, max_examples=200)
@given(st.text(st.sampled_from("#. SG*\n\r\tx\x00\u2028"), max_size=30))
def test_any_text_is_a_grid_or_a_sentence(text: str):
    try:
        grid = parse(text, DISTINCT)
    except PuzzleError as error:
        assert str(error).endswith(".")
    else:
        assert grid.max(initial=0) <= 4
        assert set(text) <= set("#. SG*\n\r")
