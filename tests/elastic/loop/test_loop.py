"""Loops in this process: what is saved when, what is told, and what becomes of saves that fail."""

import errno
import os
import subprocess
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checkpoint
import elastic
from elastic.loop import saver
from elastic.loop.data_position import follow
from elastic.loop.progress import Progress
from tests.elastic.processes import wait_until


@pytest.fixture
def directory():
    """One whose files cost nothing to make durable."""
    with tempfile.TemporaryDirectory(prefix="e", dir="/dev/shm") as path:
        yield Path(path)


@jax.jit
def train_step(state, batch):
    return {"w": state["w"] + batch, "seen": state["seen"] + 1}, {"batch": batch, "sum": jnp.sum(state["w"])}


def initial():
    return {"w": jnp.zeros(4), "seen": jnp.int32(0)}


def wrap(directory, step=train_step, **settings):
    return elastic.wrap(step, checkpoint=directory, **{"save_every": 2, **settings})


def train(loop, steps, data=range(5), until=None, body=None):
    """The batches of the steps that were made, each save awaited; `until` a step after which the loop is left."""
    batches = []
    for step, metrics in loop(initial(), data, steps=steps):
        batches.append(int(metrics["batch"]))
        loop._told.wait()
        if body is not None:
            body(step)
        if step == until:
            break
    return batches


def saved(directory):
    return sorted(step.number for step in checkpoint.steps(directory) if step.finished)


def flip(step):
    """Changes one bit of a chunk; its path."""
    file = step / "state" / "w" / "c" / "0"
    data = file.read_bytes()
    file.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    return file


# What is saved, and when


def test_it_is_saved_every_so_many_steps_and_at_the_end_and_the_newest_are_kept(directory, capsys):
    loop = wrap(directory)
    assert train(loop, 9) == [0, 1, 2, 3, 4, 0, 1, 2, 3]
    assert (loop.step, loop.saved_step, int(loop.state["seen"])) == (9, 9, 9)
    assert saved(directory) == [6, 8, 9]
    assert capsys.readouterr().err.count("is saved") == 5


def test_those_of_every_nth_step_stay_too(directory):
    train(wrap(directory, keep=1, keep_every=4), 10)
    assert saved(directory) == [4, 8, 10]


def test_a_loop_that_is_left_is_saved_and_the_next_one_goes_on(directory):
    assert train(wrap(directory), 9, until=3) == [0, 1, 2]
    assert saved(directory) == [2, 3]
    loop = wrap(directory)
    assert train(loop, 9) == [3, 4, 0, 1, 2, 3]
    assert int(loop.state["seen"]) == 9


def test_a_loop_of_the_same_object_goes_on_too(directory):
    loop = wrap(directory)
    assert train(loop, 2) == [0, 1]
    assert train(loop, 4) == [2, 3]


def test_without_steps_it_ends_with_the_data(directory):
    steps = wrap(directory)
    assert [step for step, _ in steps(initial(), [1, 2, 3])] == [1, 2, 3]
    assert [step for step, _ in steps(initial(), [1, 2, 3], epochs=3)] == [4, 5, 6, 7, 8, 9]


def test_the_state_may_be_set_in_the_body_of_the_loop(directory):
    loop = wrap(directory)

    def reset(step):
        if step == 2:
            loop.state = {**loop.state, "w": jnp.full(4, 100.0)}

    train(loop, 3, body=reset)
    assert loop.state["w"].tolist() == [102.0] * 4


def test_an_error_of_the_step_function_is_raised_with_the_state_before_it_saved(directory):
    def failing(state, batch):
        if batch == 3:
            raise ValueError("no")
        return train_step(state, batch)

    with pytest.raises(ValueError, match="no"):
        train(wrap(directory, failing), 9)
    assert saved(directory) == [2, 3]
    assert train(wrap(directory), 5) == [3, 4], "the batch that failed is used again"


def test_a_state_that_was_donated_to_a_step_that_failed_is_told_to_be_lost(directory, capsys):
    donating = jax.jit(lambda state, batch: train_step(state, batch), donate_argnums=0)

    def failing(state, batch):
        after = donating(state, batch)
        if batch == 3:
            raise ValueError("no")
        return after

    with pytest.raises(ValueError, match="no"):
        train(wrap(directory, failing), 9)
    assert saved(directory) == [2]
    assert "step 3 was not saved" in capsys.readouterr().err


