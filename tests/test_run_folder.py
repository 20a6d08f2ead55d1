import dataclasses
import errno
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cellwise import files
from cellwise.errors import ConfigError, FileError, RunError
from cellwise.model import load
from cellwise.training import folder, settings
from cellwise.training.folder import Checkpoint, RunFolder, read_config
from tiny_job import EVERY, RECIPE, environment, tiny_job
from tiny_run import assert_same_run, crash, happening, here, metrics, newest, run, undisturbed

__all__ = ["happening", "here", "undisturbed"]  # fixtures

# The iteration calls a function by the name that the newest optax deprecates.

TESTS = Path(__file__).parent


# Damage


def cut_off(path):
    os.truncate(path, path.stat().st_size // 2)


def emptied(path):
    os.truncate(path, 0)


def flipped(path):
    data = bytearray(path.read_bytes())
    data[-1000] ^= 1
    path.write_bytes(data)


def of_another_run(path):
    tensors = {"step": np.array(12)}
    folder = RunFolder(Path("other"))
    written = folder.save(Checkpoint(int(path.stem[5:]), 1.0, "another", tensors))
    written.replace(path)


@pytest.mark.parametrize("damage", [cut_off, emptied, flipped, of_another_run])
def test_a_damaged_checkpoint_is_passed_over(damage, undisturbed):
    shutil.copytree(undisturbed, "run")
    damage(Path("run/checkpoints/step-0000012.safetensors"))
    _, text = run(resume=True)
    first, second, *_ = text.splitlines()
    assert first == (
        "run/checkpoints/step-0000012.safetensors is damaged, "
        "so the run goes on from the checkpoint before it"
    )
    assert second.startswith("tiny goes on after iteration 10:")
    assert_same_run("run", undisturbed)


def test_without_a_whole_checkpoint_a_run_cannot_go_on(undisturbed):
    shutil.copytree(undisturbed, "run")
    for path in Path("run/checkpoints").iterdir():
        cut_off(path)
    with pytest.raises(RunError) as caught:
        run(resume=True)
    assert str(caught.value) == "No checkpoint in run/checkpoints is whole; train again in another folder."
    assert len(list(Path("run/checkpoints").iterdir())) == 2


def test_a_torn_line_of_metrics_is_dropped(undisturbed, happening):
    happening(8, crash)
    with pytest.raises(RuntimeError):
        run()
    with Path("run/metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 8, "lo')
    assert metrics("run")[-1]["step"] == 6
    happening(0, crash)
    run(resume=True)
    assert_same_run("run", undisturbed)


def test_what_a_killed_run_left_half_done_is_tidied(undisturbed):
    shutil.copytree(undisturbed, "run")
    Path("run/.config.json.abc.part").touch()
    Path("run/checkpoints/.step-0000015.safetensors.abc.part").touch()
    Path("run/model").rename("run/.model.old")
    Path("run/.model.new").mkdir()
    with folder.opened(Path("run")):
        pass
    assert_same_run("run", undisturbed)
    names = [p.name for p in [*Path("run").iterdir(), *Path("run/checkpoints").iterdir()]]
    assert not [name for name in names if name.startswith(".") and name != ".lock"]


@pytest.mark.parametrize("what", ["loss", "gradient", "weights"])
def test_numbers_that_are_not_finite_stop_a_run_before_they_are_saved(what, happening):
    def poison(result):
        state, report = result
        if what == "weights":
            weights = state.weights | {"update.b_in": state.weights["update.b_in"].at[0].set(jnp.inf)}
            return state._replace(weights=weights), report
        return state, report._replace(**{what: jnp.float32(jnp.nan)})

    happening(10 if what == "weights" else 9, poison)
    with pytest.raises(RunError) as caught:
        run()
    where, why = {
        "loss": (9, "the loss is nan"),
        "gradient": (9, "the gradient is nan"),
        "weights": (10, "weights.update.b_in is not finite"),
    }[what]
    assert str(caught.value) == (
        f"Training broke down at iteration {where} because {why}; the last good checkpoint is "
        "run/checkpoints/step-0000005.safetensors; "
        "train again in another folder with a lower --recipe.schedule.peak."
    )
    assert newest("run").step == 5 and load("run/model").provenance["iterations"] == 5


def test_a_breakdown_before_the_first_checkpoint(happening):
    happening(1, lambda result: (result[0], result[1]._replace(loss=jnp.float32(jnp.inf))))
    with pytest.raises(RunError) as caught:
        run()
    assert str(caught.value) == (
        "Training broke down at iteration 1 because the loss is inf; there is no checkpoint yet; "
        "train again in another folder with a lower --recipe.schedule.peak."
    )


# The file system says no


def test_a_full_disk_while_a_checkpoint_is_written(undisturbed, monkeypatch):
    def full(path, data):
        if ".step-0000010" in path.name:
            write(path, data[:100])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, data)

    write = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(FileError) as caught:
        run()
    assert str(caught.value) == (
        "Cannot write run/checkpoints/step-0000010.safetensors: "
        "the disk is full; free some space and run the command again."
    )
    assert [p.name for p in Path("run/checkpoints").iterdir()] == ["step-0000005.safetensors"]
    monkeypatch.setattr(Path, "write_bytes", write)
    run(resume=True)
    assert_same_run("run", undisturbed)


def test_a_full_disk_while_metrics_are_written(monkeypatch):
    files = RunFolder(Path())
    files.append({"step": 1})

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError) as caught:
        files.append({"step": 2})
    assert str(caught.value) == (
        "Cannot write metrics.jsonl: the disk is full; free some space and run the command again."
    )
    assert Path("metrics.jsonl").read_text() == '{"step": 1}\n'


