"""A run's metrics in Prometheus' text format: counted from its history, the rest taken from its report when somebody
asks. docs/metrics.md says what each means. No clock, no I/O; needs the package prometheus-client (`[metrics]`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from chaos import Event
from elastic.controller.status_report import UNREACHABLE
from membership import State

TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of a page."""

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

Report = Mapping[str, Any]


class Metrics:
    """Those of one run."""

    def __init__(self, report: Callable[[], Report]) -> None:
        """`report()` is how the run is now, as `elastic health --json` tells it."""
        disable_created_metrics()  # When each sample began to be counted would be as many again.
        self._registry = registry = CollectorRegistry()
        registry.register(_FromReport(report))

        def counter(name: str, words: str, *labels: str) -> Counter:
            return Counter(f"elastic_{name}", words, labels, registry=registry)

        def histogram(name: str, words: str, *labels: str) -> Histogram:
            return Histogram(f"elastic_{name}", words, labels, registry=registry, buckets=_SECONDS)

        self._generations = counter("generations", "Worlds that had executors.")
        self._losses = counter("losses", "Worlds that were lost, by how that was noticed.", "detected_by")
        self._recoveries = counter("recoveries", "Times that the run went on with another world.", "kind")
        self._recovery = histogram("recovery_seconds", "How long that took, by phase.", "kind", "phase")
        self._snapshots = counter("snapshots", "Snapshots that counted.")
        self._snapshot = histogram("snapshot_seconds", "How long each held the run up.")
        self._snapshot_bytes = counter("snapshots_bytes", "What they held, of one copy.")
        self._stored = counter("stored_checkpoints", "Snapshots that were written to disk.")
        self._stored_bytes = counter("stored_checkpoints_bytes", "What was written.")
        self._compilations = histogram("compilation_seconds", "How long a host compiled a program.")
        self._callbacks = counter("callbacks", "Calls of the client's functions.", "answered_by")
        self._replayed = counter("replayed_reads", "Reads that were compared with their replay.", "equal")
        self._takes: dict[str, Callable[[Event], None]] = {
            "generation": lambda _: self._generations.inc(),
            "lost": lambda event: self._losses.labels(event["detected_by"]).inc(),
            "recovered": self._recovered,
            "saved": self._saved,
            "stored": self._written,
            "compiled": lambda event: self._compilations.observe(event["seconds"]),
            "callback": lambda _: self._callbacks.labels("client").inc(),
            "repeated": lambda _: self._callbacks.labels("journal").inc(),
            "verified": lambda event: self._replayed.labels("yes" if event["equal"] else "no").inc(),
        }
        self.kinds = tuple(self._takes)
        """The events that are counted."""

    def feed(self, event: Event) -> None:
        """Counts an event, of one of these kinds."""
        self._takes[event.kind](event)

    def page(self) -> bytes:
        """All, as it is now."""
        return generate_latest(self._registry)

    def _recovered(self, event: Event) -> None:
        phases = {"detect": event["detect"], **event["phases"]}
        self._recoveries.labels(event["kind"]).inc()
        for phase, seconds in {**phases, "total": sum(phases.values())}.items():
            self._recovery.labels(event["kind"], phase).observe(seconds)

    def _saved(self, event: Event) -> None:
        self._snapshots.inc()
        self._snapshot.observe(event["seconds"])
        self._snapshot_bytes.inc(event["bytes"])

    def _written(self, event: Event) -> None:
        self._stored.inc()
        self._stored_bytes.inc(event["bytes"])


class _FromReport:
    """What need not be counted, since the run knows it."""

    def __init__(self, report: Callable[[], Report]) -> None:
        self._report = report

    def describe(self) -> Iterator[Metric]:
        """Nothing: else a page would be made to learn the names."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        found = self._report()
        run, snapshot, journal = found["run"], found["snapshot"], found["journal"]
        about = GaugeMetricFamily("elastic_run", "1, of the run that there is.", labels=["run", "state"])
        about.add_metric([run["id"], run["state"]], 1)
        yield about
        yield CounterMetricFamily("elastic_operations", "What the client has sent.", run["operations"])
        yield GaugeMetricFamily("elastic_client_connected", "1 while there is a client.", int(run["client_connected"]))
        yield GaugeMetricFamily("elastic_virtual_devices", "Those that the client sees.", run["virtual_devices"])
        yield _hosts(found)
        yield GaugeMetricFamily("elastic_snapshot_bytes", "Of one copy of the one that counts.", snapshot["bytes"])
        if snapshot["age_s"] is not None:
            yield GaugeMetricFamily("elastic_snapshot_age_seconds", "Since it counts.", snapshot["age_s"])
        yield GaugeMetricFamily("elastic_journal_operations", "What would be told again.", journal["operations"])
        yield GaugeMetricFamily("elastic_journal_bytes", "What that takes in memory.", journal["bytes"])
        yield from _goodput(found["goodput"])
        yield _refusals(found)


def _hosts(found: Report) -> Metric:
    hosts = GaugeMetricFamily("elastic_hosts", "Hosts that take part or did, by state.", labels=["state"])
    states = [host["state"] for host in found["hosts"]]
    for state in (*State, UNREACHABLE):
        hosts.add_metric([str(state)], states.count(str(state)))
    return hosts


def _goodput(goodput: Report) -> Iterator[Metric]:
    words = "What the run's time was spent on. A silence is booked anew when it turns out to be a loss."
    seconds = GaugeMetricFamily("elastic_goodput_seconds", words, labels=["entry"])
    for entry, value in goodput["seconds"].items():
        seconds.add_metric([entry], value)
    yield seconds
    yield GaugeMetricFamily("elastic_goodput_ratio", "Productive time since the first value.", goodput["share"])


def _refusals(found: Report) -> Metric:
    refused = CounterMetricFamily("elastic_refused_connections", "By whom, and why.", labels=["by", "reason"])
    for by, counts in [("controller", found["run"]["refused"]), *((h["id"], h["refused"]) for h in found["hosts"])]:
        for reason, count in counts.items():
            refused.add_metric([by, reason], count)
    return refused
