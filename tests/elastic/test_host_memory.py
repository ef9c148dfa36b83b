"""A host's memory for snapshots: files named by the digest of what they hold."""

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic import fault_points
from elastic.host_memory import (
    DIGEST_BYTES,
    contents,
    digest_of,
    growing,
    has,
    held,
    hold,
    keep_only,
    let_go,
    piece,
    read,
    save,
)
from elastic.status import Code, StatusError


@pytest.fixture
def memory(tmp_path):
    path = tmp_path / "memory"
    path.mkdir()
    return path


def kept(memory, data):
    """Saves bytes under their digest, which is returned."""
    digest = digest_of(data)
    save(memory, digest, data)
    return digest


@pytest.mark.parametrize("data", [b"", b"x", bytes(1 << 20)], ids=len)
def test_what_was_saved_can_be_read(memory, data):
    digest = kept(memory, data)
    assert has(memory, digest)
    assert bytes(read(memory, digest)) == data
    assert contents(memory) == [digest]


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_digests_are_equal_for_equal_bytes_only(one, other):
    assert (digest_of(one) == digest_of(bytearray(other))) == (one == other)
    assert len(digest_of(memoryview(one))) == DIGEST_BYTES


def test_equal_bytes_are_one_file(memory):
    assert kept(memory, b"x" * 10) == kept(memory, bytearray(b"x" * 10))
    assert len(list(memory.iterdir())) == 1


def test_only_the_owner_can_read_it(memory):
    digest = kept(memory, b"secret")
    assert stat.S_IMODE((memory / digest.hex()).stat().st_mode) == 0o600


def test_what_is_not_there_is_a_data_loss_that_names_it(memory):
    digest = digest_of(b"never saved")
    assert not has(memory, digest)
    with pytest.raises(StatusError, match=digest.hex()) as raised:
        read(memory, digest)
    assert raised.value.code is Code.DATA_LOSS


@pytest.mark.parametrize("changed", [b"xxxyxx", b"xxxxx", b"xxxxxxx", b""], ids=repr)
def test_changed_bytes_are_a_data_loss_that_names_them(memory, changed):
    digest = kept(memory, b"xxxxxx")
    (memory / digest.hex()).write_bytes(changed)
    with pytest.raises(StatusError, match=f"{digest.hex()} was changed") as raised:
        read(memory, digest)
    assert raised.value.code is Code.DATA_LOSS


@pytest.mark.parametrize("failing", ["write", "rename"])
def test_without_space_nothing_is_left(memory, monkeypatch, failing):
    digest = kept(memory, b"before")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="No space left"):
        kept(memory, b"too much")
    assert [path.name for path in memory.iterdir()] == [digest.hex()]


def test_what_a_killed_process_left_unfinished_is_no_content_and_goes(memory):
    digest = kept(memory, b"whole")
    (memory / f"{digest_of(b'other').hex()}.4711").write_bytes(b"oth")
    assert contents(memory) == [digest]
    assert not has(memory, digest_of(b"other"))
    keep_only(memory, {digest})
    assert [path.name for path in memory.iterdir()] == [digest.hex()]


def test_all_but_what_is_needed_is_removed(memory):
    digests = [kept(memory, data) for data in (b"1", b"2", b"3")]
    keep_only(memory, {digests[1], digest_of(b"on other hosts")})
    assert contents(memory) == [digests[1]]
    keep_only(memory, set())
    assert contents(memory) == []


def test_a_file_that_others_have_removed_already_is_no_error(memory, monkeypatch):
    kept(memory, b"1")
    listed = list(memory.iterdir())
    monkeypatch.setattr(type(memory), "iterdir", lambda _: iter(listed))
    keep_only(memory, set())
    keep_only(memory, set())


def test_what_was_read_lives_on_when_it_is_removed(memory):
    data = read(memory, kept(memory, b"x" * 5000))
    keep_only(memory, set())
    assert bytes(data) == b"x" * 5000


def test_a_memory_that_is_gone_is_an_error_and_not_an_empty_one(memory):
    memory.rmdir()
    with pytest.raises(OSError, match="memory"):
        save(memory, digest_of(b"x"), b"x")


@given(st.lists(st.binary(max_size=9)))
def test_what_is_saved_in_pieces_has_the_digest_of_all_of_it(tmp_path_factory, pieces):
    memory = tmp_path_factory.mktemp("memory")
    with growing(memory) as file:
        for data in pieces:
            file.add(memoryview(data))
        assert contents(memory) == []
        file.complete()
    assert file.digest == digest_of(b"".join(pieces))
    assert bytes(read(memory, file.digest)) == b"".join(pieces)


def test_what_is_not_completed_leaves_nothing(memory):
    with growing(memory) as file:
        file.add(memoryview(b"a part"))
    assert list(memory.iterdir()) == []


def test_a_file_can_be_read_in_pieces_which_are_shorter_at_its_end(memory):
    digest = kept(memory, b"0123456789")
    assert [piece(memory, digest, start, 4) for start in (0, 4, 8, 12)] == [b"0123", b"4567", b"89", b""]
    with pytest.raises(FileNotFoundError):
        piece(memory, digest_of(b"never saved"), 0, 4)


def test_what_was_changed_is_removed_and_can_be_saved_again(tmp_path):
    digest = digest_of(b"good")
    save(tmp_path, digest, b"good")
    (tmp_path / digest.hex()).write_bytes(b"bad!")
    with pytest.raises(StatusError, match="was changed"):
        read(tmp_path, digest)
    assert not has(tmp_path, digest)
    save(tmp_path, digest, b"good")
    assert bytes(read(tmp_path, digest)) == b"good"


def test_what_is_held_stays_when_the_rest_goes(tmp_path):
    digest = digest_of(b"x")
    save(tmp_path, digest, b"x")
    hold(tmp_path, 7, digest, b"x")
    hold(tmp_path, 7, digest, b"x")
    hold(tmp_path, 8, digest_of(b"y"), b"y")
    keep_only(tmp_path, set())
    assert not has(tmp_path, digest)
    assert bytes(read(held(tmp_path, 7), digest)) == b"x"
    assert bytes(read(held(tmp_path, 8), digest_of(b"y"))) == b"y"
    let_go(tmp_path, 7)
    assert not has(held(tmp_path, 7), digest)
    assert has(held(tmp_path, 8), digest_of(b"y"))


def test_what_is_held_takes_its_space_once(tmp_path):
    digest = digest_of(b"x")
    save(tmp_path, digest, b"x")
    hold(tmp_path, 7, digest, b"x")
    assert (tmp_path / digest.hex()).samefile(held(tmp_path, 7) / digest.hex())


def test_a_host_whose_memory_is_full_saves_nothing_until_it_has_space_again(memory, tmp_path, monkeypatch):
    monkeypatch.setattr(fault_points, "_directory", str(tmp_path))
    monkeypatch.setenv(fault_points.HOST, "h1")
    fault_points.arm(tmp_path, fault_points.FULL_MEMORY, "h1")
    with pytest.raises(OSError, match="No space left"):
        kept(memory, b"more")
    with pytest.raises(OSError, match="No space left"), growing(memory):
        pass
    assert contents(memory) == []
    fault_points.disarm(tmp_path, fault_points.FULL_MEMORY, "h1")
    assert has(memory, kept(memory, b"more"))
