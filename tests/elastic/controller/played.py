"""A run over real sockets whose hosts and executors are played.

The executors compute: bytes that are put are kept, and a program's results are digests of its arguments. So what a
client reads tells whether everything was done, once and in order, whatever became of hosts meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from checkpoint import Work
from elastic.commands import Command
from elastic.controller import saving
from elastic.controller.changes import Recovered
from elastic.controller.hosts import CopyError, Exit
from elastic.controller.placement import Policy
from elastic.controller.programs import Source
from elastic.controller.run import Run
from elastic.errors import PoolError
from elastic.host_memory import digest_of
from elastic.status import Code, StatusError
from tests.elastic.connections import SECRET, Connection, Frames, frames_server, run
from tests.elastic.controller.recording import ABOUT

NEVER_S = 3600.0
KILLED = Exit("was killed by SIGKILL", by_itself=False)
ABORTED = Exit("was killed by SIGABRT", by_itself=True)


class PlayedHost:
    """As `Host` to the run; its memory is a dictionary."""

    def __init__(self, pool: PlayedPool, id: str, devices: int, server: Frames) -> None:
        self.id = id
        self.devices = devices
        self.address = server.address
        self.incarnation = next(pool.incarnations)
        self.pid = 1
        self.record = None
        self.holds: list[bytes] = []
        self.far = False
        self.draining = False
        self.failure: str | None = None
        self.refused: dict[str, int] = {}
        self.on_beat: Callable[[list[int]], None] = lambda _: None
        self.on_wrong_result: Callable[[str], None] = lambda _: None
        self.checked: float | None = None
        self.flips = 0
        """Executions of programs whose results its first device still spoils."""
        self.quarantined: list[str] = []
        """Why it was told to stay away, each time."""
        self.memory: dict[bytes, bytes] = {}
        self.full = False
        """Whether its memory takes no more."""
        self.sends: asyncio.Event = asyncio.Event()
        """Cleared to hold up copies that it is to send."""
        self.sends.set()
        self.stores: asyncio.Event = asyncio.Event()
        """Cleared to hold up what it is to write."""
        self.stores.set()
        self.reads: asyncio.Event = asyncio.Event()
        """Cleared to hold up what it is to read."""
        self.reads.set()
        self.marked: dict[int, dict[bytes, bytes]] = {}
        """What it keeps under marks."""
        self.kept: list[set[bytes]] = []
        """What it was told to keep, each time."""
        self.asked_since: float | None = None
        self.cut_off_from: set[str] = set()
        """Hosts that it does not reach."""
        self.silent = False
        """Whether it does not say whom it reaches."""
        self.executors: list[PlayedExecutor] = []
        self._pool = pool
        self._pids = itertools.count(1000 * self.incarnation)
        self._exits: dict[int, asyncio.Future[Exit]] = {}
        self._taken: list[int] = []
        self._task = asyncio.create_task(self._serve(server))

    async def _serve(self, server: Frames) -> None:
        streams: dict[int, dict[str, Connection]] = {}
        while True:
            connection = await server.connections.get()
            generation, role = connection.hello["generation"], connection.hello["role"]
            pair = streams.setdefault(generation, {})
            pair[role] = connection
            if len(pair) == 2:
                executor = PlayedExecutor(self._pool, self, self._taken.pop(0), generation, pair["controller"])
                self.executors.append(executor)

    # What the run asks of it

    async def take_standby(self) -> tuple[int, str]:
        if self.failure:
            raise PoolError(f"host {self.id}: {self.failure}")
        pid = next(self._pids)
        self._exits[pid] = asyncio.get_running_loop().create_future()
        self._taken.append(pid)
        return pid, self.address

    def exit_of(self, pid: int) -> asyncio.Future[Exit]:
        return self._exits[pid]

    def forget(self, pid: int) -> None:
        self._exits.pop(pid, None)

    def kill(self, pid: int) -> None:
        for executor in self.executors:
            if executor.pid == pid:
                executor.killed = True
                executor.connection.drop()

    def quarantine(self, reason: str) -> None:
        self.quarantined.append(reason)
        self.failure = reason
        asyncio.get_running_loop().call_soon(self._given_up, reason)
        self._pool.happened()

    def _given_up(self, reason: str) -> None:
        self._pool.hosts.pop(self.id, None)
        self._pool.run.host_lost(self.id, reason)

    async def send_copies(self, digests: Sequence[bytes], to: PlayedHost) -> None:
        self._pool.copied.append((self.id, to.id, len(digests)))
        self._pool.happened()
        await self.sends.wait()
        for digest in digests:
            if digest not in self.memory:
                raise CopyError(f"host {self.id}: the copy {digest.hex()} is not here")
            if to.failure or to.full:
                raise CopyError(f"host {self.id}: {to.failure or 'no space'}")
            to.memory[digest] = self.memory[digest]
        self._pool.happened()

    def take_work(self) -> Work:
        return Work(self.id, 1, 0.0)

    async def unreached(self, others: Sequence[PlayedHost]) -> set[str]:
        self._pool.probes += 1
        self._pool.happened()
        if self.silent:
            raise CopyError(f"host {self.id} does not say")
        return self.cut_off_from.intersection(other.id for other in others)

    def give_up_orders(self, problem: str) -> None: ...

    async def store_files(self, files: Sequence[tuple[bytes, str]], mark: int | None = None) -> None:
        copies = self.memory if mark is None else self.marked.get(mark, {})
        await self.stores.wait()
        for digest, path in files:
            if self.failure or digest not in copies or self._pool.disk_is_full:
                why = self.failure or ("No space left on device" if self._pool.disk_is_full else "it is not here")
                raise CopyError(f"host {self.id}: {path} cannot be written: {why}")
            _write(path, copies[digest])

    async def fetch_file(self, digest: bytes, size: int, path: str) -> None:
        await self.reads.wait()
        data = _read(path)
        self._pool.fetched.append((self.id, path))
        if digest_of(data) != digest:
            raise CopyError(f"host {self.id}: {path} was changed", [digest])
        self.memory[digest] = data

    async def let_go(self, mark: int) -> None:
        self.marked.pop(mark, None)
        self._pool.happened()

    async def keep_copies(self, digests: Collection[bytes]) -> None:
        self.kept.append(set(digests))
        self.memory = {digest: data for digest, data in self.memory.items() if digest in self.kept[-1]}
        self._pool.happened()

    def close(self) -> None: ...

    # What tests do to it

    @property
    def executor(self) -> PlayedExecutor:
        """The newest."""
        return self.executors[-1]

    def end_executor(self, how: Exit = KILLED) -> None:
        """The executor dies, and the agent says how."""
        self.executor.connection.drop()
        exit = self._exits.get(self.executor.pid)
        if exit is not None and not exit.done():
            exit.set_result(how)

    def die(self) -> None:
        """The whole host dies, with its memory."""
        self.failure = "its agent is gone"
        self.memory.clear()
        self.sends.set()
        self.stores.set()
        for executor in self.executors:
            executor.connection.drop()
        self._pool.hosts.pop(self.id, None)
        self._pool.run.host_lost(self.id, "its agent is gone")

    def fall_silent(self) -> None:
        """Nothing is heard of it any more. Its memory stays."""
        del self._pool.hosts[self.id]
        self._pool.run._worlds._host_silent(self, "connected but silent for 0.83 s")  # type: ignore[arg-type]

    def close_for_good(self) -> None:
        self._task.cancel()


class PlayedExecutor:
    """Carries out commands; those that the pool holds back it leaves to the test."""

    def __init__(self, pool: PlayedPool, host: PlayedHost, pid: int, generation: int, connection: Connection) -> None:
        self.host = host
        self.pid = pid
        self.generation = generation
        self.connection = connection
        self.killed = False
        self.told: list[tuple[Any, ...]] = []
        """(command, arguments without request numbers...) of all but pings and those for joining."""
        self.arrays: dict[int, dict[int, bytes | StatusError]] = {}
        self.programs: dict[int, list[int]] = {}
        self._pool = pool
        self._owns: set[int] = set()
        self._later: list[asyncio.Task[None]] = []
        self._task = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                message, payload = await self.connection.read()
                command = Command(message[0])
                if command in self._pool.held:
                    self._pool.waiting.append((self, command, message[1:], payload))
                    self._pool.happened()
                    if command in _IN_THREADS:
                        self._later.append(asyncio.create_task(self._carry_out_later(command, message[1:], payload)))
                        continue
                    await self._pool.released[command].wait()
                self._carry_out(command, message[1:], payload)
                self._pool.happened()

    async def _carry_out_later(self, command: Command, arguments: list[Any], payload: bytes) -> None:
        await self._pool.released[command].wait()
        self._carry_out(command, arguments, payload)
        self._pool.happened()

    def answer(self, request: int, result: Any = None, payload: bytes = b"") -> None:
        self.connection.write([request, 0, result], payload)

    def refuse(self, request: int, error: StatusError) -> None:
        self.connection.write([request, int(error.code), error.message])

    def _carry_out(self, command: Command, arguments: list[Any], payload: bytes) -> None:
        if command in _ASKED:
            request, *arguments = arguments
        if command not in (Command.PING, Command.CATCH_UP, Command.FINISHED, Command.COORDINATE, Command.JOIN):
            self.told.append((command, *arguments))
        match command:
            case Command.COORDINATE:
                self.answer(request, "coordinator")
            case Command.JOIN:
                spec = arguments[0]
                self._owns = {v for v, (rank, _) in enumerate(spec["placement"]) if rank == spec["rank"]}
                self.answer(request, [{"device": v, "kind": "played"} for v in self._owns])
            case Command.COMPILE | Command.LOAD:
                self.programs[arguments[0]] = arguments[2]
                self.answer(request, ABOUT, b"blob of " + payload if command is Command.COMPILE else b"")
            case Command.UNLOAD:
                self.programs.pop(arguments[1] if len(arguments) > 1 else arguments[0], None)
            case Command.PUT:
                for device in self._owns.intersection(arguments[4]):
                    self.arrays.setdefault(arguments[0], {})[device] = payload
            case Command.EXECUTE:
                self._execute(*arguments[:3])
            case Command.FAIL:
                for array in arguments[0]:
                    self.arrays[array] = dict.fromkeys(self._owns, StatusError(*arguments[1:]))
            case Command.FREE:
                for array in arguments[0]:
                    self.arrays.pop(array, None)
            case Command.READ | Command.DIGEST:
                self._read(request, command, *arguments[:2])
            case Command.WAIT | Command.CATCH_UP | Command.FINISHED | Command.PING:
                self.answer(request)
            case Command.SNAPSHOT:
                self._snapshot(request)
            case Command.HOLD:
                self._hold(request, *arguments)
            case Command.RESTORE:
                self.answer(request, [record[-1] for record in arguments[1] if not self._restore(record)])
            case _:
                raise AssertionError(f"nobody plays {command.name}")

    def _execute(self, program: int, arguments: list[int], results: list[int]) -> None:
        for device in self._owns.intersection(self.programs.get(program, self._owns)):
            made: bytes | StatusError = b"%d:" % program
            for argument in arguments:
                value = self.arrays.get(argument, {}).get(device)
                if value is None:
                    value = StatusError(Code.NOT_FOUND, f"array {argument} is not on this host")
                if isinstance(value, StatusError):
                    made = value
                    break
                assert isinstance(made, bytes)
                made += value
            if program not in self.programs:
                made = StatusError(Code.NOT_FOUND, f"there is no program {program}")
            for place, result in enumerate(results):
                value = made if isinstance(made, StatusError) else digest_of(made + bytes([place]))
                if self.host.flips and device == min(self._owns) and isinstance(value, bytes):
                    self.host.flips -= 1
                    value = bytes([value[0] ^ self.host.incarnation]) + value[1:]  # Each in its own way.
                if self._pool.spoiled and self.generation > 0 and isinstance(value, bytes):
                    value = digest_of(value)
                if self._pool.unsteady and isinstance(value, bytes):
                    value = digest_of(b"%d" % next(self._pool.numbers))
                self.arrays.setdefault(result, {})[device] = value

    def _read(self, request: int, command: Command, array: int, device: int) -> None:
        value = self.arrays.get(array, {}).get(
            device, StatusError(Code.NOT_FOUND, f"array {array} is not on this host")
        )
        if isinstance(value, StatusError):
            self.refuse(request, value)
        else:
            self.answer(request, digest_of(value), value if command is Command.READ else b"")

    def _snapshot(self, request: int) -> None:
        records: list[list[Any]] = []
        for array, shards in self.arrays.items():
            for device, value in shards.items():
                if isinstance(value, StatusError):
                    records.append([array, -1, "error", int(value.code), value.message])
                    continue
                digest = digest_of(value)
                if digest not in self.host.memory and self.host.full:
                    self.refuse(request, StatusError(Code.RESOURCE_EXHAUSTED, "No space left on device"))
                    return
                self.host.memory[digest] = value
                records.append([array, device, "bytes", "uint8", [len(value)], None, len(value), digest])
        self.answer(request, {"records": records, "seconds": self._pool.saving_s})

    def _hold(self, request: int, mark: int, device: int, arrays: list[int]) -> None:
        records = []
        for array in arrays:
            value = self.arrays[array][device]
            if isinstance(value, StatusError):
                self.refuse(request, value)
                return
            digest = digest_of(value)
            self.host.marked.setdefault(mark, {})[digest] = value
            records.append([array, device, "bytes", "uint8", [len(value)], None, len(value), digest])
        self.answer(request, records)

    def _restore(self, record: list[Any]) -> bool:
        array, device, what, *rest = record
        if what == "error":
            self.arrays[array] = dict.fromkeys(self._owns, StatusError(*rest))
            return True
        data = self.host.memory.get(rest[-1])
        if data is None or digest_of(data) != rest[-1]:
            return False
        self.arrays.setdefault(array, {})[device] = data
        return True


_ASKED = {
    Command.COORDINATE,
    Command.JOIN,
    Command.COMPILE,
    Command.LOAD,
    Command.READ,
    Command.DIGEST,
    Command.WAIT,
    Command.CATCH_UP,
    Command.FINISHED,
    Command.PING,
    Command.SNAPSHOT,
    Command.HOLD,
    Command.RESTORE,
}


def _write(path: str, data: bytes) -> None:
    Path(path).write_bytes(data)


def _read(path: str) -> bytes:
    return Path(path).read_bytes()


_IN_THREADS = {Command.COMPILE, Command.LOAD}
"""What real executors do beside their stream."""


class PlayedPool:
    """A run, its hosts, and what a client asks of it."""

    def __init__(
        self,
        devices: int,
        policy: Policy = Policy.STACK,
        checkpoint: Path | None = None,
        verify_every: int = 0,
    ) -> None:
        self.hosts: dict[str, PlayedHost] = {}
        self.all_hosts: list[PlayedHost] = []
        self.recovered: asyncio.Queue[Recovered] = asyncio.Queue()
        self.failures: list[Any] = []
        self.waits: list[tuple[str, str, str]] = []
        """(host, reason, for what) of each time that the run said that it waits."""
        self.let_go: list[str] = []
        """Hosts that drained and hold nothing any more."""
        self.fences: list[int] = []
        self.copied: list[tuple[str, str, int]] = []
        """(from, to, how many) of all copies between hosts."""
        self.held: set[Command] = set()
        self.released: dict[Command, asyncio.Event] = {}
        self.waiting: list[tuple[PlayedExecutor, Command, list[Any], bytes]] = []
        """Commands that are held back."""
        self.disk_is_full = False
        self.unsteady = False
        """Whether programs give something else each time."""
        self.spoiled = False
        """Whether the run, and nobody who does it again, gets something wrong on all devices."""
        self.probes = 0
        """How often hosts were asked whom they reach."""
        self.fetched: list[tuple[str, str]] = []
        """(host, file) of all that was read from disk."""
        self.saving_s = 0.0
        self.incarnations = itertools.count(1)
        self.numbers = itertools.count(1)
        self.everywhere = tuple(range(devices))
        self._change = asyncio.Event()
        self._stack = contextlib.AsyncExitStack()
        self.run = Run(
            devices,
            SECRET,
            policy=policy,
            checkpoint=checkpoint,
            checkpoint_every=NEVER_S,
            verify_every=verify_every,
            fence=self._fence,
            released=self._let_go,
            waits=self._waits,
            recovered=self._recovered,
            failed=self._failed,
        )

    async def _fence(self, generation: int) -> None:
        self.fences.append(generation)

    def _let_go(self, id: str) -> None:
        self.let_go.append(id)
        self.happened()

    def _waits(self, *what: str) -> None:
        self.waits.append(what)  # type: ignore[arg-type]
        self.happened()

    def _recovered(self, change: Recovered) -> None:
        self.recovered.put_nowait(change)

    def _failed(self, failure: Any) -> None:
        self.failures.append(failure)
        self.happened()

    # What happens to it

    async def join(self, id: str, devices: int = 2, memory: dict[bytes, bytes] | None = None) -> PlayedHost:
        """A host comes, or comes back with what it had."""
        server = await self._stack.enter_async_context(frames_server())
        host = self.hosts[id] = PlayedHost(self, id, devices, server)
        host.memory = memory or {}
        host.holds = list(host.memory)
        self.all_hosts.append(host)
        self.run.host_joined(host)  # type: ignore[arg-type]
        return host

    def hold(self, command: Command) -> None:
        """From now on executors carry out no command of this kind, and none behind it that would have to wait."""
        self.held.add(command)
        self.released[command] = asyncio.Event()

    def release(self, command: Command) -> None:
        """They carry out those that were held up, and all to come."""
        self.held.discard(command)
        self.released[command].set()
        self.waiting = [entry for entry in self.waiting if entry[1] is not command]

    def happened(self) -> None:
        self._change.set()

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Waits until something is so; the condition's value."""
        while not (value := condition()):
            self._change.clear()
            await self._change.wait()
        return value

    async def until_held(self, command: Command, count: int = 1) -> list[PlayedExecutor]:
        """The executors of the newest generation that hold such a command, once so many do."""

        def holding() -> list[PlayedExecutor]:
            held = [executor for executor, what, *_ in self.waiting if what is command]
            newest = max((executor.generation for executor in held), default=0)
            found = [executor for executor in held if executor.generation == newest]
            return found if len(found) >= count else []

        found: list[PlayedExecutor] = await self.until(holding)
        return found

    async def snapshot(self) -> None:
        """Takes a snapshot now. Raises what that raises."""
        await self.run._saving.save(await self.run.world())

    async def verify(self) -> None:
        """Takes a snapshot now, and has it verified; returns when what comes of that has come."""
        await self.snapshot()
        verifying = self.run._verifying
        assert verifying is not None
        assert verifying.going_on is not None
        await verifying.going_on

    @property
    def findings(self) -> list[Any]:
        """What verifying has brought to light."""
        assert self.run._verifying is not None
        return list(self.run._verifying.facts(0.0).findings)

    async def begin_to_store(self) -> asyncio.Task[None]:
        """Takes a snapshot now, and begins to have it stored; the result ends when that has succeeded or failed."""
        assert self.run._durable is not None
        self.run._durable._began = None  # The next one is due.
        await self.snapshot()
        storing = self.run._saving.storing
        assert storing is not None
        return storing

    async def store(self) -> None:
        """Takes a snapshot now, and has it stored; returns when that has succeeded or failed."""
        await (await self.begin_to_store())

    async def lose_all(self) -> None:
        """All hosts die at once, and as many come."""
        ids = list(self.hosts)
        for id in ids:
            self.hosts[id].die()
        for id in ids:
            await self.join(id)

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            for host in self.hosts.values():
                host.on_beat([executor.pid for executor in host.executors])

    # What a client does

    def put(self, data: bytes, devices: tuple[int, ...] | None = None, **file: Any) -> int:
        """A new array with these bytes on each of the devices; its number."""
        array, devices = next(self.numbers), devices or self.everywhere
        body = [array, "uint8", [len(data)], None, devices, None, None, file.get("file")]
        self.run.send(devices, Command.PUT, body, data, **file)
        return array

    def execute(self, program: int, *arguments: int, devices: tuple[int, ...] | None = None) -> int:
        """Runs a program on its devices, by default all; the number of its result."""
        result = next(self.numbers)
        self.run.send(devices or self.everywhere, Command.EXECUTE, [program, list(arguments), [result], [], 0])
        return result

    def free(self, *arrays: int, devices: tuple[int, ...] | None = None) -> None:
        self.run.send(devices or self.everywhere, Command.FREE, [list(arrays)])

    def leave(self) -> None:
        """The client leaves, as its session does."""
        self.free(*range(1, next(self.numbers)))
        self.run.forget()

    def unload(self, program: int) -> None:
        self.run.send(self.everywhere, Command.UNLOAD, [0, program])

    def read(self, array: int, device: int = 0) -> asyncio.Future[bytes]:
        """The bytes of a shard, once they are there."""
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def answer(error: StatusError | None, _: Any, payload: Any) -> None:
            assert not future.done(), "a question is answered once"
            future.set_exception(error) if error else future.set_result(bytes(payload))

        self.run.ask((device,), Command.READ, [array, device, None, None], answer)
        return future

    def wait(self, *arrays: int) -> asyncio.Future[None]:
        """Done when all devices have computed arrays."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.run.ask(
            self.everywhere,
            Command.WAIT,
            [list(arrays)],
            lambda error, *_: future.set_exception(error) if error else future.set_result(None),
        )
        return future

    async def load(self, portable: bytes = b"step", devices: tuple[int, ...] | None = None) -> int:
        """Compiles a program for some devices, by default all; its number."""
        number = next(self.numbers)
        source = Source(portable, b"options", devices or self.everywhere, 1)
        await self.run.programs.load(await self.run.world(), number, source)
        return number


@contextlib.asynccontextmanager
async def played(
    hosts: int = 3,
    devices: int = 6,
    *,
    pause_s: float = NEVER_S,
    policy: Policy = Policy.STACK,
    checkpoint: Path | None = None,
    verify_every: int = 0,
) -> AsyncIterator[PlayedPool]:
    """A run on hosts h0, h1, ... of two devices each; by itself it takes snapshots with this pause, in seconds."""
    with mock.patch.object(saving, "_SHORTEST_S", pause_s):
        pool = PlayedPool(devices, policy, checkpoint, verify_every)
        async with pool._stack:
            beating = asyncio.create_task(pool.beat())
            try:
                for number in range(hosts):
                    await pool.join(f"h{number}")
                await pool.run.start(hosts)
                yield pool
            finally:
                beating.cancel()
                pool.run.close()
                for host in pool.all_hosts:
                    host.close_for_good()


def with_hosts(play: Callable[[PlayedPool], Awaitable[None]], hosts: int = 3, devices: int = 6, **how: Any) -> None:
    """Plays a test on a pool."""

    async def main() -> None:
        async with played(hosts, devices, **how) as pool:
            await play(pool)

    run(main())


def made_by(program: int, *arguments: bytes) -> bytes:
    """What a program makes of its arguments."""
    return digest_of(b"%d:" % program + b"".join(arguments) + bytes([0]))


def told(executor: PlayedExecutor, *commands: Command) -> list[tuple[Any, ...]]:
    """What an executor was told, of these kinds; if none is named, of all but programs and pieces of recovery."""
    setting_up = (Command.LOAD, Command.COMPILE, Command.RESTORE, Command.DIGEST, Command.SNAPSHOT)
    return [what for what in executor.told if (what[0] in commands if commands else what[0] not in setting_up)]
