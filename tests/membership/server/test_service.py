"""Who may call the embedded server, and what it says to requests that it does not know."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from grpc import StatusCode

from membership import api
from membership.proto import etcd_pb2 as pb
from membership.server.store import MAX_BYTES
from tests.membership.raw import raw
from tests.membership.servers import Embedded

METHODS: dict[str, api.Method[Any, Any]] = {
    name: each for name, each in vars(api).items() if isinstance(each, api.Method) and each is not api.AUTHENTICATE
}
STREAMS = {"WATCH", "LEASE_KEEP_ALIVE"}


@pytest.mark.parametrize("name", METHODS)
async def test_no_method_answers_without_the_token(own_embedded: Embedded, name: str) -> None:
    method = METHODS[name]
    async with raw(own_embedded.endpoints[0]) as ask:
        for metadata, code, words in (
            ((), StatusCode.INVALID_ARGUMENT, "user name is empty"),
            ((("token", "wrong"),), StatusCode.UNAUTHENTICATED, "invalid auth token"),
            ((("token", own_embedded.password),), StatusCode.UNAUTHENTICATED, "invalid auth token"),
        ):
            if name in STREAMS:
                with pytest.raises(grpc.aio.AioRpcError, match=words):
                    await anext(ask.stream(method, metadata=metadata))
            else:
                assert await ask(method, method.request(), metadata) == (code, f"etcdserver: {words}")


async def test_the_secret_is_the_password_of_one_user(own_embedded: Embedded) -> None:
    async with raw(own_embedded.endpoints[0]) as ask:
        for name, password in (
            ("elastic", "wrong"),
            ("root", own_embedded.password),
            ("elastic", ""),
            ("elastic", "ü"),
        ):
            answer = await ask(api.AUTHENTICATE, pb.AuthenticateRequest(name=name, password=password))
            assert answer == (
                StatusCode.INVALID_ARGUMENT,
                "etcdserver: authentication failed, invalid user ID or password",
            )
        answer = await ask(api.AUTHENTICATE, pb.AuthenticateRequest(name="elastic", password=own_embedded.password))
        assert isinstance(answer, pb.AuthenticateResponse)
        assert isinstance(await ask(api.STATUS, pb.StatusRequest(), (("token", answer.token),)), pb.StatusResponse)


async def test_what_would_be_ignored_is_refused_instead(own_embedded: Embedded) -> None:
    # Field 10 of etcd's RangeRequest is min_mod_revision, which we do not have.
    request = pb.RangeRequest.FromString(pb.RangeRequest(key=b"a").SerializeToString() + b"\x50\x05")
    async with raw(own_embedded.endpoints[0]) as ask:
        token = await ask(api.AUTHENTICATE, pb.AuthenticateRequest(name="elastic", password=own_embedded.password))
        assert isinstance(token, pb.AuthenticateResponse)
        metadata = (("token", token.token),)
        code, words = await ask(api.RANGE, request, metadata)
        assert code is StatusCode.UNIMPLEMENTED
        assert "RangeRequest" in words
        # Field 5 of etcd's WatchCreateRequest filters events.
        create = pb.WatchCreateRequest.FromString(pb.WatchCreateRequest(key=b"a").SerializeToString() + b"\x2a\x01\x00")
        with pytest.raises(grpc.aio.AioRpcError, match="WatchRequest") as caught:
            await anext(ask.stream(api.WATCH, pb.WatchRequest(create_request=create), metadata=metadata))
        assert caught.value.code() is StatusCode.UNIMPLEMENTED
        large = pb.PutRequest(key=b"a", value=bytes(MAX_BYTES))
        assert await ask(api.PUT, large, metadata) == (
            StatusCode.INVALID_ARGUMENT,
            "etcdserver: request is too large",
        )
