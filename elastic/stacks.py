"""The stacks of a process that does not answer, without its help.

The pool's processes `offer` theirs: on SIGUSR1 Python's faulthandler, which needs neither the interpreter's lock nor a
thread that runs, writes them to the process's stderr. `of` asks for them, and reads them there if stderr is a file.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import stat
import time
from pathlib import Path

_SIGNAL = signal.SIGUSR1
_PATIENCE_S = 1.0
_MOST_BYTES = 64 << 10


def offer() -> None:
    """Has this process, and those forked from it, write its stacks when it is asked for them."""
    faulthandler.register(_SIGNAL, all_threads=True, chain=False)


def of(pid: int) -> str:
    """What can be told of a process of this machine: its state, what it waits for in the kernel, and its stacks."""
    try:
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    except (OSError, ValueError):
        return f"there is no process {pid}"
    state = status.get("State", "?")
    told = f"process {pid}: {state}, waits in {_waits_in(pid)}"
    if state.startswith("T"):
        return f"{told}; it was stopped, and `kill -CONT {pid}` lets it go on"
    # Whom the signal would kill, is not asked: one that has only just started, or is none of ours.
    catches = int(status.get("SigCgt", "0"), 16) >> (_SIGNAL - 1) & 1
    return f"{told}\n{_ask(pid)}" if catches else f"{told}; it tells no stacks"


def _ask(pid: int) -> str:
    log = Path(f"/proc/{pid}/fd/2")
    try:
        kind = log.stat()
        os.kill(pid, _SIGNAL)
    except OSError as error:
        return f"its stacks cannot be asked for: {error.strerror}"
    if not stat.S_ISREG(kind.st_mode):
        return "its stacks are on its stderr"
    give_up = time.monotonic() + _PATIENCE_S
    text = ""
    while time.monotonic() < give_up:
        try:
            with log.open("rb") as file:
                file.seek(kind.st_size)
                found = file.read(_MOST_BYTES).decode(errors="replace")
        except OSError as error:
            return f"its stacks cannot be read: {error.strerror}"
        if found and found == text:
            return text.rstrip()
        text = found
        time.sleep(0.02)
    return text.rstrip() or "it does not even tell its stacks"


def _waits_in(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/wchan").read_text().strip("0 \n") or "nothing"
    except OSError:
        return "?"
