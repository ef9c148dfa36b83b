"""How far the client may be ahead of the hosts. Pure: times come in.

A script that reads nothing for a hundred steps sends them all at once. A snapshot is taken where the stream of commands
ends, so the hosts would come to it a hundred steps later; and whatever lies before it would be computed again if one of
them died. So now and then a mark is sent, which hosts answer when they have computed all before it, and no more
executions are taken than they compute in half a second. They have work at any moment all the same.
"""

from __future__ import annotations

from collections import deque

_AHEAD_S = 0.5
_FEWEST = 2
"""Executions: one that is computed, and one that is to follow at once."""
_FIRST = 64
"""How many are taken before it is known how long they take."""
_REMEMBERED_S = 2.0
"""For how long hosts must have been busy with what an estimate is made of: between long steps there may be a few short
programs, and then all steps at once."""


class Pace:
    """Counts the executions that are sent to some devices, and those of which a mark has told that they are over."""

    def __init__(self) -> None:
        self.allowed = _FIRST
        """How many executions the client may be ahead."""
        self._sent = self._over = 0
        self._sent_at = 0.0
        """When the last one was sent."""
        self._mark: int | None = None
        """How many had been sent before the mark that is under way."""
        self._busy_since = 0.0
        """When the devices began, at the latest, with what that mark will tell of."""
        self._told: deque[tuple[int, float]] = deque()
        """Of the last marks, how many executions were over, and how many seconds they took."""

    @property
    def held(self) -> bool:
        """Whether the client is so far ahead that no more is to be taken."""
        return self._sent - self._over >= self.allowed

    @property
    def wants_mark(self) -> bool:
        """Whether a mark is to be sent now."""
        return self._mark is None and 2 * (self._sent - self._over) >= self.allowed

    def sent(self, now: float) -> None:
        """An execution is sent."""
        if self._mark is None and now - self._sent_at > _AHEAD_S:
            self._over = self._sent  # What was too little for a mark takes no longer than that.
        if self._sent == self._over:
            self._busy_since = now
        self._sent, self._sent_at = self._sent + 1, now

    def mark(self) -> int:
        """A mark is sent; its name."""
        self._mark = self._sent
        return self._mark

    def answered(self, mark: int, now: float) -> None:
        """A mark was answered; one that is not the last one tells nothing."""
        if mark != self._mark:
            return
        # While the client thinks hosts seem slow; but then it is not ahead of them.
        self._told.append((mark - self._over, now - self._busy_since))
        self._over, self._mark, self._busy_since = mark, None, now
        seconds = sum(seconds for _, seconds in self._told)
        while seconds - self._told[0][1] > _REMEMBERED_S:
            seconds -= self._told.popleft()[1]
        count = sum(count for count, _ in self._told)
        self.allowed = max(_FEWEST, int(count * _AHEAD_S / max(seconds, 1e-6)))

    def moved(self, now: float) -> None:
        """The world has ended, and with it the mark that was under way; another has been told all that counts."""
        self._mark, self._busy_since = None, now
