"""Studies that draw on evaluations: what is there is not computed again, what cannot be there is not run."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cellwise import studies
from cellwise.cli import main as front
from cellwise.cli.arguments import parse
from cellwise.cli.eval import Eval
from cellwise.errors import DataError, NotYetError
from cellwise.studies import depth_and_width, evaluations, figure, noise, pruning
from cellwise.studies.evaluations import Evaluation, measured, shares
from cellwise.studies.study import Measured, Result
from cellwise.thinking.outcomes import Outcomes

TINY = Evaluation("maze-ood", "size 5", boards=3, steps=40, trials=4, depths=(10, 20, 40), noise=0.1)
ALL = [
    *(one for settings in (noise.QUICK, noise.FULL) for one in settings.evaluations),
    *(one for settings in (depth_and_width.QUICK, depth_and_width.FULL) for one in settings.evaluations),
    *(replace(pruning.FULL.evaluation, steps=64, prune=factor) for factor in pruning.FULL.factors),
    replace(noise.FULL.evaluations[-1], noise=0.3, seed=2),
    TINY,
]


def result_of(study, scale, rows):
    done = tuple(Measured(job, row, 1.0, "2026-11-20", "a CPU", None, {}) for job, row in rows)
    return Result(study.name, scale, study.settings(scale), "command", "data", done)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_the_command_makes_what_is_looked_for(one):
    program, command, *words = shlex.split(one.command())
    assert (program, command) == ("cellwise", "eval")
    asked = parse(Eval, "cellwise eval", words)
    (case,) = asked._cases(one.found)
    assert case.name == one.case and asked.out.with_suffix("") == one.file().with_name(one.name)
    assert (asked.steps, asked.trials, asked.limit, asked.seed) == (
        one.steps,
        one.trials,
        one.boards,
        one.seed,
    )
    assert asked._noise(one.steps) == one.protocol().noise and asked.prune == one.prune


def test_names_tell_evaluations_apart():
    assert len({one.name + one.case for one in ALL}) == len(set(ALL))


def test_a_file_of_eval_is_not_computed_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _, *words = shlex.split(TINY.command())
    assert front.main(words) == 0
    monkeypatch.setattr(evaluations, "evaluate", None)
    found, took = measured(TINY)
    result = json.loads((Path("out/outcomes") / f"{TINY.name}.json").read_text())
    assert found.share("right") == result["rows"][0]["board_accuracy"]
    assert took["flops"] == result["rows"][0]["flops_per_board_paper"] and took["seconds"] is None
    # The same name with another content is refused.
    TINY.file().rename(replace(TINY, depths=(40,)).file())
    with pytest.raises(
        DataError, match="is of another evaluation; move it away or make it by `cellwise eval"
    ):
        measured(replace(TINY, depths=(40,)))


def test_what_is_not_there_is_measured_and_kept(tmp_path):
    found, took = measured(TINY, folder=tmp_path)
    assert TINY.file(tmp_path).exists() and took["seconds"] > 0
    assert took["steps_taken"] == 3 * 4 * 40
    again, _ = measured(TINY, folder=tmp_path)
    np.testing.assert_array_equal(found.confidence, again.confidence)


def test_what_cannot_be_measured_yet_says_how(tmp_path):
    with pytest.raises(NotYetError) as refusal:
        measured(Evaluation("sudoku-extreme", "dev", 5, 64, trials=2), folder=tmp_path)
    assert str(refusal.value) == (
        "There is no model 'sudoku-extreme'; `cellwise eval sudoku-extreme --case dev --limit 5 --steps 64 "
        f"--trials 2 --out {tmp_path}/sudoku-extreme-5x2x64-seed0.json --model DIR` makes "
        f"{tmp_path}/sudoku-extreme-5x2x64-seed0.dev.npz."
    )


def test_a_study_runs_what_can_be_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(studies, "NAMES", ("noise",))
    few = (replace(TINY, noise=0.0), Evaluation("sudoku-extreme", "dev", 5, 64))
    study = replace(noise.STUDY, quick=noise.Settings(few, sizes=(0.0, 0.5), seeds=(0,)))
    monkeypatch.setattr(noise, "STUDY", study)
    assert front.main(["study", "run", "noise", "--quick"]) == 1
    out, err = capsys.readouterr()
    assert "not run" in out
    assert err.count("not run: benchmark sudoku-extreme") == 2
    assert "There is no model 'sudoku-extreme'" in err
    rows = Path("results/studies/noise.quick.jsonl").read_text().splitlines()[1:]
    assert [json.loads(row)["job"]["noise"] for row in rows] == [0.0, 0.5]


def outcomes_of(confidence, right, verified):
    n, k, d = confidence.shape
    return Outcomes(
        boards=np.arange(n, dtype=np.int32),
        depths=np.arange(1, d + 1, dtype=np.int32),
        confidence=confidence.astype(np.float32),
        marks={"right": right, "verified": verified},
        settled=np.zeros((n, k), np.int32),
        steps=np.zeros((n, k), np.int32),
        answer=np.zeros((n, 1, 1), np.uint8),
    )


def test_shares_by_hand():
    sure = np.array([[[0.9], [0.8], [np.nan]], [[0.1], [0.2], [0.3]]])
    right = np.array([[[False], [True], [True]], [[False], [False], [True]]])
    assert shares(outcomes_of(sure, right, right)) == {
        "single": 0.4,  # Two of five; the pruned one does not count.
        "conf": 0.5,
        "verified": 1.0,
        "boards": 2,
    }


def test_pruning_saves_what_the_paper_derives():
    assert [pruning.theory(factor) for factor in (1, 2, 4)] == [1.0, 0.75, 0.46875]
    assert pruning.theory(8) == pytest.approx(0.249, abs=1e-4)
    rows = [
        ({"depth": 2_048, "factor": 1}, {"steps_taken": 1000, "flops": 4e12, "conf": 0.9, "seconds": 8.0}),
        ({"depth": 2_048, "factor": 4}, {"steps_taken": 469, "flops": 2e12, "conf": 0.88, "seconds": 4.0}),
    ]
    result = result_of(pruning.STUDY, "full", rows)
    compared = pruning.STUDY.compare(result)
    drawn = figure.lines(figure.make(pruning.STUDY, result))
    assert drawn == {}  # A line has two points.
    rows += [({"depth": 512, "factor": 1}, {"steps_taken": 250, "flops": 1e12, "conf": 0.6, "seconds": 2.0})]
    drawn = figure.lines(figure.make(pruning.STUDY, result_of(pruning.STUDY, "full", rows)))
    np.testing.assert_allclose(drawn["line-0-0"], [[12.0, 60.0], [np.log10(4e12), 90.0]])
    assert [(one.what, one.paper, one.ours) for one in compared] == [
        ("operations saved, m = 2, 2,048 steps", "25.0 %", None),
        ("operations saved, m = 4, 2,048 steps", "53.1 %", "53.1 %"),
        ("how many times as fast, m = 4, 2,048 steps", "up to 2.13×", "2.00×"),
        ("operations saved, m = 8, 2,048 steps", "75.1 %", None),
        ("the same budget: 64 steps unpruned → 256 steps, m = 8", "25.6 → 81.7 %", None),
    ]


def test_depth_and_width_find_the_papers_points():
    study = depth_and_width.STUDY
    row = {
        "boards": 500,
        "single": [[96, 0.5], [2_048, 0.75]],
        "conf": [[96, 512, 0.6], [2_048, 512, 0.92]],
        "by_rules": [[96, 512, 0.7], [2_048, 512, 0.95]],
    }
    result = result_of(study, "full", [({"benchmark": "sudoku-extreme"}, row)])
    found = [(one.what, one.paper, one.ours, one.note) for one in study.compare(result)]
    assert found[-3:] == [
        ("sudoku-extreme, 96 steps, 1 trial", "about 50 %", "50.0 % of 500 boards", "mean of 512 trials"),
        ("sudoku-extreme, 2,048 steps, 1 trial", "75.6 %", "75.0 % of 500 boards", "mean of 512 trials"),
        ("sudoku-extreme, 2,048 steps, conf@512", "91.9 %", "92.0 % of 500 boards", "by the rules 95.0 %"),
    ]
    assert found[0] == ("maze-hard, 200 steps, 1 trial", "86.6 %", None, "")
    (drawn,) = figure.lines(figure.make(study, result)).values()
    assert drawn[:, 1].tolist() == [60.0, 92.0]


def test_the_best_kicks_are_named():
    study = noise.STUDY
    shares = {0.0: (0.5, 0.6), 0.1: (0.7, 0.7), 0.3: (0.65, 0.6), 1.0: (0.2, 0.3)}
    rows = [
        ({"benchmark": "sudoku-ood", "case": "made", "seed": seed, "noise": size}, {"conf": values[seed]})
        for size, values in shares.items()
        for seed in (0, 1)
    ]
    found = {one.what: one for one in study.compare(result_of(study, "full", rows))}
    one = found["sudoku-ood, made"]
    assert one.ours == "55.0 ± 7.1 % without, 70.0 ± 0.0 % with kicks of 0.1"
    assert one.note == "25.0 ± 7.1 % with 1; conf@16, 1,800 boards"
    assert found["maze-ood, size 59"].ours is None
    (drawn,) = figure.lines(figure.make(study, result_of(study, "full", rows))).values()
    assert drawn[:, 1] == pytest.approx([55.0, 70.0, 62.5, 25.0])
