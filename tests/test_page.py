"""The page in a real browser, as people use it and misuse it."""

import gzip
import http.server
import io
import json
import threading
import time

import numpy as np
from PIL import Image

import page as web
from cellwise.model import load
from cellwise.puzzles import sudoku
from cellwise.puzzles.maze_path import judge
from cellwise.web import pages

MAZE = "#model=maze-ood&maze=21.perfect.4&speed=9"


def solve(tab):
    tab.js("cellwise.playing || document.getElementById('play').click()")
    tab.wait("cellwise.frame.solved && !cellwise.edits.size")


def path_doors(grid):
    """Cells of the path between two rooms, in raster order."""
    return [(y, x) for y, x in np.argwhere(grid == 1).tolist() if y % 2 != x % 2]


# Mazes


def test_a_wall_across_the_path_is_walked_around(chromium, address):
    with web.opened(chromium, address, MAZE) as tab:
        solve(tab)
        before, path = web.board(tab)
        doors = path_doors(path)
        tab.drag(web.at(tab, doors[len(doors) // 2]))
        tab.wait("document.getElementById('verdict-text').textContent.startsWith('No way leads')")
        tab.click("#help-out")
        tab.wait("!cellwise.fault && cellwise.frame.solved")
        after, detour = web.board(tab)
        assert (before != after).sum() == 2 and not np.array_equal(path == 1, detour == 1)
        assert judge(after[None], None, detour[None]).valid[0]
        assert tab.text("#verdict-text").startswith("Verified after ")
        assert tab.text("#verdict-text").endswith(" steps: the marked cells are a path from end to end.")


def test_what_is_wiped_heals(chromium, address):
    with web.opened(chromium, address, MAZE) as tab:
        solve(tab)
        tab.click("#play")
        _, before = web.board(tab)
        tab.js("document.querySelector('input[value=wipe]').click()")
        tab.choose("#brush", 6)
        tab.drag(web.at(tab, (8, 8), (8, 14), (14, 14)))
        tab.wait("!cellwise.frame.solved")
        assert tab.text("#verdict-text") == "Paused."
        solve(tab)
        assert np.array_equal(web.board(tab)[1], before)


def test_an_end_is_moved_while_cells_think(chromium, address):
    with web.opened(chromium, address, MAZE) as tab:
        solve(tab)
        inputs, path = web.board(tab)
        (first, _), rooms = np.argwhere(inputs == 3).tolist(), np.argwhere(path == 1).tolist()
        there = next(
            [y, x] for y, x in rooms if y % 2 and x % 2 and abs(y - first[0]) + abs(x - first[1]) > 6
        )
        tab.drag(web.at(tab, first, there))
        tab.wait(f"cellwise.board.inputs[{there[0] * 23 + there[1]}] === 3 && !cellwise.edits.size")
        solve(tab)
        inputs, path = web.board(tab)
        assert (inputs == 3).sum() == 2 and inputs[tuple(first)] == 0
        assert judge(inputs[None], None, path[None]).valid[0]


def test_time_goes_back_and_forward(chromium, address):
    with web.opened(chromium, address, MAZE) as tab:
        tab.js("cellwise.steps(37)")
        late = web.numbers(tab, "cellwise.mind.ask('state', {trial: 0})")
        tab.choose("#time", 5)
        tab.wait("cellwise.frame.steps === 5")
        assert tab.text("#count") == "5 steps"
        tab.choose("#time", 37)
        tab.wait("cellwise.frame.steps === 37")
        assert np.array_equal(web.numbers(tab, "cellwise.mind.ask('state', {trial: 0})"), late)
        # What was changed on the way is changed again, and not before.
        tab.js("cellwise.put(24, 2)")
        tab.wait("cellwise.frame.inputs[24] === 2")
        tab.js("cellwise.steps(10)")
        later = web.numbers(tab, "cellwise.mind.ask('state', {trial: 0})")
        tab.choose("#time", 30)
        tab.wait("cellwise.frame.steps === 30 && cellwise.board.inputs[24] !== 2")
        tab.choose("#time", 47)
        tab.wait("cellwise.frame.steps === 47 && cellwise.board.inputs[24] === 2")
        assert np.array_equal(web.numbers(tab, "cellwise.mind.ask('state', {trial: 0})"), later)
        # Going on from before it leads elsewhere.
        tab.choose("#time", 30)
        tab.wait("cellwise.frame.steps === 30")
        tab.js("cellwise.steps(2)")
        assert tab.js("[cellwise.frame.steps, cellwise.frame.furthest]") == [32, 32]
        # So does an interference in the past.
        tab.choose("#time", 11)
        tab.wait("cellwise.frame.steps === 11")
        tab.js("cellwise.wipe(8, 8, 3)")
        tab.wait("cellwise.frame.furthest === 11")


def test_every_view_is_drawn(chromium, address):
    with web.opened(chromium, address, MAZE) as tab:
        tab.js("cellwise.steps(20)")
        pictures = set()
        for view in ("answer", "confidence", "activity", "dormant", "channel"):
            tab.choose("#view", view)
            tab.wait(f"cellwise.view.startsWith('{view}') && !cellwise.busy")
            tab.js("cellwise.look()")
            pictures.add(tab.js("document.getElementById('board').toDataURL()"))
        assert len(pictures) == 5


def test_a_cell_shows_its_numbers(chromium, address):
    with web.opened(chromium, address, MAZE) as tab:
        assert tab.text("#inside-text") == "Point at a cell to see the numbers in it."
        tab.js("cellwise.steps(9)")
        ((x, y),) = web.at(tab, (1, 1))
        tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        tab.wait("cellwise.frame.inside?.length === 16")
        state = web.numbers(tab, "cellwise.mind.ask('state', {trial: 0})").reshape(23, 23, 16)
        assert np.array_equal(web.numbers(tab, "cellwise.frame.inside"), state[1, 1])
        assert tab.text("#inside-text").startswith("Row 2, column 2: ")


def test_adaptive_firing_saves_updates(chromium, address):
    with web.opened(chromium, address, MAZE) as tab:
        tab.choose("#adaptive", True)
        tab.js("cellwise.steps(150)")
        updates, possible = tab.js("[cellwise.frame.updates, cellwise.frame.possible]")
        assert 0.35 < updates / possible < 0.75


def test_a_maze_that_the_model_does_not_know_is_announced(chromium, address):
    with web.opened(chromium, address, "#maze=21.braided.3") as tab:
        assert tab.text("#verdict-text") == (
            "This maze has loops; the cells have only learnt mazes without, and most likely fail."
        )
        tab.choose("#kind", "open")
        tab.wait("cellwise.made?.kind === 'open' && !cellwise.busy")


def test_speed_and_largest_maze(chromium, address):
    """The stated floors, where the model is; results/web.json has what was measured."""
    with web.opened(chromium, address, "#maze=59.perfect.1") as tab:
        tab.js("cellwise.computeOn('cpu')")
        measure = (
            "(async (ms) => { await cellwise.mind.ask('begin', {board: cellwise.board, seed: 0, trials: 1});"
        )
        measure += (
            " const t = performance.now(); await cellwise.mind.ask('run', {count: 1e6, budget: ms, tireless:"
        )
        measure += (
            " true}); const s = performance.now() - t; return (await cellwise.mind.ask('frame', {})).steps"
        )
        measure += " / s * 1000; })(1000)"
        assert tab.js(measure) >= 60
        tab.js("cellwise.newMaze(201, 'perfect', 0)")
        tab.js("cellwise.steps(2)")
        assert tab.js("[cellwise.board.width, cellwise.frame.steps]") == [203, 2]


# Sudokus


def test_a_sudoku_is_typed_and_verified(chromium, address):
    puzzle, target = web.without_fives()
    with web.opened(chromium, address, "#model=fives") as tab:
        tab.choose("#grade", "empty")
        tab.wait("cellwise.board.inputs.every(token => !token) && !cellwise.busy")
        tab.js("document.getElementById('board').focus(); cellwise.cursor = 0")
        for row in puzzle:
            for digit in row:
                tab.keys(*([str(digit)] if digit else []), "ArrowRight")
            tab.keys("ArrowDown", *["ArrowLeft"] * 8)
        tab.wait("!cellwise.edits.size")
        inputs, _ = web.board(tab)
        assert np.array_equal(inputs, puzzle)
        solve(tab)
        assert np.array_equal(web.board(tab)[1], target)
        assert tab.text("#verdict-text").endswith(" steps: every row, column and box holds each digit once.")
        # A clue that is taken back in mid-thought is found again.
        tab.js("cellwise.playing && document.getElementById('play').click()")
        five = np.flatnonzero(target.ravel() == 5)[0]
        tab.js(f"cellwise.cursor = {five}")
        tab.keys("5")
        tab.wait(f"cellwise.frame.inputs[{five}] === 5 && !cellwise.edits.size")
        tab.keys("Backspace")
        tab.wait(f"cellwise.frame.inputs[{five}] === 0 && !cellwise.edits.size")
        solve(tab)


def test_a_sudoku_is_pasted_or_refused(chromium, address):
    puzzle, _ = web.without_fives()
    with web.opened(chromium, address, "#model=fives") as tab:
        tab.choose("#paste", sudoku.pretty(puzzle))
        tab.wait("cellwise.board.inputs.filter(token => token).length === 72 && !cellwise.busy")
        tab.choose("#paste", "12x")
        tab.wait("!document.getElementById('notice').hidden")
        assert tab.text("#notice-text") == (
            "The Sudoku contains “x”; write digits 1-9, and a dot for an empty cell."
        )
        tab.choose("#paste", "123")
        tab.wait("document.getElementById('notice-text').textContent.startsWith('The Sudoku has 3 cells')")


def test_trials_are_given_up_while_one_goes_on(chromium, address):
    with web.opened(chromium, address, "#model=fives&trials=4") as tab:
        assert tab.js("document.querySelectorAll('#trials button').length") == 4
        tab.js("cellwise.steps(64)")
        assert tab.js("cellwise.frame.trials.filter(trial => trial.alive).length") == 1
        assert tab.js("document.querySelectorAll('#trials .pruned').length") == 3
        tab.choose("#time", 3)
        tab.wait("cellwise.frame.steps === 3 && cellwise.frame.trials.every(trial => trial.alive)")


def test_without_a_sudoku_model_there_is_no_sudoku(chromium):
    with web.served([load("maze-ood")]) as address, web.opened(chromium, address) as tab:
        assert tab.js(
            "document.getElementById('puzzles').hidden && document.getElementById('sudoku-box').hidden"
        )


# Sharing


def test_a_link_brings_the_scene_back(chromium, address):
    with web.opened(
        chromium, address, "#maze=21.perfect.4&seed=7&rate=0.6&noise=0.1&view=confidence&adaptive=1"
    ) as tab:
        tab.drag(web.at(tab, *[(1, x) for x in range(1, 6)]))
        tab.wait("cellwise.edits.size === 0 && cellwise.made === null")
        scene = tab.js("cellwise.address")
        inputs, _ = web.board(tab)
        tab.js("cellwise.begin()")
        start = web.numbers(tab, "cellwise.mind.ask('state', {trial: 0})")
    with web.opened(chromium, address, f"#{scene}") as tab:
        assert np.array_equal(web.board(tab)[0], inputs)
        assert np.array_equal(web.numbers(tab, "cellwise.mind.ask('state', {trial: 0})"), start)
        assert tab.js("[cellwise.seed, cellwise.view]") == [7, "confidence"]
        assert tab.js("cellwise.settings") == {"rate": 0.6, "noise": 0.1, "adaptive": True}
        assert tab.js("cellwise.address") == scene


def test_the_exported_folder_works_on_any_host(chromium, tmp_path):
    """A plain static server, the page in a subfolder, no headers of ours."""
    pages.write(tmp_path / "a" / "site", [load("maze-ood")])

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=tmp_path)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as host:
        threading.Thread(target=host.serve_forever, daemon=True).start()
        with web.opened(chromium, f"http://127.0.0.1:{host.server_port}/a/site/", "#maze=9.perfect.1") as tab:
            solve(tab)
        host.shutdown()


def test_pictures_and_films_are_made(chromium, address):
    with web.opened(chromium, address, "#maze=9.perfect.1") as tab:
        tab.js("cellwise.steps(30)")
        made = "import('./record.js').then(r => r.{}(cellwise, () => 0)).then(b => b.arrayBuffer())"
        made += ".then(a => new Uint8Array(a))"
        still = Image.open(io.BytesIO(web.numbers(tab, made.format("picture"), np.uint8).tobytes()))
        assert still.format == "PNG" and min(still.size) >= 1000
        moving = Image.open(io.BytesIO(web.numbers(tab, made.format("movingPicture"), np.uint8).tobytes()))
        assert moving.format == "GIF" and moving.n_frames == 31
        moving.seek(30)
        drawn = np.asarray(moving.convert("RGB"), int)
        scale = drawn.shape[0] // 11
        middles = drawn[scale // 2 :: scale, scale // 2 :: scale]
        inputs, _ = web.board(tab)
        assert np.abs(middles[inputs == 2] - [43, 47, 56]).max() <= 8
        film = web.numbers(tab, made.format("film"), np.uint8).tobytes()
        assert len(film) > 1000 and film[:4] == b"\x1a\x45\xdf\xa3"
        assert tab.js("cellwise.frame.steps") == 30


# People


def test_the_keyboard_alone(chromium, address):
    with web.opened(chromium, address, "#maze=9.perfect.1") as tab:
        inputs, _ = web.board(tab)
        tab.keys("Tab", "Enter")
        assert tab.js("document.activeElement.id") == "board"
        assert inputs[1, 1] != 2
        tab.keys("ArrowUp", "ArrowDown", " ")
        tab.wait("!cellwise.edits.size")
        here = divmod(tab.js("cellwise.cursor"), 11)
        changed, _ = web.board(tab)
        assert here == (1, 1) and np.argwhere(changed != inputs).tolist() == [[1, 1]]
        assert tab.text("#cursor-says") == "Row 2, column 2: wall"
        row, column = np.argwhere(changed == 3)[0].tolist()
        tab.keys(*["ArrowDown"] * (row - 1), *["ArrowRight"] * (column - 1), "e")
        assert tab.text("#cursor-says") == f"Row {row + 1}, column {column + 1}: an end, picked up"
        tab.keys("ArrowUp" if row > 5 else "ArrowDown", "e")
        tab.wait("!cellwise.edits.size")
        moved, _ = web.board(tab)
        assert moved[row, column] == 0 and (moved == 3).sum() == 2
        tab.keys("Tab", ".", ".")
        tab.wait("cellwise.frame.steps === 2")
        tab.keys("p")
        tab.wait("cellwise.playing")
        tab.keys("n")
        tab.wait("cellwise.made !== null")


def test_controls_have_names(chromium, address):
    with web.opened(chromium, address) as tab:
        tree = tab.call("Accessibility.getFullAXTree")["nodes"]
        roles = {"button", "slider", "combobox", "spinbutton", "checkbox", "radio", "textbox", "application"}
        named = [(n["role"]["value"], n.get("name", {}).get("value")) for n in tree if not n.get("ignored")]
        controls = [(role, name) for role, name in named if role in roles]
        assert len(controls) > 15
        assert [control for control in controls if not control[1]] == []


def test_a_phone(chromium, address):
    with web.opened(chromium, address, MAZE, width=360, height=740, mobile=True) as tab:
        assert tab.js("document.documentElement.scrollWidth") == 360
        left, _, width, _ = tab.box("#board")
        assert left >= 0 and left + width <= 360
        inputs, _ = web.board(tab)
        free = np.argwhere(inputs == 0).tolist()[0]
        tab.touch(web.at(tab, free))
        tab.wait("cellwise.made === null && !cellwise.edits.size")
        changed, _ = web.board(tab)
        assert changed[tuple(free)] == 2
        for button in tab.js("[...document.querySelectorAll('.transport button')].map(b => b.offsetHeight)"):
            assert button >= 38
        tab.call(
            "Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=2, mobile=True
        )


def test_out_of_sight_cells_stand_still(chromium, address):
    with web.opened(chromium, address, "#maze=201.perfect.1", width=360, height=600, mobile=True) as tab:
        tab.js("document.getElementById('play').click()")
        tab.wait("cellwise.frame.steps > 2")
        tab.js("scrollTo(0, 1e5)")
        tab.wait("!cellwise.visible")
        tab.js("cellwise.mind.ask('frame', {})")
        before = tab.js("cellwise.frame.steps")
        time.sleep(0.3)
        assert tab.js("cellwise.frame.steps") <= before + 1
        tab.js("scrollTo(0, 0)")
        tab.wait(f"cellwise.frame.steps > {before + 1}")


def test_dark_and_light(chromium, address):
    grounds = set()
    for dark in (False, True):
        with web.opened(chromium, address, dark=dark) as tab:
            grounds.add(tab.js("getComputedStyle(document.body).backgroundColor"))
            tab.click("#theme")
            assert tab.js("cellwise.theme") == ("light" if dark else "dark")
    assert len(grounds) == 2


def test_the_first_paint_is_quick_and_nothing_moves_unasked(chromium, address):
    with web.opened(chromium, address) as tab:
        tab.wait("performance.getEntriesByName('first-contentful-paint').length")
        assert tab.js("performance.getEntriesByName('first-contentful-paint')[0].startTime") < 1000
        assert tab.js("cellwise.playing") is False
    with web.opened(chromium, address, still=False) as tab:
        tab.wait("cellwise.playing && cellwise.frame.steps > 5")


def test_how_it_works_opens_and_closes(chromium, address):
    with web.opened(chromium, address) as tab:
        tab.click("#how-open")
        tab.wait("document.getElementById('how').open")
        tab.keys("Escape")
        tab.wait("!document.getElementById('how').open")


def test_the_page_is_small():
    packed = {path: len(gzip.compress(data, 9)) for path, data in pages.files([]).items()}
    assert sum(packed.values()) <= 300_000
    assert json.loads(pages.files([])["models/index.json"]) == {"models": []}


def test_time_is_left_to_others(chromium, address):
    """A thought at rest computes nothing: steps stand still until somebody interferes."""
    with web.opened(chromium, address, "#maze=9.perfect.1&speed=9", still=False) as tab:
        tab.wait("cellwise.frame.resting")
        before = tab.js("cellwise.frame.steps")
        time.sleep(0.2)
        assert tab.js("cellwise.frame.steps") == before
        tab.js("cellwise.wipe(5, 5, 2)")
        tab.wait(f"cellwise.frame.steps > {before}")
