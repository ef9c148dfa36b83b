import errno
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

import checkpoint
from checkpoint import files, store
from tests.checkpoint import saving
from tests.checkpoint.saving import WRITER, is_of_step, killed_saves, save, save_and_tidy


@pytest.fixture
def memory():
    """A directory whose files cost nothing to make durable."""
    with tempfile.TemporaryDirectory(prefix="e", dir="/dev/shm") as path:
        yield Path(path)


def names(root):
    return sorted(path.name for path in root.iterdir())


def test_what_was_saved_is_listed_and_whole(memory):
    for step in (5, 10):
        assert save(memory, step) == memory / str(step)
    assert [(step.number, step.ours, step.problem) for step in checkpoint.steps(memory)] == [
        (10, True, ""),
        (5, True, ""),
    ]
    assert checkpoint.verify(memory / "5") == checkpoint.verify(memory / "10") == []
    assert is_of_step(memory / "10", 10)
    assert checkpoint.load_manifest(memory / "10").extra == {"step": 10}


def test_where_nothing_is_there_are_no_steps(memory):
    assert checkpoint.steps(memory / "none") == []
    (memory / "file").touch()
    with pytest.raises(checkpoint.CheckpointError, match="file cannot be read: Not a directory"):
        checkpoint.steps(memory / "file")


def test_a_step_that_is_saved_again_is_replaced(memory):
    save(memory, 5)
    save(memory, 5, few=True)
    assert names(memory) == ["5"]
    assert len(checkpoint.load_manifest(memory / "5").arrays) == 2
    assert checkpoint.verify(memory / "5") == []


def test_so_it_is_where_the_file_system_cannot_exchange_names(memory, monkeypatch):
    monkeypatch.setattr(store, "exchange", lambda one, other: False)
    test_a_step_that_is_saved_again_is_replaced(memory)


def test_names_that_cannot_be_exchanged_are_an_error(memory):
    with pytest.raises(FileNotFoundError):
        files.exchange(memory / "one", memory / "other")


# What is not ours


def test_folders_of_others_are_told_apart_and_never_removed(memory):
    save(memory, 10, few=True)
    others = ["3", "12", "12.orbax-checkpoint-tmp", "13.orbax-checkpoint-tmp-1700000000", "007", "logs", "11.elastic"]
    for name in others:
        (memory / name).mkdir()
        (memory / name / "file").touch()
    (memory / "14").write_text("a file")
    found = {step.path.name: (step.ours, step.problem) for step in checkpoint.steps(memory)}
    assert found == {
        "13.orbax-checkpoint-tmp-1700000000": (False, "it was never finished"),
        "12": (False, "it has no elastic.json: not written by elastic"),
        "12.orbax-checkpoint-tmp": (False, "it was never finished"),
        "10": (True, ""),
        "3": (False, "it has no elastic.json: not written by elastic"),
    }
    skipped = []
    assert next(checkpoint.whole_steps(memory, skipped.append), None)[0] == memory / "10"
    assert skipped == [
        f"{memory / '13.orbax-checkpoint-tmp-1700000000'}: it was never finished",
        f"{memory / '12'}: it has no elastic.json: not written by elastic",
        f"{memory / '12.orbax-checkpoint-tmp'}: it was never finished",
    ]
    assert checkpoint.tidy(memory, [], WRITER) == [memory / "10"]
    assert names(memory) == sorted([*others, "14"])


def test_what_another_writer_has_not_finished_is_left_alone(memory):
    theirs = checkpoint.begin(memory, 10, [], "another")
    ours = checkpoint.begin(memory, 10, [], WRITER)
    assert checkpoint.tidy(memory, [], WRITER) == [ours.path]
    assert theirs.path.exists()


def test_a_step_of_others_is_not_replaced(memory):
    (memory / "10").mkdir()
    with pytest.raises(checkpoint.CheckpointError, match="10 is there and was not written by elastic; move it"):
        save(memory, 10)
    assert names(memory) == ["10"]


@pytest.mark.parametrize("writer", ["", "a/b", "a.b", ".."])
def test_writers_whose_name_cannot_be_part_of_a_folders_are_refused(memory, writer):
    with pytest.raises(checkpoint.CheckpointError, match="cannot name a writer"):
        checkpoint.begin(memory, 1, [], writer)


# What cannot be published


