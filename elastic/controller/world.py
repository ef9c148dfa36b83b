"""A world: the executors of one generation, each at the end of one ordered stream of commands.

A world is an object, never a global; it is used until it fails and then thrown away. What it was asked and has not
answered then is answered with `WorldLost`; the next world is the matter of `recovery`. Every command is addressed by
virtual devices; which hosts these are is known here alone.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from elastic import calling, wire
from elastic.commands import Command
from elastic.controller.callbacks import Callee
from elastic.controller.hosts import Exit, Host
from elastic.controller.journal import Answer
from elastic.controller.placement import Placement
from elastic.errors import HostLostError, PoolError
from elastic.handshake import HandshakeError
from elastic.status import Code, StatusError


class WorldLost(StatusError):
    """The world ended before it answered; `failure` says why."""

    def __init__(self, failure: HostLostError) -> None:
        super().__init__(Code.UNAVAILABLE, str(failure))
        self.failure = failure


class _Member:
    """One executor of the world."""

    def __init__(self, host: Host, rank: int, pid: int, address: str) -> None:
        self.host = host
        self.rank = rank
        self.pid = pid
        self.address = address
        self.link: wire.Link
        self.callbacks: wire.Link


class World:
    """The executors of one generation. Made by `form`."""

    def __init__(
        self,
        placement: Placement,
        callbacks: Callee,
        requests: itertools.count[int],
        failed: Callable[[HostLostError], None],
    ) -> None:
        self.placement = placement
        self.lost_devices = frozenset(placement.lost)
        self.devices: list[dict[str, Any]] = []
        """What each virtual device is (see `executor.process.describe`)."""
        self.failure: HostLostError | None = None
        self.on_congestion: Callable[[], None] = lambda: None
        self.callbacks = callbacks
        self._failed = failed
        self._members: list[_Member] = []
        self._requests = requests
        self._waiting: dict[int, _Gather] = {}
        self._owners: dict[tuple[int, ...], tuple[_Member, ...]] = {}
        self._explanation: asyncio.Task[None] | None = None

    @classmethod
    async def form(
        cls,
        placement: Placement,
        hosts: Mapping[str, Host],
        secret: bytes,
        callbacks: Callee,
        requests: itertools.count[int],
        failed: Callable[[HostLostError], None],
        enlisted: Callable[[World], None] = lambda _: None,
    ) -> World:
        """Takes a standby of each host and joins them; `failed(error)` is called once if the world later breaks.

        `enlisted(world)` is called when its executors are known, which have still to join. `requests` gives the
        numbers of requests, which no two worlds may share. Raises `PoolError` or `HostLostError` if it cannot be
        formed.
        """
        world = cls(placement, callbacks, requests, failed)
        try:
            await _all_or_none(world._enlist(hosts[id], rank, secret) for rank, id in enumerate(placement.hosts))
            enlisted(world)
            await world._join()
        except StatusError as error:
            world.close()
            raise world.failure or PoolError(f"the hosts could not form a world: {error}") from error
        except BaseException:
            world.close()
            raise
        return world

    async def _enlist(self, host: Host, rank: int, secret: bytes) -> None:
        pid, address = await host.take_standby()
        member = _Member(host, rank, pid, address)
        try:
            # Nobody watches an executor before it takes part, so one that is frozen is noticed here.
            async with asyncio.timeout(_HANDSHAKE_S):
                member.link, member.callbacks = await asyncio.gather(
                    self._open(member, secret, "controller", self._hear, lambda reason: self._gone(member, reason)),
                    self._open(member, secret, "callbacks", partial(self._called, member), lambda _: None),
                )
        except TimeoutError:
            host.kill(pid)
            raise PoolError(f"the executor of host {host.id} at {address} does not answer") from None
        except (OSError, EOFError, HandshakeError) as error:
            host.kill(pid)
            raise PoolError(f"the executor of host {host.id} at {address} cannot be reached: {error}") from error
        member.link.on_congestion = lambda: self.on_congestion()
        self._members.append(member)

    async def _open(
        self,
        member: _Member,
        secret: bytes,
        role: str,
        received: Callable[[Any, wire.Bytes], None],
        closed: Callable[[str], None],
    ) -> wire.Link:
        hello = {"role": role, "generation": self.placement.generation}
        return await calling.open_link(member.address, secret, hello, received, closed)

    def _called(self, member: _Member, message: list[Any], payload: wire.Bytes) -> None:
        if self.failure is None:  # Else the next world makes this call.
            self.callbacks.called(member.callbacks, message, payload)

    async def _join(self) -> None:
        self._members.sort(key=lambda member: member.rank)
        count = len(self._members)
        coordinator = await self._call(self._members[0], Command.COORDINATE, count)
        spec = {
            "generation": self.placement.generation,
            "processes": count,
            "coordinator": coordinator,
            "platform": "cpu",
            "placement": list(self.placement.owners),
            "peers": [member.address for member in self._members],
        }
        answers = await asyncio.gather(
            *(self._call(member, Command.JOIN, {**spec, "rank": member.rank}) for member in self._members)
        )
        self.devices = sorted((device for answer in answers for device in answer), key=lambda device: device["device"])

    # Sending

    def send(
        self, devices: tuple[int, ...], command: Command, arguments: Sequence[Any], payload: wire.Bytes = b""
    ) -> None:
        """Sends a command to the hosts that own any of the virtual devices. It reaches nobody once the world failed."""
        self.post(devices, wire.frame_header((command, *arguments), len(payload)), payload)

    def ask(
        self,
        devices: tuple[int, ...],
        command: Command,
        arguments: Sequence[Any],
        answer: Answer,
        payload: wire.Bytes = b"",
    ) -> None:
        """Sends a command that each owner of the devices answers; `answer` is called once, when all have.

        It gets the first error, else the result and payload of the first owner.
        """
        request = next(self._requests)
        if self.expect(devices, request, answer):
            self.send(devices, command, [request, *arguments], payload)

    async def call(
        self, devices: tuple[int, ...], command: Command, arguments: Sequence[Any], payload: wire.Bytes = b""
    ) -> tuple[Any, wire.Bytes]:
        """As `ask`, for a coroutine: the (result, payload). Raises `StatusError`."""
        future: asyncio.Future[tuple[Any, wire.Bytes]] = asyncio.get_running_loop().create_future()
        self.ask(devices, command, arguments, _fulfil(future), payload)
        return await future

    async def call_each(self, command: Command, arguments: Callable[[str], Sequence[Any]]) -> dict[str, Any]:
        """Asks every host at once, with the arguments that `arguments(host)` gives; host -> result, or its error.

        The commands take their place in the stream before this first waits. Raises `WorldLost`.
        """
        futures = {}
        for member in self._members:
            future: asyncio.Future[tuple[Any, wire.Bytes]] = asyncio.get_running_loop().create_future()
            futures[member.host.id] = future
            if self.failure is not None:
                raise WorldLost(self.failure)
            request = next(self._requests)
            self._waiting[request] = _Gather(1, _fulfil(future))
            _send([member], wire.frame_header((command, request, *arguments(member.host.id)), 0))
        outcomes = await asyncio.gather(*futures.values(), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, WorldLost):
                raise outcome
        return {
            host: outcome if isinstance(outcome, BaseException) else outcome[0]
            for host, outcome in zip(futures, outcomes, strict=True)
        }

    def post(
        self,
        devices: tuple[int, ...],
        header: bytes,
        payload: wire.Bytes = b"",
        far: Callable[[], tuple[bytes, wire.Bytes]] | None = None,
    ) -> None:
        """As `send`, of a command that is encoded already; `far()` gives what hosts of other machines get instead."""
        members = self._owners.get(devices) or self._owners_of(devices)
        if self.failure is not None:
            return
        others = [member for member in members if member.host.far] if far is not None else []
        if far is not None and others:
            _send(others, *far())
            members = tuple(member for member in members if not member.host.far)
        _send(members, header, payload)

    def expect(self, devices: tuple[int, ...], request: int, answer: Answer) -> bool:
        """Has `answer` called when each owner of the devices has answered the request; `ask` without the sending.

        False if nobody will: it has been called then.
        """
        members = self._owners.get(devices) or self._owners_of(devices)
        if self.failure is not None or not members:
            answer(WorldLost(self.failure) if self.failure else None, None, b"")
            return False
        self._waiting[request] = _Gather(len(members), answer)
        return True

    def one_per_host(self, devices: Sequence[int]) -> list[int]:
        """One of the virtual devices for each host that owns any. Raises `StatusError` if one does not exist."""
        self._check(devices)
        first: dict[int, int] = {}
        for device in devices:
            if device not in self.lost_devices:
                first.setdefault(self.placement.owners[device][0], device)
        return list(first.values())

    def stand_ins(self, count: int) -> tuple[int, ...]:
        """So many virtual devices that have a place. Raises `StatusError` (DATA_LOSS) if there are not so many."""
        there = [device for device in range(len(self.placement.owners)) if device not in self.lost_devices]
        if len(there) < count:
            raise StatusError(
                Code.DATA_LOSS, f"a program for {count} devices cannot be compiled while only {len(there)} are there"
            )
        return tuple(there[:count])

    @property
    def executors(self) -> dict[int, str]:
        """The pid of each executor, and its host."""
        return {member.pid: member.host.id for member in self._members}

    @property
    def congested(self) -> bool:
        """True while a host takes commands more slowly than they are sent."""
        return any(member.link.congested for member in self._members)

    @property
    def asked_since(self) -> float | None:
        """When the oldest request was sent that is not answered, on the monotonic clock; None if all are."""
        return next((gather.since for gather in self._waiting.values()), None)

    def _owners_of(self, devices: tuple[int, ...]) -> tuple[_Member, ...]:
        self._check(devices)
        ranks = self.placement.ranks(devices)
        members = self._owners[devices] = tuple(self._members[rank] for rank in ranks)
        return members

    def _check(self, devices: Sequence[int]) -> None:
        count = len(self.placement.owners)
        if not all(0 <= device < count for device in devices):
            raise StatusError(
                Code.INVALID_ARGUMENT, f"virtual devices {list(devices)} do not all exist; there are {count}"
            )

    # Hearing

    def _hear(self, message: list[Any], payload: wire.Bytes) -> None:
        request, code, result = message
        gather = self._waiting.get(request)
        if gather is None:
            return
        gather.add(StatusError(code, result) if code else None, result, payload)
        if gather.missing:
            return
        if gather.error is not None:
            self._confirm(request, gather)
            return
        del self._waiting[request]
        gather.finish()

    def _confirm(self, request: int, gather: _Gather) -> None:
        """Lets an error reach the client only when every member has shown that it lives.

        When a host dies its neighbours' collectives fail, and their errors may come before the news of the death
        itself.
        """

        def confirmed(error: StatusError | None, *_: Any) -> None:
            if error is None and self._waiting.pop(request, None) is not None:
                gather.finish()

        ping = next(self._requests)
        self._waiting[ping] = _Gather(len(self._members), confirmed)
        _send(self._members, wire.frame_header((Command.PING, ping), 0))

    async def _call(self, member: _Member, command: Command, argument: Any) -> Any:
        """The answer of one member, while the world forms."""
        if self.failure is not None:
            raise self.failure
        future: asyncio.Future[tuple[Any, wire.Bytes]] = asyncio.get_running_loop().create_future()
        request = next(self._requests)
        self._waiting[request] = _Gather(1, _fulfil(future))
        _send([member], wire.frame_header((command, request, argument), 0))
        return (await future)[0]

    # Ending

    def lost(self, host: str, reason: str, detected_by: str = "", by_itself: bool = False) -> None:
        """Breaks the world because a host is gone. Everything that waits gets a `WorldLost` that names it."""
        if self.failure is not None:
            return
        failure = HostLostError(host, reason, detected_by, by_itself)
        self._end(failure)
        self._failed(failure)

    def _end(self, failure: HostLostError) -> None:
        self.failure = failure
        status = WorldLost(failure)
        waiting, self._waiting = self._waiting, {}
        for gather in waiting.values():
            gather.error = status
            gather.finish()

    def close(self) -> None:
        """Kills the executors; their agents hear of it first, so that none lives on unnoticed."""
        if self.failure is None:
            self._end(HostLostError("", "the world was closed"))
        if self._explanation is not None:
            self._explanation.cancel()
        for member in self._members:
            member.host.kill(member.pid)
            member.link.close()
            member.callbacks.close()
            member.host.forget(member.pid)

    def _gone(self, member: _Member, reason: str) -> None:
        # Only the first: when the executor of rank 0 dies, the others abort for want of their coordinator.
        if self.failure is None and self._explanation is None:
            coming = member.host.exit_of(member.pid)
            self._explanation = asyncio.get_running_loop().create_task(self._explain(member, coming, reason))

    async def _explain(self, member: _Member, coming: asyncio.Future[Exit], reason: str) -> None:
        """An executor's stream ended; its agent, if it lives, knows in milliseconds what became of the process."""
        try:
            exit = await asyncio.wait_for(asyncio.shield(coming), _EXPLANATION_S)
            reason = f"its executor (pid {member.pid}) {exit.reason}"
            self.lost(member.host.id, reason, "its agent, which saw the executor end", exit.by_itself)
        except TimeoutError:
            detected_by = "the controller: the executor's connection closed"
            self.lost(member.host.id, f"its executor (pid {member.pid}) is gone: {reason}", detected_by)


