"""The controller's part of a run's history: what happened and when, a JSON line an event (see `chaos.history`).

Written to the file that ELASTIC_HISTORY names; without the variable nothing is. Each line is appended by one write, so
that a controller that is killed leaves whole lines, and others may write to the same file. Not for: deciding anything.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from elastic.instants import now_text

FILE = "ELASTIC_HISTORY"

_path = os.environ.get(FILE)
_file = os.open(_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600) if _path else None


def tell(event: str, **facts: Any) -> None:
    """Appends an event, with the time. Bytes are written in hexadecimal, sets as sorted lists."""
    if _file is not None:
        line = {**facts, "event": event, "at": round(time.monotonic(), 6), "time": now_text()}
        os.write(_file, (json.dumps(line, default=_plain) + "\n").encode())


def tell_holders(homes: Any) -> None:
    """Tells which hosts hold the contents of the snapshot that counts; equal sets of hosts once."""
    if _file is not None:
        tell("holds", holders=sorted(sorted(holders) for holders in {frozenset(hosts) for hosts in homes.values()}))


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, (bytes, memoryview)) else sorted(value)