def test_nothing_is_published_before_all_is_written(memory):
    entry = checkpoint.ArrayEntry(("w",), "float32", (4,), (2,))
    unfinished = checkpoint.begin(memory, 1, [entry], WRITER)
    written = checkpoint.write_region(unfinished.path, entry, ((0, 2),), np.ones(4, np.float32)[:2])
    with pytest.raises(checkpoint.CheckpointError, match="nobody has written state/w/c/1 of step 1"):
        unfinished.publish(written, {})
    claimed = {**written, "state/w/c/1": checkpoint.FileEntry(8, "0" * 32)}
    with pytest.raises(checkpoint.CheckpointError, match="is not there; do all hosts see the same directory"):
        unfinished.publish(claimed, {})
    (unfinished.path / "state/w/c/1").write_bytes(b"short")
    with pytest.raises(checkpoint.CheckpointError, match="has 5 bytes instead of 8"):
        unfinished.publish(claimed, {})
    assert next(checkpoint.whole_steps(memory, lambda why: None), None) is None
    unfinished.abandon()
    assert names(memory) == []


def test_a_disk_that_refuses_leaves_nothing_new(memory, monkeypatch):
    save(memory, 1)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write_durably(memory / "1" / store.MANIFEST, b"new")
    monkeypatch.undo()
    assert checkpoint.verify(memory / "1") == []
    assert names(memory / "1") == ["_CHECKPOINT_METADATA", "elastic.json", "state"]


# What was changed afterwards


@pytest.fixture(scope="module")
def whole():
    with tempfile.TemporaryDirectory(prefix="e", dir="/dev/shm") as path:
        yield save(Path(path), 3)


@pytest.fixture
def step(whole, memory):
    """A whole checkpoint, to be damaged."""
    shutil.copytree(whole, memory / "3")
    return memory / "3"


def files_of(step):
    return sorted(str(path.relative_to(step)) for path in step.rglob("*") if path.is_file())


def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def test_one_flipped_bit_in_any_file_is_found_and_named(step):
    names = [name for name in files_of(step) if name != store.MANIFEST]
    assert len(names) > 30
    for name in names:
        bit = len(name) * 7 % ((step / name).stat().st_size * 8)
        flip(step / name, bit)
        assert checkpoint.verify(step) == [f"{step / name} was changed: its checksum does not fit"]
        flip(step / name, bit)
    assert checkpoint.verify(step) == []


def test_a_file_that_is_cut_or_missing_is_found_without_reading_any(step):
    cut, missing = step / "state/params.w/c/0/1", step / "state/key/c/0"
    cut.write_bytes(cut.read_bytes()[:-1])
    missing.unlink()
    problems = [f"{missing} cannot be read: No such file or directory", f"{cut} has 23 bytes instead of 24"]
    assert sorted(checkpoint.verify(step)) == sorted(problems)
    assert sorted(checkpoint.verify(step, contents=False)) == sorted(problems)


def test_a_changed_manifest_is_named_and_the_next_older_step_is_the_newest_whole_one(step):
    save(step.parent, 2)
    flip(step / store.MANIFEST, 800)
    (problem,) = checkpoint.verify(step)
    assert problem.startswith(f"{step / store.MANIFEST}: ")
    skipped = []
    assert next(checkpoint.whole_steps(step.parent, skipped.append), None)[0] == step.parent / "2"
    assert skipped == [problem]


# A writer that is killed


def test_wherever_a_save_is_killed_something_whole_is_there_and_the_next_save_works(memory):
    def two_steps():
        shutil.rmtree(memory / "run", ignore_errors=True)
        for step in (10, 20):
            save(memory / "run", step, few=True)
        return memory / "run"

    seen = []
    for point, root in killed_saves(two_steps, 30, last=2):
        seen.append(point)
        found, manifest = next(checkpoint.whole_steps(root, lambda why: None), None)
        assert manifest.step in (20, 30), point
        assert checkpoint.verify(found) == [], point
        assert is_of_step(found, manifest.step), point
        for step in (30, 40):
            save_and_tidy(root, step, last=2)
        assert names(root) == ["30", "40"], point
        assert is_of_step(root / "40", 40), point
    for event in ("os.mkdir 30.", "_CHECKPOINT_METADATA", "elastic.json", "/c/0/.1.", "os.rename 30.", "os.rename 10"):
        assert any(event in point for point in seen), (event, seen)


def test_wherever_the_only_step_is_saved_again_and_killed_it_stays_whole(memory):
    def one_step():
        shutil.rmtree(memory / "run", ignore_errors=True)
        save(memory / "run", 10, few=True)
        return memory / "run"

    for point, root in killed_saves(one_step, 10, last=1):
        assert next(checkpoint.whole_steps(root, lambda why: None), None) is not None, point
        assert checkpoint.verify(root / "10") == [], point
        save_and_tidy(root, 20, last=1)
        assert names(root) == ["20"], point


def test_the_arrays_of_these_tests_differ_from_step_to_step():
    for before, after in zip(saving.arrays(1), saving.arrays(2), strict=True):
        assert before[2].size == 0 or not np.array_equal(before[2], after[2])
