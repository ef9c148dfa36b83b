"""The accounts of a run: kept from its history while it goes on, for `elastic health`, for metrics and for a trace.

Here are the clock and the subscriptions; what is counted, and how, stands in `ledger`, `metrics` and `trace`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from chaos import Event, goodput
from elastic.controller import history
from elastic.controller.ledger import KINDS, Ledger

_VALUES = ("read", "callback")
"""Of these only the first matters, and the others are too many to look at."""


class Accounts:
    """Those of one run, from now on."""

    def __init__(self, waiting_since: Callable[[], float | None]) -> None:
        """`waiting_since()` says since when the client has asked for nothing, if that is so."""
        self._waiting_since = waiting_since
        self._ledger = Ledger(time.monotonic())
        self._stop = contextlib.ExitStack()
        self._stop.callback(history.listen(self._book, [kind for kind in KINDS if kind not in _VALUES]))
        self._values = self._stop.enter_context(contextlib.ExitStack())
        self._values.callback(history.listen(self._first_value, _VALUES))

    def goodput(self) -> dict[str, Any]:
        """What `elastic health` tells: the productive share since the first value, and seconds by entry."""
        seconds = self._ledger.seconds(time.monotonic(), self._waiting_since())
        told = {entry: round(value, 3) for entry, value in seconds.items()}
        return {"share": round(goodput(seconds), 4), "seconds": told}

    def close(self) -> None:
        """Ends the accounts."""
        self._stop.close()

    def _first_value(self, event: Event) -> None:
        self._values.close()
        self._book(event)

    def _book(self, event: Event) -> None:
        self._ledger.feed(event, self._waiting_since())
