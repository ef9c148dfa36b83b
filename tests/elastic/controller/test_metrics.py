"""Metrics: events and a report in, a page of Prometheus' text out."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from chaos import ENTRIES
from chaos.history import Event
from elastic.controller.metrics import Metrics
from elastic.controller.status_report import report, with_refused
from tests.elastic.controller.test_status_report import JOURNAL, RUN, SNAPSHOT, gone, host

SPENT = {"share": 0.75, "seconds": {**dict.fromkeys(ENTRIES, 0.0), "productive": 3.0, "world": 1.0}}


def page(*events):
    """Sample -> value, with the labels behind the name, after these events."""
    hosts = [host(0, refused={"garbage": 2}), gone(1)]
    found = with_refused(report(RUN, hosts, SNAPSHOT, JOURNAL, [], goodput=SPENT), {"silent": 1})
    metrics = Metrics(lambda: found)
    for kind, facts in events:
        assert kind in metrics.kinds
        metrics.feed(Event(kind, 0.0, facts))
    families = text_string_to_metric_families(metrics.page().decode())
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_the_run_as_it_is():
    found = page()
    assert found["elastic_run", "r1", "running"] == 1
    assert found["elastic_operations_total",] == 900
    assert (found["elastic_hosts", "healthy"], found["elastic_hosts", "dead"]) == (1, 1)
    assert found["elastic_hosts", "frozen"] == 0
    assert (found["elastic_journal_operations",], found["elastic_journal_bytes",]) == (100, 30_000)
    assert (found["elastic_snapshot_bytes",], found["elastic_snapshot_age_seconds",]) == (1 << 20, 0.25)
    assert found["elastic_goodput_ratio",] == 0.75
    assert {entry: found["elastic_goodput_seconds", entry] for entry in ENTRIES} == SPENT["seconds"]
    assert found["elastic_refused_connections_total", "h0", "garbage"] == 2
    assert found["elastic_refused_connections_total", "controller", "silent"] == 1


def test_a_recovery_is_counted_with_each_of_its_phases():
    lost = {"host": "h1", "detected_by": "its agent", "silence": 0.1}
    recovered = {"kind": "lost", "detect": 0.1, "phases": {"fence": 0.2, "world": 0.3}}
    found = page(("generation", {}), ("lost", lost), ("generation", {}), ("recovered", recovered))
    assert found["elastic_generations_total",] == 2
    assert found["elastic_losses_total", "its agent"] == 1
    assert found["elastic_recoveries_total", "lost"] == 1
    sums = {phase: found["elastic_recovery_seconds_sum", "lost", phase] for phase in ("detect", "fence", "world")}
    assert sums == {"detect": 0.1, "fence": 0.2, "world": 0.3}
    assert found["elastic_recovery_seconds_sum", "lost", "total"] == pytest.approx(0.6)
    assert found["elastic_recovery_seconds_bucket", "lost", "0.25", "world"] == 0
    assert found["elastic_recovery_seconds_bucket", "lost", "0.5", "world"] == 1


def test_what_is_saved_compiled_called_and_compared_is_counted():
    found = page(
        ("saved", {"seconds": 0.5, "bytes": 100}),
        ("saved", {"seconds": 0.5, "bytes": 50}),
        ("stored", {"bytes": 50}),
        ("compiled", {"seconds": 2.0}),
        *[("callback", {})] * 3,
        ("repeated", {}),
        ("verified", {"equal": True}),
        ("verified", {"equal": False}),
    )
    assert (found["elastic_snapshots_total",], found["elastic_snapshots_bytes_total",]) == (2, 150)
    assert found["elastic_snapshot_seconds_sum",] == 1.0
    assert (found["elastic_stored_checkpoints_total",], found["elastic_stored_checkpoints_bytes_total",]) == (1, 50)
    assert found["elastic_compilation_seconds_count",] == 1
    assert (found["elastic_callbacks_total", "client"], found["elastic_callbacks_total", "journal"]) == (3, 1)
    assert (found["elastic_replayed_reads_total", "yes"], found["elastic_replayed_reads_total", "no"]) == (1, 1)