def test_a_model_that_cannot_be_written_leaves_the_one_before(undisturbed):
    shutil.copytree(undisturbed, "run")

    def save(path):
        path.mkdir()
        (path / "model.safetensors").write_bytes(b"half")
        raise OSError(errno.EROFS, "Read-only file system")

    with pytest.raises(FileError) as caught:
        RunFolder(Path("run")).replace_model(save)
    assert str(caught.value) == "Cannot write run/model: the file system is read-only; choose another folder."
    assert_same_run("run", undisturbed)
    assert not Path("run/.model.new").exists()


def test_a_folder_that_cannot_be_made(monkeypatch):
    def denied(self, *args, **kwargs):
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", denied)
    with pytest.raises(FileError) as caught:
        run()
    assert str(caught.value) == (
        "Cannot create the folder run: "
        "permission was denied; choose another folder or change its permissions."
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("file", "file is a file; choose a folder for the run."),
        (
            "file/run",
            "Cannot create the folder file/run: a part of the path is a file, not a folder; check the path.",
        ),
    ],
)
def test_a_path_that_is_no_folder(path, message):
    Path("file").write_text("precious")
    with pytest.raises((RunError, FileError)) as caught:
        run(path)
    assert str(caught.value) == message
    assert Path("file").read_text() == "precious"


# Refusals


def test_a_run_is_not_overwritten(undisturbed, happening):
    happening(8, crash)
    with pytest.raises(RuntimeError):
        run()
    with pytest.raises(RunError) as caught:
        run()
    assert str(caught.value) == (
        "run already holds a run; continue it with --resume or choose another folder."
    )
    Path("run/config.json").unlink()
    with pytest.raises(RunError, match="already holds a run"):
        run()


def test_a_complete_run_says_so(undisturbed):
    shutil.copytree(undisturbed, "run")
    with pytest.raises(RunError) as caught:
        run()
    assert str(caught.value) == "run already holds a run that is complete; choose another folder."
    shutil.rmtree("run/model")
    model, text = run(resume=True)
    assert text == "tiny is complete: 12 iterations, model in run/model\n"
    assert_same_run("run", undisturbed)
    assert model.weights.keys() == load("run/model").weights.keys()


