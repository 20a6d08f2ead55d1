"""Evaluations of many trials: what is kept, what curves say, resuming, and boards that are left out."""

import dataclasses
import itertools
import json

import numpy as np
import pytest

from cellwise import evaluation
from cellwise.benchmarks.preset import Case
from cellwise.errors import ConfigError, DataError, FileError, ModelError
from cellwise.evaluation import evaluate
from cellwise.model import load
from cellwise.puzzles.dihedral import dihedral
from cellwise.puzzles.equivalence import fingerprints
from cellwise.puzzles.maze_generator import generate
from cellwise.thinking import outcomes
from cellwise.thinking.outcomes import Outcomes
from cellwise.thinking.pruning import Pruning


@pytest.fixture(scope="module")
def model():
    return load("maze-ood")


BOARDS = generate(9, 6, seed=123)
CASE = Case("size 9", 48, 6, lambda n: BOARDS[slice(n)], "generated", grade=lambda cells: cells // 10)
SEEN = {"seconds", "nanoseconds_per_cell_step", "outcomes"}


def dumb_choice(found, board, depth, trials, among):
    """The place of the answer of one board, trial by trial."""
    best = None
    for trial in range(trials):
        sure = found.confidence[board, trial, depth]
        if np.isnan(sure):
            continue
        key = (among is None or bool(found.marks[among][board, trial, depth]), sure)
        if best is None or key > best[0]:
            best = (key, trial)
    return best[1] if best else 0


def test_the_surest_is_chosen_and_the_rules_come_first_only_where_asked():
    rng = np.random.default_rng(0)
    found = Outcomes.empty(
        np.arange(30, dtype=np.int32), 9, np.array([8, 16], np.int32), (1, 1), ("right", "verified")
    )
    found.confidence[:] = rng.integers(0, 4, found.confidence.shape) / 4
    found.confidence[rng.random(found.confidence.shape) < 0.2] = np.nan
    for mark in found.marks.values():
        mark[:] = rng.random(mark.shape) < 0.3
    for depth, trials, among in itertools.product((0, 1), (1, 4, 9), (None, "verified")):
        chosen = found.surest(depth, trials, among)
        expected = [dumb_choice(found, board, depth, trials, among) for board in range(30)]
        assert chosen.tolist() == expected
        share = np.mean([found.marks["right"][b, t, depth] for b, t in enumerate(expected)])
        assert found.share("right", depth, trials, among) == share


def test_one_evaluation_gives_all_curves(model, tmp_path):
    row = evaluate(model, CASE, trials=5, depths=(20,), keep=tmp_path / "kept.npz")
    found, about = outcomes.load(tmp_path / "kept.npz")
    assert row["outcomes"] == "kept.npz" and about["protocol"]["trials"] == 5
    assert found.depths.tolist() == [20, 48] and found.boards.tolist() == list(range(6))
    assert row["board_accuracy"] == found.share("right")
    assert row["verified_accuracy"] == found.share("right", among="verified") >= row["board_accuracy"]
    assert {(point["steps"], point["trials"]) for point in row["curves"]["conf"]} == {
        (steps, trials) for steps in (20, 48) for trials in (1, 2, 4, 5)
    }
    # What is read off the curve is what a smaller evaluation gives.
    small = evaluate(model, CASE, trials=2, steps=20)
    point = next(p for p in row["curves"]["conf"] if (p["steps"], p["trials"]) == (20, 2))
    assert point["share"] == pytest.approx(small["board_accuracy"], abs=1e-6)
    assert (found.settled[found.marks["right"][:, :, -1]] >= 0).all()
    assert sum(count for count, _ in row["by_grade"].values()) == 6
    shares = [share for _, share in row["by_grade"].values()]
    assert row["mean_of_grades"] == pytest.approx(np.mean(shares))


def test_until_verified_leaves_early_and_says_what_it_saved(model):
    row = evaluate(model, CASE, trials=4, until_verified=True)
    assert row["verified"] == row["valid"] == 1.0
    assert row["steps_saved"] > 0
    assert row["steps_saved"] == pytest.approx(6 * 4 * 48 - row["mean_steps_taken"] * 24, abs=2)
    assert row["flops_per_board_paper"] < evaluate(model, CASE, trials=4)["flops_per_board_paper"]


def test_pruned_evaluation_keeps_the_finalists(model, tmp_path):
    row = evaluate(model, CASE, trials=8, prune=Pruning(4, "niches"), keep=tmp_path / "kept.npz")
    found, _ = outcomes.load(tmp_path / "kept.npz")
    assert found.depths[-4:].tolist() == [12, 24, 36, 48]
    alive = (~np.isnan(found.confidence)).sum(1)[:, -4:]
    assert (alive == [8, 4, 2, 1]).all()
    assert row["steps_saved"] == 6 * (8 * 48 - 12 * (8 + 4 + 2 + 1))


class PowerCutError(Exception):
    pass


@pytest.mark.parametrize("prune", [1, 4])
def test_an_interrupted_evaluation_goes_on_and_ends_the_same(model, tmp_path, monkeypatch, prune):
    monkeypatch.setattr(evaluation, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(evaluation, "sizes", lambda *_: (4, 4))
    ways = {"trials": 8, "prune": prune}
    whole = evaluate(model, CASE, keep=tmp_path / "whole.npz", **ways)
    real, calls = evaluation._Session._think, itertools.count()

    def think(self, *args):
        if next(calls) == 2:
            raise PowerCutError
        return real(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(evaluation._Session, "_think", think)
        with pytest.raises(PowerCutError):
            evaluate(model, CASE, keep=tmp_path / "kept.npz", **ways)
    assert [path.name for path in sorted(tmp_path.glob("kept*"))] == ["kept.partial.npz"]
    said, told = [], []
    again = evaluate(
        model, CASE, keep=tmp_path / "kept.npz", say=said.append, tell=lambda *done: told.append(done), **ways
    )
    assert said == ["size 9 goes on after 4 boards that were measured before"]
    assert {k: v for k, v in again.items() if k not in SEEN} == {
        k: v for k, v in whole.items() if k not in SEEN
    }
    assert np.sum(told, axis=0).tolist() == [6 * 8, 6 * 8 * 48]
    assert (tmp_path / "kept.npz").exists() and not (tmp_path / "kept.partial.npz").exists()
    a, b = (outcomes.load(tmp_path / name)[0] for name in ("kept.npz", "whole.npz"))
    assert a.confidence.tobytes() == b.confidence.tobytes() and (a.answer == b.answer).all()


def test_what_another_evaluation_left_is_not_used(model, tmp_path):
    evaluate(model, CASE, steps=16, limit=2, keep=tmp_path / "kept.npz")
    (tmp_path / "kept.npz").rename(tmp_path / "kept.partial.npz")
    said = []
    row = evaluate(model, CASE, steps=16, limit=2, seed=1, keep=tmp_path / "kept.npz", say=said.append)
    assert row["boards"] == 2
    assert said == [f"{tmp_path / 'kept.partial.npz'} is of another evaluation and is written anew"]


def test_a_damaged_file_is_said_to_be_damaged(tmp_path):
    (tmp_path / "bad.npz").write_bytes(b"PK nonsense")
    with pytest.raises(FileError) as caught:
        outcomes.load(tmp_path / "bad.npz")
    assert str(caught.value) == f"{tmp_path / 'bad.npz'} is damaged; delete it and measure again."


# ---- boards that were trained on -------------------------------------------------------------------------


def test_boards_that_were_trained_on_are_left_out_and_counted(model, tmp_path):
    turned = dataclasses.replace(BOARDS, target=dihedral(BOARDS.target, 3), given=dihedral(BOARDS.given, 3))
    trained_on = fingerprints(turned[np.array([1, 4])], sudoku=False)
    knowing = dataclasses.replace(model, trained_on=trained_on)
    knowing.save(tmp_path / "model")
    knowing = load(tmp_path / "model")
    row = evaluate(knowing, CASE, keep=tmp_path / "kept.npz")
    assert row["boards"] == 4 and row["boards_left_out_as_trained_on"] == 2
    assert outcomes.load(tmp_path / "kept.npz")[0].boards.tolist() == [0, 2, 3, 5]
    assert evaluate(model, CASE)["boards_left_out_as_trained_on"] is None
    everything = dataclasses.replace(model, trained_on=fingerprints(BOARDS, sudoku=False))
    with pytest.raises(DataError) as caught:
        evaluate(everything, CASE)
    assert str(caught.value) == "maze-ood was trained on all boards of size 9; choose another case."


def test_a_list_of_boards_that_is_not_the_models_own_is_refused(model, tmp_path):
    dataclasses.replace(model, trained_on=np.arange(3, dtype=np.uint64)).save(tmp_path)
    (tmp_path / "trained_on.u64").write_bytes(bytes(24))
    with pytest.raises(ModelError) as caught:
        load(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'trained_on.u64'} is damaged or not the file that config.json names; "
        "get the model folder again."
    )
    assert "trained_on_sha256" in json.loads((tmp_path / "config.json").read_text())


def test_what_does_not_go_together_is_refused(model):
    from cellwise.thinking.think import Rest

    with pytest.raises(ConfigError) as caught:
        evaluate(model, CASE, trials=2, prune=2, rest=Rest())
    assert str(caught.value) == (
        "Stopping at rest does not go together with pruning or until verified; leave one out."
    )
    with pytest.raises(ConfigError, match="A depth cannot be 49; choose a whole number from 1 to 48"):
        evaluate(model, CASE, depths=(49,))
