"""Faults of devices on demand, for tests: what a health check is to find, without a device that is broken.

The variable `ELASTIC_FAULT` holds KIND:HOST or KIND:HOST:DEVICE, such as `wrong-result:h1` or `stall:h1:0`; without a
device, the host's last. A value that begins with `@` is the path of a file that holds this, for faults that come and go
while a host runs; a file that is not there is no fault. Read by health checks alone (`device_check`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "ELASTIC_FAULT"


class Kind(enum.StrEnum):
    """What happens to a device."""

    WRONG_RESULT = "wrong-result"
    """One bit of what it computes is another."""
    ERROR = "error"
    """It refuses to compute."""
    STALL = "stall"
    """It never comes to an end."""
    CRASH = "crash"
    """It takes the process along."""


@dataclass(frozen=True)
class Fault:
    """One device's fault. `device` is -1 for the last one."""

    kind: Kind
    host: str
    device: int = -1


def parse(text: str) -> Fault:
    """Raises `ValueError` for a text that names no fault."""
    kind, _, rest = text.strip().partition(":")
    host, _, device = rest.partition(":")
    if not host:
        raise ValueError(f"{text!r} is no fault; write KIND:HOST or KIND:HOST:DEVICE")
    return Fault(Kind(kind), host, int(device or -1))


def fault_of(host: str, device: int, devices: int, environment: Mapping[str, str]) -> Kind | None:
    """The fault of one of a host's devices, which are 0..`devices`-1. Raises as `parse` does."""
    text = environment.get(VARIABLE, "")
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except FileNotFoundError:
            text = ""
    if not text.strip():
        return None
    fault = parse(text)
    return fault.kind if (fault.host, fault.device % devices) == (host, device) else None
