"""Versions, sessions and tokens, over a Unix socket, with the client of grpcio."""

import itertools

import grpc
import pytest

from elastic.commands import Command
from elastic.controller import history
from elastic.proto import ifrt_pb2 as pb
from elastic.protocol_version import NEWEST, OLDEST
from elastic.status import Code
from tests.elastic.connections import PATIENCE
from tests.elastic.controller.grpc_client import (
    SESSION_METADATA,
    Talk,
    an_array,
    call,
    channel_target,
    connect,
    download,
    refused,
    session,
    upload,
    version,
)
from tests.elastic.controller.recording import copied

# Versions


def test_the_newest_version_that_both_speak_is_agreed(serve):
    def talk(channel, service):
        request = pb.GrpcGetVersionRequest(min_version=version(OLDEST), max_version=version(NEWEST))
        request.max_version.protocol_version += 1
        return pb.GrpcGetVersionResponse.FromString(call(channel, "GetVersion", request)).version

    assert serve(talk) == version(NEWEST)


def test_without_a_common_version_the_client_reads_which_side_is_too_old(serve):
    def talk(channel, service):
        request = pb.GrpcGetVersionRequest(min_version=version(OLDEST), max_version=version(OLDEST))
        request.min_version.protocol_version = request.max_version.protocol_version = 1
        return refused(grpc.StatusCode.FAILED_PRECONDITION, lambda: call(channel, "GetVersion", request))

    assert "upgrade jaxlib on the client" in serve(talk)


def test_a_method_that_is_none_of_the_protocol_is_unimplemented(serve):
    def talk(channel, service):
        return refused(grpc.StatusCode.UNIMPLEMENTED, lambda: call(channel, "Reboot", pb.GrpcGetVersionRequest()))

    assert "Reboot" in serve(talk)


# Sessions


def test_a_session_answers_its_requests(serve):
    def talk(channel, service):
        with session(channel) as (stream, _):
            assert stream.ask(pb.GetDefaultLayoutRequest(dims=[2, 3])).serialized_pjrt_layout == b"{1,0}"
            stream.leave()

    serve(talk)


def test_a_second_client_is_told_why_it_is_refused_and_the_first_goes_on(serve):
    def talk(channel, service):
        with session(channel) as (stream, _), connect(channel_target(channel)) as other:
            second = Talk(other)
            assert "another client" in second.refused(Code.FAILED_PRECONDITION)
            second.leave()
            assert len(stream.ask(pb.InitRequest()).all_devices) == 4

    serve(talk)


def test_the_next_client_may_come_when_the_first_has_left(serve):
    told = []
    stop = history.listen(told.append, ["client"])

    def talk(channel, service):
        ids = []
        for _ in range(3):
            stream = Talk(channel)
            ids.append(stream.ask(pb.InitRequest()).session_id)
            stream.leave()
        return ids

    assert len(set(serve(talk))) == 3
    stop()
    assert len(told) == 3


def test_a_refused_client_that_leaves_takes_nothing_from_the_first(serve):
    def talk(channel, service):
        with session(channel) as (stream, id), connect(channel_target(channel)) as other:
            second = Talk(other)
            second.refused(Code.FAILED_PRECONDITION)
            second.call.cancel()
            third = Talk(other)  # On the same connection: the server has heard of the cancellation by now.
            third.refused(Code.FAILED_PRECONDITION)
            third.leave()
            upload(channel, id, 5, [b"abc"])
            assert download(channel, id, 5) == [b"abc"]
            stream.leave()
            assert service.ended.get(timeout=PATIENCE) == id

    serve(talk)


def test_a_client_that_leaves_gives_back_what_it_had(serve, tmp_path):
    def talk(channel, service):
        stream = Talk(channel)
        id = stream.ask(pb.InitRequest()).session_id
        upload(channel, id, 5, [b"12345678"])
        stream.ask(an_array(copied(0, 3)))
        (tmp_path / "lt_7").write_bytes(b"never used")
        metadata = pb.GrpcHostBufferStoreMetadata(session_id=id, handle=7, buffer_size=10)
        call(channel, "HostBufferReadFromDisk", pb.GrpcHostBufferReadFromDiskRequest(metadata=metadata))
        stream.leave()
        put, free = service.run.heard()
        assert free == (Command.FREE, (0, 3), [put[2]])
        assert list(tmp_path.iterdir()) == []
        lookup = pb.GrpcHostBufferLookupRequest(session_id=id, handle=5)
        refused(grpc.StatusCode.NOT_FOUND, lambda: call(channel, "HostBufferLookup", lookup))

    serve(talk)


def test_a_client_that_is_cut_off_makes_room_for_the_next(serve):
    def talk(channel, service):
        with connect(channel_target(channel)) as other:
            first = Talk(other).ask(pb.InitRequest()).session_id
        assert service.ended.get(timeout=PATIENCE) == first
        with session(channel) as (_, id):
            return id != first

    assert serve(talk)


def test_garbage_on_the_stream_ends_the_session_and_no_more(serve):
    def talk(channel, service):
        stream = Talk(channel)
        first = stream.ask(pb.InitRequest()).session_id
        stream.raw(b"\xff\xff\xff")
        refused(grpc.StatusCode.INTERNAL, lambda: next(stream.call))
        with session(channel) as (_, id):
            return id != first

    assert serve(talk)


def test_the_ids_of_sessions_cannot_be_guessed(serve):
    """Whoever shows one gets at the buffers of the client."""

    def talk(channel, service):
        ids = []
        for _ in range(4):
            with session(channel) as (stream, id):
                ids.append(id)
                stream.leave()
        return ids

    ids = serve(talk)
    assert max(ids) > 1 << 50
    assert len({after - before for before, after in itertools.pairwise(ids)}) == 3


# The token


def shown(token):
    metadata = pb.GrpcIfrtSessionMetadata()
    metadata.initialization_data.attributes["elastic_token"].string_value = token
    return [(SESSION_METADATA, metadata.SerializeToString())]


def test_a_client_that_shows_the_token_gets_a_session(serve):
    def talk(channel, service):
        with session(channel, shown(b"abc")) as (stream, _):
            return len(stream.ask(pb.InitRequest()).all_devices)

    assert serve(talk, token="abc") == 4


@pytest.mark.parametrize(
    "metadata",
    [[], shown(b""), shown(b"abd"), shown(b"abcd"), shown(b"\xff\x00")],
    ids=["none", "empty", "wrong", "longer", "binary"],
)
def test_a_client_that_does_not_show_the_token_gets_none_and_does_not_take_the_place(serve, metadata):
    def talk(channel, service):
        stranger = Talk(channel, metadata)
        assert "ELASTIC_TOKEN_FILE" in stranger.refused(Code.UNAUTHENTICATED)
        with session(channel, shown(b"abc")) as (stream, _):
            return len(stream.ask(pb.InitRequest()).all_devices)

    assert serve(talk, token="abc") == 4


def test_metadata_that_cannot_be_read_gets_no_session_and_does_not_take_the_place(serve):
    def talk(channel, service):
        with pytest.raises(grpc.RpcError):
            Talk(channel, [(SESSION_METADATA, b"\xff\xff")]).ask(pb.InitRequest())
        with session(channel, shown(b"abc")) as (stream, _):
            return len(stream.ask(pb.InitRequest()).all_devices)

    assert serve(talk, token="abc") == 4
