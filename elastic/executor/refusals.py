"""Tells the agent which connections an executor refused: executors come and go, and the agent keeps the account.

The agent holds the other end of a SOCK_SEQPACKET pair that the template and all executors share; messages are JSON:
[pid, reason, count, words]. What the agent does not take at once is told with the next refusal.
"""

from __future__ import annotations

import json
import os
import socket
import threading

from elastic.refusals import Reason

DESCRIPTOR = "ELASTIC_REFUSALS_FD"
"""The environment variable that holds the number of the executors' end."""


class Teller:
    """One executor's."""

    def __init__(self, descriptor: int | None) -> None:
        """Without a descriptor nobody is told."""
        self._socket = None if descriptor is None else socket.socket(fileno=os.dup(descriptor))
        self._lock = threading.Lock()
        self._untold: dict[Reason, int] = {}

    @classmethod
    def of_environment(cls) -> Teller:
        number = os.environ.get(DESCRIPTOR)
        return cls(int(number) if number else None)

    def __call__(self, reason: Reason, words: str) -> None:
        """Tells of one more."""
        if self._socket is None:
            return
        with self._lock:
            count = self._untold.pop(reason, 0) + 1
            try:
                self._socket.send(json.dumps([os.getpid(), reason, count, words]).encode(), socket.MSG_DONTWAIT)
            except OSError:  # The agent is behind, or gone.
                self._untold[reason] = count
