"""Histories written by hand, as short stories: one line an event, `at` seconds from the start of the script."""

from __future__ import annotations

from chaos.checkers import Evidence
from chaos.history import Event, History
from chaos.plan import Plan


def story(*events):
    """A history of (at, kind, facts) or (at, kind)."""
    return History(Event(kind, at, facts[0] if facts else {}) for at, kind, *facts in events)


def started(at=0.0):
    return (at, "started")


def ended(at, code=0):
    return (at, "ended", {"code": code})


def joined(at, host):
    return (at, "joined", {"host": host})


def gone(at, host):
    return (at, "gone", {"host": host, "reason": "its agent is gone"})


def holds(at, *holders):
    return (at, "holds", {"holders": [list(group) for group in holders]})


def striped(at, k, *blocks):
    """One stripe, and nothing else."""
    return (at, "holds", {"holders": [], "stripes": [[k, [list(hosts) for hosts in blocks]]], "parity": []})


def stored(at, operation, seconds=0.5):
    return (at, "stored", {"operation": operation, "seconds": seconds})


def checkpoints(at, bad=(), foreign_gone=()):
    return (at, "checkpoints", {"bad": list(bad), "foreign_gone": list(foreign_gone)})


def snapshot(at, operation):
    return (at, "snapshot", {"operation": operation})


def generation(at, number, *owners):
    return (at, "generation", {"generation": number, "owners": owners, "executors": dict.fromkeys(owners, 1)})


def restored(at, number, operation):
    return (at, "restored", {"generation": number, "operation": operation})


def replay(at, number, start, end):
    return (at, "replay", {"generation": number, "operation": start, "end": end})


def read(at, number, digest, generation=1):
    return (at, "read", {"number": number, "digest": digest, "generation": generation})


def callback(at, arguments):
    return (at, "callback", {"function": 1, "arguments": arguments})


def lost(at, host, silence=0.1):
    return (at, "lost", {"host": host, "reason": "killed", "detected_by": "a closed connection", "silence": silence})


def recovered(at, host, kind="lost", replayed=3, **phases):
    return (at, "recovered", {"host": host, "kind": kind, "phases": phases, "operations_replayed": replayed})


def caught_up(at, number=2):
    return (at, "caught_up", {"generation": number})


def injected(at, number, fault, *hosts, lasts=None, must_be_noticed=True):
    facts = {"number": number, "fault": fault, "hosts": hosts, "lasts": lasts, "must_be_noticed": must_be_noticed}
    return (at, "injected", facts)


def reverted(at, number):
    return (at, "reverted", {"number": number})


def evidence(chaos=(), clean=(), **plan):
    """What a checker looks at: stories of the run under the plan, and of the one without."""
    return Evidence(Plan(**plan), story(*clean), story(*chaos))
