"""The gRPC face of the embedded server: who may call, what each method does to the store, who is told of it.

Not for: what a request means (see `membership.server.store`), and where to listen.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NoReturn, TypeAlias

import grpc
from google.protobuf.message import Message

from membership import api
from membership.api import Method, RequestT, ResponseT
from membership.proto import etcd_pb2 as pb
from membership.server import refusals
from membership.server.refusals import Refusal
from membership.server.store import MAX_BYTES, Store
from membership.server.watch_session import WatchSession

USER = "elastic"
"""The only user, whose password is the server's secret."""

VERSION = "3.4.0"
"""Of etcd, whose API this is."""

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handlers: TypeAlias = "dict[str, grpc.RpcMethodHandler[Any, Any]]"
"""By path."""


class Service:
    """A store, served. Run `expire_leases` beside it."""

    def __init__(self, store: Store, secret: str | None = None) -> None:
        self._store = store
        self._secret = secret
        self._token = secrets.token_hex(16)
        self._news: set[asyncio.Event] = set()  # One for each stream of watches.
        self._granted = asyncio.Event()

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """What a `grpc.aio.Server` needs to serve the store."""
        store = self._store
        methods = {
            **self._unary(api.RANGE, store.range),
            **self._unary(api.PUT, store.put),
            **self._unary(api.DELETE_RANGE, store.delete_range),
            **self._unary(api.TXN, store.txn),
            **self._unary(api.COMPACT, store.compact),
            **self._unary(api.LEASE_GRANT, self._grant),
            **self._unary(api.LEASE_REVOKE, store.revoke),
            **self._unary(api.LEASE_TIME_TO_LIVE, lambda request: store.time_to_live(request, time.monotonic())),
            **self._unary(api.AUTHENTICATE, self._authenticate),
            **self._unary(api.STATUS, self._status),
            **self._stream(api.WATCH, self._watch),
            **self._stream(api.LEASE_KEEP_ALIVE, self._keep_alive),
        }
        services: dict[str, Handlers] = {}
        for path, handler in methods.items():
            _, service, name = path.split("/")
            services.setdefault(service, {})[name] = handler
        return [grpc.method_handlers_generic_handler(service, named) for service, named in services.items()]

    async def expire_leases(self) -> NoReturn:
        """Ends leases when their time is up, for as long as it runs."""
        while True:
            self._granted.clear()
            with self._telling():
                self._store.expire(time.monotonic())
            deadline = self._store.next_deadline()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if deadline is None else deadline - time.monotonic()):
                    await self._granted.wait()

    # --- Who may call ---------------------------------------------------------------------------------------------

    def _admit(self, context: Context) -> None:
        """Refuses a call without the token."""
        if self._secret is None:
            return
        token = dict(context.invocation_metadata() or ()).get("token")
        if token is None:
            raise refusals.no_token()
        if not hmac.compare_digest(str(token).encode(), self._token.encode()):
            raise refusals.wrong_token()

    def _authenticate(self, request: pb.AuthenticateRequest) -> pb.AuthenticateResponse:
        if self._secret is None:
            raise refusals.no_users()
        right_password = hmac.compare_digest(request.password.encode(), self._secret.encode())
        if not right_password or request.name != USER:
            raise refusals.wrong_password()
        return pb.AuthenticateResponse(header=self._store.header(), token=self._token)

    # --- What they get --------------------------------------------------------------------------------------------

    def _unary(self, method: Method[RequestT, ResponseT], answer: Callable[[RequestT], ResponseT]) -> Handlers:
        async def handle(request: RequestT, context: Context) -> ResponseT:
            try:
                if method.path != api.AUTHENTICATE.path:
                    self._admit(context)
                _check(request)
                with self._telling():
                    return answer(request)
            except Refusal as refusal:
                await context.abort(refusal.code, refusal.text)

        handler = grpc.unary_unary_rpc_method_handler(
            handle,
            request_deserializer=method.request.FromString,
            response_serializer=method.response.SerializeToString,
        )
        return {method.path: handler}

    def _stream(self, method: Method[RequestT, ResponseT], serve: Callable[[Context], Awaitable[None]]) -> Handlers:
        async def handle(_requests: object, context: Context) -> None:
            try:
                self._admit(context)
                await serve(context)
            except Refusal as refusal:
                await context.abort(refusal.code, refusal.text)

        handler = grpc.stream_stream_rpc_method_handler(
            handle,
            request_deserializer=method.request.FromString,
            response_serializer=method.response.SerializeToString,
        )
        return {method.path: handler}

    def _status(self, _request: pb.StatusRequest) -> pb.StatusResponse:
        header = self._store.header()
        return pb.StatusResponse(header=header, version=VERSION, leader=header.member_id, raftTerm=header.raft_term)

    def _grant(self, request: pb.LeaseGrantRequest) -> pb.LeaseGrantResponse:
        self._granted.set()
        return self._store.grant(request, time.monotonic())

    async def _keep_alive(self, context: Context) -> None:
        while (request := await context.read()) is not grpc.aio.EOF:
            _check(request)
            await context.write(self._store.keep_alive(request, time.monotonic()))

    async def _watch(self, context: Context) -> None:
        session, news = WatchSession(self._store), asyncio.Event()

        async def tell() -> None:
            while True:
                await news.wait()
                news.clear()
                for message in session.messages():
                    await context.write(message)

        self._news.add(news)
        teller = asyncio.create_task(tell())
        try:
            while (request := await context.read()) is not grpc.aio.EOF:
                _check(request)
                session.request(request)
                news.set()
        finally:
            self._news.discard(news)
            teller.cancel()
            await asyncio.wait([teller])

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Tells the watches if what is done inside changes the store."""
        revision = self._store.history.revision
        yield
        if self._store.history.revision != revision:
            for news in self._news:
                news.set()


def _check(request: Message) -> None:
    """Refuses what is too large, or asks for something that would be ignored in silence."""
    size = request.ByteSize()
    if size > MAX_BYTES:
        raise refusals.too_large()
    request.DiscardUnknownFields()
    if request.ByteSize() != size:
        raise refusals.unsupported(f"a field of this {request.DESCRIPTOR.name}")
