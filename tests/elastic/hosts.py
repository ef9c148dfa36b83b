"""Commands of `elastic` that stay, as users start them, for tests: what they say is waited for, and nothing is left."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence


class Command:
    """A running `elastic ...`. Use it as a context manager: it is killed at the end, if it has not ended."""

    def __init__(self, *arguments: str, environment: Mapping[str, str], program: Sequence[str] = ()) -> None:
        self.process = subprocess.Popen(
            [*(program or (sys.executable, "-m", "elastic.cli")), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environment},
        )
        self.lines: list[str] = []
        self._heard = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(10)

    def wait_for(self, text: str, timeout_s: float = 90) -> str:
        """The first line that contains `text`, once it has come."""
        with self._heard:
            found = self._heard.wait_for(lambda: any(text in line for line in self.lines), timeout_s)
        assert found, f"{text!r} did not come; got {self.lines}"
        return next(line for line in self.lines if text in line)

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Returns when something is so about what was said."""
        with self._heard:
            found = self._heard.wait_for(condition, timeout_s)
        assert found, f"{what} did not come; got {self.lines[-20:]}"

    def finish(self, timeout_s: float = 90) -> int:
        """Waits for its end; the exit code."""
        code = self.process.wait(timeout_s)
        self._reader.join(10)
        return code

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._heard:
                self.lines.append(line.rstrip("\n"))
                self._heard.notify_all()
