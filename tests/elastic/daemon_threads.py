"""Threads for what a test starts and may have to leave behind when it fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


def start(work: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Does `work` in a thread of its own, which keeps no process from ending."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
