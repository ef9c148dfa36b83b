"""The hosts that take part in a run or did: what is shown of a host when it is gone, too. Does nothing to them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from elastic.controller.hosts import Host
from elastic.controller.status_report import UNREACHABLE, HostFacts
from elastic.controller.watch import Watch
from membership import State

_STANDS_STILL = (State.SUSPECT, State.FROZEN)
_LIVES_ON = (State.FROZEN, State.QUARANTINED)
"""States in which it may be gone from the run and come back."""


@dataclass
class _Entry:
    host: Host
    joined: float
    restarts: int
    end: tuple[str, str] | None = None
    """How it ended, and why, once it is gone or cut off."""


class HostBook:
    """Every host by id. Times on the monotonic clock."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._entries: dict[str, _Entry] = {}

    def joined(self, host: Host, now: float) -> None:
        """A host, new or come back."""
        known = self._entries.get(host.id)
        self._entries[host.id] = _Entry(host, now, known.restarts + 1 if known else 0)

    def lost(self, id: str, reason: str) -> None:
        """It is gone; to be called before the watch over it ends."""
        entry = self._entries.get(id)
        if entry is not None:
            state = self._watch.hosts[id].state if id in self._watch.hosts else State.DEAD
            entry.end = state if state in _LIVES_ON else State.DEAD, reason

    def cut(self, id: str, reason: str) -> None:
        """Others do not reach it."""
        self._entries[id].end = UNREACHABLE, reason

    def reached(self, id: str) -> None:
        """They do again."""
        self._entries[id].end = None

    def left(self, id: str) -> None:
        """It went as announced; it is not missed."""
        self._entries.pop(id, None)

    def facts(
        self,
        members: Mapping[str, Host],
        held: Mapping[str, list[int]],
        executors: Mapping[str, tuple[int, str]],
        now: float,
    ) -> list[HostFacts]:
        """
        `members` are those that are connected, `held` the virtual devices of each, and `executors` the pid of each
        one's executor and what the watch knows it by.
        """
        return [
            self._facts(entry, members.get(id) is entry.host, held.get(id, []), executors.get(id), now)
            for id, entry in sorted(self._entries.items(), key=lambda item: _natural(item[0]))
        ]

    def _facts(
        self, entry: _Entry, member: bool, held: list[int], executor: tuple[int, str] | None, now: float
    ) -> HostFacts:
        host, hosts = entry.host, self._watch.hosts
        state, reason = entry.end or (State.JOINING, "it has joined")
        if entry.end is None and host.id in hosts:
            state, reason = hosts[host.id].state, hosts.words(host.id, now)
        if member and executor is not None and executor[1] in hosts and hosts[executor[1]].state in _STANDS_STILL:
            state, reason = hosts[executor[1]].state, f"its executor: {hosts.words(executor[1], now)}"
        return HostFacts(
            id=host.id,
            incarnation=host.record.incarnation if host.record else host.incarnation,
            state=str(state),
            reason=reason,
            address=host.address,
            agent_pid=host.pid,
            executor_pid=executor[0] if executor and member else None,
            devices=host.devices,
            virtual_devices=held if member else [],
            heartbeat_age=_heard(self._watch, host.id, now),
            lease_ttl=host.record.ttl if host.record else 0,
            checked_age=None if host.checked is None else now - host.checked,
            restarts=entry.restarts,
            age=now - entry.joined,
            member=member,
            refused=host.refused,
        )


def _heard(watch: Watch, name: str, now: float) -> float | None:
    silence = watch.silence(name, now)
    return silence if silence is not None and math.isfinite(silence) else None


def _natural(name: str) -> tuple[str, int, str]:
    """h2 before h10."""
    head = name.rstrip("0123456789")
    digits = name[len(head) :]
    return head, int(digits or 0), name
