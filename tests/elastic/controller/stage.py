"""A world over real sockets, whose executors and hosts are played by the tests."""

import asyncio
import contextlib
import itertools

from elastic.commands import Command
from elastic.controller.callbacks import CallbackSwitch
from elastic.controller.placement import spread
from elastic.controller.world import World
from tests.elastic.connections import SECRET, Connection, frames_server, run


class FakeHost:
    """A host with one standby, whose executor the test plays."""

    def __init__(self, id, pid, address):
        self.id = id
        self.pid = pid
        self.address = address
        self.far = False
        self.ready = asyncio.Event()
        self.ready.set()
        self.taken = False
        self.killed = []
        self.exit = asyncio.get_running_loop().create_future()

    async def take_standby(self):
        await self.ready.wait()
        self.taken = True
        return self.pid, self.address

    def exit_of(self, pid):
        assert pid == self.pid
        return self.exit

    def forget(self, pid):
        assert pid == self.pid

    def kill(self, pid):
        self.killed.append(pid)


class Executor:
    """The other end of one member: joins by itself, answers pings by itself, and leaves the rest to the test."""

    def __init__(self, rank, connection: Connection):
        self.rank = rank
        self.connection = connection
        self.spec = None
        self.answers_pings = True
        self.got = asyncio.Queue()
        self.task = asyncio.create_task(self._serve())

    async def _serve(self):
        with contextlib.suppress(EOFError, OSError):
            while True:
                message, payload = await self.connection.read()
                if message[0] == Command.COORDINATE:
                    self.answer(message[1], f"coordinator of {message[2]}")
                elif message[0] == Command.JOIN:
                    self.spec = message[2]
                    mine = [v for v, (rank, _) in enumerate(self.spec["placement"]) if rank == self.spec["rank"]]
                    self.answer(message[1], [{"device": v, "kind": f"of rank {self.spec['rank']}"} for v in mine])
                elif message[0] == Command.PING and self.answers_pings:
                    self.answer(message[1])
                else:
                    self.got.put_nowait((Command(message[0]), *message[1:], payload))
        self.got.put_nowait(None)

    def answer(self, request, result=None, payload=b"", code=0):
        self.connection.write([request, code, result], payload)


async def command_stream(server, callbacks=None):
    """The connection over which commands come, when the one for callbacks has come too; that goes into a list."""
    connections = [await server.connections.get() for _ in range(2)]
    assert all(connection.hello["generation"] == 5 for connection in connections)
    streams = {connection.hello["role"]: connection for connection in connections}
    assert set(streams) == {"controller", "callbacks"}
    if callbacks is not None:
        callbacks.append(streams["callbacks"])
    return streams["controller"]


class Stage:
    """A world of two or more hosts with two devices each, and all that happens to it."""

    def __init__(self):
        self.hosts = {}
        self.executors = []
        self.callbacks = []
        """The connections for callbacks, in the order in which they came."""
        self.failures = []
        self.world = None

    async def until_idle(self):
        """Everything that was sent so far has been heard: a request to all, answered by all."""
        answered = asyncio.Event()
        everywhere = tuple(range(2 * len(self.hosts)))
        if self.world.failure is None:
            self.world.ask(everywhere, Command.PING, [], lambda *_: answered.set())
            await answered.wait()


@contextlib.asynccontextmanager
async def stage(hosts=2):
    made = Stage()
    async with contextlib.AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(frames_server()) for _ in range(hosts)]
        for rank, server in enumerate(servers):
            made.hosts[f"h{rank}"] = FakeHost(f"h{rank}", 100 + rank, server.address)

        async def play(rank, server):
            made.executors.append(Executor(rank, await command_stream(server, made.callbacks)))

        placement = spread(5, list(made.hosts), 2 * hosts)
        played = [asyncio.create_task(play(rank, server)) for rank, server in enumerate(servers)]
        made.world = await World.form(
            placement, made.hosts, SECRET, CallbackSwitch(), itertools.count(1), made.failures.append
        )
        await asyncio.gather(*played)
        made.executors.sort(key=lambda executor: executor.rank)
        try:
            yield made
        finally:
            made.world.close()


def on_a_stage(play, hosts=2):
    async def main():
        async with stage(hosts) as made:
            await play(made, made.world, *made.executors)

    run(main())


class Answers:
    """Takes the answers to requests, each under a name."""

    def __init__(self):
        self.all = []
        self._changed = asyncio.Event()

    def to(self, name):
        def answer(error, result, payload):
            self.all.append((name, error, result, bytes(payload)))
            self._changed.set()

        return answer

    async def next(self):
        while not self.all:
            self._changed.clear()
            await self._changed.wait()
        return self.all.pop(0)
