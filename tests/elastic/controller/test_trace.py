"""A run as a Chrome trace."""

import json
from pathlib import Path

from chaos.history import Event
from chaos.ledger import Span
from elastic.controller.trace import Trace
from elastic.controller.trace_file import TraceFile
from tests.chaos.histories import story


def traced(*events):
    """(name, phase, microseconds, track) of what events add to a trace of a run that began at 100."""
    trace = Trace(100.0, "r1")
    names = {}
    found = []
    for item in [*trace.head(), *(item for event in story(*events) for item in trace.feed(event))]:
        if item["name"] == "thread_name":
            names[item["pid"], item["tid"]] = item["args"]["name"]
        elif item["ph"] != "M":
            found.append((item["name"], item["ph"], item["ts"], names.get((item["pid"], item["tid"]))))
    return found


def joined(at, host):
    return (at, "joined", {"host": host, "incarnation": 7, "pid": 1})


def generation(at, number, **executors):
    facts = {"generation": number, "owners": list(executors), "executors": executors}
    return (at, "generation", facts)


def test_a_host_takes_part_and_is_in_one_world_after_the_other_until_it_is_gone():
    found = traced(
        joined(100, "h0"),
        joined(100, "h1"),
        generation(101, 1, h0=10, h1=11),
        (102, "gone", {"host": "h1", "reason": "killed"}),
        (102, "lost", {"host": "h1", "reason": "killed", "detected_by": "x", "silence": 0.1}),
        generation(103, 2, h0=12),
    )
    assert [item[:3] for item in found if item[3] == "h1"] == [
        ("takes part", "B", 0),
        ("generation 1", "B", 1e6),
        ("gone", "i", 2e6),
        ("", "E", 2e6),
        ("", "E", 2e6),
    ]
    assert [item[:3] for item in found if item[3] == "h0"] == [
        ("takes part", "B", 0),
        ("generation 1", "B", 1e6),
        ("", "E", 2e6),
        ("generation 2", "B", 3e6),
    ]
    assert ("lost h1", "i", 2e6, "recoveries") in found


def test_a_recovery_is_a_slice_with_its_phases_in_it():
    facts = {
        **{"kind": "lost", "host": "h1", "reason": "killed", "plan": "h2 takes over", "detected_by": "x"},
        **{"detect": 0.1, "operations_replayed": 3, "phases": {"fence": 0.25, "world": 0.5}},
    }
    assert traced((101, "recovered", facts)) == [
        ("lost h1", "X", 250_000, "recoveries"),
        ("fence", "X", 250_000, "recoveries"),
        ("world", "X", 500_000, "recoveries"),
    ]


def test_snapshots_checkpoints_and_compilations_have_tracks():
    found = traced(
        (101, "compiling", {"program": 4}),
        (102, "compiled", {"program": 4, "seconds": 1}),
        (103, "saved", {"number": 1, "seconds": 0.5, "bytes": 8}),
        (104, "stored", {"number": 1, "operation": 9, "path": "p", "bytes": 8, "seconds": 2}),
    )
    assert found == [
        ("compile program 4", "b", 1e6, None),
        ("compile program 4", "e", 2e6, None),
        ("snapshot 1", "X", 2.5e6, "snapshots"),
        ("checkpoint at operation 9", "X", 2e6, "stored checkpoints"),
    ]


def test_what_the_time_was_spent_on_is_one_track():
    [item] = Trace(100.0, "r1").spent([Span("waiting", 101, 103)])
    assert (item["name"], item["ts"], item["dur"]) == ("waiting", 1e6, 2e6)


def test_a_file_is_json_when_it_is_closed_and_whole_lines_before(tmp_path):
    path = tmp_path / "trace"
    path.write_text("what was there")
    file = TraceFile(path)
    trace = Trace(0.0, "r1")
    file.write(trace.head())
    file.write(trace.feed(Event("client", 1.0)))
    begun = path.read_text()
    assert json.loads(begun + "]")[-1]["name"] == "client"
    file.close()
    assert json.loads(path.read_text()) == json.loads(begun + "]")


def test_a_full_disk_ends_the_trace_and_nothing_else(caplog):
    file = TraceFile(Path("/dev/full"))
    for _ in range(3):
        file.write([{"name": "x"}])
    file.close()
    assert caplog.text.count("the trace /dev/full ends here: No space left on device") == 1
