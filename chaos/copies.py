"""Which hosts hold the snapshot that counts, as events of a history tell it one by one."""

from __future__ import annotations

from collections.abc import Collection

from chaos.history import Event


class Copies:
    """Where the contents of the snapshot that counts are."""

    def __init__(self) -> None:
        self.members: set[str] = set()
        """The hosts that take part."""
        self._holders: list[frozenset[str]] = []
        """Each different set of hosts that holds a content."""

    def tell(self, event: Event) -> None:
        if event.kind == "joined":
            self.members.add(event.host)
        elif event.kind in ("gone", "left"):
            self.members.discard(event.host)
            self._holders = [holders - {event.host} for holders in self._holders]
        elif event.kind == "holds":
            self._holders = [frozenset(holders) for holders in event["holders"]]
        elif event.kind == "forgotten":
            self._holders = []

    @property
    def whole(self) -> bool:
        """Whether somebody who lives holds each content."""
        return all(holders & self.members for holders in self._holders)

    def may_lose(self, hosts: Collection[str]) -> bool:
        """Whether all of it is still there without these hosts, and somebody to go on."""
        rest = self.members - set(hosts)
        return bool(rest) and all(holders & rest for holders in self._holders)
