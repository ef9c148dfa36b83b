"""Ties a process to its parent's life: when the parent dies, however it dies, the kernel kills the child.

Linux only (`prctl`); elsewhere the end of a pipe or connection to the parent has to do.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Asks the kernel for SIGKILL when this process's parent ends; a stopped or stuck process dies too."""
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
