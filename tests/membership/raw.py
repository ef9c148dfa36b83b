"""Single calls to a server, without anything that the client does around them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import grpc

from membership.api import Method, RequestT, ResponseT
from membership.endpoints import Endpoint, Metadata


class Raw:
    """A channel to one endpoint."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = Endpoint(endpoint, None)

    async def __call__(
        self, method: Method[RequestT, ResponseT], request: RequestT, metadata: Metadata = ()
    ) -> ResponseT | tuple[grpc.StatusCode, str]:
        """The answer, or the code and the text of the refusal."""
        try:
            return await self._endpoint.invoke(method, request, 10, metadata)
        except grpc.aio.AioRpcError as error:
            return error.code(), error.details() or ""

    async def stream(
        self, method: Method[RequestT, ResponseT], *requests: RequestT, metadata: Metadata = ()
    ) -> AsyncIterator[ResponseT]:
        """The answers to ``requests`` on one stream, for as long as they are wanted."""
        call = self._endpoint.stream(method, metadata)
        try:
            for request in requests:
                await call.write(request)
            while (answer := await call.read()) is not grpc.aio.EOF:
                yield answer
        finally:
            call.cancel()

    async def close(self) -> None:
        await self._endpoint.close()


@contextlib.asynccontextmanager
async def raw(endpoint: str) -> AsyncIterator[Raw]:
    each = Raw(endpoint)
    try:
        yield each
    finally:
        await each.close()
