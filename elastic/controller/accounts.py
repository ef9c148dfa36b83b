"""The accounts of a run: kept from its history while it goes on, for `elastic health` and for a trace.

Here are the clock and the subscriptions; what is counted, and how, stands in `ledger` and `trace`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from chaos import Event, goodput
from elastic.controller import history
from elastic.controller.ledger import KINDS, Ledger
from elastic.controller.trace import Trace
from elastic.controller.trace_file import TraceFile

_VALUES = ("read", "callback")
"""Of these only the first matters, and the others are too many to look at."""


class Accounts:
    """Those of one run, from now on."""

    def __init__(self, run: str, trace: Path | None) -> None:
        """`trace` is the file of the trace, if one is wanted. Raises `OSError` if that cannot be written."""
        self.waiting_since: Callable[[], float | None] = lambda: None
        """Says since when the client has asked for nothing, if that is so."""
        began = time.monotonic()
        self._ledger = Ledger(began)
        self._trace = Trace(began, run)
        self._file = None if trace is None else TraceFile(trace)
        self._first, self._others = ExitStack(), ExitStack()
        self._first.callback(history.listen(self._first_value, _VALUES))
        self._others.callback(history.listen(self._book, [kind for kind in KINDS if kind not in _VALUES]))
        if self._file is not None:
            self._file.write(self._trace.head())
            self._others.callback(history.listen(self._show, self._trace.kinds))

    def goodput(self) -> dict[str, Any]:
        """What `elastic health` tells: the productive share since the first value, and seconds by entry."""
        seconds = self._ledger.seconds(time.monotonic(), self.waiting_since())
        told = {entry: round(value, 3) for entry, value in seconds.items()}
        return {"share": round(goodput(seconds), 4), "seconds": told}

    def close(self) -> None:
        """Ends the accounts."""
        self._first.close()
        self._others.close()
        if self._file is not None:
            self._file.write(self._trace.spent(self._ledger.close(time.monotonic(), self.waiting_since())))
            self._file.close()

    def _first_value(self, event: Event) -> None:
        self._first.close()
        self._book(event)

    def _book(self, event: Event) -> None:
        settled = self._ledger.feed(event, self.waiting_since())
        if self._file is not None:
            self._file.write(self._trace.spent(settled))

    def _show(self, event: Event) -> None:
        if self._file is not None:
            self._file.write(self._trace.feed(event))
