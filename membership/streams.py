"""Streams to etcd that begin again by themselves, at another endpoint if need be.

A stream is held by several coroutines at once, such as one that reads and one that writes. The first of them to find it
broken ends it for all. Not for: what is said on a stream, and how to go on where an earlier one ended.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Generic, NoReturn, cast

import grpc

from membership.api import STATUS, Method, RequestT, ResponseT
from membership.calls import Caller, NotServed
from membership.endpoints import Endpoint
from membership.failures import Failure, failure
from membership.proto import etcd_pb2 as pb

_log = logging.getLogger(__name__)

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0


class Stream(Generic[RequestT, ResponseT]):
    """An open stream. Whatever ends it raises `NotServed`."""

    def __init__(
        self, endpoint: str, call: grpc.aio.StreamStreamCall[RequestT, ResponseT], write_seconds: float
    ) -> None:
        self.endpoint = endpoint
        self.heard = False  # Whether anything came at all.
        self._call = call
        self._write_seconds = write_seconds

    async def write(self, request: RequestT) -> None:
        try:
            async with asyncio.timeout(self._write_seconds):
                await self._call.write(request)
        except TimeoutError:
            raise NotServed(f"{self.endpoint} takes nothing more") from None
        except grpc.aio.AioRpcError as error:
            raise self._broken(error) from None
        except asyncio.InvalidStateError:  # It ended before; `read` knows why.
            raise NotServed(f"{self.endpoint} ended the stream") from None

    async def read(self) -> ResponseT:
        try:
            response = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise self._broken(error) from None
        if response is grpc.aio.EOF:
            raise NotServed(f"{self.endpoint} ended the stream")
        self.heard = True
        return cast(ResponseT, response)

    def _broken(self, error: grpc.aio.AioRpcError) -> NotServed:
        details = error.details() or error.code().name
        stale_token = failure(error.code(), details) is Failure.STALE_TOKEN
        return NotServed(f"{self.endpoint} ended the stream: {details}", stale_token=stale_token)


Talk = Callable[[Stream[RequestT, ResponseT]], Iterable[Coroutine[None, None, None]]]
"""What to do on a newly opened stream: coroutines that run until the stream breaks, and then raise `NotServed`."""


async def hold_open(
    caller: Caller, method: Method[RequestT, ResponseT], talk: Talk[RequestT, ResponseT], *, at_leader: bool = False
) -> NoReturn:
    """Keeps a stream open until it is cancelled, and does on each one what ``talk`` says.

    With ``at_leader`` it looks for etcd's leader first. Raises `AuthError` if etcd lets the user in no more.
    """
    pause = _FIRST_PAUSE
    while True:
        served, reason = await _one_stream(caller, method, talk, at_leader)
        _log.info("%s begins again: %s", method.path, reason)
        pause = _FIRST_PAUSE if served else min(2 * pause, _LONGEST_PAUSE)
        await asyncio.sleep(random.uniform(0, pause))


async def _one_stream(
    caller: Caller, method: Method[RequestT, ResponseT], talk: Talk[RequestT, ResponseT], at_leader: bool
) -> tuple[bool, str]:
    """Holds one stream; returns whether anything came, and why it ended."""
    endpoint = await _leader(caller) if at_leader else None
    endpoint = endpoint or await caller.endpoints.connected(caller.timing.call, caller.timing.connect)
    if endpoint is None:
        return False, "no endpoint accepts connections"
    try:
        metadata = await caller.credentials(endpoint)
    except NotServed as error:
        return False, str(error)
    call = endpoint.stream(method, metadata)
    stream = Stream(endpoint.name, call, caller.timing.attempt)
    try:
        broken = await _until_broken(talk(stream))
    finally:
        call.cancel()
    caller.endpoints.leave(endpoint)
    if any(error.stale_token for error in broken):
        caller.forget_token(metadata)
    return stream.heard, str(broken[0])


async def _until_broken(coroutines: Iterable[Coroutine[None, None, None]]) -> list[NotServed]:
    """Runs all until one finds the stream broken, and ends the others; what they found.

    Not a `TaskGroup`: before Python 3.13 that loses a cancellation which comes while it ends its tasks.
    """
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    errors = [error for task in tasks if not task.cancelled() and (error := task.exception()) is not None]
    for error in errors:
        if not isinstance(error, NotServed):
            raise error
    return [error for error in errors if isinstance(error, NotServed)]


async def _leader(caller: Caller) -> Endpoint | None:
    """The endpoint that is etcd's leader, if it can be reached; the only endpoint is not asked."""
    endpoints = caller.endpoints.all
    if len(endpoints) == 1:
        return None

    async def leads(endpoint: Endpoint) -> bool:
        if not await endpoint.connect(caller.timing.connect):
            return False
        try:
            status = await endpoint.invoke(STATUS, pb.StatusRequest(), caller.timing.connect, ())
        except grpc.aio.AioRpcError:
            return False
        return status.leader == status.header.member_id

    answers = await asyncio.gather(*(leads(endpoint) for endpoint in endpoints))
    return next((endpoint for endpoint, leader in zip(endpoints, answers, strict=True) if leader), None)