def test_donated_arrays_are_saved_as_they_were(directory):
    donating = jax.jit(lambda state, batch: train_step(state, batch), donate_argnums=0)
    loop = wrap(directory, donating, save_every=1, keep=9)
    for _ in loop(initial(), range(5), steps=9):
        pass
    for step in saved(directory):
        manifest = checkpoint.load_manifest(directory / str(step))
        entry = manifest.array(("seen",))
        assert checkpoint.read_region(directory / str(step), manifest, entry, ()) == step


# Checkpoints that cannot be used


def test_a_bad_checkpoint_is_passed_over_with_its_reason_and_the_next_older_one_used(directory, capsys):
    train(wrap(directory), 6)
    file = flip(directory / "6")
    capsys.readouterr()
    loop = wrap(directory, keep=1)
    assert train(loop, 7) == [4, 0, 1]
    told = capsys.readouterr().err
    assert f"passed over: step 6: {file} was changed: its checksum does not fit" in told
    assert f"goes on after step 4, from {directory / '4'}" in told
    assert loop.state["w"].tolist() == [0 + 1 + 2 + 3 + 4 + 0 + 1.0] * 4
    assert saved(directory) == [7]


def test_a_bad_newer_checkpoint_does_not_drive_out_the_good_ones(directory):
    train(wrap(directory), 6)
    flip(directory / "6")
    train(wrap(directory, keep=1), 9, until=5)
    assert saved(directory) == [5]


def test_where_none_is_whole_it_does_not_begin_again_unless_told_to(directory):
    train(wrap(directory), 4)
    files = [flip(directory / step) for step in ("2", "4")]
    with pytest.raises(
        elastic.CheckpointError, match=r"no checkpoint in .* can be used: step 4: .* pass resume=False"
    ) as raised:
        wrap(directory)(initial(), range(5), steps=9)
    assert all(str(file) in str(raised.value) for file in files)
    assert saved(directory) == [2, 4]
    assert train(wrap(directory, resume=False), 1) == [0]
    assert saved(directory) == [1]


def test_beginning_again_removes_nothing_before_something_new_is_saved(directory):
    train(wrap(directory), 4)
    loop = wrap(directory, resume=False)
    assert train(loop, 9, until=1, body=lambda step: saved(directory) == [2, 4] or pytest.fail("removed")) == [0]
    assert saved(directory) == [1]


def test_a_state_of_another_form_is_refused_with_the_difference(directory):
    train(wrap(directory), 2)
    with pytest.raises(
        elastic.CheckpointError, match=rf"{directory}/2 cannot be used: .* w had the shape \(4,\) and has"
    ):
        wrap(directory)({"w": jnp.zeros(5), "seen": jnp.int32(0)}, range(5), steps=9)


def test_a_checkpoint_of_something_else_is_refused(directory):
    checkpoint.begin(directory, 3, [], "run").publish({}, {})
    with pytest.raises(elastic.CheckpointError, match=r"3 was not saved by elastic.wrap"):
        wrap(directory)(initial(), range(5), steps=9)


# Saves that fail


@pytest.fixture
def failing(monkeypatch):
    """How often the save of a step fails before it works."""
    times, real = Counter(), checkpoint.Unfinished.publish

    def publish(self, files, extra):
        if times[self.step]:
            times[self.step] -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(self, files, extra)

    monkeypatch.setattr(checkpoint.Unfinished, "publish", publish)
    return times


def test_a_save_that_fails_is_told_at_once_and_not_counted_and_the_next_one_works(directory, failing, capsys):
    failing[4] = 1
    told = []
    loop = wrap(directory)

    def look(step):
        told.append((step, loop.saved_step, "step 4 was not saved" in capsys.readouterr().err))

    train(loop, 7, body=look)
    assert told == [
        (1, None, False),
        (2, None, False),
        (3, 2, False),
        (4, 2, False),
        (5, 2, True),
        (6, 2, False),
        (7, 6, False),
    ]
    assert saved(directory) == [2, 6, 7]


def test_if_the_last_save_fails_the_loop_raises(directory, failing):
    failing[5] = 1
    with pytest.raises(elastic.CheckpointError, match=rf"step 5 was not saved in {directory}: Input/output error"):
        train(wrap(directory), 5)
    assert saved(directory) == [2, 4]
    assert [step.path.name for step in checkpoint.steps(directory)] == ["4", "2"]
    assert train(wrap(directory), 5) == [4]


