"""Uploads and downloads over a Unix socket, with the client of grpcio."""

import grpc
import pytest

from elastic.proto import ifrt_pb2 as pb
from tests.elastic.controller.grpc_client import (
    MIB,
    an_array,
    call,
    download,
    refused,
    session,
    upload,
)
from tests.elastic.controller.recording import copied


@pytest.mark.parametrize(
    "chunks",
    [[b""], [], [b"abc"], [b"a", b"", b"bc"], [bytes(MIB)] * 3 + [b"end"]],
    ids=lambda chunks: str(len(chunks)),
)
def test_an_upload_can_be_downloaded_again(serve, chunks):
    def talk(channel, service):
        with session(channel) as (_, id):
            upload(channel, id, 5, chunks)
            return download(channel, id, 5)

    messages = serve(talk)
    assert len(messages) >= 1  # At least one message, even for an empty buffer.
    assert b"".join(messages) == b"".join(chunks)
    assert max(map(len, messages)) <= MIB


def test_an_upload_that_breaks_off_is_a_data_loss_and_stores_nothing(serve):
    def talk(channel, service):
        with session(channel) as (_, id):
            refused(grpc.StatusCode.DATA_LOSS, lambda: upload(channel, id, 5, [b"abc"], size=4))
            refused(grpc.StatusCode.DATA_LOSS, lambda: upload(channel, id, 5, [b"abc"], size=2))
            refused(grpc.StatusCode.NOT_FOUND, lambda: download(channel, id, 5))

    serve(talk)


def test_an_upload_that_broke_off_may_be_repeated_for_the_request_that_waits_for_it(serve):
    def talk(channel, service):
        with session(channel) as (stream, id):
            stream.send(an_array(copied(0)))
            stream.send(pb.GetDefaultLayoutRequest(dims=[1]))
            refused(grpc.StatusCode.DATA_LOSS, lambda: upload(channel, id, 5, [b"abc"], size=8))
            assert service.run.heard() == []
            upload(channel, id, 5, [b"12345678"])
            return [stream.receive().array_handle, stream.receive().serialized_pjrt_layout]

    assert serve(talk) == [6, b"{0}"]


def test_a_deleted_buffer_is_gone(serve):
    def talk(channel, service):
        with session(channel) as (_, id):
            upload(channel, id, 5, [b"abc"])
            for _ in range(2):
                call(channel, "HostBufferDelete", pb.GrpcHostBufferDeleteRequest(session_id=id, handle=5))
            return refused(grpc.StatusCode.NOT_FOUND, lambda: download(channel, id, 5))

    assert "5" in serve(talk)


@pytest.mark.parametrize("wrong", [0, 1, 1 << 63])
def test_buffers_of_a_session_that_does_not_exist_are_not_found(serve, wrong):
    def talk(channel, service):
        with session(channel) as (_, id):
            upload(channel, id, 5, [b"abc"])
            refused(grpc.StatusCode.NOT_FOUND, lambda: upload(channel, wrong, 5, [b"x"]))
            refused(grpc.StatusCode.NOT_FOUND, lambda: download(channel, wrong, 5))
            delete = pb.GrpcHostBufferDeleteRequest(session_id=wrong, handle=5)
            refused(grpc.StatusCode.NOT_FOUND, lambda: call(channel, "HostBufferDelete", delete))
            return download(channel, id, 5)

    assert serve(talk) == [b"abc"]


def test_an_upload_by_file_is_taken_over(serve, tmp_path):
    def talk(channel, service):
        with session(channel) as (_, id):
            (tmp_path / "lt_5").write_bytes(b"by file")
            metadata = pb.GrpcHostBufferStoreMetadata(session_id=id, handle=5, buffer_size=7)
            request = pb.GrpcHostBufferReadFromDiskRequest(metadata=metadata)
            call(channel, "HostBufferReadFromDisk", request)
            refused(grpc.StatusCode.NOT_FOUND, lambda: call(channel, "HostBufferReadFromDisk", request))
            return download(channel, id, 5)

    assert serve(talk) == [b"by file"]


def test_what_a_device_holds_comes_down_through_a_buffer(serve):
    def talk(channel, service):
        with session(channel) as (stream, id):
            upload(channel, id, 5, [b"12345678"])
            stream.ask(an_array(copied(1)))
            stream.ask(pb.CopyToHostBufferRequest(array_handle=6, host_buffer_handle=7))
            return download(channel, id, 7)

    assert serve(talk) == [b"from the device"]