@pytest.mark.parametrize(
    ("job", "difference"),
    [
        (tiny_job(seed=4), "seed is 3 there and 4 here"),
        (tiny_job(dataclasses.replace(RECIPE, damage=0.25)), "recipe.damage is 0.1 there and 0.25 here"),
        (
            tiny_job(dataclasses.replace(RECIPE, schedule=dataclasses.replace(RECIPE.schedule, peak=0.002))),
            "recipe.schedule.peak is 0.001 there and 0.002 here",
        ),
        (dataclasses.replace(tiny_job(), name="other"), "job is tiny there and other here"),
        (dataclasses.replace(tiny_job(), size=(7, 7)), "size is None there and [7, 7] here"),
        (
            dataclasses.replace(
                tiny_job(),
                automaton=dataclasses.replace(
                    tiny_job().automaton, step=dataclasses.replace(tiny_job().automaton.step, hidden=64)
                ),
            ),
            "automaton.step.hidden is 16 there and 64 here",
        ),
    ],
    ids=["seed", "recipe", "schedule", "name", "size", "automaton"],
)
def test_a_run_does_not_go_on_as_another(job, difference, undisturbed):
    with pytest.raises(RunError) as caught:
        run(undisturbed, resume=True, job=job)
    assert str(caught.value) == (
        f"Cannot resume {undisturbed}: {difference}; use the run's value or choose another folder."
    )


@pytest.mark.parametrize("what", ["boards", "fixed"])
def test_a_run_does_not_go_on_with_other_data(what, undisturbed):
    job = tiny_job()
    if what == "boards":
        given = job.boards.given.copy()
        given[0, 0, 0] = ~given[0, 0, 0]
        job = dataclasses.replace(job, boards=dataclasses.replace(job.boards, given=given))
    else:
        job = dataclasses.replace(job, fixed={"layout.tokens": job.fixed["layout.tokens"] + 1})
    old, new = read_config(undisturbed), settings.describe(job, "")
    with pytest.raises(RunError) as caught:
        run(undisturbed, resume=True, job=job)
    name = f"{what}_sha256"
    assert str(caught.value) == (
        f"Cannot resume {undisturbed}: {name} is {old[name][:12]} there and {new[name][:12]} here; "
        "use the run's value or choose another folder."
    )


@pytest.mark.parametrize(("once", "now"), [("highest", "float32"), ("tensorfloat32", "tf32")])
def test_a_run_from_before_recipes_had_a_precision_has_the_one_it_was_made_with(once, now, undisturbed):
    config = read_config(undisturbed)
    assert config["recipe"].pop("precision") == "float32"
    config["matmul_precision"] = once
    assert settings.up_to_date(config)["recipe"]["precision"] == now
    assert settings.up_to_date(settings.up_to_date(config)) == settings.up_to_date(config)


def test_a_run_from_before_recipes_had_a_precision_goes_on(undisturbed):
    shutil.copytree(undisturbed, "run")
    config = read_config(Path("run"))
    before = settings.identity(config)
    del config["recipe"]["precision"]
    files.write_json("run/config.json", config)
    folder, after = RunFolder(Path("run")), settings.identity(config)
    for _, path in folder.checkpoint_files()[-1:]:
        path.unlink()
    checkpoint, damaged = folder.newest(before)
    assert not damaged and after != before
    folder.save(dataclasses.replace(checkpoint, identity=after))
    model, text = run(resume=True)
    assert "goes on after iteration 10" in text
    assert (
        model.weights["update.w_in"].tobytes() == load(undisturbed / "model").weights["update.w_in"].tobytes()
    )


def test_other_software_is_mentioned(undisturbed):
    shutil.copytree(undisturbed, "run")
    config = read_config(Path("run"))
    config["versions"]["jax"] = "0.1.0"
    files.write_json("run/config.json", config)
    _, text = run(resume=True)
    first = text.splitlines()[0]
    assert first == f"run began with versions.jax 0.1.0, here it is {jax.__version__}: rounding may differ"


def test_a_checkpoint_of_another_form_is_refused(undisturbed):
    shutil.copytree(undisturbed, "run")
    identity = settings.identity(read_config(Path("run")))
    RunFolder(Path("run")).save(Checkpoint(13, 1.0, identity, {"step": np.array(13)}))
    with pytest.raises(RunError) as caught:
        run(resume=True)
    assert str(caught.value) == (
        "run was made by another version of cellwise; train again in another folder."
    )


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 2}', "\x00" * 50])
def test_settings_that_cannot_be_read(text):
    Path("run").mkdir()
    Path("run/config.json").write_text(text)
    with pytest.raises(RunError) as caught:
        run(resume=True)
    assert str(caught.value) == (
        "run/config.json does not describe a run of this version; train again in another folder."
    )


def test_nothing_to_resume():
    with pytest.raises(RunError) as caught:
        run(resume=True)
    assert str(caught.value) == "There is no run in run to resume; leave out --resume to start one."
    assert not Path("run").exists()