_HANDSHAKE_S = 5.0
"""How long an executor may take to prove itself; another one is taken then."""

_EXPLANATION_S = 0.3
"""How long an agent may take to say why its executor ended, before the loss is told without."""


class _Gather:
    """The answers of several hosts to one request."""

    __slots__ = ("_answer", "_result", "error", "missing", "since")

    def __init__(self, missing: int, answer: Answer) -> None:
        self.missing = missing
        self.since = time.monotonic()
        self._answer = answer
        self.error: StatusError | None = None
        self._result: tuple[Any, wire.Bytes] | None = None

    def add(self, error: StatusError | None, result: Any, payload: wire.Bytes) -> None:
        self.missing -= 1
        if error is not None:
            self.error = self.error or error
        elif self._result is None:
            self._result = (result, payload)

    def finish(self) -> None:
        self._answer(self.error, *(self._result or (None, b"")))


async def _all_or_none(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Does all of them; if one fails, ends the others and raises its error."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _fulfil(future: asyncio.Future[tuple[Any, wire.Bytes]]) -> Answer:
    def answer(error: StatusError | None, result: Any, payload: wire.Bytes) -> None:
        if not future.done():
            future.set_exception(error) if error else future.set_result((result, payload))

    return answer


def _send(members: Sequence[_Member], header: bytes, payload: wire.Bytes = b"") -> None:
    for member in members:
        member.link.send(header)
        if payload:
            member.link.send(payload)
