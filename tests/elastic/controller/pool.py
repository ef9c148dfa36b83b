"""A pool for tests: an embedded membership server in this process, and hosts whose agents are played."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import AsyncIterator

import grpc

from membership import Delete, Etcd, PoolAddress
from membership.registry import Claims, HostRecord, Keys, Registration, RunRecord, host_of
from membership.server.service import Service
from membership.server.store import Store
from tests.elastic.connections import Connection, frames_server

_TTL = 20
_pids = itertools.count(1000)


@contextlib.asynccontextmanager
async def etcd_in_process() -> AsyncIterator[Etcd]:
    """A client of a server that holds nothing yet."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(Service(Store(secrets.randbits(62)), None).handlers())
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with Etcd(PoolAddress.parse(f"etcd://127.0.0.1:{port}", {})) as etcd:
            yield etcd
    finally:
        await server.stop(None)


class Pool:
    """What stands in etcd, and verbs to change it."""

    def __init__(self, etcd: Etcd, stack: contextlib.AsyncExitStack) -> None:
        self.etcd = etcd
        self.keys = Keys(etcd.address.prefix)
        self._stack = stack

    async def host(self, id: str, *, listens: bool = True) -> Agent:
        """A host that registers itself."""
        address, connections = "127.0.0.1:9", asyncio.Queue[Connection]()
        stack = await self._stack.enter_async_context(contextlib.AsyncExitStack())
        if listens:
            frames = await stack.enter_async_context(frames_server())
            address, connections = frames.address, frames.connections
        record = HostRecord(id, address, 2, next(_pids), "a machine")
        agent = Agent(Registration(self.etcd, record, _TTL, lambda _: None), connections, stack)
        await agent.registration.start()
        return agent

    async def run(self, id: str, claims: type[Claims] = Claims) -> Claims:
        """Another run."""
        return await claims(self.etcd, RunRecord(id, "unix:/there", next(_pids), 4), _TTL, lambda _: None).start()

    async def record_of(self, id: str) -> HostRecord | None:
        kv = await self.etcd.get(self.keys.host(id))
        return None if kv is None else host_of(kv)

    async def claimed(self) -> dict[str, str]:
        """Which run has each host."""
        listing = await self.etcd.list(self.keys.claims)
        return {kv.key.rpartition("/")[2]: kv.value.decode() for kv in listing.kvs}

    async def until_gone(self, key: str) -> None:
        """Waits until a key does not exist."""
        async with self.etcd.watch(key, 1) as events:
            while await self.etcd.get(key) is not None:
                while not isinstance(await anext(events), Delete):
                    pass


class Agent:
    """A registered host, and its agent's end of the connection."""

    def __init__(
        self, registration: Registration, connections: asyncio.Queue[Connection], stack: contextlib.AsyncExitStack
    ) -> None:
        self.registration = registration
        self._connections = connections
        self._stack = stack
        self.connection: Connection

    @property
    def id(self) -> str:
        return self.registration.record.id

    async def connected(self) -> None:
        """Waits for a controller."""
        self.connection = await self._connections.get()

    async def present(self) -> None:
        """Waits for a controller, and presents the host to it."""
        await self.connected()
        record = self.registration.record
        self.connection.write(
            {"host": record.id, "devices": record.devices, "pid": record.pid, "holds": [], "cores": 2}
        )

    def stand_by(self, pid: int = 41) -> None:
        self.connection.write({"standby": pid, "address": "127.0.0.1:1041"})

    async def serve(self) -> None:
        """Does all that a healthy agent does for a controller that comes."""
        await self.present()
        self.stand_by()

    async def die(self) -> None:
        """As with SIGKILL: its connections end, its entry stays."""
        await self._stack.aclose()


@contextlib.asynccontextmanager
async def pool() -> AsyncIterator[Pool]:
    async with contextlib.AsyncExitStack() as stack:
        yield Pool(await stack.enter_async_context(etcd_in_process()), stack)
