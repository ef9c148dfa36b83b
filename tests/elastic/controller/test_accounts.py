"""The accounts of a run, from its history as it is told."""

import json

import pytest

from elastic.controller import history
from elastic.controller.accounts import Accounts


def test_what_is_told_is_booked_until_the_accounts_are_closed():
    accounts = Accounts("r1", None)
    assert accounts.goodput()["share"] == 1
    history.tell("read", number=1, generation=1, digest=b"")
    history.tell("compiled", program=1, seconds=3600.0)  # Longer than the run: nothing but compiling is left.
    seconds = accounts.goodput()["seconds"]
    assert seconds["starting"] == 0
    assert seconds["compiling"] >= 0
    accounts.close()
    assert history._listeners["read"] == history._listeners["compiled"] == []


def test_only_the_first_value_is_listened_to():
    accounts = Accounts("r1", None)
    history.tell("callback", function=1, arguments=b"")
    assert history._listeners["read"] == history._listeners["callback"] == []
    accounts.close()


def test_a_trace_has_the_events_and_at_the_end_all_of_the_time(tmp_path):
    accounts = Accounts("r1", tmp_path / "trace")
    history.tell("joined", host="h0", incarnation=1, pid=7)
    history.tell("read", number=1, generation=1, digest=b"")
    accounts.close()
    items = json.loads((tmp_path / "trace").read_text())
    assert [item["name"] for item in items if item["ph"] == "B"] == ["takes part"]
    assert [item["name"] for item in items if item["ph"] == "X"] == ["starting", "productive"]


def test_a_trace_that_cannot_be_written_is_an_error_at_once(tmp_path):
    with pytest.raises(FileNotFoundError):
        Accounts("r1", tmp_path / "nowhere" / "trace")
