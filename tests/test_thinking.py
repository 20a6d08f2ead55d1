"""Many trajectories: the same whatever they share the device with, fewer where some are not needed."""

import jax
import numpy as np
import pytest

from cellwise.benchmarks import sudoku_ood
from cellwise.errors import ConfigError
from cellwise.model import load
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.sudoku_generator import generate_easy
from cellwise.thinking import crowd, stream
from cellwise.thinking.crowd import Crowd
from cellwise.thinking.mind import prepare
from cellwise.thinking.pruning import Pruning, survivors, tournament
from cellwise.thinking.schedule import PAPER, RELEASED, usual
from cellwise.thinking.seek import Budget, seek
from cellwise.thinking.stream import Look, Puzzles, Tasks
from cellwise.thinking.think import look_at
from test_model import untrained


@pytest.fixture(scope="module")
def model():
    return load("maze-ood")


@pytest.fixture(scope="module")
def mazes():
    return generate(9, 6, seed=77)


def puzzles_of(model, boards):
    inputs = boards.inputs
    return Puzzles(inputs, model.given(inputs), np.arange(len(inputs), dtype=np.int32))


def mind_of(model, boards, noise=None):
    return prepare(model.automaton, model.weights, model.given(boards.inputs), 0.8, noise)


class Recorder:
    """Writes down everything; ends trial `t` of row `r` after the step that `ends` has for (r, t)."""

    rest, early = None, True

    def __init__(self, steps, every, ends=None):
        self.looks, self.ends, self.seen = look_at(steps, every), ends or {}, {}

    def see(self, look: Look):
        ended = []
        for row, trial, done, grid, cells in zip(
            look.tasks.row, look.tasks.trial, look.done, look.grid, look.cells, strict=True
        ):
            self.seen[int(row), int(trial), int(done)] = (grid.copy(), cells.copy())
            ended.append(done >= self.ends.get((row, trial), 10**6))
        return np.array(ended, bool)

    def wanted(self, tasks, done):
        return np.ones(len(done), bool)


def in_crowds_of(monkeypatch, places, block):
    monkeypatch.setattr(stream, "sizes", lambda *_: (places, block))
    monkeypatch.setattr("cellwise.thinking.pruning.sizes", lambda *_: (places, block))


def tasks_of(boards, trials):
    rows = np.repeat(np.arange(boards, dtype=np.int32), trials)
    return Tasks(rows, np.tile(np.arange(trials, dtype=np.int32), boards))


def recorded(monkeypatch, model, boards, places, block, ends=None):
    in_crowds_of(monkeypatch, places, block)
    recorder = Recorder(20, 6, ends)
    tasks = tasks_of(len(boards), 3)
    noise = usual(model.puzzle, 0.3).over(20)
    effort = stream.stream(mind_of(model, boards, noise), puzzles_of(model, boards), tasks, 5, recorder)
    return recorder.seen, effort


ENDS = {(0, 0): 6, (1, 2): 12, (2, 1): 6, (3, 0): 18}


def test_mazes_are_the_same_to_the_last_bit_however_they_are_batched(monkeypatch, model, mazes):
    whole, effort = recorded(monkeypatch, model, mazes, 18, 18, ENDS)
    assert effort.asked == 18 * 20 and effort.saved == (20 - 6) * 2 + (20 - 12) + (20 - 18)
    for places, block in ((18, 5), (4, 2)):
        parts, again = recorded(monkeypatch, model, mazes, places, block, ENDS)
        assert parts.keys() == whole.keys() and again == effort
        for key, (grid, cells) in whole.items():
            assert grid.tobytes() == parts[key][0].tobytes()
            assert cells.tobytes() == parts[key][1].tobytes()


def test_sudokus_say_the_same_however_they_are_batched(monkeypatch):
    # Products of other shapes may be rounded otherwise, so it is the decoded grids that are equal.
    boards, model = generate_easy(3, seed=4), untrained(sudoku_ood.SUDOKU_OOD)
    whole, effort = recorded(monkeypatch, model, boards, 9, 9, ENDS)
    for places, block in ((4, 2),):
        parts, again = recorded(monkeypatch, model, boards, places, block, ENDS)
        assert parts.keys() == whole.keys() and again == effort
        for key, (grid, cells) in whole.items():
            assert grid.tobytes() == parts[key][0].tobytes()
            assert np.allclose(cells, parts[key][1], atol=1e-5)


