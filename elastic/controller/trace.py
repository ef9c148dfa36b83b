"""A run as a Chrome trace, which ui.perfetto.dev shows: from the events of its history, and what its time was spent on.

Pure: events and spans in, trace events out. What goes on for long is written as a begin and an end, so that a trace
that breaks off shows it, too. Times of trace events are microseconds from the begin of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from chaos import Event, Span

Item = dict[str, Any]

_CONTROLLER, _GOODPUT, _HOSTS = 1, 2, 3
"""What a trace calls processes: groups of tracks."""

_RECOVERIES, _SNAPSHOTS, _CHECKPOINTS = 1, 2, 3
"""Tracks of the controller; compilations, which may go on side by side, have tracks of their own."""


class Trace:
    """The trace of one run."""

    def __init__(self, began: float, run: str) -> None:
        self._began = began
        self._run = run
        self._hosts: dict[str, int] = {}
        """The track of each host."""
        self._in_world: list[str] = []
        self._takes: dict[str, Callable[[Event], list[Item]]] = {
            "joined": self._joined,
            "gone": self._gone,
            "left": self._gone,
            "generation": self._generation,
            "lost": self._lost,
            "moving": self._lost,
            "recovered": self._recovered,
            "waits": self._noted,
            "failed": self._noted,
            "client": self._noted,
            "forgotten": self._noted,
            "saved": self._saved,
            "stored": self._stored,
            "compiling": lambda event: [self._compilation("b", event)],
            "compiled": lambda event: [self._compilation("e", event)],
        }
        self.kinds = tuple(self._takes)
        """The events that are shown."""

    def head(self) -> list[Item]:
        """What comes first: the names of the tracks."""
        groups = {_CONTROLLER: f"controller of run {self._run}", _GOODPUT: "goodput", _HOSTS: "hosts"}
        names = [_name("process_name", group, 0, name) for group, name in groups.items()]
        tracks = {_RECOVERIES: "recoveries", _SNAPSHOTS: "snapshots", _CHECKPOINTS: "stored checkpoints"}
        names += [_name("thread_name", _CONTROLLER, track, name) for track, name in tracks.items()]
        return [*names, _name("thread_name", _GOODPUT, 1, "the run's time")]

    def feed(self, event: Event) -> list[Item]:
        """What an event, of one of these kinds, adds."""
        return self._takes[event.kind](event)

    def spent(self, spans: Iterable[Span]) -> list[Item]:
        """What the run's time was spent on."""
        return [self._slice(_GOODPUT, 1, span.entry, span.begin, span.end) for span in spans]

    # Hosts

    def _joined(self, event: Event) -> list[Item]:
        items = []
        if event.host not in self._hosts:
            track = self._hosts[event.host] = len(self._hosts) + 1
            items = [_name("thread_name", _HOSTS, track, event.host)]
        return [*items, self._on_host("B", "takes part", event.host, event.at, dict(event.facts))]

    def _gone(self, event: Event) -> list[Item]:
        items = [self._on_host("i", event.kind, event.host, event.at, {**event.facts}, s="t")]
        if event.host in self._in_world:
            self._in_world.remove(event.host)
            items.append(self._on_host("E", "", event.host, event.at))
        return [*items, self._on_host("E", "", event.host, event.at)]

    def _generation(self, event: Event) -> list[Item]:
        items = self._world_ends(event.at)
        owned: dict[str, list[int]] = {host: [] for host in event["executors"]}
        for device, host in enumerate(event["owners"]):
            owned.setdefault(host, []).append(device)
        for host, pid in event["executors"].items():
            facts = {"virtual devices": owned[host], "executor": pid}
            items.append(self._on_host("B", f"generation {event['generation']}", host, event.at, facts))
        self._in_world = list(event["executors"])
        return items

    def _world_ends(self, at: float) -> list[Item]:
        items = [self._on_host("E", "", host, at) for host in self._in_world]
        self._in_world = []
        return items

    # The controller

    def _lost(self, event: Event) -> list[Item]:
        return [*self._world_ends(event.at), *self._noted(event)]

    def _noted(self, event: Event) -> list[Item]:
        name = f"{event.kind} {event.host}".strip()
        return [self._item("i", name, _CONTROLLER, _RECOVERIES, event.at, dict(event.facts), s="t")]

    def _recovered(self, event: Event) -> list[Item]:
        phases = event["phases"]
        at = event.at - sum(phases.values())
        names = ("reason", "plan", "detected_by", "detect", "operations_replayed")
        facts = {name: event[name] for name in names}
        name = f"{event['kind']} {event.host}"
        items = [self._slice(_CONTROLLER, _RECOVERIES, name, at, event.at, facts)]
        for phase, seconds in phases.items():
            items.append(self._slice(_CONTROLLER, _RECOVERIES, phase, at, at + seconds))
            at += seconds
        return items

    def _saved(self, event: Event) -> list[Item]:
        name, begin = f"snapshot {event['number']}", event.at - event["seconds"]
        return [self._slice(_CONTROLLER, _SNAPSHOTS, name, begin, event.at, {"bytes": event["bytes"]})]

    def _stored(self, event: Event) -> list[Item]:
        name, begin = f"checkpoint at operation {event['operation']}", event.at - event["seconds"]
        facts = {"path": event["path"], "bytes": event["bytes"]}
        return [self._slice(_CONTROLLER, _CHECKPOINTS, name, begin, event.at, facts)]

    def _compilation(self, phase: str, event: Event) -> Item:
        name, number = f"compile program {event['program']}", event["program"]
        return self._item(phase, name, _CONTROLLER, 0, event.at, cat="compilations", id=number)

    # Trace events

    def _on_host(
        self, phase: str, name: str, host: str, at: float, facts: dict[str, Any] | None = None, **more: Any
    ) -> Item:
        return self._item(phase, name, _HOSTS, self._hosts.get(host, 0), at, facts, **more)

    def _slice(
        self, group: int, track: int, name: str, begin: float, end: float, facts: dict[str, Any] | None = None
    ) -> Item:
        duration = round((end - begin) * 1e6, 3)
        return self._item("X", name, group, track, begin, facts, dur=duration)

    def _item(
        self, phase: str, name: str, group: int, track: int, at: float, facts: dict[str, Any] | None = None, **more: Any
    ) -> Item:
        place = {"ph": phase, "pid": group, "tid": track, "ts": round((at - self._began) * 1e6, 3)}
        return {"name": name, **place, **more, **({"args": facts} if facts else {})}


def _name(what: str, group: int, track: int, name: str) -> Item:
    return {"name": what, "ph": "M", "pid": group, "tid": track, "args": {"name": name}}
