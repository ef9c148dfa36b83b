"""One client's session: its tables of arrays, programs and buffers. What requests do to them stands in
`requests`."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elastic.commands import Command
from elastic.controller.arrays import NOWHERE, Array, ArrayTable, Lifetime
from elastic.controller.host_buffers import HostBuffers
from elastic.controller.programs import Program
from elastic.controller.run import Run
from elastic.controller.shardings import Shape, Sharding
from elastic.status import Code, StatusError

if TYPE_CHECKING:
    from elastic.controller.requests.uploads import Upload

SERVER_HANDLES = 1 << 60
"""Handles that the server chooses begin here, far above the client's."""


@dataclass(frozen=True)
class Status:
    """How an execution ends: an array number under which the hosts keep its token."""

    number: int
    devices: tuple[int, ...]


class Session:
    """What one client has. Handles are the client's names, numbers those that the hosts know."""

    def __init__(self, id: int, run: Run, numbers: itertools.count[int], uploads: Path) -> None:
        """`numbers` gives numbers that are never used twice in a run; `uploads` is the shared directory of uploads."""
        self.id = id
        self.run = run
        self.arrays = ArrayTable()
        self.programs: dict[int, Program] = {}
        self.statuses: dict[int, Status | StatusError] = {}
        self.buffers = HostBuffers(uploads, id)
        self.held: dict[int, tuple[Array, Upload]] = {}
        """Uploads that the hosts have not been sent yet, by the handle of their array (see `requests.uploads`)."""
        self.closed = False
        self.on_hold = run.congested
        """Whether requests wait, since no more is to be taken from the client now."""
        self.go_on: Callable[[], None] = lambda: None
        """Handles the requests that have waited."""
        self._numbers = numbers
        self._handles = itertools.count(SERVER_HANDLES)
        run.client_arrays = self.arrays.arrays

    def hold(self, held: bool) -> None:
        """Has requests wait, or go on."""
        self.on_hold = held
        if not held:
            self.go_on()

    def new_handle(self) -> int:
        return next(self._handles)

    def new_number(self) -> int:
        return next(self._numbers)

    def add_array(
        self, handle: int, kind: int, shape: Shape, sharding: Sharding, lifetimes: tuple[Lifetime, ...] | None = None
    ) -> Array:
        """A new array under a handle; `lifetimes` are those of the arrays whose buffers it stands on."""
        count = len(self.run.devices)
        if not all(0 <= device < count for device in sharding.devices):
            raise StatusError(
                Code.INVALID_ARGUMENT,
                f"virtual devices {list(sharding.devices)} do not all exist; there are {count}",
            )
        array = Array(self.new_number(), kind, shape, sharding, lifetimes or (Lifetime(),))
        self.arrays.add(handle, array)
        return array

    def program(self, handle: int) -> Program:
        """Raises `StatusError` if there is no such program."""
        found = self.programs.get(handle)
        if found is None:
            raise StatusError(Code.NOT_FOUND, f"there is no executable with the handle {handle}")
        return found

    def fail(self, handles: Iterable[int], error: StatusError) -> None:
        """Makes handles hold an error; what a request made under them before it failed is given back."""
        for handle in handles:
            made = self.arrays.remove(handle)
            held = self.held.pop(handle, None)
            if held is not None:
                held[1].buffer.discard()
            self.arrays.fail(handle, error)
            if made is not None:
                with contextlib.suppress(StatusError):  # It may be for devices that do not exist.
                    self.free([(made.number, made.devices)])

    def free(self, arrays: Iterable[tuple[int, tuple[int, ...]]]) -> None:
        """Has the hosts forget arrays, given as (number, devices)."""
        by_devices: dict[tuple[int, ...], list[int]] = {}
        for number, devices in arrays:
            if number != NOWHERE:
                by_devices.setdefault(devices, []).append(number)
        for devices, numbers in by_devices.items():
            self.run.send(devices, Command.FREE, [numbers])

    def close(self) -> None:
        """Gives back all that the client had, here and on the hosts."""
        self.closed = True
        for _, upload in self.held.values():
            upload.buffer.discard()
        self.free((array.number, array.devices) for array in self.arrays.arrays())
        self.free((status.number, status.devices) for status in self.statuses.values() if isinstance(status, Status))
        for program in self.programs.values():
            self.unload(program)
        self.buffers.close()
        self.run.forget()

    def unload(self, program: Program) -> None:
        """Has the hosts forget a program, and then the client the functions that it called."""
        source = program.source
        if source.callbacks:
            self.run.ask(
                source.devices,
                Command.UNLOAD,
                [program.number],
                lambda *_: self.run.callbacks.forget(source.callbacks),
            )
        else:
            self.run.send(source.devices, Command.UNLOAD, [0, program.number])
