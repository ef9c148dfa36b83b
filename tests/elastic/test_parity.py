"""Runs whose shards are protected by parity and whose hosts are killed: they print the same, to the last bit."""

import contextlib
import os
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from elastic import fault_points
from elastic.status_client import StatusClient
from tests.elastic.processes import wait_gone
from tests.elastic.runs import Run, run_to_end

SCRIPT = Path(__file__).with_name("training_loop.py")
STEPS = 16
WIDE = {"WIDTH": "128"}
"""Shards of 64 KiB: smaller ones are copied."""


class Loop:
    """A loop whose parameters and optimizer state are cut over all hosts; it goes as far as it is let."""

    def __init__(self, directory, protection):
        self.pace = directory / "pace"
        self.pace.write_text("0")
        self.base = directory
        self.run = Run(
            *(SCRIPT, "sharded", str(STEPS), str(self.pace)),
            hosts=4,
            devices=1,
            options=(f"--protect={protection}", "--snapshot-budget=0.5", f"--log-dir={directory / 'logs'}"),
            environment={
                **WIDE,
                "ELASTIC_RUN_BASE": str(directory),
                fault_points.DIRECTORY: str(directory),
            },
        )

    def go_to(self, step):
        """Has the loop finish a step, and stop before the next one."""
        new = self.pace.with_name("new")
        new.write_text(str(step))
        new.rename(self.pace)
        self.run.wait_for(f"step {step} ", 120)

    def until_saved(self, hosts=4):
        """The report when so many hosts take part and all that was done is in a snapshot."""

        def saved(report):
            run, snapshot = report["run"], report["snapshot"]
            used = [host for host in report["hosts"] if host["virtual_devices"] and host["state"] == "healthy"]
            return run["state"] == "running" and len(used) == hosts and snapshot["operation"] == run["operations"]

        [directory] = self.base.glob("elastic-*")
        secret = bytes.fromhex((directory / "secret").read_text())
        with StatusClient(f"unix:{directory}/client.sock", secret, timeout_s=30) as client:
            give_up = time.monotonic() + 60
            while time.monotonic() < give_up:
                if saved(report := client.report()):
                    return report
        raise AssertionError(f"it was not saved: {report}")

    def rot(self, host):
        """One bit flips in each large block of its memory, of shards and of parity; the names of these blocks."""
        [memory] = self.base.glob(f"elastic-*/memory/{host}")
        rotten = []
        for path in memory.iterdir():
            # What another snapshot gives back at this moment can rot no more.
            with contextlib.suppress(FileNotFoundError), path.open("r+b") as file:
                if os.fstat(file.fileno()).st_size > 60_000:
                    first = file.read(1)[0]
                    file.seek(0)
                    file.write(bytes([first ^ 4]))
                    rotten.append(path.name)
        return rotten

    @property
    def log(self):
        """What the controller noted."""
        return (self.base / "logs" / "controller.log").read_text()

    def kill(self, report, *hosts):
        """Kills hosts at once, with all that is in their memory; the launcher starts others in their place."""
        pids = [host["agent_pid"] for host in report["hosts"] if host["id"] in hosts]
        assert len(pids) == len(hosts)
        for pid in pids:
            psutil.Process(pid).kill()
        wait_gone(pids)

    def finish(self):
        self.go_to(STEPS - 1)
        assert self.run.finish(120) == 0, self.run.text
        return self.run.output


@contextlib.contextmanager
def loop(protection):
    with tempfile.TemporaryDirectory(prefix="e", dir="/dev/shm") as directory:
        made = Loop(Path(directory), protection)
        with made.run:
            yield made


@pytest.fixture(scope="module")
def undisturbed():
    run = run_to_end(SCRIPT, "sharded", str(STEPS), hosts=4, devices=1, environment=WIDE)
    assert run.process.returncode == 0, run.text
    return run.output


def test_one_host_after_the_other_is_killed(undisturbed):
    with loop("parity=3+1") as made:
        made.go_to(3)
        report = made.until_saved()
        snapshot = report["snapshot"]
        assert snapshot["protection"] == "parity=3+1"
        assert 0.3 < snapshot["parity_bytes"] / snapshot["bytes"] < 0.4
        made.kill(report, "h1")
        made.go_to(8)
        made.kill(made.until_saved(), "h2")
        assert made.finish() == undisturbed
        assert sum("was lost" in line for line in made.run.errors) == 2


def test_two_hosts_are_killed_at_once(undisturbed):
    with loop("parity=2+2") as made:
        made.go_to(3)
        made.kill(made.until_saved(), "h0", "h3")
        made.go_to(8)
        made.until_saved()  # There are four again; what is saved now may still be that of two.
        made.go_to(12)
        assert made.until_saved()["snapshot"]["parity_bytes"] > 0
        assert made.finish() == undisturbed


def test_a_host_dies_while_it_makes_parity(undisturbed):
    with loop("parity=3+1") as made:
        made.go_to(3)
        made.until_saved()
        fault_points.arm(made.base, "parity")
        made.go_to(8)
        made.run.wait_for("was lost", 120)
        assert made.finish() == undisturbed


def test_a_host_is_killed_when_the_memory_of_another_has_rotted(undisturbed):
    with loop("parity=2+2") as made:
        made.go_to(3)
        report = made.until_saved()
        rotten = made.rot("h1")
        assert rotten
        made.kill(report, "h2")
        made.go_to(8)
        named = [name for name in rotten if f"the copy {name} on host h1 is bad" in made.log]
        assert named
        assert all(made.log.count(f"{name} on host h1 is bad") == 1 for name in named)
        assert made.finish() == undisturbed
