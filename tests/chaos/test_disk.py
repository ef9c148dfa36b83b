"""A disk that can be full and read-only, as the kernel has it."""

import errno
import os

import pytest

from chaos import Disk, DiskError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a disk of its own needs root")


@pytest.fixture
def disk(tmp_path):
    with Disk(tmp_path) as disk:
        yield disk


def refusal(path):
    """Why nothing can be written there; None if it can."""
    try:
        path.write_bytes(bytes(100_000))
    except OSError as error:
        return error.errno
    return None


def test_a_full_disk_takes_nothing_more_and_keeps_what_it_has(disk, tmp_path):
    assert refusal(tmp_path / "before") is None
    disk.fill()
    assert refusal(tmp_path / "after") == errno.ENOSPC
    assert (tmp_path / "before").stat().st_size == 100_000
    disk.heal()
    assert refusal(tmp_path / "after") is None


def test_a_disk_that_is_read_only_can_be_read(disk, tmp_path):
    refusal(tmp_path / "before")
    disk.protect()
    assert refusal(tmp_path / "before") == errno.EROFS
    assert len((tmp_path / "before").read_bytes()) == 100_000
    disk.heal()
    assert refusal(tmp_path / "before") is None


def test_while_a_file_is_being_written_its_disk_cannot_be_made_read_only(disk, tmp_path):
    with (tmp_path / "file").open("wb"), pytest.raises(DiskError, match="busy"):
        disk.protect()


def test_another_process_can_change_it_and_knows_its_size(disk, tmp_path):
    other = Disk.made(tmp_path)
    other.fill()
    assert refusal(tmp_path / "file") == errno.ENOSPC
    other.heal()
    assert refusal(tmp_path / "file") is None


def test_it_goes_with_all_that_is_on_it_even_if_somebody_has_a_file_open(tmp_path):
    with Disk(tmp_path):
        file = (tmp_path / "file").open("wb")
    with file:
        assert list(tmp_path.iterdir()) == []
        assert not os.path.ismount(tmp_path)
