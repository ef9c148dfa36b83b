"""Text stories about hosts: a file of verbs, each followed by exactly what it makes happen.

    # A comment.
    start h1 h2
      0.00 h1 unknown -> joining: registered as incarnation 1
      ...
    advance 300ms

Indented lines are what is expected, to the letter: changes of hosts and actions. Time is virtual. `python -m
tests.membership.story FILE...` writes what happens into the files instead of comparing; read the difference then.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from membership.events import (
    Action,
    Deregistered,
    DrainRequested,
    Event,
    Heartbeat,
    LeaseLost,
    Registered,
    StreamClosed,
    WrongResult,
)
from membership.hosts import Hosts
from membership.progress import Progress

INTERVAL = 0.1


@dataclass
class Machine:
    """A simulated host."""

    incarnation: int = 1
    next_beat: float = float("inf")
    silent: bool = False
    """It sends nothing: frozen."""
    cut: list[Heartbeat] | None = None
    """What it sent while the network is cut; it arrives when that heals."""
    executor: bool = False
    """Whether it has an executor, which moves on with each heartbeat unless it is stuck."""
    stuck: bool = False
    waiting: bool = False
    counter: int = 0


@dataclass
class Story:
    """The simulated pool, and one method for each verb: it takes the words behind it."""

    hosts: Hosts = field(default_factory=Hosts)
    now: float = 1000.0
    """Not 0, as no real monotonic clock begins with the story."""
    begin: float = 1000.0
    machines: dict[str, Machine] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    generation: int = 1

    def tell(self, line: str) -> list[str]:
        """Carries out one line; returns what happened."""
        self.lines = []
        verb, *arguments = line.split()
        getattr(self, f"do_{verb.replace('-', '_')}")(*arguments)
        self.hosts.validate()
        return self.lines

    # Hosts

    def do_register(self, *ids: str) -> None:
        """Each host registers, but sends no heartbeat yet."""
        for id in ids:
            machine = self.machines.setdefault(id, Machine())
            self._feed(Registered(id, machine.incarnation))

    def do_start(self, *ids: str) -> None:
        """Each host registers and sends a heartbeat now and every 100 ms."""
        self.do_register(*ids)
        for id in ids:
            self.machines[id].next_beat = self.now
        self._run(self.now)

    def do_restart(self, id: str) -> None:
        """The host starts again as a new incarnation."""
        self.machines[id] = Machine(self.machines[id].incarnation + 1)
        self.do_start(id)

    def do_heartbeat(self, id: str, incarnation: str = "") -> None:
        """One heartbeat out of turn, of another incarnation if one is named."""
        self._feed(Heartbeat(id, int(incarnation or self.machines[id].incarnation)))

    def do_freeze(self, id: str) -> None:
        """SIGSTOP of all that runs on the host."""
        self.machines[id].silent = True

    def do_thaw(self, id: str) -> None:
        self.machines[id].silent = False

    def do_cut(self, id: str) -> None:
        """The network between the host and the observer."""
        self.machines[id].cut = []

    def do_heal(self, id: str) -> None:
        machine = self.machines[id]
        late, machine.cut = machine.cut or [], None
        for event in late:
            self._feed(event)

    def do_stall(self, id: str, span: str) -> None:
        """The host's heartbeats come late by a time: its cores are busy."""
        self.machines[id].next_beat += seconds(span)

    def do_kill(self, id: str) -> None:
        self.machines[id].next_beat = float("inf")
        self._feed(StreamClosed(id, self.machines[id].incarnation, "connection reset by peer"))

    def do_drain(self, id: str) -> None:
        self._feed(DrainRequested(id, self.machines[id].incarnation, "SIGTERM"))

    def do_lose_lease(self, id: str) -> None:
        self._feed(LeaseLost(id, self.machines[id].incarnation))

    def do_deregister(self, id: str) -> None:
        self.machines[id].next_beat = float("inf")
        self._feed(Deregistered(id, self.machines[id].incarnation))

    def do_miscompute(self, id: str) -> None:
        self._feed(WrongResult(id, self.machines[id].incarnation, "a matrix product on device 1 has another checksum"))

    # Executors

    def do_world(self, *ids: str) -> None:
        """The hosts' executors form a new world; those of all others end."""
        self.generation += 1
        for id, machine in self.machines.items():
            machine.executor, machine.stuck, machine.waiting = id in ids, False, False

    def do_freeze_executor(self, id: str) -> None:
        self.machines[id].stuck = True

    def do_thaw_executor(self, id: str) -> None:
        self.machines[id].stuck = False

    def do_wait(self, *ids: str) -> None:
        """The hosts' executors wait for peers."""
        for id in ids:
            self.machines[id].waiting = True

    # Time

    def do_advance(self, span: str) -> None:
        self._run(self.now + seconds(span))

    def do_stall_observer(self, span: str) -> None:
        """Nothing is read and no tick comes for a time; then all that was sent is read at once."""
        end = self.now + seconds(span)
        late = self._beats(end)
        self.now = end
        self._act(self.hosts.tick(end))
        for _, event in late:
            self._feed(event)

    # Questions

    def do_show(self, *ids: str) -> None:
        for id in ids:
            self.lines.append(f"{id} {self.hosts[id].state}: {self.hosts.words(id, self.now)}")

    def do_dropped(self) -> None:
        self.lines.extend(f"{count} of {why}" for why, count in sorted(self.hosts.dropped.items()))
        self.lines.append(self.hosts.last_drop)

    # The simulation

    def _run(self, end: float) -> None:
        while True:
            at = min((machine.next_beat for machine in self.machines.values()), default=float("inf"))
            at = min(at, self.hosts.due())
            if at > end + 1e-9:
                break
            self.now = max(self.now, at)
            self._act(self.hosts.tick(self.now))
            for _, event in self._beats(self.now):
                self._feed(event)
        self.now = end
        self._act(self.hosts.tick(end))

    def _beats(self, end: float) -> list[tuple[float, Heartbeat]]:
        """The heartbeats that are sent up to a time and get through, in their order."""
        sent = []
        for id, machine in self.machines.items():
            while machine.next_beat <= end + 1e-9:
                machine.counter += not machine.stuck
                progress = Progress(self.generation, machine.counter, machine.waiting) if machine.executor else None
                event = Heartbeat(id, machine.incarnation, progress)
                if machine.cut is not None:
                    machine.cut.append(event)
                elif not machine.silent:
                    sent.append((machine.next_beat, event))
                machine.next_beat += INTERVAL
        return sorted(sent, key=lambda pair: pair[0])

    def _feed(self, event: Event) -> None:
        self._act(self.hosts.feed(event, self.now))

    _seen: dict[str, object] = field(default_factory=dict)

    def _act(self, actions: tuple[Action, ...]) -> None:
        stamp = f"{self.now - self.begin:.2f}"
        for host in self.hosts:
            news = []
            for change in reversed(host.history):
                if change is self._seen.get(host.id):
                    break
                news.append(f"{stamp} {host.id} {change.before or 'unknown'} -> {change.after}: {change.reason}")
            self.lines += reversed(news)
            self._seen[host.id] = host.history[-1]
        self.lines += [f"{stamp} {action.cause.host} {action.do}" for action in actions]


def seconds(span: str) -> float:
    """`300ms`, `2s` or `5min` as a number."""
    for unit, factor in (("ms", 0.001), ("min", 60.0), ("s", 1.0)):
        if span.endswith(unit):
            return float(span.removesuffix(unit)) * factor
    raise ValueError(f"{span} is no time")


def retell(text: str) -> str:
    """The story with what really happens in place of what is expected."""
    story, lines = Story(), []
    for line in text.splitlines():
        if line.startswith("  "):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            lines += [f"  {happened}" for happened in story.tell(line)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(retell(Path(name).read_text()))
