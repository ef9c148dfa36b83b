"""The endpoints of one etcd: a gRPC channel to each, and which of them to use now.

A channel each, instead of one with gRPC's balancer: only so is it known whether a request was sent at all, and an
endpoint that swallows everything (a cut cable, a stopped process) can be left for the next one at once. Not for:
retries and what failures mean.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence

import grpc
from grpc import ChannelConnectivity

from membership.address import PoolAddress, Tls
from membership.api import STATUS, Method, RequestT, ResponseT
from membership.proto import etcd_pb2 as pb

Metadata = Sequence[tuple[str, str]]

_OPTIONS: Sequence[tuple[str, int]] = (
    # Else two clients of one process share a connection, and what breaks one breaks the other.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A connection that died without a word is replaced. etcd drops clients that ask more often than every 5 s.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.max_receive_message_length", -1),
)
_PROBE_SECONDS = 0.2


class Endpoint:
    """One member of etcd and the channel to it."""

    def __init__(self, name: str, tls: Tls | None) -> None:
        self.name = name
        if tls is None:
            self._channel = grpc.aio.insecure_channel(name, options=_OPTIONS)
        else:
            credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.cert)
            self._channel = grpc.aio.secure_channel(name, credentials, options=_OPTIONS)

    async def connect(self, seconds: float) -> bool:
        """Whether the channel stands, within ``seconds``."""
        state = self._channel.get_state(try_to_connect=True)
        try:
            async with asyncio.timeout(seconds):
                while state in (ChannelConnectivity.IDLE, ChannelConnectivity.CONNECTING):
                    await self._channel.wait_for_state_change(state)
                    state = self._channel.get_state(try_to_connect=True)
        except TimeoutError:
            return False
        return state is ChannelConnectivity.READY

    async def invoke(
        self, method: Method[RequestT, ResponseT], request: RequestT, seconds: float, metadata: Metadata
    ) -> ResponseT:
        """One call, once. Raises `grpc.aio.AioRpcError`."""
        call = self._channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        return await call(request, timeout=max(seconds, 0), metadata=metadata)

    def stream(
        self, method: Method[RequestT, ResponseT], metadata: Metadata
    ) -> grpc.aio.StreamStreamCall[RequestT, ResponseT]:
        """Begins a stream of messages in both directions."""
        begin: grpc.aio.StreamStreamMultiCallable[RequestT, ResponseT] = self._channel.stream_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        return begin(metadata=metadata)

    async def complaint(self) -> str:
        """Why there is no connection, in words."""
        try:
            await self.invoke(STATUS, pb.StatusRequest(), _PROBE_SECONDS, ())
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return "does not accept connections"
            return f"cannot connect ({error.details()})"
        return "was not reachable, but is now"

    async def close(self) -> None:
        await self._channel.close()


class Endpoints:
    """All endpoints of an address, and the one in use. Clients begin at random ones, which spreads them."""

    def __init__(self, address: PoolAddress) -> None:
        self.all = tuple(Endpoint(name, address.tls) for name in address.endpoints)
        self._current = random.randrange(len(self.all))

    async def connected(self, seconds: float, patience: float) -> Endpoint | None:
        """An endpoint that is connected, at best the one in use; None if there is none within ``seconds``.

        An endpoint that neither accepts nor refuses within ``patience`` seconds is passed over.
        """
        end = time.monotonic() + seconds
        for offset in range(len(self.all)):
            index = (self._current + offset) % len(self.all)
            if await self.all[index].connect(min(patience, end - time.monotonic())):
                self._current = index
                return self.all[index]
        return None

    def leave(self, endpoint: Endpoint) -> None:
        """Uses the next endpoint from now on, if ``endpoint`` is the one in use."""
        if self.all[self._current] is endpoint:
            self._current = (self._current + 1) % len(self.all)

    async def complaints(self) -> dict[str, str]:
        """{endpoint: why there is no connection to it}."""
        words = await asyncio.gather(*(endpoint.complaint() for endpoint in self.all))
        return {endpoint.name: text for endpoint, text in zip(self.all, words, strict=True)}

    async def close(self) -> None:
        await asyncio.gather(*(endpoint.close() for endpoint in self.all))