def test_those_who_leave_make_room_and_their_blocks_are_not_computed(monkeypatch, model, mazes):
    computed = []
    real = Crowd.advance

    def advance(self, first, steps):
        computed.append((-(-len(first) // self.block), steps))
        real(self, first, steps)

    monkeypatch.setattr(Crowd, "advance", advance)
    ends = {(row, trial): 6 for row in range(6) for trial in range(3) if (row, trial) != (5, 2)}
    _, effort = recorded(monkeypatch, model, mazes, 8, 2, ends)
    # 18 trajectories: two crowds of eight for six steps, then two, of which one goes on alone.
    assert [blocks for blocks, _ in computed] == [4, 4, 1, 1, 1, 1]
    assert effort.taken == 17 * 6 + 20


def test_too_little_memory_halves_the_crowd_and_says_so(monkeypatch, model, mazes, capsys):
    whole, effort = recorded(monkeypatch, model, mazes, 18, 18)
    real = Crowd.advance

    def advance(self, first, steps):
        if len(self) > 5:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 byte")
        real(self, first, steps)

    monkeypatch.setattr(Crowd, "advance", advance)
    parts, again = recorded(monkeypatch, model, mazes, 18, 18)
    assert again == effort and parts.keys() == whole.keys()
    assert all(grid.tobytes() == parts[key][0].tobytes() for key, (grid, _) in whole.items())
    assert capsys.readouterr().err == (
        "cellwise: The device memory is too small; going on with 9 boards at a time.\n"
        "cellwise: The device memory is too small; going on with 5 boards at a time.\n"
    )


def test_memory_that_is_too_small_for_one_board_is_an_error(monkeypatch, model, mazes):
    def advance(self, first, steps):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")

    monkeypatch.setattr(Crowd, "advance", advance)
    with pytest.raises(jax.errors.JaxRuntimeError):
        recorded(monkeypatch, model, mazes, 3, 3)


# ---- pruning ---------------------------------------------------------------------------------------------


def dumb_survivors(grids, confidence, rule, cap):
    """The specification, trial by trial."""
    s = len(grids)
    rank = [
        sum(
            bool((grids[o] == grids[i]).all())
            and (confidence[o] > confidence[i] or (confidence[o] == confidence[i] and o < i))
            for o in range(s)
        )
        for i in range(s)
    ]
    if rule == "confidence":
        value = [confidence[i] if rank[i] < cap else -999 for i in range(s)]
        order = sorted(range(s), key=lambda i: -value[i])
    else:
        order = sorted(range(s), key=lambda i: (rank[i], -confidence[i]) if rank[i] < cap else (cap, 0.0))
    return order[: max(1, s // 2)]


@pytest.mark.parametrize("rule", ["confidence", "niches"])
def test_survivors_are_those_of_the_specification(rule):
    rng = np.random.default_rng(0)
    for trials in (1, 2, 3, 5, 8, 16, 31, 64):
        for kinds in (1, 2, 7, 64):
            opinions = rng.integers(0, 9, (kinds, 3, 3)).astype(np.uint8)
            grids = opinions[rng.integers(0, kinds, trials)]
            confidence = (
                rng.integers(0, 6, trials).astype(np.float32) / 8 - 0.25
            )  # many ties, some below zero
            found = survivors(grids, confidence, rule)
            assert found.tolist() == dumb_survivors(grids, confidence, rule, 3)


def test_a_crowd_of_one_opinion_does_not_push_out_the_others():
    grids = np.zeros((8, 1, 1), np.uint8)
    grids[6:, 0, 0] = (1, 2)
    confidence = np.array([0.9, 0.9, 0.8, 0.8, 0.8, 0.8, 0.1, 0.2], np.float32)
    assert survivors(grids, confidence).tolist() == [0, 1, 2, 7]
    assert survivors(grids, confidence, "niches").tolist() == [0, 7, 6, 1]


def dumb_tournament(model, boards, trials, steps, pruning, noise):
    """Every trial thinks to the end alone; who would have survived is worked out afterwards."""
    mind, puzzles = mind_of(model, boards, noise), puzzles_of(model, boards)
    ends = pruning.ends(steps)
    finals = []
    for row in range(len(boards)):
        said = {}
        for trial in range(trials):
            lonely = Crowd(mind, puzzles.size, 1, 1)
            one, number = np.zeros(1, np.int32), np.array([trial], np.int32)
            lonely.begin(
                one,
                puzzles.inputs[[row]],
                puzzles.given[[row]],
                5,
                puzzles.numbers[[row]],
                number,
                one if pruning.shared else number,
            )
            done = 0
            for end in ends:
                lonely.advance(np.array([done], np.int32), int(end) - done)
                done = int(end)
                grid, cells = lonely.read(1)
                said[trial, done] = grid[0], np.float32(cells.mean((1, 2))[0])
        alive = list(range(trials))
        for end in ends[:-1]:
            grids = np.stack([said[trial, int(end)][0] for trial in alive])
            sure = np.array([said[trial, int(end)][1] for trial in alive])
            alive = sorted(alive[i] for i in dumb_survivors(grids, sure, pruning.rule, 3))
        finals.append({trial: said[trial, steps] for trial in alive})
    return finals


@pytest.mark.parametrize(
    ("pruning", "places"),
    [
        (Pruning(2), 48),
        (Pruning(4, "niches"), 8),
        (Pruning(4, shared=True), 20),
        pytest.param(Pruning(8), 3, marks=pytest.mark.slow),
    ],
)
def test_a_tournament_is_what_lonely_trials_would_make_of_it(monkeypatch, model, mazes, pruning, places):
    boards, trials = mazes[slice(3)], 8 if pruning.segments < 8 else 128
    boards = boards if trials == 8 else boards[slice(1)]
    trials, steps = (trials, 27) if trials == 8 else (128, 17)
    noise = RELEASED.over(steps)
    in_crowds_of(monkeypatch, places, 4)
    recorder = Recorder(steps, steps)
    recorder.looks = pruning.ends(steps)
    mind = mind_of(model, boards, noise)
    effort = tournament(mind, puzzles_of(model, boards), trials, 5, pruning, recorder)
    expected = dumb_tournament(model, boards, trials, steps, pruning, noise)
    assert pruning.finalists(trials) == len(expected[0])
    for row, finals in enumerate(expected):
        ours = {trial for r, trial, done in recorder.seen if r == row and done == steps}
        assert ours == finals.keys()
        for trial, (grid, sure) in finals.items():
            said, cells = recorder.seen[row, trial, steps]
            assert said.tobytes() == grid.tobytes() and cells.mean() == sure
    segments = np.diff(pruning.ends(steps), prepend=0)
    alive = [trials // 2**i for i in range(pruning.segments)]
    assert effort.taken == len(boards) * int((segments * alive).sum())


def test_shared_starts_are_one_state_and_differ_afterwards(model, mazes):
    crowd_ = Crowd(mind_of(model, mazes), (11, 11), 3, 3)
    row = np.zeros(3, np.int32)
    puzzles = puzzles_of(model, mazes)
    trials = np.arange(3, dtype=np.int32)
    crowd_.begin(trials, puzzles.inputs[row], puzzles.given[row], 0, row, trials, row)
    first = np.asarray(crowd_.state)
    assert (first == first[:1]).all()
    crowd_.advance(row, 3)
    assert (np.asarray(crowd_.state)[1] != np.asarray(crowd_.state)[2]).any()


@pytest.mark.parametrize(
    ("pruning", "trials", "steps", "message"),
    [
        (Pruning(3), 8, 100, "The pruning factor cannot be 3; choose one of 1, 2, 4, 8."),
        (
            Pruning(8),
            64,
            512,
            "Pruning by 8 halves the trials 7 times and leaves none of 64; choose at least 128 trials or a "
            "smaller pruning factor.",
        ),
        (
            Pruning(4),
            64,
            3,
            "3 steps cannot be cut into 4 segments; choose at least 4 steps or a smaller pruning factor.",
        ),
    ],
)
def test_pruning_that_cannot_be_is_refused(model, mazes, pruning, trials, steps, message):
    with pytest.raises(ConfigError) as caught:
        model.solve(mazes.inputs, steps=steps, trials=trials, prune=pruning)
    assert str(caught.value) == message


def test_noise_schedules_are_those_of_the_sources():
    noise = RELEASED.over(2048)
    assert (noise.when, noise.where, noise.size, noise.until) == (0.1, 0.2, 0.3, 512)
    noise = PAPER.over(2048)
    assert (noise.when, noise.where, noise.size, noise.until) == (0.2, 0.8, 0.1, 512)
    assert usual("sudoku", 0.5).where == 0.2 and usual("maze", 0.5).where == 0.3
    assert usual("maze", 0.5).over(203).until == 50


# ---- looking for an answer that is right -----------------------------------------------------------------


def found_by(monkeypatch, model, mazes, places, block, budget, pruning=None, **more):
    in_crowds_of(monkeypatch, places, block)
    puzzles = puzzles_of(model, mazes)
    return seek(mind_of(model, mazes), puzzles, model.verify, 3, budget, pruning, **more)


def test_the_first_right_answer_is_the_same_however_trials_are_batched(monkeypatch, model):
    mazes = generate(9, 5, seed=5)
    budget = Budget(trials=20, steps=48)
    whole = found_by(monkeypatch, model, mazes, 80, 80, budget)
    assert whole.verified.all() and whole.effort.taken < whole.effort.asked == 5 * 20 * 48
    for places, block in ((7, 3),):
        again = found_by(monkeypatch, model, mazes, places, block, budget)
        for name in ("grid", "cells", "steps", "trial", "verified", "confidence"):
            assert getattr(again, name).tobytes() == getattr(whole, name).tobytes(), name
    # Nobody of the first wave was right any sooner.
    everyone = Recorder(48, 16)
    in_crowds_of(monkeypatch, 80, 80)
    stream.stream(mind_of(model, mazes), puzzles_of(model, mazes), tasks_of(5, 16), 3, everyone)
    for row in range(5):
        right = sorted(
            (done, trial)
            for (r, trial, done), (grid, _) in everyone.seen.items()
            if r == row and model.verify(mazes.inputs[[row]], grid[None])[0]
        )
        if right:
            assert (whole.steps[row], whole.trial[row]) == right[0]
        else:
            assert whole.trial[row] >= 16


def test_without_a_right_answer_the_surest_counts(monkeypatch, model, mazes):
    found = found_by(monkeypatch, model, mazes, 9, 9, Budget(trials=4, steps=3))
    assert not found.verified.any() and (found.steps == 3).all()
    everyone = Recorder(3, 3)
    stream.stream(mind_of(model, mazes), puzzles_of(model, mazes), tasks_of(6, 4), 3, everyone)
    for row in range(6):
        sure = [everyone.seen[row, trial, 3][1].mean() for trial in range(4)]
        assert found.trial[row] == np.argmax(sure)


def test_pruned_trials_find_right_answers_too(monkeypatch, model, mazes):
    found = found_by(monkeypatch, model, mazes, 16, 4, Budget(8, 60), Pruning(4))
    assert found.verified.all() and model.verify(mazes.inputs, found.grid).all()
    assert found.effort.saved > 0


def test_until_verified_goes_on_beyond_the_trials_asked_for(monkeypatch, model):
    mazes = generate(9, 8, seed=5)
    short = Budget(trials=1, steps=20)
    assert not found_by(monkeypatch, model, mazes, 8, 4, short).verified.all()
    endless = found_by(monkeypatch, model, mazes, 8, 4, Budget(1, 20, seconds=1000.0, endless=True))
    assert endless.verified.all() and endless.trial.max() >= 1


def test_a_budget_ends_it_and_what_there_is_counts(monkeypatch, model, mazes):
    ticks = iter(range(10**6))
    found = found_by(
        monkeypatch,
        model,
        mazes,
        2,
        1,
        Budget(8, 100, seconds=2.0, endless=True),
        clock=lambda: float(next(ticks)),
    )
    assert (found.trial >= 0).any() and (found.trial == -1).any()
    assert (found.grid[found.trial == -1] == mazes.inputs[found.trial == -1]).all()


def test_work_told_adds_up_to_work_asked_for(monkeypatch, model, mazes):
    for pruning in (None, Pruning(4)):
        told: list[tuple[int, int]] = []

        def tell(*done, told=told):
            told.append(done)

        found = found_by(monkeypatch, model, mazes, 5, 2, Budget(16, 40), pruning, tell=tell)
        assert np.sum(told, axis=0).tolist() == [6 * 16, found.effort.asked]


def test_crowds_are_divided_into_blocks(model, mazes):
    mind = mind_of(model, mazes)
    together, block = crowd.sizes(mind, 10**6, (11, 11))
    assert together > 1 and block == -(-together // crowd.BLOCKS)
    assert crowd.sizes(mind, 1, (11, 11)) == (1, 1)
