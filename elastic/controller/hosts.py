"""The controller's connection to one host's agent: standbys to take, executors to kill, exits to hear of."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from checkpoint import Work
from elastic import calling, wire
from elastic.errors import PoolError
from elastic.handshake import HandshakeError
from membership import HostRecord, WrongResult

_incarnations = itertools.count(1)


@dataclass(frozen=True)
class Exit:
    """How an executor ended, in words, and whether for a reason of its own."""

    reason: str
    by_itself: bool


@dataclass(frozen=True)
class Made:
    """What came of an order to make blocks of stripes.

    Attributes:
        digests: of the blocks, in their order; empty for those that could not be made.
        bad: (address, digest) of blocks that were found to be missing or changed; no address for the host's own.
        problem: why the first of those that failed did so.
    """

    digests: Sequence[bytes]
    bad: Sequence[tuple[str, bytes]]
    problem: str | None


class CopyError(Exception):
    """A host could not send, make or remove parts of snapshots. `bad` are copies that it should have had whole."""

    def __init__(self, text: str, bad: Sequence[bytes] = ()) -> None:
        super().__init__(text)
        self.bad = bad


class Host:
    """One host of the pool, by its agent. Made by `connect`."""

    def __init__(self, id: str, address: str, lost: Callable[[str, str], None]) -> None:
        self.id = id
        self.address = address
        self.devices = 0
        """Physical devices that it contributes."""
        self.holds: list[bytes] = []
        """What its memory held of snapshots when it was connected: a host that was cut off may come back."""
        self.incarnation = next(_incarnations)
        """Tells it from those that had its id before."""
        self.cores = 1
        """Of its machine, that it may use."""
        self.pid = 0
        """Of its agent."""
        self.far = False
        """Whether it is on another machine than the controller, and cannot open its files."""
        self.record: HostRecord | None = None
        """As it registered itself in the pool."""
        self.on_beat: Callable[[list[int]], None] = lambda _: None
        """Called when the agent shows that it moves, with the executors that do."""
        self.on_wrong_result: Callable[[str], None] = lambda _: None
        """Called with what is wrong when its devices fail a health check; `failure` says so from then on."""
        self.checked: float | None = None
        """When its devices last passed a health check, on the monotonic clock; None if that is not known."""
        self._lost = lost
        self._standbys: dict[int, str] = {}
        self._exits: dict[int, asyncio.Future[Exit]] = {}
        self._seconds = 0.0
        self._changed = asyncio.Event()
        self._numbers = itertools.count(1)
        self._orders: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ordered: dict[int, float] = {}
        """When each was given, the oldest first."""
        self._needed_by: set[asyncio.Future[dict[str, Any]]] = set()
        """Orders of other hosts that cannot be carried out without this one."""
        self.on_drain: Callable[[str], None] = lambda _: None
        """Called with the reason when the agent says that its host is about to go."""
        self.notice = ""
        """What it said then."""
        self.draining = False
        """Whether it is about to go, and gets nothing any more."""
        self.refused: dict[str, int] = {}
        """Connections that its agent and executors refused, by reason (`elastic.refusals`)."""
        self.failure: str | None = None
        """Why it cannot have executors any more."""
        self._link: wire.Link

    @classmethod
    async def connect(
        cls, id: str, address: str, secret: bytes, lost: Callable[[str, str], None], run: str = "", pool: str = ""
    ) -> Host:
        """Connects to an agent in the name of a run of a pool; `lost(host, reason)` is called when it goes away.

        Raises `PoolError` if it cannot be reached, does not know the secret, or is that of another host.
        """
        host = cls(id, address, lost)
        hello = {"role": "controller", "run": run, "host": id, **({"pool": pool} if pool else {})}
        try:
            host._link = await calling.open_link(address, secret, hello, host._hear, host._gone)
        except (OSError, EOFError, HandshakeError, ValueError) as error:
            raise PoolError(f"the agent of host {id} at {address} cannot be reached: {error}") from error
        try:
            while not host.devices:
                if host.failure:
                    raise PoolError(f"host {id}: {host.failure}")
                await host._change()
        except BaseException:
            host.close()
            raise
        return host

    async def stand_by(self) -> None:
        """Waits until an executor stands by. Raises `PoolError` if this host cannot have one any more."""
        if not self._standbys and not self.failure:
            self._link.send(wire.frame({"want": "standby"}))
        while self.failure or not self._standbys:
            if self.failure:
                raise PoolError(f"host {self.id}: {self.failure}")
            await self._change()

    async def take_standby(self) -> tuple[int, str]:
        """The (pid, address) of an executor that stands by; waits for one to be ready.

        Raises `PoolError` if this host cannot have one any more.
        """
        await self.stand_by()
        pid = next(iter(self._standbys))
        address = self._standbys.pop(pid)
        self._exits[pid] = asyncio.get_running_loop().create_future()
        self._link.send(wire.frame({"use": pid}))
        return pid, address

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def exit_of(self, pid: int) -> asyncio.Future[Exit]:
        """How an executor that was taken ended, once it has ended."""
        return self._exits[pid]

    def forget(self, pid: int) -> None:
        """Nobody will ask why this executor ended."""
        self._exits.pop(pid, None)

    def kill(self, pid: int) -> None:
        """Has an executor killed."""
        self._link.send(wire.frame({"kill": pid}))

    def quarantine(self, reason: str) -> None:
        """Has it stay away, as one whose devices failed a health check; it says so and is given up."""
        self._link.send(wire.frame({"quarantine": reason}))

    async def send_copies(self, digests: Sequence[bytes], to: Host) -> None:
        """Has it send copies from its memory to another host's. Raises `CopyError` if that did not succeed."""
        # Who sends to a host that is frozen hears nothing of it; the controller does.
        self._done(await self._order({"send": list(digests), "to": to.address}, to))

    async def make_blocks(self, jobs: Sequence[dict[str, Any]]) -> Made:
        """Has it make blocks of stripes (see `elastic.agent.parity`). Raises `CopyError` if it did not even try."""
        said = await self._order({"make": list(jobs)})
        if "made" not in said:
            self._done(said)
        return Made(said["made"], [(address, digest) for address, digest in said["bad"]], said["problem"])

    async def keep_copies(self, digests: Collection[bytes]) -> None:
        """Has it remove all but these from its memory. Raises `CopyError` if that did not succeed."""
        self._done(await self._order({"keep": list(digests)}))

    async def let_go(self, mark: int) -> None:
        """Has it remove what it keeps under a mark. Raises `CopyError` if that did not succeed."""
        self._done(await self._order({"let_go": mark}))

    async def store_files(self, files: Sequence[tuple[bytes, str]], mark: int | None = None) -> None:
        """Has it write copies of its memory, or of what it keeps under a mark, each to a path.

        Raises `CopyError` if that did not succeed.
        """
        self._done(await self._order({"store": files, "mark": mark}))

    async def fetch_file(self, digest: bytes, size: int, path: str) -> None:
        """Has it read a copy of so many bytes into its memory. Raises `CopyError` if that did not succeed; the copy is
        bad if the file is."""
        self._done(await self._order({"fetch": [(digest, size, path)]}))

    async def unreached(self, others: Sequence[Host]) -> set[str]:
        """Has it try to reach other hosts; the ids of those that it does not. Raises `CopyError` if it is gone."""
        said = await self._order({"reach": [other.address for other in others]})
        self._done(said)
        unreached = set(said["unreached"])
        return {other.id for other in others if other.address in unreached}

    @property
    def asked_since(self) -> float | None:
        """When the oldest order was given that is not carried out, on the monotonic clock; None if all are."""
        return next(iter(self._ordered.values()), None)

    def take_work(self) -> Work:
        """What copies have cost since this was asked last, as far as it has told."""
        seconds, self._seconds = self._seconds, 0.0
        return Work(self.record.machine if self.record else self.id, self.cores, seconds)

    async def _order(self, order: dict[str, Any], other: Host | None = None) -> dict[str, Any]:
        """Gives an order; what the agent said when it was done, or that another host it needs is gone."""
        number = next(self._numbers)
        done: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._orders[number], self._ordered[number] = done, time.monotonic()
        if self.failure is None:
            self._link.send(wire.frame({**order, "order": number}))
        else:
            done.set_result({"problem": self.failure})
        if other is not None:
            other._needed_by.add(done)
        try:
            said = await done
        finally:
            del self._ordered[number]
            if other is not None:
                other._needed_by.discard(done)
        self._seconds += said.get("seconds", 0.0)
        return said

    def _done(self, said: dict[str, Any]) -> None:
        if said["problem"]:
            raise CopyError(f"host {self.id}: {said['problem']}", said.get("bad", ()))

    def give_up_orders(self, problem: str) -> None:
        """Waits for nothing any more that it was told, nor for what others were told that they need it for."""
        orders, self._orders = self._orders, {}
        own = ((done, problem) for done in orders.values())
        others = ((done, f"host {self.id}: {problem}") for done in self._needed_by)
        for done, why in (*own, *others):
            if not done.done():
                done.set_result({"problem": why})

    def close(self) -> None:
        self._link.close()

    def leave(self) -> None:
        """Closes the connection in good order: the run ends, and the host is not lost."""
        self._lost = lambda *_: None
        self._link.close()

    def _hear(self, event: dict[str, Any], _: wire.Bytes) -> None:
        if "host" in event:
            self.devices, self.pid, self.holds = event["devices"], event["pid"], event["holds"]
            self.cores = event["cores"]
        elif "beat" in event:
            self.refused = event.get("refusals", self.refused)
            self.on_beat(event["beat"])
            return
        elif "draining" in event:
            self.notice = event["draining"]
            self.on_drain(self.notice)
        elif "checked" in event:
            self.checked = time.monotonic() - event["checked"]
        elif "wrong_result" in event:
            self.failure = WrongResult(self.id, self.incarnation, event["wrong_result"]).words()
            self.on_wrong_result(event["wrong_result"])
        elif "standby" in event:
            self._standbys[event["standby"]] = event["address"]
        elif "exited" in event:
            self._standbys.pop(event["exited"], None)
            reason = event["reason"] + (f"; its last words:\n{event['log']}" if event["log"] else "")
            if event["exited"] == 0:
                self.failure = reason
            future = self._exits.get(event["exited"])
            if future is not None and not future.done():
                future.set_result(Exit(reason, event["by_itself"]))
        elif "done" in event:
            done = self._orders.pop(event["done"], None)
            if done is not None and not done.done():
                done.set_result(event)
        elif "refused" in event:
            self.failure = event["refused"]
        self._changed.set()

    def _gone(self, reason: str) -> None:
        self.failure = f"its agent is gone: {reason}"
        self._standbys.clear()
        self.give_up_orders(self.failure)
        self._changed.set()
        self._lost(self.id, self.failure)
