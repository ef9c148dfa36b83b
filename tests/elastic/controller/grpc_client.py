"""The proxy service over a run that records, and a client of it made with grpcio."""

import contextlib
import itertools
import queue

import grpc
import pytest

from elastic.commands import Command
from elastic.controller.service import ProxyService, Sessions
from elastic.controller.session import Session
from elastic.proto import ifrt_pb2 as pb
from tests.elastic.connections import PATIENCE
from tests.elastic.controller.recording import FIELD_OF, RecordingRun, f32

MIB = 1 << 20
PATH = "/xla.ifrt.proxy.GrpcIfrtService/"
SESSION_METADATA = "ifrt-proxy-grpc-ifrt-session-metadata-bin"
STORE_METADATA = "ifrt-proxy-grpc-host-buffer-store-metadata-bin"


class Service:
    """A service and what is behind it."""

    def __init__(self, uploads, token=None):
        self.uploads = uploads
        self.run = RecordingRun()
        self.run.reply = lambda message: (None, None, b"from the device" if message[0] == Command.READ else b"")
        self.ended = queue.SimpleQueue()
        """The ids of sessions that ended."""
        self._numbers = itertools.count(100)
        self.proxy = ProxyService(Sessions(self._new_session), token)

    def _new_session(self, id):
        session = Session(id, self.run, self._numbers, self.uploads)
        close = session.close
        session.close = lambda: (close(), self.ended.put(session.id))
        return session


class Talk:
    """The IfrtSession stream of one client."""

    def __init__(self, channel, metadata=()):
        self._requests = queue.SimpleQueue()
        self._ops = itertools.count(1)
        stream = channel.stream_stream(PATH + "IfrtSession")
        self.call = stream(iter(self._requests.get, None), metadata=metadata, timeout=PATIENCE)

    def send(self, request):
        metadata = pb.RequestMetadata(op_id=next(self._ops))
        envelope = pb.IfrtRequest(request_metadata=metadata, **{FIELD_OF[type(request)]: request})
        self._requests.put(envelope.SerializeToString())

    def receive(self):
        response = pb.IfrtResponse.FromString(next(self.call))
        assert not response.response_metadata.HasField("status"), response
        return getattr(response, response.WhichOneof("response"))

    def refused(self, code):
        """The text of the answer to a first request, which must be an error of this code."""
        self.send(pb.InitRequest())
        response = pb.IfrtResponse.FromString(next(self.call))
        assert (response.response_metadata.op_id, response.response_metadata.status.code) == (1, code)
        return response.response_metadata.status.message

    def ask(self, request):
        self.send(request)
        return self.receive()

    def raw(self, data):
        self._requests.put(data)

    def leave(self):
        self._requests.put(None)
        assert list(self.call) == []


@contextlib.contextmanager
def session(channel, metadata=()):
    talk = Talk(channel, metadata)
    try:
        yield talk, talk.ask(pb.InitRequest()).session_id
    finally:
        talk.call.cancel()


def connect(target):
    # Channels of one process share connections to the same address; each is a client of its own here.
    return grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)])


def call(channel, method, request):
    return channel.unary_unary(PATH + method)(request.SerializeToString(), timeout=PATIENCE)


def refused(code, work):
    with pytest.raises(grpc.RpcError) as raised:
        work()
    assert raised.value.code() is code, raised.value
    return raised.value.details()


def version(one):
    return pb.IfrtProxyVersion(protocol_version=one.protocol, ifrt_serdes_version_number=one.serdes)


def upload(channel, session_id, handle, chunks, size=None):
    size = sum(map(len, chunks)) if size is None else size
    metadata = pb.GrpcHostBufferStoreMetadata(session_id=session_id, handle=handle, buffer_size=size)
    requests = (pb.GrpcHostBufferStoreRequest(data=chunk).SerializeToString() for chunk in chunks)
    store = channel.stream_unary(PATH + "HostBufferStore")
    return store(requests, metadata=[(STORE_METADATA, metadata.SerializeToString())], timeout=PATIENCE)


def download(channel, session_id, handle):
    request = pb.GrpcHostBufferLookupRequest(session_id=session_id, handle=handle)
    lookup = channel.unary_stream(PATH + "HostBufferLookup")
    messages = lookup(request.SerializeToString(), timeout=PATIENCE)
    return [pb.GrpcHostBufferLookupResponse.FromString(message).data for message in messages]


def an_array(sharding):
    """A request for the array 6 from the upload 5."""
    return pb.MakeArrayFromHostBufferRequest(
        dtype=f32(),
        shape=pb.ShapeProto(dims=[2]),
        sharding=sharding.proto,
        host_buffer_handle=5,
        array_handle=6,
    )


def channel_target(channel):
    return channel._channel.target().decode()
