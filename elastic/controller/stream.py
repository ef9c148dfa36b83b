"""The stream of a session: requests take effect in the order in which they came, answers leave as they come.

Where the client chose the handle of a result, it goes on without waiting for the answer; if such a request fails, the
handle holds the error, and whoever uses it gets that.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from elastic.controller.requests import LATER, handle, needed_buffers, result_handles
from elastic.controller.session import Session
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError, status_of

log = logging.getLogger(__name__)


class RequestStream:
    """Serialized IfrtRequests in, serialized IfrtResponses out through `write`."""

    def __init__(self, session: Session, write: Callable[[bytes], None]) -> None:
        self._session = session
        self._write = write
        self._queue: deque[pb.IfrtRequest] = deque()
        self._going_on = False
        session.buffers.on_arrival = session.go_on = self._go_on

    def receive(self, data: bytes) -> None:
        """Takes one request; it waits for those before it, and for bytes that it names and that are still to come.

        While the session is held it waits, too: many may have been received at once.
        """
        request = pb.IfrtRequest.FromString(data)
        if self._queue or not self._may_be_handled(request):
            self._queue.append(request)
        else:
            self._handle(request)

    def _go_on(self) -> None:
        if self._going_on:
            return  # One of those that have waited had this called: the next one comes when that one is handled.
        self._going_on = True
        try:
            while not self._session.closed and self._queue and self._may_be_handled(self._queue[0]):
                self._handle(self._queue.popleft())
        finally:
            self._going_on = False

    def _may_be_handled(self, request: pb.IfrtRequest) -> bool:
        if self._session.on_hold:
            return False
        return all(handle in self._session.buffers for handle in needed_buffers(request))

    def _handle(self, request: pb.IfrtRequest) -> None:
        kind: str | None = request.WhichOneof("request")
        op_id = request.request_metadata.op_id
        if kind is None:
            self._fail(op_id, StatusError(Code.UNIMPLEMENTED, "a request of a kind that this server does not know"))
            return
        body = getattr(request, kind)
        name = kind[: -len("request")] + "response"

        def respond(outcome: Any) -> None:
            if isinstance(outcome, StatusError):
                self._fail(op_id, outcome)
            else:
                response = pb.IfrtResponse(response_metadata=pb.ResponseMetadata(op_id=op_id), **{name: outcome})
                self._write(response.SerializeToString())

        try:
            outcome = handle(self._session, kind, body, respond)
        except Exception as error:
            if not isinstance(error, StatusError):
                log.exception("%s failed", kind)
            failure = status_of(error)
            self._session.fail(result_handles(body), failure)
            if kind == "loaded_executable_execute_request" and body.result_status_handle:
                self._session.statuses[body.result_status_handle] = failure
            self._fail(op_id, failure)
            return
        if outcome is not LATER:
            respond(outcome)

    def _fail(self, op_id: int, error: StatusError) -> None:
        self._write(_failure(op_id, error))


def refuse(error: StatusError, write: Callable[[bytes], None], data: bytes) -> None:
    """Answers a request of a client that has no session."""
    write(_failure(pb.IfrtRequest.FromString(data).request_metadata.op_id, error))


def _failure(op_id: int, error: StatusError) -> bytes:
    response = pb.IfrtResponse(response_metadata=pb.ResponseMetadata(op_id=op_id))
    response.response_metadata.status.code = error.code  # type: ignore[assignment]
    response.response_metadata.status.message = error.message
    return response.SerializeToString()
