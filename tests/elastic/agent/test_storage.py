"""Files of checkpoints, between a host's memory and a disk."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from elastic import fault_points
from elastic.agent.storage import fetch, store
from elastic.host_memory import digest_of, read, save

DATA = b"some values"
DIGEST = digest_of(DATA)
DONE = {"problem": None, "bad": []}


@pytest.fixture
def memory(tmp_path):
    memory = tmp_path / "memory"
    memory.mkdir()
    save(memory, DIGEST, DATA)
    return memory


@pytest.fixture
def other(tmp_path):
    """The memory of a host that has nothing yet."""
    other = tmp_path / "other"
    other.mkdir()
    return other


def test_what_a_host_has_stored_another_can_read(memory, other, tmp_path):
    assert store(memory, [(DIGEST, str(tmp_path / "file"))]) is None
    assert fetch(other, [(DIGEST, len(DATA), str(tmp_path / "file"))]) == DONE
    assert bytes(read(other, DIGEST)) == DATA


def test_what_has_changed_on_disk_is_named_and_not_read(other, tmp_path):
    (tmp_path / "file").write_bytes(DATA[::-1])
    said = fetch(other, [(DIGEST, len(DATA), str(tmp_path / "file"))])
    assert str(tmp_path / "file") in said["problem"]
    assert said["bad"] == [DIGEST]
    assert list(other.iterdir()) == []


def test_a_file_is_not_bad_because_there_is_no_space_for_what_was_read(other, tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(DATA)
    monkeypatch.setattr(fault_points, "_directory", str(tmp_path))
    monkeypatch.setenv(fault_points.HOST, "h1")
    fault_points.arm(tmp_path, fault_points.FULL_MEMORY, "h1")
    said = fetch(other, [(DIGEST, len(DATA), str(tmp_path / "file"))])
    assert said == {"problem": f"what was read from {tmp_path}/file cannot be kept: No space left on device", "bad": []}


def test_a_slow_disk_takes_as_long_for_each_file_as_it_is_slow(memory, other, tmp_path, monkeypatch):
    monkeypatch.setattr(fault_points, "_directory", str(tmp_path))
    monkeypatch.setenv(fault_points.HOST, "h1")
    fault_points.arm(tmp_path, fault_points.SLOW_DISK, "h1", "600")
    with ThreadPoolExecutor(1) as disk:
        stored = disk.submit(store, memory, [(DIGEST, str(tmp_path / "file"))])
        fetched = disk.submit(fetch, other, [(DIGEST, len(DATA), str(tmp_path / "file"))])
        assert not stored.done()
        fault_points.disarm(tmp_path, fault_points.SLOW_DISK, "h1")
        assert (stored.result(), fetched.result()) == (None, DONE)
