import asyncio

import pytest

from elastic.front import GrpcServer
from tests.elastic import connections
from tests.elastic.controller.grpc_client import Service, connect
from tests.elastic.controller.recording import Client


@pytest.fixture
def client(tmp_path):
    """A session over four virtual devices on two hosts, (0, 1) and (2, 3)."""
    return Client(tmp_path)


@pytest.fixture
def run(client):
    return client.run


@pytest.fixture
def serve(short_directory, tmp_path):
    """Runs a blocking client in a thread, against a service on a Unix socket; `talk` gets a channel and the service."""

    def serve(talk, token=None):
        async def main():
            service = Service(tmp_path, token)
            server = await GrpcServer.start(service.proxy, path=short_directory / "s")

            def client():
                with connect(server.target) as channel:
                    return talk(channel, service)

            try:
                return await asyncio.to_thread(client)
            finally:
                await server.close()

        return connections.run(main())

    return serve
