"""The history of a run: what happened and when, one event a line of JSON (JSONL), written by those to whom it happened.

Each event has `event`, its kind; `at`, seconds on the machine's monotonic clock; `time`, the same as RFC 3339; and what
belongs to its kind. Where they make sense these are named `generation`, `host` and `operation` (a position in the
client's stream of operations).

Told by the controller:

    controller   it has started: pid
    joined       a host takes part: host, incarnation, pid of its agent
    gone         a host's agent, and all that it held, is out of reach: host, reason
    left         a host that was told to leave was let go: host
    holds        the hosts that hold each content of the snapshot that counts: holders; its stripes, each as [how many
                 of its blocks suffice, the hosts that hold each block]: stripes; the digests of its parity: parity
    generation   a new world has executors: generation, executors (host: pid), owners (the host of each virtual device)
    lost         the world in use is given up: host, reason, detected_by, silence (seconds)
    moving       the world in use is left for other hosts: host, reason
    restored     a new world has the arrays of a snapshot: generation, snapshot, operation
    replay       a new world is told the journal: generation, operation (its start), end
    caught_up    it has computed all of that: generation
    recovered    the run goes on: kind (lost, moved), host, reason, plan, phases, operations_replayed
    waits        it waits for hosts: host, reason, what
    failed       it cannot go on: host, reason, why_not
    snapshot     one counts: number, operation, seconds
    saved        that has held the run up: number, seconds, bytes (of one copy)
    client       a client has come
    forgotten    the client has left; what it had is given up: operation
    waited       the client, which had been given all that it had asked for, asked for more after so long: seconds
    read         the client got a value: number (grows in the order of asking), generation, digest
    verified     a read was replayed: equal, what, and number if it is not
    compared     what lies before a snapshot was executed again: number, operation, executions, seconds
    verified_snapshot  that gave the same: number, operation
    not_verified that could not be done: number, operation, why
    corruption   that gave something else: host (empty if nobody knows whose fault it was), what, shards, reads (numbers
                 of values that were wrong), executions, goes_back (whether the run's arrays were wrong)
    went_back    an earlier snapshot counts again: operation, to (verified: the last one; stored: the one on disk)
    callback     the client is asked to run a function: function (a number of this run), arguments (their digest)
    repeated     a call that a replay makes again is answered from the account: function, arguments
    compiling    a host begins to compile: program
    compiled     it has ended, well or not: program, seconds
    stored       a snapshot is on disk: number, operation, path, bytes, seconds (to write)
    not_stored   it could not be written there: number, operation, why
    not_saved    the arrays could not be saved in the memory of hosts: operation, why
    slow_disk    a host takes far longer than others to read or write checkpoints, and is helped: host, doing
    bad_copy     a copy, or a block of parity, is missing or was changed, and not used any more: host, digest
    bad_file     the same of a file that was stored: digest, why

Told by the runner:

    started      the script
    output       the script has printed a line: line, step (or null)
    armed        a process will die at a point, which is `injected` when it has come: number, point
    injected     a fault: number, fault, hosts, must_be_noticed, lasts
    reverted     it was taken back: number
    skipped      it was not done: number, fault, hosts, why
    health       what `elastic health` says: failures, asked (when)
    hung         nothing was told for so many seconds, and the run was ended: seconds
    ended        the script: code
    leftovers    what was still there afterwards: processes, files
    checkpoints  what was on disk then: bad (what is wrong with checkpoints), foreign_gone (files of others that are not
                 as they were)
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.errors import HistoryError


@dataclass(frozen=True)
class Event:
    """One event: its kind, when (monotonic seconds, and RFC 3339), and what belongs to it."""

    kind: str
    at: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    time: str = ""

    def __getitem__(self, key: str) -> Any:
        return self.facts[key]

    @property
    def host(self) -> str:
        return str(self.facts.get("host", ""))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Of a fault: the hosts that it hit."""
        return tuple(self.facts.get("hosts", ()))

    def line(self) -> str:
        return json.dumps({"event": self.kind, "at": self.at, "time": self.time, **self.facts})


class History:
    """Events in the order of time."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events = tuple(sorted(events, key=lambda event: event.at))
        self._of: dict[tuple[str, ...], list[Event]] = {}
        """What was asked for by kinds before: some ask once for each fault."""

    def of(self, *kinds: str) -> list[Event]:
        """The events of these kinds."""
        if kinds not in self._of:
            self._of[kinds] = [event for event in self.events if event.kind in kinds]
        return list(self._of[kinds])

    def between(self, begin: float, end: float) -> Sequence[Event]:
        """The events of this time, its ends included."""
        first = bisect.bisect_left(self.events, begin, key=_at)
        return self.events[first : bisect.bisect_right(self.events, end, first, key=_at)]

    def last(self, *kinds: str) -> Event | None:
        return next((event for event in reversed(self.events) if event.kind in kinds), None)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def presence(self, host: str) -> list[tuple[float, float]]:
        """From when to when a host took part."""
        spans, begin = [], None
        for event in self.of("joined", "gone", "left"):
            if event.host == host and event.kind == "joined":
                begin = event.at if begin is None else begin
            elif event.host == host and begin is not None:
                spans.append((begin, event.at))
                begin = None
        return spans if begin is None else [*spans, (begin, self.ended)]

    @property
    def began(self) -> float:
        """When the script was started; of a history without one, its first event."""
        return next((event.at for event in self.events if event.kind == "started"), self._edge(0))

    @property
    def ended(self) -> float:
        """When the script had ended; of a history that breaks off, its last event."""
        return next((event.at for event in self.events if event.kind == "ended"), self._edge(-1))

    @property
    def failed(self) -> bool:
        """Whether the script ended with an error."""
        return any(event["code"] != 0 for event in self.of("ended"))

    def text(self) -> str:
        """As JSON lines, which `parse` reads."""
        return "".join(f"{event.line()}\n" for event in self.events)

    def _edge(self, index: int) -> float:
        return self.events[index].at if self.events else 0.0


def _at(event: Event) -> float:
    return event.at


def parse_line(line: str) -> Event:
    """The event of a line. Raises `HistoryError`."""
    try:
        facts = json.loads(line)
        return Event(str(facts.pop("event")), float(facts.pop("at")), facts, str(facts.pop("time", "")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HistoryError(f"{line[:80]!r} is no event of a history: {error!r}") from error


def parse(text: str) -> History:
    """The history of a file; a last line that its writer did not finish, since it was killed, is left out.

    Raises `HistoryError`.
    """
    return History(parse_line(line) for line in text.split("\n")[:-1] if line)