def test_a_last_step_whose_save_failed_is_saved_again_at_the_end(directory, failing, capsys):
    failing[4] = 1
    assert train(wrap(directory), 9, data=iter(range(4))) == [0, 1, 2, 3]
    assert "step 4 was not saved" in capsys.readouterr().err
    assert saved(directory) == [2, 4]


def test_a_loop_never_waits_for_a_save_under_way(directory, monkeypatch):
    go_on, real = threading.Event(), checkpoint.Unfinished.publish

    def slow(self, files, extra):
        go_on.wait()
        return real(self, files, extra)

    monkeypatch.setattr(checkpoint.Unfinished, "publish", slow)
    loop = wrap(directory)
    for step, _ in loop(initial(), range(5), steps=9):
        if step == 9:
            assert loop.saved_step is None
            go_on.set()
    assert saved(directory) == [2, 9], "what was due meanwhile was left out"


def test_whoever_has_seen_that_a_step_is_saved_finds_the_next_one_saved_when_due(directory, monkeypatch):
    tell = Progress.saved

    def slowly(*outcome):
        time.sleep(0.1)  # As long as it takes others to make a step, and to come to the next save.
        tell(*outcome)

    monkeypatch.setattr(Progress, "saved", slowly)
    loop = wrap(directory, save_every=1, keep=5)
    for step, _ in loop(initial(), range(5), steps=4):
        wait_until(lambda step=step: loop.saved_step == (step - 1 or None), 20)
    assert saved(directory) == [1, 2, 3, 4]


def test_arrays_that_cannot_be_copied_are_a_save_that_failed(directory, monkeypatch, capsys):
    def refuse(leaves):
        raise RuntimeError("RESOURCE_EXHAUSTED")

    monkeypatch.setattr(saver, "_copied", refuse)
    with pytest.raises(elastic.CheckpointError, match=r"step 3 was not saved in .*: RESOURCE_EXHAUSTED"):
        train(wrap(directory), 3)
    assert "step 2 was not saved" in capsys.readouterr().err


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MB."""
    tmp_path.joinpath("disk").mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", tmp_path / "disk"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    yield tmp_path / "disk"
    subprocess.run(["umount", "--lazy", tmp_path / "disk"], check=True)


def test_a_full_disk_is_told_and_when_there_is_space_again_the_next_save_works(small_disk, capsys):
    state = {"w": jnp.zeros(250_000), "seen": jnp.int32(0)}
    loop = wrap(small_disk / "run", keep=1)
    filler = small_disk / "filler"
    for step, _ in loop(state, range(5), steps=7):
        loop._told.wait()
        if step == 3:
            assert loop.saved_step == 2
            filler.write_bytes(bytes(2_500_000))
        if step == 5:
            assert loop.saved_step == 2
            assert "step 4 was not saved in" in (told := capsys.readouterr().err)
            assert "No space left on device; the newest one saved is 2" in told
            assert checkpoint.verify(small_disk / "run" / "2") == []
            assert [found.path.name for found in checkpoint.steps(small_disk / "run")] == ["2"]
            filler.unlink()
    assert saved(small_disk / "run") == [7]
    assert checkpoint.verify(small_disk / "run" / "7") == []


# Settings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"save_every": 0}, "save_every is 0"),
        ({"keep": 0}, "at least one checkpoint"),
        ({"keep_every": 0}, "at least one checkpoint"),
        ({"checkpoint": "gs://bucket/a"}, "is a URL"),
    ],
)
def test_settings_that_cannot_work_are_refused(directory, settings, words):
    with pytest.raises(elastic.UsageError, match=words):
        elastic.wrap(train_step, **{"checkpoint": directory, **settings})


def test_a_directory_that_cannot_be_made_is_refused(directory):
    (directory / "file").touch()
    with pytest.raises(elastic.CheckpointError, match="file cannot be written to: "):
        wrap(directory / "file")(initial(), range(5), steps=2)


def test_a_state_that_cannot_be_saved_is_refused_before_the_first_step(directory):
    with pytest.raises(elastic.CheckpointError, match="names cannot be saved"):
        wrap(directory)({"names": np.array(["a"])}, range(5), steps=2)


def test_what_a_checkpoint_says_of_the_data_is_a_position_in_it(directory):
    train(wrap(directory), 7)
    position = checkpoint.load_manifest(directory / "7").extra["loop"]["data"]
    assert next(follow(range(5), None, position)) == 2
