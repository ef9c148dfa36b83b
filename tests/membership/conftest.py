"""Servers for the tests, and coroutines as tests.

A test that asks for ``server`` runs against each kind of server, which it shares with other tests: it keeps to keys
under its ``prefix``. One that asks for ``etcd``, ``etcd3``, ``own_etcd`` or ``own_embedded`` may break it.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Iterator

import pytest

from tests.membership.servers import (
    FAST_ELECTION_MS,
    STEADY_ELECTION_MS,
    Embedded,
    NotInstalled,
    RealEtcd,
    Server,
    etcd_program,
)

KINDS = ("embedded", "etcd", "etcd3")
TEST_SECONDS = 25


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs coroutine functions, each in a loop of its own, and never for ever."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def bounded() -> None:
        dump = asyncio.get_running_loop().call_later(TEST_SECONDS - 1, print_all_tasks)
        async with asyncio.timeout(TEST_SECONDS):
            await pyfuncitem.obj(**arguments)
        dump.cancel()

    asyncio.run(bounded())
    return True


def print_all_tasks() -> None:
    """Where a test that does not end has got stuck."""
    for task in asyncio.all_tasks():
        print(task)


@pytest.fixture
def prefix() -> str:
    """Keys that no other test uses."""
    return f"/test/{uuid.uuid4().hex}/"


def started(kind: str, directories: pytest.TempPathFactory, election_ms: int = FAST_ELECTION_MS) -> Server:
    if kind != "embedded":
        try:
            etcd_program()
        except NotInstalled as error:
            pytest.fail(str(error))
    directory = directories.mktemp(kind)
    nodes = 3 if kind == "etcd3" else 1
    server = Embedded(directory) if kind == "embedded" else RealEtcd(directory, nodes, election_ms=election_ms)
    server.start()
    return server


@pytest.fixture(scope="session")
def shared_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    servers: dict[str, Server] = {}
    yield servers
    for server in servers.values():
        server.kill()


@pytest.fixture(params=KINDS)
def server(
    request: pytest.FixtureRequest, shared_servers: dict[str, Server], tmp_path_factory: pytest.TempPathFactory
) -> Server:
    """Each kind of server, shared with other tests."""
    kind: str = request.param
    if kind not in shared_servers:
        shared_servers[kind] = started(kind, tmp_path_factory, STEADY_ELECTION_MS)
    return shared_servers[kind]


@pytest.fixture(params=["etcd", "etcd3"])
def own_etcd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Real etcd of one and of three nodes, for this test alone."""
    yield from own(request.param, tmp_path_factory)


@pytest.fixture
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One node of real etcd, for this test alone."""
    yield from own("etcd", tmp_path_factory)


@pytest.fixture
def etcd3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Three nodes of real etcd, for this test alone."""
    yield from own("etcd3", tmp_path_factory)


@pytest.fixture
def own_embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The embedded server, for this test alone."""
    yield from own("embedded", tmp_path_factory)


def own(kind: str, directories: pytest.TempPathFactory) -> Iterator[Server]:
    server = started(kind, directories)
    yield server
    server.kill()
