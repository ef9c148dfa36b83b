"""The tree of errors, and that nothing else leaves the package."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest

import membership
from membership import (
    AddressError,
    AuthError,
    Compare,
    Etcd,
    EtcdUnavailable,
    LeaseLost,
    MembershipError,
    OutcomeUnknown,
    PoolAddress,
    PutKey,
    RequestRefused,
    Timing,
    errors,
)

QUICK = Timing(call=0.3, attempt=0.1, connect=0.1, quiet=0.1)

READS: dict[str, Callable[[Etcd], Awaitable[object]]] = {
    "get": lambda etcd: etcd.get("a"),
    "list": lambda etcd: etcd.list("a"),
    "grant": lambda etcd: etcd.grant(5),
}
WRITES: dict[str, Callable[[Etcd], Awaitable[object]]] = {
    "put": lambda etcd: etcd.put("a", b""),
    "delete": lambda etcd: etcd.delete("a"),
    "delete_prefix": lambda etcd: etcd.delete_prefix("a"),
    "txn": lambda etcd: etcd.txn([Compare.missing("a")], [PutKey("a", b"")]),
    "compact": lambda etcd: etcd.compact(7),
}


@contextlib.asynccontextmanager
async def server_that_fails(code: grpc.StatusCode) -> AsyncIterator[PoolAddress]:
    """A server that answers every request with ``code``."""

    class Fails(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
            async def fail(_request: bytes, context: grpc.aio.ServicerContext) -> None:
                await context.abort(code, "some words")

            return grpc.unary_unary_rpc_method_handler(fail)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers([Fails()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield PoolAddress.parse(f"etcd://127.0.0.1:{port}", {})
    finally:
        await server.stop(None)


def all_errors() -> set[type[MembershipError]]:
    return {each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, MembershipError)}


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = {
        line.strip(" │├└─").split()[0] for line in str(errors.__doc__).splitlines() if "Error  " in line or "─" in line
    }
    assert drawn == {each.__name__ for each in all_errors()}


def test_every_error_is_exported() -> None:
    assert {each.__name__ for each in all_errors()} <= set(membership.__all__)


def test_only_a_lost_answer_leaves_open_whether_a_request_was_applied() -> None:
    assert {each for each in all_errors() if not each.definite} == {OutcomeUnknown}


def test_an_address_error_is_a_value_error() -> None:
    assert issubclass(AddressError, ValueError)


@pytest.mark.parametrize(
    "error",
    [
        EtcdUnavailable("writing 'a'", 5, {"h1:2379": "cannot connect"}),
        OutcomeUnknown("writing 'a'", {"h1:2379": "no answer"}),
        LeaseLost(0xABC, "it was revoked"),
        AuthError("no"),
    ],
)
def test_errors_survive_pickling(error: MembershipError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
async def test_no_error_of_grpc_leaves_the_package(code: grpc.StatusCode) -> None:
    async with server_that_fails(code) as address, Etcd(address, QUICK) as etcd:

        async def error_of(ask: Callable[[Etcd], Awaitable[object]]) -> type[BaseException]:
            with pytest.raises(MembershipError) as caught:
                await ask(etcd)
            assert address.endpoints[0] in str(caught.value)
            return caught.type

        reads = await asyncio.gather(*(error_of(ask) for ask in READS.values()))
        writes = await asyncio.gather(*(error_of(ask) for ask in WRITES.values()))
        (status,) = (await etcd.status()).values()
    assert isinstance(status, MembershipError)
    assert len(set(reads)) == len(set(writes)) == 1
    assert (reads[0], writes[0]) in [(RequestRefused, RequestRefused), (EtcdUnavailable, OutcomeUnknown)]


@pytest.mark.parametrize("endpoint", ["127.0.0.1:1", "no-such-host.invalid:2379", "unix:/no/such/socket"])
async def test_no_error_of_the_operating_system_leaves_the_package(endpoint: str) -> None:
    async with Etcd(PoolAddress.parse(f"etcd://{endpoint}", {}), QUICK) as etcd:
        for ask in (READS | WRITES).values():
            with pytest.raises(EtcdUnavailable) as caught:
                await ask(etcd)
            # Nothing was sent, so that even a write was surely not applied.
            assert caught.value.definite
            assert list(caught.value.tried) == [endpoint]
        (status,) = (await etcd.status()).values()
        assert isinstance(status, EtcdUnavailable)
