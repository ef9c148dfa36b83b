"""Signals as something to read in an event loop (signalfd), with who sent them.

Python's own handlers do not say whether a signal came from the terminal, which has then reached the whole process
group, or was sent to this process alone. Not for programs with several threads. Linux only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_SFD_NONBLOCK, _SFD_CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_INFO_BYTES = 128  # struct signalfd_siginfo, signalfd(2)
_SIGSET_BYTES = 128  # sigset_t of glibc and musl
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Received:
    """A signal that arrived; ``from_terminal`` if the kernel sent it (Ctrl-C, hang-up) and not a process."""

    number: int
    from_terminal: bool


class SignalReader:
    """While open, signals in ``numbers`` do nothing but make `fileno` readable. Those ignored so far stay ignored."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        heeded = {number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN}
        self.previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, heeded)
        mask = ctypes.create_string_buffer(_SIGSET_BYTES)
        _libc.sigemptyset(mask)
        for number in heeded:
            _libc.sigaddset(mask, int(number))
        self._fd: int = _libc.signalfd(-1, mask, _SFD_NONBLOCK | _SFD_CLOEXEC)
        if self._fd < 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, self.previous_mask)
            raise OSError(ctypes.get_errno(), "signalfd: " + os.strerror(ctypes.get_errno()))

    def fileno(self) -> int:
        return self._fd

    def read(self) -> list[Received]:
        """The signals that arrived since the last call; does not wait."""
        received: list[Received] = []
        while True:
            try:
                info = os.read(self._fd, _INFO_BYTES)
            except BlockingIOError:
                return received
            number, _, code = struct.unpack_from("=Iii", info)
            received.append(Received(number, from_terminal=code > 0))  # sigaction(2): SI_USER and kin are <= 0.

    def close(self) -> None:
        """Back to the mask of before; signals that arrived and were not read are dropped, not delivered."""
        self.read()
        os.close(self._fd)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.previous_mask)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def die_with_parent(number: signal.Signals, parent: int) -> None:
    """Asks the kernel for signal ``number`` when the parent dies. For use in a child between fork and exec."""
    _libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number))
    if os.getppid() != parent:  # It died before the kernel could note the wish.
        os.kill(os.getpid(), number)
