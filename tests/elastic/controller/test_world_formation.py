"""How a world forms, and what is left when it cannot."""

import asyncio
import itertools

import pytest

from elastic.commands import Command
from elastic.controller import world as world_module
from elastic.controller.callbacks import CallbackSwitch
from elastic.controller.hosts import Exit
from elastic.controller.placement import spread
from elastic.controller.world import World
from elastic.errors import HostLostError, PoolError
from tests.elastic.connections import SECRET, frames_server, run, until_done
from tests.elastic.controller.stage import Executor, FakeHost, command_stream, on_a_stage


def test_a_world_forms_of_one_standby_of_each_host():
    async def play(stage, world, first, second, third):
        for executor in stage.executors:
            peers = [host.address for host in stage.hosts.values()]
            placement = [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]
            assert executor.spec == {
                "generation": 5,
                "rank": executor.rank,
                "processes": 3,
                "coordinator": "coordinator of 3",
                "platform": "cpu",
                "placement": placement,
                "peers": peers,
            }
        assert [device["device"] for device in world.devices] == [0, 1, 2, 3, 4, 5]
        assert [device["kind"] for device in world.devices[::2]] == ["of rank 0", "of rank 1", "of rank 2"]
        assert not stage.failures
        assert not world.congested

    on_a_stage(play, hosts=3)


# Worlds that cannot be formed


async def unformed(hosts):
    """The error of a world that cannot be formed."""
    failures = []
    with pytest.raises(PoolError) as raised:
        await World.form(
            spread(5, list(hosts), 2 * len(hosts)), hosts, SECRET, CallbackSwitch(), itertools.count(1), failures.append
        )
    return raised.value


def test_an_executor_that_nobody_can_reach_is_a_pool_error():
    async def main():
        async with frames_server() as gone:
            address = gone.address
        error = await unformed({"h0": FakeHost("h0", 100, address)})
        assert "h0" in str(error)

    run(main())


async def hang_up(reader, writer):
    await reader.read(1000)
    writer.close()


async def reset(reader, writer):
    writer.transport.abort()


@pytest.mark.parametrize("end", [hang_up, reset])
def test_an_executor_that_dies_in_the_handshake_is_a_pool_error(end):
    async def main():
        server = await asyncio.start_server(end, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        error = await unformed({"h0": FakeHost("h0", 100, f"{host}:{port}")})
        assert "h0" in str(error)
        server.close()

    run(main())


def test_an_executor_that_is_frozen_in_the_handshake_is_killed_and_named(monkeypatch):
    monkeypatch.setattr(world_module, "_HANDSHAKE_S", 0.05)

    async def main():
        ended = asyncio.Event()

        async def freeze(reader, writer):
            await ended.wait()
            writer.close()

        server = await asyncio.start_server(freeze, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        hosts = {"h0": FakeHost("h0", 100, f"{host}:{port}")}
        error = await unformed(hosts)
        assert str(error).endswith("does not answer")
        assert hosts["h0"].killed == [100]
        ended.set()
        server.close()

    run(main())


def test_an_executor_of_another_pool_is_a_pool_error():
    async def main():
        async with frames_server(b"another secret") as server:
            error = await unformed({"h0": FakeHost("h0", 100, server.address)})
            assert "h0" in str(error)

    run(main())


def test_an_executor_that_dies_while_it_joins_is_a_lost_host_and_the_others_are_killed():
    async def main():
        async with frames_server() as one, frames_server() as two:
            hosts = {"h0": FakeHost("h0", 100, one.address), "h1": FakeHost("h1", 101, two.address)}

            async def die():
                Executor(0, await command_stream(one))
                connection = await command_stream(two)
                assert (await connection.read())[0][0] == Command.JOIN
                hosts["h1"].exit.set_result(Exit("exited with status 1", by_itself=True))
                connection.drop()

            dying = asyncio.create_task(die())
            error = await unformed(hosts)
            await dying
            assert isinstance(error, HostLostError)
            assert error.host == "h1"
            assert "exited with status 1" in error.reason
            assert hosts["h0"].killed == [100]

    run(main())


def test_a_standby_that_comes_when_the_world_has_failed_to_form_is_not_kept():
    async def main():
        async with frames_server() as slow, frames_server() as gone:
            hosts = {"h0": FakeHost("h0", 100, slow.address), "h1": FakeHost("h1", 101, gone.address)}
            hosts["h0"].ready.clear()

            async def take_standby():
                raise PoolError("host h1: its agent is gone")

            hosts["h1"].take_standby = take_standby
            assert "h1" in str(await unformed(hosts))
            hosts["h0"].ready.set()
            await until_done()
            assert not hosts["h0"].taken or hosts["h0"].killed == [100]

    run(main())
