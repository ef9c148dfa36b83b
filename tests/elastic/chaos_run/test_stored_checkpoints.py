"""What the runner sees in the directory of a run's checkpoints."""

import shutil

import numpy as np

from checkpoint import ArrayEntry, begin, steps, tidy, whole, write_region
from elastic.chaos_run.stored_checkpoints import StoredCheckpoints


def store(folder, step):
    array = ArrayEntry(("x",), "float32", (4,), (2,))
    unfinished = begin(folder, step, (array,), "elastic")
    written = write_region(unfinished.path, array, whole((4,)), np.arange(4, dtype=np.float32))
    return unfinished.publish(written, {})


def test_the_newest_checkpoint_has_the_files_of_its_arrays(tmp_path):
    stored = StoredCheckpoints(tmp_path, None)
    assert stored.newest_files() == []
    store(tmp_path / "run", 9)
    newest = store(tmp_path / "run", 10)
    assert {file.parents[2] for file in stored.newest_files()} == {newest / "state"}
    assert len(stored.newest_files()) == 2
    assert stored.bad() == []


def test_a_file_that_was_changed_is_named(tmp_path):
    stored = StoredCheckpoints(tmp_path, None)
    store(tmp_path / "run", 10)
    file = stored.newest_files()[0]
    file.write_bytes(file.read_bytes()[::-1])
    [problem] = stored.bad()
    assert str(file) in problem


def test_what_is_foreign_stays_when_a_run_removes_what_it_needs_no_more(tmp_path):
    stored = StoredCheckpoints(tmp_path, None)
    stored.put_foreign()
    for step in (1, 2, 3):
        stored.put_foreign(store(tmp_path / "run", step).parent)
    tidy(tmp_path / "run", [3], "elastic")
    assert stored.foreign_gone() == []
    assert [step.number for step in steps(tmp_path / "run") if step.ours] == [3]


def test_what_is_foreign_and_gone_or_changed_is_named(tmp_path):
    stored = StoredCheckpoints(tmp_path, None)
    stored.put_foreign()
    shutil.rmtree(tmp_path / "0")
    (tmp_path / "notes.txt").write_text("yours")
    assert sorted(stored.foreign_gone()) == [str(tmp_path / "0/values"), str(tmp_path / "notes.txt")]
