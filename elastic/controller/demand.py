"""Whether the client asks for anything, as far as the controller can know: it hears of answers, not of the end of each
program. Not for: deciding anything.
"""

from __future__ import annotations

import time

from elastic.commands import Command
from elastic.controller import history
from elastic.controller.journal import Entry, Journal

_SHORTEST_S = 0.001
"""Seconds without demand that are worth telling of; shorter ones are those of a script between two steps."""


class Demand:
    """There is none while all questions are answered, the last of them came after all else, and nothing came since."""

    def __init__(self, journal: Journal) -> None:
        self.none_since: float | None = None
        """When it ended, on the monotonic clock; None while there is some."""
        self._journal = journal
        self._unanswered: set[Entry] = set()

    def asked(self, question: Entry) -> None:
        """A question is about to be sent."""
        self._unanswered.add(question)

    def answered(self, question: Entry) -> None:
        """A question has its answer."""
        self._unanswered.discard(question)
        if not self._unanswered and self.none_since is None and self._ends_with_an_answer():
            self.none_since = time.monotonic()

    def comes(self) -> None:
        """Something is asked for again."""
        if self.none_since is not None:
            seconds, self.none_since = time.monotonic() - self.none_since, None
            if seconds >= _SHORTEST_S:
                history.tell("waited", seconds=seconds)

    def forget(self) -> None:
        """The client has left."""
        self.comes()
        self._unanswered.clear()

    def _ends_with_an_answer(self) -> bool:
        """Whether nothing but the freeing of arrays came after the last question."""
        for entry in reversed(self._journal.entries):
            if entry.command is not Command.FREE:
                return entry.settled
        return False
