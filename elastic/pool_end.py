"""Ends background pools of this user: their supervisors, and what is left if one does not end as it should.

Processes are only signalled by a pidfd, after it was checked that they are what they should be.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

from elastic import run_directory
from elastic.run_directory import Found, Kind

_PATIENCE_S = 5.0
"""How long a supervisor may take to end its pool; it needs half a second."""


def end(found: Found, base: Path | None = None) -> bool:
    """Ends a pool and removes its directory; whether its supervisor ended as it should."""
    orderly = _end_supervisor(found, base)
    for descriptor in _processes_of(found.directory.path):
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)
    found.directory.remove()
    return orderly


def background(base: Path | None = None) -> list[Found]:
    """The background pools that live, the newest first."""
    return [one for one in run_directory.find(base) if one.kind is Kind.BACKGROUND and not one.dead]


def _end_supervisor(found: Found, base: Path | None) -> bool:
    try:
        descriptor = os.pidfd_open(found.owner)
    except ProcessLookupError:
        return True
    try:
        # The pid may have been another's by now, but not since the descriptor was opened.
        if found.directory.path not in (one.directory.path for one in background(base)):
            return True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
            signal.pidfd_send_signal(descriptor, signal.SIGCONT)
        if select.select([descriptor], [], [], _PATIENCE_S)[0]:
            return True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        select.select([descriptor], [], [], _PATIENCE_S)
        return False
    finally:
        os.close(descriptor)


def _processes_of(directory: Path) -> Iterator[int]:
    """Descriptors of this user's processes that name the directory on their command line."""
    wanted = os.fsencode(directory)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if entry.stat().st_uid != os.getuid() or not _names(entry, wanted):
                continue
            descriptor = os.pidfd_open(int(entry.name))
        except OSError:
            continue
        if _names(entry, wanted):
            yield descriptor
        else:
            os.close(descriptor)


def _names(process: Path, wanted: bytes) -> bool:
    """Whether the directory, or something in it, is an argument of one of the pool's own programs."""
    try:
        command = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    ours = any(module in command for module in (b"elastic.agent", b"membership.server"))
    return ours and any(argument == wanted or argument.startswith(wanted + b"/") for argument in command)
