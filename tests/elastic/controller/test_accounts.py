"""The accounts of a run, from its history as it is told."""

import json
import time

import pytest

from elastic.controller import history
from elastic.controller.accounts import Accounts


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made


@pytest.fixture
def accounts(clock):
    made = Accounts("r1", None)
    yield made
    made.close()


def tell(clock, at, kind, **facts):
    clock.now = 100.0 + at
    history.tell(kind, **facts)


def spent(accounts):
    return {entry: seconds for entry, seconds in accounts.goodput()["seconds"].items() if seconds}


def test_what_is_told_is_booked_and_what_is_under_way_too(accounts, clock):
    tell(clock, 1, "read", number=1, generation=1, digest=b"")
    tell(clock, 4, "compiled", program=1, seconds=2.0)
    clock.now = 105.0
    assert spent(accounts) == {"starting": 1, "productive": 2, "compiling": 2}
    assert accounts.goodput()["share"] == 0.5
    accounts.waiting_since = lambda: 104.25
    assert spent(accounts) == {"starting": 1, "productive": 1.25, "compiling": 2, "waiting": 0.75}


def test_only_the_first_value_counts(accounts, clock):
    tell(clock, 1, "callback", function=1, arguments=b"")
    tell(clock, 3, "read", number=1, generation=1, digest=b"")
    assert spent(accounts) == {"starting": 1, "productive": 2}


def test_a_trace_has_the_events_and_at_the_end_all_of_the_time(clock, tmp_path):
    accounts = Accounts("r1", tmp_path / "trace")
    tell(clock, 1, "joined", host="h0", incarnation=1, pid=7)
    tell(clock, 2, "read", number=1, generation=1, digest=b"")
    clock.now = 105.0
    accounts.close()
    tell(clock, 6, "joined", host="h1", incarnation=2, pid=8)
    items = json.loads((tmp_path / "trace").read_text())
    assert [(item["name"], item["ts"]) for item in items if item["ph"] == "B"] == [("takes part", 1e6)]
    spans = [(item["name"], item["ts"], item["dur"]) for item in items if item["ph"] == "X"]
    assert spans == [("starting", 0, 2e6), ("productive", 2e6, 3e6)]


def test_a_trace_that_cannot_be_written_is_an_error_at_once(tmp_path):
    with pytest.raises(FileNotFoundError):
        Accounts("r1", tmp_path / "nowhere" / "trace")
