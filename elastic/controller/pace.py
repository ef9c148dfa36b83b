"""How far the client may be ahead of the hosts. Pure: times come in.

A script that reads nothing for a hundred steps sends them all at once. A snapshot is taken where the stream of commands
ends, so the hosts would come to it a hundred steps later; and whatever lies before it would be computed again if one of
them died. So now and then a mark is sent, which hosts answer when they have computed all before it. From the times of
these comes an estimate for each program, and no more executions are taken than are computed in half a second, beside
the longest. So hosts have work at any moment all the same.
"""

from __future__ import annotations

from collections import Counter

_AHEAD_S = 0.5
_UNKNOWN_S = _AHEAD_S / 64
"""What a program is taken to need before it is known."""
_MARKS_S = 0.1
"""A mark is sent as often as that at least, while there is something to tell of."""
_LEAST = 0.5
"""An estimate falls to this part of itself at most by one mark: what was computed before, for another world, is told to
be over at once."""


class Pace:
    """Counts the executions that are sent to some devices, and those of which a mark has told that they are over."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        """What an execution of each program takes."""
        self._marked: Counter[int] = Counter()
        """How often each program was sent since the last mark that was answered, before the one that is under way."""
        self._since: Counter[int] = Counter()
        """And since then."""
        self._ahead = self._longest = 0.0
        """Seconds of all these together, and of the longest of them."""
        self._free_at = 0.0
        """When the devices will have nothing to do, as far as is known."""
        self._marks = 0
        self._under_way = False
        self._marked_at = self._busy_since = 0.0
        """When the last mark was sent, and when the devices began, at the latest, with what the next will tell of."""
        self._wanted = False

    @property
    def held(self) -> bool:
        """Whether the client is so far ahead that no more is to be taken."""
        return self._ahead - self._longest >= _AHEAD_S

    @property
    def wants_mark(self) -> bool:
        """Whether a mark is to be sent now."""
        return self._wanted and not self._under_way

    def sent(self, program: int, now: float) -> None:
        """An execution of a program is sent."""
        if now >= self._free_at and not self._under_way:
            # They are done with all of it, as far as is known, and the client's pause is no work of theirs. If they are
            # not, the next mark will tell.
            self._since.clear()
            self._marked.clear()
            self._ahead = self._longest = 0.0
            self._busy_since = now
        is_new = program not in self._seconds
        seconds = self._seconds.setdefault(program, _UNKNOWN_S)
        self._since[program] += 1
        self._ahead += seconds
        self._free_at = max(self._free_at, now) + seconds
        self._longest = max(self._longest, seconds)
        self._wanted = self._wanted or is_new or 2 * self._ahead >= _AHEAD_S or now - self._marked_at >= _MARKS_S

    def mark(self, now: float) -> int:
        """A mark is sent; its number."""
        self._marked.update(self._since)
        self._since.clear()
        self._marked_at, self._under_way, self._wanted = now, True, False
        self._marks += 1
        return self._marks

    def answered(self, mark: int, now: float) -> None:
        """A mark was answered; one that is not the last one tells nothing."""
        if mark != self._marks or not self._under_way:
            return
        expected = sum(count * self._seconds[program] for program, count in self._marked.items())
        # While the client thinks hosts seem slow; but then it is not ahead of them.
        factor = max(_LEAST, (now - self._busy_since) / expected) if expected else 1.0
        for program in self._marked:
            self._seconds[program] = max(1e-6, factor * self._seconds[program])
        self._marked.clear()
        self._under_way, self._busy_since = False, now
        self._count(now)
        self._wanted = self._wanted or 2 * self._ahead >= _AHEAD_S

    def moved(self, now: float) -> None:
        """The world has ended, and with it the mark that was under way; another has been told all that counts."""
        self._under_way, self._busy_since, self._free_at = False, now, now + self._ahead
        self._wanted = bool(self._marked or self._since)

    def _count(self, now: float) -> None:
        self._ahead = sum(count * self._seconds[program] for program, count in self._since.items())
        self._longest = max((self._seconds[program] for program in self._since), default=0.0)
        self._free_at = now + self._ahead
