"""The IFRT proxy service: gRPC calls of the client to sessions."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

from elastic.controller import history
from elastic.controller.session import Session
from elastic.controller.stream import RequestStream, refuse
from elastic.front import Call, CallHandler, GrpcError
from elastic.front import Status as GrpcStatus
from elastic.proto import ifrt_pb2 as pb
from elastic.protocol_version import NoCommonVersionError, ProtocolVersion, negotiate
from elastic.refusals import Reason
from elastic.status import Code, StatusError

_SESSION_METADATA = "ifrt-proxy-grpc-ifrt-session-metadata-bin"
_STORE_METADATA = "ifrt-proxy-grpc-host-buffer-store-metadata-bin"
_CHUNK = 1 << 20
"""Bytes of a download in one message."""


class Sessions:
    """The one session that there may be at a time; the next client may come when the last has left."""

    def __init__(self, new_session: Callable[[int], Session]) -> None:
        """`new_session(id)` makes a session. Ids cannot be guessed: they are what later calls of a client show."""
        self._new_session = new_session
        self._current: Session | None = None
        self.closed_because: str | None = None
        """Why there can be none now; None if there can."""

    @property
    def connected(self) -> bool:
        """Whether a client is there."""
        return self._current is not None

    def open(self) -> Session:
        """Raises `StatusError` if another client is there, or the run cannot serve one yet."""
        if self.closed_because is not None:
            raise StatusError(Code.UNAVAILABLE, self.closed_because)
        if self._current is not None:
            raise StatusError(
                Code.FAILED_PRECONDITION, "another client uses this controller; a run serves one client at a time"
            )
        self._current = self._new_session(secrets.randbits(63))
        history.tell("client")
        return self._current

    def hold(self, held: bool) -> None:
        """Has the requests of the client wait, or go on."""
        if self._current is not None:
            self._current.hold(held)

    def close(self, session: Session) -> None:
        if self._current is session:
            self._current = None
            session.close()

    def get(self, id: int) -> Session:
        """The session with this id. Raises `GrpcError`."""
        if self._current is None or self._current.id != id:
            raise GrpcError(GrpcStatus.NOT_FOUND, "there is no session of this id")
        return self._current


class ProxyService:
    """Makes a handler for each call that comes in at one address."""

    def __init__(
        self, sessions: Sessions, token: str | None, refused: Callable[[Reason, str], None] = lambda *_: None
    ) -> None:
        """
        `token`: what a client must show in its session's initialization data, None if anyone who connects may.
        `refused` takes note of one that does not.
        """
        self.sessions = sessions
        self._token = token
        self._refused = refused

    def __call__(self, call: Call) -> CallHandler:
        kind = _CALLS.get(call.method)
        if kind is None:
            raise GrpcError(GrpcStatus.UNIMPLEMENTED, f"{call.path} is not a method of the IFRT proxy")
        return kind(self, call)

    def open(self, call: Call) -> Session:
        """Starts the session of a call. Raises `StatusError` if it shows no token, or another client is there."""
        if self._token is not None:
            metadata = pb.GrpcIfrtSessionMetadata.FromString(call.metadata.get(_SESSION_METADATA, b""))
            shown = metadata.initialization_data.attributes["elastic_token"].string_value
            if not hmac.compare_digest(shown, self._token.encode()):
                self._refused(Reason.WRONG_SECRET, "a client did not show the token")
                raise StatusError(
                    Code.UNAUTHENTICATED,
                    "this controller wants a token: set ELASTIC_TOKEN_FILE to the file that holds it",
                )
        return self.sessions.open()


class _SessionCall:
    """IfrtSession: the stream of requests.

    A client that may not have a session is told so in answer to its first request: jaxlib's client shows its user the
    text of that, but not the text with which a call is refused.
    """

    def __init__(self, service: ProxyService, call: Call) -> None:
        self._service = service
        self._call = call
        self._session: Session | None = None
        try:
            self._session = service.open(call)
            self._receive = RequestStream(self._session, self._write).receive
        except StatusError as error:
            self._receive = partial(refuse, error, self._write)

    def message(self, data: bytes) -> None:
        self._receive(data)

    def half_closed(self) -> None:
        self._end()
        self._call.finish()

    def cancelled(self) -> None:
        self._end()

    def _write(self, response: bytes) -> None:
        if not self._call.closed:
            self._call.write(response)

    def _end(self) -> None:
        if self._session is not None:
            self._service.sessions.close(self._session)


class _Unary:
    """A call with one request message and one or more response messages."""

    request: type[Any]

    def __init__(self, service: ProxyService, call: Call) -> None:
        self._service = service
        self._call = call
        self._data = b""

    def message(self, data: bytes) -> None:
        self._data = data

    def half_closed(self) -> None:
        try:
            self.answer(self.request.FromString(self._data))
        except StatusError as error:
            raise GrpcError(GrpcStatus(int(error.code)), error.message) from error
        self._call.finish()

    def cancelled(self) -> None: ...

    def answer(self, request: Any) -> None:
        raise NotImplementedError


class _GetVersion(_Unary):
    request = pb.GrpcGetVersionRequest

    def answer(self, request: pb.GrpcGetVersionRequest) -> None:
        def version(wanted: pb.IfrtProxyVersion) -> ProtocolVersion:
            return ProtocolVersion(wanted.protocol_version, wanted.ifrt_serdes_version_number)

        try:
            agreed = negotiate(version(request.min_version), version(request.max_version))
        except NoCommonVersionError as error:
            raise GrpcError(GrpcStatus.FAILED_PRECONDITION, str(error)) from error
        answer = pb.IfrtProxyVersion(protocol_version=agreed.protocol, ifrt_serdes_version_number=agreed.serdes)
        self._call.write(pb.GrpcGetVersionResponse(version=answer).SerializeToString())


class _Store:
    """HostBufferStore: an upload in chunks."""

    def __init__(self, service: ProxyService, call: Call) -> None:
        metadata = pb.GrpcHostBufferStoreMetadata.FromString(call.metadata.get(_STORE_METADATA, b""))
        self._session = service.sessions.get(metadata.session_id)
        self._call = call
        self._handle = metadata.handle
        self._size = metadata.buffer_size
        self._data = bytearray()

    def message(self, data: bytes) -> None:
        self._data += pb.GrpcHostBufferStoreRequest.FromString(data).data

    def half_closed(self) -> None:
        if len(self._data) != self._size:
            raise GrpcError(
                GrpcStatus.DATA_LOSS, f"an upload of {self._size} bytes ended after {len(self._data)} bytes"
            )
        self._session.buffers.store(self._handle, self._data)
        self._call.write(b"")
        self._call.finish()

    def cancelled(self) -> None: ...


class _ReadFromDisk(_Unary):
    request = pb.GrpcHostBufferReadFromDiskRequest

    def answer(self, request: pb.GrpcHostBufferReadFromDiskRequest) -> None:
        metadata = request.metadata
        self._service.sessions.get(metadata.session_id).buffers.store_file(metadata.handle, metadata.buffer_size)
        self._call.write(b"")


class _Lookup(_Unary):
    request = pb.GrpcHostBufferLookupRequest

    def answer(self, request: pb.GrpcHostBufferLookupRequest) -> None:
        data = memoryview(self._service.sessions.get(request.session_id).buffers.get(request.handle).read())
        for start in range(0, max(len(data), 1), _CHUNK):
            chunk = data[start : start + _CHUNK]
            self._call.write(_bytes_field(1, len(chunk)), chunk)


class _Delete(_Unary):
    request = pb.GrpcHostBufferDeleteRequest

    def answer(self, request: pb.GrpcHostBufferDeleteRequest) -> None:
        self._service.sessions.get(request.session_id).buffers.delete(request.handle)
        self._call.write(b"")


def _bytes_field(number: int, size: int) -> bytes:
    """What stands before the bytes of a message's only field, so that they need not be copied into a message."""
    prefix = bytearray([number << 3 | 2])
    while size > 0x7F:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix)


_CALLS: dict[str, Callable[[ProxyService, Call], CallHandler]] = {
    "IfrtSession": _SessionCall,
    "GetVersion": _GetVersion,
    "HostBufferStore": _Store,
    "HostBufferReadFromDisk": _ReadFromDisk,
    "HostBufferLookup": _Lookup,
    "HostBufferDelete": _Delete,
}
