"""The controller's part of a run's history: what happened and when, a JSON line an event (see `chaos.history`).

Written to the file that ELASTIC_HISTORY names; without the variable nothing is. Each line is appended by one write, so
that a controller that is killed leaves whole lines, and others may write to the same file. Whoever measures a run in
this process (`accounts`) listens. Not for: deciding anything.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from chaos import Event
from checkpoint import Stripe
from elastic.instants import now_text

FILE = "ELASTIC_HISTORY"

Listener = Callable[[Event], None]

_path = os.environ.get(FILE)
_file = os.open(_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600) if _path else None
_listeners: dict[str, list[Listener]] = {}


def listen(listener: Listener, kinds: Iterable[str]) -> Callable[[], None]:
    """Has a function called with each event of these kinds from now on; the result ends that."""
    heard = list(kinds)
    for kind in heard:
        _listeners[kind] = [*_listeners.get(kind, []), listener]

    def stop() -> None:
        for kind in heard:
            _listeners[kind] = [other for other in _listeners[kind] if other is not listener]

    return stop


def tell(event: str, **facts: Any) -> None:
    """Appends an event, with the time. Bytes are written in hexadecimal, sets as sorted lists."""
    listeners = _listeners.get(event)
    if _file is None and not listeners:
        return
    at = round(time.monotonic(), 6)
    if _file is not None:
        line = {**facts, "event": event, "at": at, "time": now_text()}
        os.write(_file, (json.dumps(line, default=_plain) + "\n").encode())
    for listener in listeners or ():
        listener(Event(event, at, facts))


def tell_holders(homes: Mapping[bytes, Iterable[str]], stripes: Sequence[Stripe]) -> None:
    """Tells which hosts hold the contents of the snapshot that counts, equal sets of hosts once, and its stripes."""
    if _file is None:
        return
    blocks = {block.name for stripe in stripes for block in stripe.blocks}
    alone = {frozenset(hosts) for digest, hosts in homes.items() if digest not in blocks}
    tell(
        "holds",
        holders=sorted(sorted(hosts) for hosts in alone),
        stripes=[[len(one.data), [sorted(homes.get(block.name, ())) for block in one.blocks]] for one in stripes],
        parity=[block.name for stripe in stripes for block in stripe.parity],
    )


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, (bytes, memoryview)) else sorted(value)
