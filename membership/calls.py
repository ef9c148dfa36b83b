"""Calls to whichever endpoint serves them: deadlines, repetition where it is safe, the user's token.

A request that was surely not applied is repeated until its deadline, at the next endpoint. One whose answer got lost is
repeated only if its method may be done twice; else the caller gets `OutcomeUnknown`. Not for: what requests mean.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import grpc
from tenacity import AsyncRetrying, retry_if_exception_type, stop_before_delay, wait_random_exponential

from membership.address import PoolAddress
from membership.api import AUTHENTICATE, Method, RequestT, ResponseT
from membership.endpoints import Endpoint, Endpoints, Metadata
from membership.errors import EtcdUnavailable, OutcomeUnknown
from membership.failures import Failure, failure, refusal
from membership.proto import etcd_pb2 as pb

_HAS_LEADER = ("hasleader", "true")
"""Asks a member that has lost its leader to say so, instead of waiting in silence."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things may take, in seconds. None of them decides whether anything is right, only how soon it is known.

    Attributes:
        call: from a request to its answer or its error, all endpoints and repetitions together.
        attempt: for one endpoint to answer what may be asked again elsewhere.
        connect: for one endpoint to accept a connection.
        quiet: without a message, after which a watch asks for a sign of life; as long after that it goes elsewhere.
    """

    call: float = 5.0
    attempt: float = 2.0
    connect: float = 1.0
    quiet: float = 2.0


class NotServed(Exception):
    """A request was not served, or a stream ended, but may be sent or begun again. Never leaves the package.

    Attributes:
        stale_token: because etcd accepts our token no longer.
    """

    def __init__(self, reason: str, *, stale_token: bool = False) -> None:
        super().__init__(reason)
        self.stale_token = stale_token


class Caller:
    """One client's way to etcd."""

    def __init__(self, address: PoolAddress, timing: Timing) -> None:
        self.address = address
        self.timing = timing
        self.endpoints = Endpoints(address)
        self._token: str | None = None
        self._authenticating = asyncio.Lock()

    async def call(self, method: Method[RequestT, ResponseT], request: RequestT, what: str) -> ResponseT:
        """The answer to ``request``. ``what`` says in words what is asked, for errors.

        Raises `EtcdUnavailable`, `OutcomeUnknown`, `RequestRefused` or `AuthError`.
        """
        response, _ = await self.timed_call(method, request, what)
        return response

    async def timed_call(
        self, method: Method[RequestT, ResponseT], request: RequestT, what: str
    ) -> tuple[ResponseT, float]:
        """As `call`, and when the request that was answered was sent, by the monotonic clock."""
        end = time.monotonic() + self.timing.call
        tried: dict[str, str] = {}
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(NotServed),
            stop=stop_before_delay(self.timing.call),
            wait=wait_random_exponential(multiplier=0.02, max=0.5),
            reraise=True,
        )
        try:
            return await retrying(self._attempt, method, request, what, end, tried)
        except NotServed:
            raise EtcdUnavailable(what, self.timing.call, await self.endpoints.complaints() | tried) from None

    async def _attempt(
        self, method: Method[RequestT, ResponseT], request: RequestT, what: str, end: float, tried: dict[str, str]
    ) -> tuple[ResponseT, float]:
        endpoint = await self.endpoints.connected(end - time.monotonic(), self.timing.connect)
        if endpoint is None:
            raise NotServed("no endpoint accepts connections")
        metadata = await self.credentials(endpoint)
        sent = time.monotonic()
        try:
            # What cannot be asked again elsewhere may as well wait here.
            seconds = min(end - sent, self.timing.attempt) if method.repeatable else end - sent
            return await endpoint.invoke(method, request, seconds, metadata), sent
        except grpc.aio.AioRpcError as error:
            details = error.details() or error.code().name
            meaning = failure(error.code(), details)
            if meaning is Failure.REFUSED or (meaning is Failure.STALE_TOKEN and self.address.user is None):
                raise refusal(what, endpoint.name, details) from None
            tried[endpoint.name] = f"{details} ({error.code().name})"
            if meaning is Failure.STALE_TOKEN:
                self.forget_token(metadata)
                raise NotServed(details) from None
            self.endpoints.leave(endpoint)
            if meaning is Failure.LOST and not method.repeatable:
                raise OutcomeUnknown(what, tried) from None
            raise NotServed(details) from None

    async def credentials(self, endpoint: Endpoint) -> Metadata:
        """What to send along with a request, with a token from ``endpoint`` if the address has a user.

        Raises `AuthError`, or `NotServed` if the endpoint cannot be asked.
        """
        if self.address.user is None:
            return (_HAS_LEADER,)
        async with self._authenticating:
            if self._token is None:
                self._token = await self._authenticate(endpoint, self.address.user, self.address.password or "")
            return _HAS_LEADER, ("token", self._token)

    def forget_token(self, metadata: Metadata) -> None:
        """etcd accepts the token in ``metadata`` no longer: gets another for the next request."""
        if ("token", self._token) in metadata:
            self._token = None

    async def _authenticate(self, endpoint: Endpoint, user: str, password: str) -> str:
        request = pb.AuthenticateRequest(name=user, password=password)
        try:
            return (await endpoint.invoke(AUTHENTICATE, request, self.timing.attempt, (_HAS_LEADER,))).token
        except grpc.aio.AioRpcError as error:
            details = error.details() or error.code().name
            if failure(error.code(), details) is Failure.REFUSED:
                raise refusal(f"authenticating as {user!r}", endpoint.name, details) from None
            self.endpoints.leave(endpoint)
            raise NotServed(details) from None
