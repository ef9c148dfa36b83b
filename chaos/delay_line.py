"""A cable on which all takes longer; as a program, `delay_line.py ONE OTHER SECONDS`, which needs nothing else of ours.

Makes two network devices of these names (TAP), and passes each frame that leaves by one on through the other, so many
seconds later, in order. Says `ready` when they are there. They are gone when its stdin ends. Needs root; Linux only.

Kernels have a queueing discipline for that (netem), in a module of which many do without.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import os
import select
import struct
import sys
import time

_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000
"""See linux/if_tun.h: frames of Ethernet, with nothing before them."""

_LONGEST = 65536
"""No frame has more bytes."""

_MOST_WAITING = 100_000
"""Frames under way in one direction; more are lost, as on a cable whose queue is full."""


class _Way:
    """Frames from one device to another, each with the time when it may arrive."""

    def __init__(self, source: int, target: int, delay_s: float) -> None:
        self.source = source
        self._target, self._delay_s = target, delay_s
        self._waiting: collections.deque[tuple[float, bytes]] = collections.deque()

    @property
    def due(self) -> float:
        """When the next frame may arrive; infinite if none is under way."""
        return self._waiting[0][0] if self._waiting else float("inf")

    def take(self) -> None:
        """Takes all frames that the source has."""
        with contextlib.suppress(BlockingIOError):
            while True:
                frame = os.read(self.source, _LONGEST)
                if len(self._waiting) < _MOST_WAITING:
                    self._waiting.append((time.monotonic() + self._delay_s, frame))

    def give(self) -> None:
        """Gives the target what is due."""
        while self.due <= time.monotonic():
            _, frame = self._waiting.popleft()
            with contextlib.suppress(OSError):  # The device is down, or its queue is full: so this frame is lost.
                os.write(self._target, frame)


def make_device(name: str) -> int:
    """A TAP device, as a file descriptor that does not block; it is gone with that. Raises `OSError`.

    Without a name it gets one from the kernel.
    """
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
    except OSError:
        os.close(device)
        raise
    return device


def main() -> None:
    one, other, seconds = sys.argv[1:]
    a, b = make_device(one), make_device(other)
    ways = [_Way(a, b, float(seconds)), _Way(b, a, float(seconds))]
    print("ready", flush=True)
    poll = select.poll()
    for source in (a, b, sys.stdin.fileno()):
        poll.register(source, select.POLLIN)
    while True:
        until_due = min(way.due for way in ways) - time.monotonic()
        ready = {source for source, _ in poll.poll(None if until_due == float("inf") else max(0.0, 1000 * until_due))}
        if sys.stdin.fileno() in ready:
            return
        for way in ways:
            if way.source in ready:
                way.take()
            way.give()


if __name__ == "__main__":
    main()
