"""Devices that fail a health check on demand: what it is to find, without a device that is broken.

What `elastic.fault_points` arms under `device-check`, with "KIND" or "KIND DEVICE" as its text, such as `wrong-result`
or `stall 0`: the device is a number among the host's; without it, the last.
"""

from __future__ import annotations

import enum
import os
import signal
import time
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from elastic.fault_points import DEVICE_CHECK, armed


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


def spoil_if_armed(device: int, devices: int, results: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """What one of the devices 0..`devices`-1 makes of right results.

    Raises `RuntimeError` for a device that is to refuse, `ValueError` for a kind that there is not.
    """
    text = armed(DEVICE_CHECK)
    if text is None:
        return results
    word, _, number = text.strip().partition(" ")
    kind, spoiled = Kind(word), int(number or -1) % devices
    return _spoiled(kind, results) if spoiled == device else results


def _spoiled(kind: Kind, results: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    match kind:
        case Kind.WRONG_RESULT:
            changed = [result.copy() for result in results]
            changed[0][3, 5] ^= 1
            return changed
        case Kind.ERROR:
            raise RuntimeError("INTERNAL: it was told to fail")
        case Kind.STALL:
            _stall()
        case Kind.CRASH:
            os.kill(os.getpid(), signal.SIGABRT)
    return results


def _stall() -> NoReturn:
    while True:
        time.sleep(3600)
