"""A model that knows the answers, and the solve command with it."""

import numpy as np
import pytest

from cellwise.automaton import rule
from cellwise.automaton.layout import Automaton, Layout, orthonormal_tokens
from cellwise.benchmarks import maze_ood
from cellwise.cli import solve as command
from cellwise.cli.arguments import parse
from cellwise.cli.solve import Solve
from cellwise.errors import CellwiseError
from cellwise.kernels.spec import StepSpec
from cellwise.model import Frame, Model, Solution
from cellwise.puzzles import sudoku
from cellwise.puzzles.maze_generator import generate
from cellwise.puzzles.maze_path import label_bfs
from cellwise.puzzles.sudoku_solver import solve

MAZE = generate(5, 1, 3).inputs[0]
CLUES = sudoku.parse("53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79")


def untrained(puzzle: str) -> Model:
    """A real model whose cells have learned nothing."""
    if puzzle == "sudoku":
        automaton = Automaton(
            StepSpec(
                channels=16, perception="attention", heads=4, hidden=8, padding="zero", frozen=16, unit=16
            ),
            Layout(tokens=10, read=16, write=16, head="cosine", spread=1.0),
        )
        fixed, size = orthonormal_tokens(10, 16, 0), (9, 9)
    else:
        automaton, fixed, size = maze_ood.AUTOMATON, maze_ood.token_vectors(), None
    weights = {**rule.first_weights(automaton.step, size, 0), "layout.tokens": fixed}
    return Model(f"untrained-{puzzle}", puzzle, automaton, weights, size)


class Oracle(Model):
    """Knows the answer at step `at`; before that its cells are unsure and say that all is empty."""

    at = 6

    def answer(self, board):
        return solve(board) if self.puzzle == "sudoku" else label_bfs(board)

    def solve(self, boards, steps=None, trials=1, seed=0, noise=None, tell=None, **more):
        self.more.update(more)
        self.asked.append((steps, trials, seed, noise))
        batch, restore = self.prepared(boards)
        grid = restore(np.stack([self.answer(board) for board in batch]))
        sure = np.ones(grid.shape, np.float32)
        return Solution(grid, sure.mean((1, 2)), np.ones(1, bool), np.array([self.at], np.int32), sure)

    def watch(self, board, steps=None, every=1, seed=0, noise=None, firing=None):
        self.asked.append((steps, every, seed, noise))
        for step in range(0, steps + 1, every):
            ready = step >= self.at
            grid = self.answer(board) if ready else board.copy()
            yield Frame(step, grid, np.full(board.shape, 1.0 if ready else 0.4, np.float32))


@pytest.fixture
def oracle(monkeypatch):
    """Puts the oracle in place of whatever model is asked for."""

    def loaded(name):
        model = Oracle(**vars(untrained(loaded.puzzle)))
        object.__setattr__(model, "asked", loaded.asked)
        object.__setattr__(model, "more", loaded.more)
        return model

    loaded.asked, loaded.more, loaded.puzzle = [], {}, "maze"
    monkeypatch.setattr(command, "load", loaded)
    return loaded


@pytest.fixture(autouse=True)
def terminal(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)


def solve_by(*words: object) -> int:
    return parse(Solve, "cellwise solve", [str(word) for word in words]).run()


def told(capsys, *words: object) -> tuple[int, str, str]:
    """The exit status, what is on standard output and what on standard error."""
    return solve_by(*words), *capsys.readouterr()


def run(capsys, *words: object) -> tuple[int, str]:
    return told(capsys, *words)[:2]


def refusal(kind: type[CellwiseError], *words: object) -> str:
    with pytest.raises(kind) as caught:
        solve_by(*words)
    return str(caught.value)
