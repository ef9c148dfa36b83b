"""Bytes that go from process to process as files."""

import os
import stat

import pytest

from elastic.shared_files import map_file, write_file


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "bytes")


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 1 << 20])
def test_what_is_written_is_what_is_mapped(path, size):
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    write_file(path, memoryview(data))
    mapped = map_file(path)
    assert len(mapped) == size
    assert mapped == data


def test_mapped_bytes_outlive_their_file(path):
    write_file(path, memoryview(b"still here"))
    mapped = map_file(path)
    os.unlink(path)
    assert mapped == b"still here"


def test_mapped_bytes_cannot_be_written(path):
    write_file(path, memoryview(b"constant"))
    mapped = map_file(path)
    assert mapped.readonly
    with pytest.raises(TypeError, match="read-only"):
        mapped[0] = 0


def test_only_the_owner_can_read_the_file(path):
    write_file(path, memoryview(b"secret"))
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_file_that_is_there_is_replaced_and_who_has_mapped_it_keeps_it(path):
    """A killed writer may have left half of one."""
    write_file(path, memoryview(b"first"))
    mapped = map_file(path)
    write_file(path, memoryview(b"second"))
    assert (mapped, map_file(path)) == (b"first", b"second")


def test_a_link_that_is_there_is_not_followed(path, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"of somebody else")
    os.symlink(other, path)
    write_file(path, memoryview(b"second"))
    assert (map_file(path), other.read_bytes()) == (b"second", b"of somebody else")


def test_a_file_is_whole_even_if_the_system_takes_a_few_bytes_at_a_time(path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    write_file(path, memoryview(b"three bytes at a time"))
    assert map_file(path) == b"three bytes at a time"


def test_a_missing_file_is_an_os_error(path):
    with pytest.raises(FileNotFoundError):
        map_file(path)
    with pytest.raises(FileNotFoundError):
        write_file(os.path.join(path, "below"), memoryview(b"1"))


def test_no_descriptor_stays_open(path):
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    write_file(path, memoryview(b""))
    before = descriptors()
    for _ in range(3):
        assert map_file(path) == b""
        write_file(path, memoryview(b""))
        with pytest.raises(NotADirectoryError):
            write_file(f"{path}/below", memoryview(b"1"))
    assert descriptors() == before
