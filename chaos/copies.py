"""Whether the run's arrays could be restored, as events of a history tell it one by one: from hosts, or from disk."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection

from chaos.faults import FAULTS, POINTS_OF_AGENTS
from chaos.history import Event
from chaos.plan import Injection

_SETTLES_S = 2.0
"""A host that went on again, or whose agent died at a point, may be given up so much later."""


class Copies:
    """Where the contents of the snapshot that counts are.

    With `stores`, what all hosts have lost is on disk: in the newest checkpoint, or, as long as there is none, in the
    start of the script.
    """

    def __init__(self, *, stores: bool = False) -> None:
        self.members: set[str] = set()
        """The hosts that take part."""
        self.stored = stores
        """Whether the run can go back to what is on disk."""
        self._stores = stores
        self._holders: list[frozenset[str]] = []
        """Each different set of hosts that holds a content."""
        self._hit: dict[str, tuple[int, float]] = {}
        """Hosts that a fault has hit and that may be given up for it: its number, and until when that may happen."""
        self._again: set[int] = set()
        """Faults that hit their hosts again and again."""
        self._deaths: dict[int, float] = {}
        """Deaths of agents at points, of which nobody knows whose they are, and until when a host may go for them."""
        self._stripes: list[tuple[int, list[frozenset[str]]]] = []
        """Of contents that are protected by parity: how many blocks suffice, and the hosts that hold each."""

    def tell(self, event: Event) -> None:
        self._hit = {host: (number, until) for host, (number, until) in self._hit.items() if event.at < until}
        self._deaths = {number: until for number, until in self._deaths.items() if event.at < until}
        if event.kind == "joined":
            self.members.add(event.host)
        elif event.kind in ("gone", "left"):
            self.members.discard(event.host)
            if event.host in self._hit and self._hit[event.host][0] not in self._again:
                del self._hit[event.host]
            self._take_away({event.host})
        elif event.kind == "holds":
            self._holders = [frozenset(holders) for holders in event["holders"]]
            self._stripes = [
                (k, [frozenset(hosts) for hosts in blocks]) for k, blocks in event.facts.get("stripes", ())
            ]
        elif event.kind == "forgotten":
            self._holders, self._stripes = [], []
        elif event.kind == "stored":
            self.stored = self._stores
        elif event.kind == "armed" and event["point"] in POINTS_OF_AGENTS:
            self._deaths[event["number"]] = math.inf
        elif event.kind == "injected" and event["number"] in self._deaths:
            self._deaths[event["number"]] = event.at + _SETTLES_S
        elif event.kind == "injected" and FAULTS[event["fault"]].rots:
            self.stored = self.stored and bool(event.hosts)
            self._take_away(set(event.hosts))
        elif event.kind == "injected" and FAULTS[event["fault"]].takes_memory:
            self._hit |= dict.fromkeys(event.hosts, (event["number"], math.inf))
            self._again |= {event["number"]} if FAULTS[event["fault"]].comes_back else set()
        elif event.kind == "reverted":
            over = {host: number for host, (number, _) in self._hit.items() if number == event["number"]}
            self._hit |= {host: (number, event.at + _SETTLES_S) for host, number in over.items()}

    @property
    def whole(self) -> bool:
        """Whether everything could be restored."""
        return self.stored or self._suffice(self.members)

    def survive(self, injection: Injection) -> bool:
        """Whether all is still there after a fault, and somebody to go on."""
        of_an_agent = injection.point in POINTS_OF_AGENTS
        if not (injection.kind.takes_memory or of_an_agent):
            return True
        return self.may_lose(injection.hosts, int(of_an_agent))

    def may_lose(self, hosts: Collection[str], more: int = 0) -> bool:
        """Whether all is still there without these hosts, so many more, whichever they are, and those that may be given
        up, and somebody to go on."""
        rest = self.members - set(hosts) - self._hit.keys()
        more = min(more + len(self._deaths), len(rest))
        rests = (rest - set(others) for others in itertools.combinations(rest, more))
        return self.stored or all(bool(left) and self._suffice(left) for left in rests)

    def _suffice(self, hosts: set[str]) -> bool:
        return all(holders & hosts for holders in self._holders) and all(
            sum(bool(holders & hosts) for holders in blocks) >= k for k, blocks in self._stripes
        )

    def _take_away(self, hosts: set[str]) -> None:
        self._holders = [holders - hosts for holders in self._holders]
        self._stripes = [(k, [holders - hosts for holders in blocks]) for k, blocks in self._stripes]
