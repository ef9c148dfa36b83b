"""Signals that end a training loop, held back until its state is whole. Not for: what is done about them."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Stopping:
    """While open, SIGTERM is noted instead of ending the process, and Ctrl-C waits where it is `held`.

    A second SIGTERM ends the process at once. In other threads than the main one, which alone gets signals, it does
    nothing.
    """

    def __init__(self) -> None:
        self._previous: dict[signal.Signals, Any] = {}
        self._held = False
        self._interrupted = False
        self.asked = False
        """Whether a SIGTERM has arrived."""

    def open(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number, handler in ((signal.SIGTERM, self._terminate), (signal.SIGINT, self._interrupt)):
            previous = signal.getsignal(number)
            # None: it belongs to code that is not Python's, and cannot be put back.
            if previous not in (signal.SIG_IGN, None) and (number == signal.SIGTERM or callable(previous)):
                self._previous[number] = signal.signal(number, handler)

    def close(self) -> None:
        """Puts the handlers of before back."""
        while self._previous:
            number, previous = self._previous.popitem()
            signal.signal(number, previous)

    def end_process(self) -> None:
        """Lets the SIGTERM do what it would have done. Returns if that was not to end the process."""
        self.close()
        os.kill(os.getpid(), signal.SIGTERM)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Ctrl-C during the block has its effect at the end of it; a second one at once."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
            if self._interrupted:
                self._interrupted = False
                signal.raise_signal(signal.SIGINT)

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            self.end_process()
        self.asked = True

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._held and not self._interrupted:
            self._interrupted = True
        else:
            self._interrupted = False
            self._previous[signal.SIGINT](number, frame)
