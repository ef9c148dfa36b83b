"""A run without processes: it tells what it is given, and notes the signals that it gets. Its clock is set by hand."""

from __future__ import annotations

import heapq
import itertools

from chaos import Copies, Event, History
from elastic.errors import PoolError

POOL = ("h0", "h1", "h2")


class FakeRun:
    """Looks are given as (seconds, events); each `look` is one of them, and the run ends after the last."""

    def __init__(self, points, looks=()):
        self.points = points
        self.stored = self  # What it has on disk, and the disk.
        self.disk = FakeDisk(self)
        self.memories = {}
        self.files = []
        self.now = 0.0
        self.signals = []
        self.events = []
        self.copies = Copies()
        self.members = set(POOL)
        self.host_names = POOL
        self.etcd = FakeEtcd(self)
        self._looks = list(looks)
        self._timers = []
        self._numbers = itertools.count()

    # As of LiveRun

    @property
    def alive(self):
        return bool(self._looks)  # Also False once it was killed.

    def look(self):
        at, events = self._looks.pop(0)
        self.pass_time(at - self.now)
        new = [Event(kind, at, facts[0] if facts else {}) for kind, *facts in events]
        for event in new:
            self.copies.tell(event)
        self.events += new
        return new

    def tell(self, kind, at=None, **facts):
        self.events.append(Event(kind, at or self.now, facts))

    def after(self, seconds, work):
        heapq.heappush(self._timers, (self.now + seconds, next(self._numbers), work))

    def finish(self):
        return 0

    def kill(self):
        self._looks.clear()

    @property
    def history(self):
        return History(self.events)

    @property
    def who(self):
        return self

    def agent(self, host):
        return f"agent {host}" if host in self.members else None

    def executor(self, host):
        return f"executor {host}" if host in self.members else None

    def controller(self):
        return "controller"

    def client(self):
        return "script"

    @property
    def network(self):
        return self

    def sever(self, ways):
        self.note("sever", *ways)

    def memory(self, host):
        return self.memories.get(host)

    def newest_files(self):
        return self.files

    def mend(self, ways):
        self.note("mend", *ways)

    def delay(self, host, seconds):
        self.note("delay", host, seconds)

    def hasten(self, host):
        self.note("hasten", host)

    @property
    def pool(self):
        return self

    def replace(self, host):
        self.note("replace", host)

    def signal(self, pids, number):
        self.signals += [(self.now, number.name, pid) for pid in pids]

    def note(self, *what):
        self.signals.append((self.now, *what))

    # For tests

    def pass_time(self, seconds):
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            self.now, _, work = heapq.heappop(self._timers)
            work()
        self.now = end

    def of(self, kind):
        return [event for event in self.events if event.kind == kind]


class FakeEtcd:
    """Has its run note what is done to it."""

    def __init__(self, run):
        self.leads = True
        self._run = run

    def kill_leader(self):
        if not self.leads:
            raise PoolError("no member of etcd leads")
        self._run.note("kill etcd's leader")

    def kill(self):
        self._run.note("kill etcd")

    def start_again(self):
        self._run.note("start etcd")

    def compact(self):
        self._run.note("compact etcd")

    def freeze(self):
        self._run.note("freeze etcd")

    def thaw(self):
        self._run.note("thaw etcd")


class FakeDisk:
    """A disk that notes what is done to it."""

    def __init__(self, run):
        self._run = run

    def fill(self):
        self._note("full")

    def protect(self):
        self._note("read-only")

    def heal(self):
        self._note("healed")

    def _note(self, what):
        self._run.signals.append((self._run.now, what))
