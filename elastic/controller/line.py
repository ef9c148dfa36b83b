"""The line: what a run was asked to do, in order, and the one world that is told of it.

Who sends here never learns that a world was lost. What is sent stands in the journal; the next world is told what it
holds, and questions that were not answered are answered by that one. Which world comes next is `recovery`'s matter.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from elastic import wire
from elastic.commands import Command
from elastic.controller import history
from elastic.controller.demand import Demand
from elastic.controller.journal import NAME_FILES, Answer, Entry, Journal
from elastic.controller.losses import Arrays, Losses
from elastic.controller.pace import Pace
from elastic.controller.programs import ProgramTable
from elastic.controller.replay import Verification, tell_all
from elastic.controller.world import World, WorldLost
from elastic.errors import HostLostError
from elastic.status import Code, StatusError

_LARGE = 256 << 20
"""Bytes of the journal at which a snapshot is due at once."""

_FULL = 512 << 20
"""Bytes of the journal at which no more is taken from the client."""


class Line:
    """One ordered stream of commands to whichever world there is."""

    def __init__(self, virtual_devices: int, programs: ProgramTable) -> None:
        self.virtual_devices = virtual_devices
        self.journal = Journal()
        self.requests = itertools.count(1)
        """Numbers of requests, which no two worlds may share."""
        self.failure: HostLostError | None = None
        """Why there will be no world any more."""
        self.on_congestion: Callable[[], None] = lambda: None
        self.client_is_called: Callable[[], bool] = lambda: False
        """Whether a function of the client runs that a program waits for."""
        self.now: World | None = None
        """The world that is told of everything; None while there is none."""
        self.forgotten = 0
        """Clients whose account was ended."""
        self.losses = Losses()
        self.demand = Demand(self.journal)
        self._paces: dict[tuple[int, ...], Pace] = {}
        """By the virtual devices that programs run on: those on others run meanwhile."""
        self._held = False
        self._programs = programs
        self._unloaded: set[int] = set()
        """The programs that the world has not been told to load."""
        self._formed = asyncio.Event()
        self._answer_came = asyncio.Event()
        self._large = asyncio.Event()

    # What is sent

    def send(
        self,
        devices: tuple[int, ...],
        command: Command,
        arguments: Sequence[Any],
        payload: wire.Bytes = b"",
        *,
        file: str | None = None,
        file_bytes: int = 0,
    ) -> None:
        """Sends a command to the hosts that own any of the virtual devices; in order, whatever becomes of hosts.

        `file` is one that the command names: it is kept for as long as the command may have to be told again.
        Raises `StatusError` if a device does not exist.
        """
        self._check(devices)
        header = wire.frame_header((command, *arguments), len(payload))
        program = _program_of(command, arguments)
        self._add(Entry(devices, command, header, payload, program=program, file=file, file_bytes=file_bytes))

    def ask(
        self,
        devices: tuple[int, ...],
        command: Command,
        arguments: Sequence[Any],
        answer: Answer,
        payload: wire.Bytes = b"",
    ) -> None:
        """Sends a command that each owner of the devices answers; `answer` is called once, when all have.

        It gets the first error, else the result and payload of the first owner. Raises as `send` does.
        """
        self._check(devices)
        if self.failure is not None:
            answer(StatusError(Code.UNAVAILABLE, str(self.failure)), None, b"")
            return
        request = next(self.requests)
        header = wire.frame_header((command, request, *arguments), len(payload))
        entry = Entry(devices, command, header, payload, request, answer, _program_of(command, [request, *arguments]))
        self.demand.asked(entry)
        self._add(entry)

    async def world(self) -> World:
        """The world, once there is one that has been told everything. Raises `StatusError` if the run has failed."""
        while self.now is None:
            if self.failure is not None:
                raise StatusError(Code.UNAVAILABLE, str(self.failure))
            await self._formed.wait()
        return self.now

    @property
    def congested(self) -> bool:
        """True while the client is far ahead of the hosts, a host takes commands more slowly than they are sent, the
        journal is full, or it is held."""
        # What a function of the client waits for may be behind what the client has sent.
        far = any(pace.held for pace in self._paces.values()) and not self.client_is_called()
        full = self._held or self.journal.nbytes > _FULL
        return far or full or (self.now is not None and self.now.congested)

    def hold(self, held: bool) -> None:
        """Whether the client is to wait, since what it asks for might have to be done again."""
        self._held = held
        self.on_congestion()

    def _check(self, devices: Sequence[int]) -> None:
        if not all(0 <= device < self.virtual_devices for device in devices):
            raise StatusError(
                Code.INVALID_ARGUMENT,
                f"virtual devices {list(devices)} do not all exist; there are {self.virtual_devices}",
            )

    def _add(self, entry: Entry) -> None:
        if self.failure is not None:
            entry.discard()
            return
        if self.demand.none_since is not None and entry.command is not Command.FREE:
            self.demand.comes()
        full = self.journal.nbytes > _FULL
        self.journal.add(entry)
        if self.journal.replay_nbytes > _LARGE:
            self._large.set()
        if self.journal.nbytes > _FULL and not full:
            self.on_congestion()
        if self.losses.devices and self.losses.concern(entry):
            self._lose(entry)
            if entry.settled:
                return
        if self.now is not None:
            self._tell(self.now, entry)
        if entry.command is Command.EXECUTE:
            pace = self._paces.get(entry.devices) or self._paces.setdefault(entry.devices, Pace())
            pace.sent(entry.program, time.monotonic())
            self._mark(entry.devices, pace)
            if pace.held:
                self.on_congestion()

    def _mark(self, devices: tuple[int, ...], pace: Pace) -> None:
        """Has the world tell how far these devices are, if that is wanted."""
        if self.now is None or not pace.wants_mark:
            return
        mark = pace.mark(time.monotonic())

        def answered(error: StatusError | None, *_: Any) -> None:
            if error is None:  # Else the world has ended.
                pace.answered(mark, time.monotonic())
                self._mark(devices, pace)
                self.on_congestion()

        self.now.ask(devices, Command.FINISHED, [list(devices)], answered)

    # What a world is told

    def use(self, world: World) -> tuple[int, Verification]:
        """From now on this world is told everything, beginning with what the journal holds.

        Returns how many operations that is, and what becomes of the reads that were answered before.
        """
        self.now = world
        world.on_congestion = lambda: self.on_congestion()
        self._formed.set()
        generation, journal = world.placement.generation, self.journal
        history.tell("replay", generation=generation, operation=journal.replay_from, end=journal.end)
        told = tell_all(self.journal, world, partial(self._tell, world))
        for devices, pace in list(self._paces.items()):
            pace.moved(time.monotonic())
            self._mark(devices, pace)
        self.on_congestion()
        return told

    def leave(self) -> World | None:
        """Sends nothing to the world any more; what comes waits in the journal for the next one."""
        world, self.now = self.now, None
        self._formed.clear()
        self.on_congestion()
        return world

    def prepare(self, world: World) -> None:
        """Tells a new world what is lost, and has it load what the journal runs.

        All else is loaded when somebody uses it, or by `load_rest`.
        """
        for devices, arguments in self.losses.told():
            world.send(devices, Command.FAIL, arguments)
        self._unloaded = set(self._programs.numbers)
        self._load(world, programs_run(self.journal.to_replay()))

    async def load_rest(self, world: World) -> None:
        """Has all other programs loaded, when the hosts have computed what the journal holds: not to hold that up."""
        with contextlib.suppress(WorldLost):  # Which is the next recovery's matter.
            await world.call_each(Command.CATCH_UP, lambda _: [])
            history.tell("caught_up", generation=world.placement.generation)
            if self.now is world:
                rest = (program for program in self._programs.numbers if program in self._unloaded)
                # Those for devices that have no place are left for a world in which they have.
                self._load(world, [number for number in rest if not self._programs.needs(number, self.losses.devices)])

    def _load(self, world: World, programs: Sequence[int]) -> None:
        self._unloaded.difference_update(programs)
        self._programs.post(world, programs)

    def _tell(self, world: World, entry: Entry) -> None:
        if entry.program in self._unloaded:
            self._load(world, [entry.program] if entry.command != Command.UNLOAD else [])
            self._unloaded.discard(entry.program)
        if entry.answer is not None:
            generation = world.placement.generation
            world.expect(entry.devices, entry.request, partial(self._answered, entry, generation=generation))
        far = entry.without_file if entry.command in NAME_FILES else None
        world.post(entry.devices, entry.header, entry.payload, far)

    def _answered(
        self, entry: Entry, error: StatusError | None, result: Any, payload: wire.Bytes, generation: int = 0
    ) -> None:
        if isinstance(error, WorldLost):
            self._answer_came.set()
            return  # The next world will be asked.
        answer, entry.answer = entry.answer, None
        if entry.command is Command.READ and error is None:
            entry.seen = result
            history.tell("read", number=entry.request, generation=generation, digest=result)
        self._answer_came.set()
        if answer is not None:
            answer(error, result, payload)
            self.demand.answered(entry)

    # What is lost

    def lose(self, devices: Sequence[int], why: str, arrays: Arrays) -> None:
        """From now on exactly these virtual devices have no place, and these arrays of the last snapshot are lost.

        `why` in words, such as "host h1 was lost: its agent is gone"; of those that had no place before, the reason
        stays. What the journal holds for such a device is lost, too: it makes errors (DATA_LOSS), and so does all that
        comes for it. Questions about it are answered with one.
        """
        self.losses.place(devices, why)
        self.losses.add(arrays)
        for entry in list(self.journal.entries):
            if self.losses.concern(entry):
                entry.seen = None  # No replay can be compared with it.
                self._lose(entry)

    def _lose(self, entry: Entry) -> None:
        error = self.losses.take(self.journal, entry)
        if error is not None and entry.answer is not None:
            self._answered(entry, error, None, b"")

    # What need not be told again

    @property
    def large(self) -> bool:
        """Whether what would be replayed is so large that a snapshot is due at once."""
        return self.journal.replay_nbytes >= _LARGE

    @property
    def keeps_much(self) -> bool:
        """Whether the journal is so large that it is time to store a snapshot."""
        return self.journal.nbytes >= _LARGE

    async def until_large(self, seconds: float) -> None:
        """Waits, but not while the journal grows large."""
        self._large.clear()
        if not self.large and seconds > 0:
            # Not wait_for, which before Python 3.12 may lose a cancellation.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._large.wait()

    async def settle(self, world: World, position: int) -> None:
        """Waits until nobody waits for an answer from before a position. Raises `WorldLost`."""
        waiting = self.journal.waiting_before(position)
        while waiting and world.failure is None:
            self._answer_came.clear()
            await self._answer_came.wait()
            waiting = [entry for entry in waiting if entry.answer is not None]
        # Another world is being formed of the snapshot before: that one has to stay as it is.
        if world.failure is not None:
            raise WorldLost(world.failure)

    def trim(self, position: int) -> None:
        """Forgets what lies before a position."""
        trimmed = self.journal.trim(position)
        self.losses.trimmed(trimmed)
        self._programs.forget([entry.program for entry in trimmed if entry.command == Command.UNLOAD])

    def forget(self) -> None:
        """Ends the account of a client that has left: nothing that it sent needs to be told again."""
        self.trim(self.journal.end)
        self.losses.forget()
        self.demand.forget()
        self._paces.clear()
        self.forgotten += 1

    def fail(self, failure: HostLostError) -> None:
        """There will be no world any more: whoever waits is told why."""
        self.failure = failure
        self._paces.clear()
        self._formed.set()
        status = StatusError(Code.UNAVAILABLE, str(failure))
        waiting = self.journal.waiting_before(self.journal.end)
        self.trim(self.journal.end)
        for entry in waiting:
            self._answered(entry, status, None, b"")
        self.on_congestion()


def programs_run(entries: Sequence[Entry]) -> list[int]:
    """The programs that operations run, in the order in which they do."""
    return list(dict.fromkeys(entry.program for entry in entries if entry.command == Command.EXECUTE))


def _program_of(command: Command, arguments: Sequence[Any]) -> int:
    """The program that a command is about, 0 if it is about none."""
    if command == Command.EXECUTE:
        return int(arguments[0])
    return int(arguments[1]) if command in (Command.UNLOAD, Command.TEXT, Command.COST) else 0