def test_one_process_at_a_time():
    with folder.opened(Path("run")), pytest.raises(RunError) as caught:
        run()
    assert str(caught.value) == "Another process trains in run; wait for it or choose another folder."


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_must_fit(seed):
    with pytest.raises(ConfigError) as caught:
        run(job=tiny_job(seed=seed))
    assert str(caught.value) == f"The seed cannot be {seed}; choose one from 0 to 4294967295."


@pytest.mark.parametrize("name", EVERY)
def test_intervals_must_be_positive(name):
    with pytest.raises(ConfigError) as caught:
        run(**{name: 0})
    assert str(caught.value) == "The intervals to log, save and check must be at least 1."


# kill -9

KILLED_WHILE_SAVING = """
import os, shutil, signal, sys
import numpy as np
from pathlib import Path
from cellwise.files import write_bytes
from cellwise.training.folder import Checkpoint, opened, read_metrics

def save(model, step):
    for name in ("a", "b"):
        write_bytes(model / name, str(step).encode())

def one_round(files, step):
    files.append({"step": step})
    files.save(Checkpoint(step, 0.0, "me", {"pool": np.full(1000, step, np.float32)}))
    files.replace_model(lambda model: save(model, step))

def write_in_two_halves(path, data):
    with path.open("wb") as file:
        file.write(data[: len(data) // 2])
        file.flush()
        sys.audit("half")
        file.write(data[len(data) // 2 :])

def killed_before_operation(n):
    count = 0
    def hook(event, args):
        nonlocal count
        if event in ("half", "open") or event.startswith(("os.", "shutil.")) and event != "os.kill":
            count += 1
            if count == n:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)

Path.write_bytes = write_in_two_halves
with opened(Path("base")) as files:
    for step in (1, 2, 3):
        one_round(files, step)

n, newest, killed = 0, set(), True
while killed:
    n += 1
    shutil.copytree("base", "run")
    child = os.fork()
    if child == 0:
        killed_before_operation(n)
        with opened(Path("run")) as files:
            one_round(files, 4)
        os._exit(0)
    killed = os.waitpid(child, 0)[1] == signal.SIGKILL
    with opened(Path("run")) as files:
        checkpoint, damaged = files.newest("me")
        assert not damaged and checkpoint.step in (3, 4)
        assert (checkpoint.tensors["pool"] == checkpoint.step).all()
        newest.add(checkpoint.step)
        files.cut_metrics(checkpoint.step)
        assert [record["step"] for record in read_metrics(files.path)] == [1, 2, 3, 4][: checkpoint.step]
        parts = {(files.model / name).read_text() for name in ("a", "b")}
        assert len(parts) == 1 and checkpoint.step - int(parts.pop()) in (0, 1)
        one_round(files, checkpoint.step + 1)
        assert len(files.checkpoint_files()) == 2
        assert sorted(os.listdir("run")) == [".lock", "checkpoints", "metrics.jsonl", "model"]
        assert not [name for name in os.listdir("run/checkpoints") if name.endswith(".part")]
    shutil.rmtree("run")
assert newest == {3, 4}
print(n)
"""


def test_a_folder_survives_a_kill_between_any_two_operations(tmp_path_factory):
    done = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_SAVING],
        capture_output=True,
        text=True,
        env=environment(tmp_path_factory.getbasetemp()),
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30


def test_a_run_that_is_killed_again_and_again_equals_one_that_was_not(tmp_path_factory, undisturbed):
    run_it = [sys.executable, str(TESTS / "tiny_job.py"), "run"]
    env = environment(tmp_path_factory.getbasetemp())
    steps, generator = [0], random.Random(0)
    while len(steps) < 3:
        process = subprocess.Popen(run_it, env=env, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        goal = Path(f"run/checkpoints/step-{steps[-1] + 3:07d}.safetensors")
        while not goal.exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(0.03 * generator.random())
        process.kill()
        process.wait()
        steps.append(newest("run").step)
        assert load("run/model").provenance["iterations"] in (steps[-1] - 1, steps[-1])
    assert 3 <= steps[1] < steps[2] < 12
    run(resume=True, save_every=1)
    assert_same_run("run", undisturbed)
