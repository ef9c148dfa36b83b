import pytest

from elastic.controller.host_buffers import HostBuffers
from elastic.status import Code, StatusError


@pytest.fixture
def buffers(tmp_path):
    return HostBuffers(tmp_path, session=3)


@pytest.fixture
def upload(tmp_path):
    """Leaves an upload as the client does; returns its file."""

    def upload(handle, data):
        path = tmp_path / f"lt_{handle}"
        path.write_bytes(data)
        return path

    return upload


def refused(code, work):
    with pytest.raises(StatusError) as raised:
        work()
    assert raised.value.code is code
    return raised.value.message


def test_a_buffer_is_there_until_it_is_taken(buffers):
    buffers.store(5, b"bytes")
    assert 5 in buffers
    assert buffers.get(5).read() == b"bytes"
    assert buffers.take(5).read() == b"bytes"
    assert 5 not in buffers


def test_a_buffer_that_is_not_there_is_not_found(buffers):
    buffers.store(5, b"bytes")
    buffers.delete(5)
    for handle in (5, 6):
        for look in (buffers.get, buffers.take):
            assert str(handle) in refused(Code.NOT_FOUND, lambda look=look, handle=handle: look(handle))


def test_deleting_a_buffer_that_is_not_there_is_no_error(buffers):
    buffers.delete(9)


def test_an_empty_buffer_is_a_buffer(buffers, upload):
    buffers.store(5, b"")
    assert buffers.take(5).read() == b""
    upload(6, b"")
    buffers.store_file(6, 0)
    assert buffers.take(6).read() == b""


def test_a_file_is_taken_over_from_the_client(buffers, upload):
    left = upload(5, b"from disk")
    buffers.store_file(5, 9)
    assert not left.exists()  # The client may use the name again.
    buffer = buffers.take(5)
    assert buffer.read() == b"from disk"
    assert buffer.path
    buffer.discard()
    buffer.discard()


def test_a_file_of_another_size_is_refused(buffers, upload):
    upload(5, b"short")
    assert "9 bytes" in refused(Code.INVALID_ARGUMENT, lambda: buffers.store_file(5, 9))
    assert 5 not in buffers


def test_a_file_that_is_not_there_is_not_found(buffers):
    assert "lt_5" in refused(Code.NOT_FOUND, lambda: buffers.store_file(5, 9))
    assert 5 not in buffers


def test_deleting_a_buffer_removes_its_file(buffers, upload, tmp_path):
    upload(5, b"x")
    buffers.store_file(5, 1)
    buffers.delete(5)
    assert list(tmp_path.iterdir()) == []


def test_closing_removes_the_files_that_nobody_took(buffers, upload, tmp_path):
    for handle in (5, 6):
        upload(handle, b"x")
        buffers.store_file(handle, 1)
    buffers.store(7, b"in memory")
    taken = buffers.take(6)
    buffers.close()
    assert 5 not in buffers
    assert 7 not in buffers
    assert [str(path) for path in tmp_path.iterdir()] == [taken.path]


def test_the_files_of_two_sessions_do_not_collide(upload, tmp_path):
    first, second = HostBuffers(tmp_path, 1), HostBuffers(tmp_path, 2)
    upload(5, b"one")
    first.store_file(5, 3)
    upload(5, b"two")
    second.store_file(5, 3)
    assert (first.get(5).read(), second.get(5).read()) == (b"one", b"two")


def test_arrivals_are_told_once_the_buffer_is_there(buffers, upload):
    seen = []
    buffers.on_arrival = lambda: seen.append([handle for handle in (5, 6) if handle in buffers])
    buffers.store(5, b"x")
    upload(6, b"y")
    buffers.store_file(6, 1)
    assert seen == [[5], [5, 6]]


def test_a_buffer_that_arrives_again_replaces_the_first_and_its_file(buffers, upload, tmp_path):
    upload(5, b"old")
    buffers.store_file(5, 3)
    buffers.store(5, b"new")
    assert buffers.take(5).read() == b"new"
    buffers.close()
    assert list(tmp_path.iterdir()) == []
