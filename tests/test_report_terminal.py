import io

import numpy as np
import pytest
from rich.console import Console

from cellwise.model import Frame
from cellwise.puzzles import maze_text, sudoku
from cellwise.puzzles.maze import PATH, START
from cellwise.puzzles.maze_generator import generate
from cellwise.report import terminal
from cellwise.report.palette import DARK, LIGHT, maze_colours
from cellwise.report.terminal import Drawing, least_sure, plain_text, watch
from test_report import CLUES, SMALL, SOLVED


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("COLORFGBG", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


def screen(width=80, height=40, **options) -> Console:
    options = {"force_terminal": True, "color_system": "truecolor", **options}
    return Console(file=io.StringIO(), width=width, height=height, _environ={}, **options)


def printed(drawing: Drawing, **options) -> str:
    console = screen(**options)
    console.print(drawing, soft_wrap=True)
    return console.file.getvalue()


def squares(drawing: Drawing, width=80) -> np.ndarray:
    """The colours of the squares on the screen, two to a character."""
    console = screen(width)
    rows = [[[], []]]
    for text, style, _ in console.render(drawing, console.options):
        if text == "\n":
            rows.append([[], []])
        elif set(text) == {"▀"}:
            rows[-1][0] += [tuple(style.color.triplet)] * len(text)
            rows[-1][1] += [tuple(style.bgcolor.triplet) if style.bgcolor else None] * len(text)
    return [half for row in rows for half in row if half and half[0] is not None]


# ---- terminal --------------------------------------------------------------------------------------------


def test_half_blocks_show_every_cell():
    maze = generate(59, 1, 0).target[0]
    drawn = squares(Drawing(maze))
    np.testing.assert_array_equal(np.array(drawn), maze_colours(maze, None, DARK))
    lines = printed(Drawing(maze), color_system=None).split("\n")
    assert lines[:61] == plain_text(maze).split("\n")


def test_a_maze_of_61_cells_takes_31_lines_of_61_columns():
    console = screen(record=True)
    console.print(Drawing(generate(59, 1, 0).target[0]), soft_wrap=True)
    lines = console.export_text().rstrip("\n").split("\n")
    assert len(lines) == 31 and {len(line) for line in lines} == {61} and set("".join(lines)) == {"▀"}


def test_snapshot_of_a_small_maze():
    wall, start, path, goal = "126;132;144", "240;228;66", "86;180;233", "240;228;66"
    assert printed(Drawing(SMALL)) == (
        f"\x1b[38;2;{wall};48;2;{wall}m▀\x1b[0m\x1b[38;2;{wall};48;2;{start}m▀\x1b[0m"
        f"\x1b[38;2;{wall};48;2;{path}m▀\x1b[0m\x1b[38;2;{wall};48;2;{goal}m▀\x1b[0m"
        f"\x1b[38;2;{wall};48;2;{wall}m▀\x1b[0m\n\x1b[38;2;{wall}m▀▀▀▀▀\x1b[0m\n"
    )


@pytest.mark.parametrize("width", [80, 203, 7])
def test_a_large_maze_is_scaled_down_and_its_path_stays_in_one_piece(width):
    maze = generate(201, 1, 1).target[0]
    factor = -(-203 // width)
    drawn = np.array(squares(Drawing(maze), width))
    assert drawn.shape == (-(-203 // factor), -(-203 // factor), 3)
    for row, column in np.argwhere(maze == PATH):
        assert tuple(drawn[row // factor, column // factor]) in (DARK.path, DARK.start)
    ends = {(row // factor, column // factor) for row, column in np.argwhere(maze == START)}
    assert {(r, c) for r, c in np.argwhere((drawn == DARK.start).all(axis=2)).tolist()} == ends
    note = f"Scaled down: each square stands for {factor} x {factor} cells."
    assert (note in printed(Drawing(maze), width=width)) == (factor > 1)


@pytest.mark.parametrize("rows", [1, 2, 3, 10, 16, 23, 30, 31, 32])
def test_a_drawing_keeps_to_its_lines(rows):
    maze = generate(59, 1, 0).target[0]
    lines = printed(Drawing(maze, rows=rows)).rstrip("\n").split("\n")
    assert len(lines) <= max(2, rows)
    assert (len(lines) == 31) == (rows >= 31)


@pytest.mark.parametrize(
    "options", [{"no_color": True}, {"force_terminal": False}, {"color_system": None}], ids=str
)
def test_without_colours_the_answer_is_text_that_can_be_parsed(options):
    if options.get("force_terminal") is False:
        options = {**options, "color_system": "auto"}
    maze = generate(201, 1, 0).target[0]
    assert printed(Drawing(maze), **options) == maze_text.to_text(maze)
    assert printed(Drawing(SOLVED, clues=CLUES), **options) == sudoku.pretty(SOLVED) + "\n"


def test_no_color_in_the_environment():
    console = Console(file=io.StringIO(), force_terminal=True, _environ={"NO_COLOR": "1", "TERM": "xterm"})
    console.print(Drawing(SMALL), soft_wrap=True)
    assert console.file.getvalue() == maze_text.to_text(SMALL)


def test_sudoku_clues_are_bold_found_digits_coloured_and_unsure_ones_faded():
    confidence = np.ones((9, 9), np.float32)
    confidence[0, 2] = 0.0
    text = printed(Drawing(SOLVED, confidence, CLUES))
    found, unsure = (";".join(map(str, colour)) for colour in (DARK.found, DARK.unsure))
    first = text.split("\n")[0]
    assert first.startswith(f" \x1b[1m5\x1b[0m \x1b[1m3\x1b[0m \x1b[38;2;{unsure}m4\x1b[0m | ")
    assert text.count("\x1b[1m") == (CLUES > 0).sum()
    assert text.count(found) == (CLUES == 0).sum() - 1


def test_clashing_digits_stand_out():
    wrong = SOLVED.copy()
    wrong[0, 2] = 5  # A second 5 in its row, which is a clue, and in its box.
    text = printed(Drawing(wrong, clues=CLUES))
    clash = f"\x1b[38;2;{';'.join(map(str, DARK.clash))}m"
    assert f"{clash}5" in text.split("\n")[0] and text.count(clash) == 2  # and the found 5 of its column


@pytest.mark.parametrize(
    ("declared", "palette"), [("0;15", LIGHT), ("0;default;7", LIGHT), ("15;0", DARK), ("", DARK)]
)
def test_the_terminal_may_declare_its_background(monkeypatch, declared, palette):
    monkeypatch.setenv("COLORFGBG", declared)
    assert squares(Drawing(SMALL))[0][0] == palette.wall


# ---- watching --------------------------------------------------------------------------------------------


class Clock:
    """Time that passes only when somebody sleeps or works."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        assert seconds >= 0
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(terminal, "time", clock)
    return clock


def frames(count, clock=None, work=0.0):
    for step in range(count):
        if clock is not None:
            clock.now += work
        yield Frame(step, SMALL, np.full(SMALL.shape, step / count, np.float32))


def slow_to_draw(monkeypatch, clock, cost):
    drawn = []

    def update(self, renderable, refresh):
        drawn.append(str(renderable.renderables[0]))
        clock.now += cost

    monkeypatch.setattr(terminal.Live, "update", update)
    return drawn


OPEN = SMALL == PATH


def test_quick_frames_are_slowed_down_and_all_shown(monkeypatch, clock):
    drawn = slow_to_draw(monkeypatch, clock, 0.001)
    last = watch(frames(11), 11, OPEN, console=screen())
    assert last.step == 10 and len(drawn) == 11
    assert 1.4 < clock.now < 1.6
    assert drawn[0] == "step 0 · confidence 0.00 · least 0.00"


@pytest.mark.parametrize("cost", [0.001, 0.03, 0.2])
def test_many_quick_frames_never_take_longer_than_asked(monkeypatch, clock, cost):
    drawn = slow_to_draw(monkeypatch, clock, cost)
    watch(frames(1000, clock, 0.001), 1000, OPEN, seconds=5.0, console=screen())
    assert len(drawn) > 10 and 4.9 < clock.now < 5 + cost + 0.01


def test_drawing_takes_a_tenth_when_thinking_is_slow(monkeypatch, clock):
    drawn = slow_to_draw(monkeypatch, clock, 0.1)
    watch(frames(200, clock, 0.2), 200, OPEN, seconds=5.0, console=screen())
    assert len(drawn) > 10 and clock.now < 40 * 1.12
    assert drawn[-1].endswith(" · 5 steps/s")


def test_the_first_frames_do_not_count_for_the_speed(monkeypatch, clock):
    drawn = slow_to_draw(monkeypatch, clock, 0.0)

    def compiling():
        for frame in frames(10):
            clock.now += 60.0 if frame.step == 1 else 0.01
            yield frame

    watch(compiling(), 10, OPEN, console=screen())
    assert [text.rpartition("· ")[2] for text in drawn[1:]] == ["least 0.10"] + ["100 steps/s"] * 8


def test_an_interruption_leaves_the_terminal_clean():
    console = screen()

    def interrupted():
        yield from frames(2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(interrupted(), 2, OPEN, seconds=0.01, console=console)
    output = console.file.getvalue()
    assert output.count("\x1b[?25l") == 1 and output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")
    after_last_frame = output[output.rindex("▀") :]
    # Three lines were drawn (the status and two of maze); all are erased again.
    assert after_last_frame.count("\x1b[2K") >= 3 and "▀" not in after_last_frame[1:]
    assert not console._live_stack


def test_the_end_leaves_the_terminal_clean_too():
    console = screen()
    assert watch(frames(3), 3, OPEN, seconds=0.01, console=console).step == 2
    output = console.file.getvalue()
    assert "step 2 · confidence 0.67 · least 0.67" in output
    assert output[output.rindex("▀") :].count("\x1b[2K") >= 3


def test_nothing_is_drawn_where_there_is_no_terminal(clock):
    console = screen(force_terminal=False, color_system="auto")
    assert watch(frames(100), 100, OPEN, console=console).step == 99
    assert console.file.getvalue() == "" and clock.now == 0


def test_watching_nothing_is_a_mistake_of_ours():
    with pytest.raises(ValueError, match="there is no frame to watch"):
        watch(iter(()), 1, OPEN, console=screen())


def test_the_least_sure_is_an_open_cell():
    confidence = np.array([[0.1, 0.96, 0.3, 0.2]], np.float32)
    assert least_sure(confidence, np.array([[False, True, True, False]])) == pytest.approx(0.3)
    assert least_sure(confidence, np.zeros((1, 4), bool)) == 1.0
