"""What is told of a run's time, by a run of real processes of which a host is killed."""

import json
import os
import re
import signal
import tempfile
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from chaos.entries import ENTRIES
from chaos.history import parse
from chaos.ledger import ledger
from elastic.controller.history import FILE
from elastic.status_client import StatusClient
from tests.elastic.runs import Run
from tests.elastic.status_contract import check_report

LOOP = """
import sys, jax, numpy as np
from pathlib import Path
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
sharding = NamedSharding(Mesh(np.array(jax.devices()), "d"), P("d"))
x = jax.device_put(np.arange(6.0, dtype=np.float32), sharding)
step = jax.jit(lambda a: a - a.sum() / 6 + 1)
steps = 0
while not Path(sys.argv[1]).exists():
    x = step(x)
    float(x[0])
    steps += 1
    if steps == 5:
        print("running", flush=True)
"""


@pytest.fixture
def base():
    """Where this test's pool is, and no other."""
    with tempfile.TemporaryDirectory(prefix="e", dir="/dev/shm") as path:
        yield Path(path)


def report(base, condition):
    """The first report of the run's controller that fulfils a condition; asks until there is one."""
    [directory] = base.glob("elastic-*")
    secret = bytes.fromhex((directory / "secret").read_text())
    with StatusClient(f"unix:{directory}/client.sock", secret, timeout_s=30) as client:
        while not condition(found := client.report()):
            pass
    check_report(found)
    return found


def scraped(url):
    """Sample -> value, with its labels behind its name."""
    families = text_string_to_metric_families(urllib.request.urlopen(url, timeout=30).read().decode())
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_after_a_host_was_killed_metrics_trace_history_and_health_agree(base, tmp_path):
    script, stop, trace, told = (tmp_path / name for name in ("loop.py", "stop", "trace.json", "history"))
    script.write_text(LOOP)
    options = ("-v", "--metrics", "127.0.0.1:0", "--trace", str(trace))
    environment = {"ELASTIC_RUN_BASE": str(base), FILE: str(told)}
    with Run(script, str(stop), hosts=3, devices=1, options=options, environment=environment) as run:
        run.wait_for("metrics at")
        [url] = re.findall(r"metrics at (\S+)", run.text)
        run.wait_for("running")
        before = report(base, lambda _: True)
        victim = next(host for host in before["hosts"] if host["id"] == "h1")
        os.kill(victim["agent_pid"], signal.SIGKILL)
        lost = report(base, lambda found: any(one["kind"] == "lost" for one in found["failures"]))
        back = report(base, lambda found: found["goodput"]["seconds"]["productive"] > 1 + productive(lost))
        metrics = scraped(url)
        stop.touch()
        assert run.finish() == 0

    # Health and metrics.
    [failure] = [one for one in back["failures"] if one["kind"] == "lost"]
    assert metrics["elastic_losses_total", failure["detected_by"]] == 1
    assert metrics["elastic_recoveries_total", "lost"] == 1
    for phase, seconds in {**failure["phases_s"], "total": failure["total_s"]}.items():
        assert metrics["elastic_recovery_seconds_sum", "lost", phase] == pytest.approx(seconds, abs=1e-3)
    assert back["goodput"]["seconds"]["world"] == pytest.approx(failure["phases_s"]["world"], abs=2e-3)
    assert metrics["elastic_operations_total",] >= back["run"]["operations"]
    assert metrics["elastic_goodput_seconds", "productive"] >= productive(back)

    # The trace.
    items = json.loads(trace.read_text())
    [recovery] = [item for item in items if item["ph"] == "X" and item["name"] == "lost h1"]
    recovering = failure["total_s"] - failure["phases_s"]["detect"]
    assert recovery["dur"] / 1e6 == pytest.approx(recovering, abs=1e-3)
    assert {"h0", "h1", "h2"} <= {item["args"]["name"] for item in items if item["name"] == "thread_name"}
    spent = dict.fromkeys(ENTRIES, 0.0)
    for item in items:
        if item["ph"] == "X" and item["pid"] == 2:
            spent[item["name"]] += item["dur"] / 1e6

    # The history, of which the checkers of `elastic chaos` make their account.
    whole = ledger(parse(told.read_text())).seconds
    idle = {"idle": pytest.approx(spent["idle"], abs=1)}  # What comes after its last event is in the trace only.
    assert whole == {**{entry: pytest.approx(seconds, abs=0.01) for entry, seconds in spent.items()}, **idle}
    assert spent["productive"] > 1


def productive(found):
    return found["goodput"]["seconds"]["productive"]
