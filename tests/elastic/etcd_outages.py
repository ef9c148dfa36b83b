"""Runs whose etcd fails: a leader killed over and over, all nodes down for a while.

    python -m tests.elastic.etcd_outages [--leaders 24] [--every 5] [--down 60]

A pool of three nodes of a real etcd, two hosts, a run. In the end a host is killed, for which the run needs etcd: it
must go on. Exit code 1 if a host was said to be lost before, if the run did not make steps all the time, or if it did
not end with the numbers of a run whose etcd was well.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import secrets
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from membership import Etcd, MemberStatus, PoolAddress, Timing, Watch
from tests.elastic.connections import PATIENCE
from tests.elastic.hosts import Command
from tests.elastic.runs import run_to_end
from tests.membership.servers import FAST_ELECTION_MS, RealEtcd
from tests.membership.writing import write_surely

# A step for every so many milliseconds: what is looked at is time, not work.
SCRIPT = """
import sys, time
from pathlib import Path
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
sharding = NamedSharding(Mesh(np.array(jax.devices()), "d"), P("d"))
x = jax.device_put(np.arange(24.0, dtype=np.float32), sharding)
step = jax.jit(lambda a, i: (a * 1.01 - a.sum() / 24 + i, a.max()))
i = 0
while i < 200 or not Path(sys.argv[1]).exists():
    x, top = step(x, i)
    if i < 200:
        print(f"step {i} {float(top).hex()}", flush=True)
    else:
        print(f"at {time.monotonic()} {np.isfinite(float(top))}", flush=True)
    time.sleep(0.02)
    i += 1
print("done", flush=True)
"""
LONGEST_STEP_S = 2.0
ALERT = Timing(call=5.0, attempt=0.5, connect=0.3, quiet=0.3)


class Events:
    """Numbers that are written to a key one after the other, and a watch that sees them; in a thread."""

    def __init__(self, address: PoolAddress) -> None:
        self._address = address
        self._ends = threading.Event()
        self.seen: list[int] = []
        self.written = 0
        self._last: int | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._play()), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Returns when the last number has been seen."""
        self._ends.set()
        self._thread.join(60)
        assert self.seen == list(range(self.written + 1)), "an event was lost or repeated"

    async def _play(self) -> None:
        async with Etcd(self._address, ALERT) as writer, Etcd(self._address, ALERT) as watcher:
            await write_surely(writer, "numbers", 0)
            kv = await writer.get("numbers")
            assert kv is not None
            reading = asyncio.create_task(self._read(watcher.watch("numbers", kv.mod_revision - 1)))
            while not self._ends.is_set():
                await self._write(writer)
            self._last = self.written + 1
            await self._write(writer)
            await reading

    async def _write(self, writer: Etcd) -> None:
        await write_surely(writer, "numbers", self.written + 1)
        self.written += 1

    async def _read(self, events: Watch) -> None:
        async for event in events:
            self.seen.append(int(event.kv.value))  # type: ignore[union-attr]
            if self.seen[-1] == self._last:
                return


class Outages:
    """A run on two hosts of a pool with an etcd of three nodes; a context manager."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.etcd = RealEtcd(directory, 3, election_ms=FAST_ELECTION_MS)
        secret = directory / "secret"
        secret.write_text(secrets.token_hex(32))
        (directory / "base").mkdir()
        self.environment = {"ELASTIC_RUN_BASE": str(directory / "base"), "ELASTIC_SECRET_FILE": str(secret)}
        self._script = directory / "script.py"
        self._script.write_text(SCRIPT)
        self._end = directory / "end"
        self._killed = 0.0
        self.commands: list[Command] = []

    def __enter__(self) -> Outages:
        self.etcd.start()
        self.url = f"etcd://{','.join(self.etcd.endpoints)}/p"
        for name in ("a1", "a2"):
            self._start("host", "--pool", self.url, "--id", name).wait_for("registered")
        self.run = self._start("run", "--pool", self.url, "--hosts", "2", str(self._script), str(self._end))
        self.run.wait_for("step 199 ")
        return self

    def __exit__(self, *_: object) -> None:
        for command in reversed(self.commands):
            command.__exit__()
        self.etcd.kill()

    def kill_leader(self) -> None:
        """Kills the leader, and starts that node again when the others have another."""
        old = self.etcd.node(self.leader())
        old.kill()
        while self.leader() == old.endpoint:
            pass
        self.etcd.restart(old)

    def leader(self) -> str:
        """The endpoint of the node that leads, once there is one."""

        async def ask() -> str:
            async with asyncio.timeout(PATIENCE), Etcd(self.etcd.address(), ALERT) as etcd:
                while True:
                    for endpoint, status in (await etcd.status()).items():
                        if isinstance(status, MemberStatus) and status.leads:
                            return endpoint

        return asyncio.run(ask())

    def steps_of(self, seconds: float) -> None:
        """Lets the run go on for so long."""
        until = time.monotonic() + seconds
        self.run.wait_until(lambda: (times := self.times()) and times[-1] > until, seconds + 60, "more steps")

    def times(self) -> list[float]:
        """When the steps after the first ones were finished."""
        return [float(line.split()[1]) for line in self.run.lines if line.startswith("at ")]

    def kill_a_host(self) -> None:
        """Kills an executor, and waits until the run has gone on without."""
        report = json.loads(self._finish("health", "--json", "--pool", self.url))
        pid = next(host["executor_pid"] for host in report["hosts"] if host["executor_pid"])
        self._killed = time.monotonic()
        psutil.Process(pid).kill()
        self.run.wait_for("was lost")
        self.steps_of(1.0)

    def longest_steps(self) -> tuple[float, float]:
        """Seconds of the longest step while only etcd failed, and of the one in which a host did."""
        steps = list(itertools.pairwise(self.times()))
        before = max(later - sooner for sooner, later in steps if later < self._killed)
        return before, max(later - sooner for sooner, later in steps if later >= self._killed)

    def finish(self) -> None:
        """Ends the run and checks what it printed."""
        lost = [line for line in self.run.lines if "was lost" in line]
        self._end.touch()
        assert self.run.finish() == 0, self.run.text
        assert len(lost) == 1, lost
        longest, _ = self.longest_steps()
        assert longest < LONGEST_STEP_S, f"the run stood still for {longest:.1f} s while only etcd failed"
        assert not any("False" in line for line in self.run.lines)
        undisturbed = run_to_end(self._script, str(self._end), hosts=2, devices=2)
        steps = [line for line in self.run.lines if line.startswith("step ")]
        assert steps == [line for line in undisturbed.output if line.startswith("step ")]

    def _start(self, *arguments: str) -> Command:
        command = Command(*arguments, environment=self.environment)
        self.commands.append(command)
        return command

    def _finish(self, *arguments: str) -> str:
        with Command(*arguments, environment=self.environment) as command:
            command.finish()
            return command.text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaders", type=int, default=24)
    parser.add_argument("--every", type=float, default=5.0)
    parser.add_argument("--down", type=float, default=60.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="e", dir="/dev/shm") as directory, Outages(Path(directory)) as outages:
        events = Events(outages.etcd.address())
        for number in range(args.leaders):
            outages.kill_leader()
            outages.steps_of(args.every)
            print(f"{number + 1} leaders killed", flush=True)
        events.stop()
        print(f"{len(events.seen)} events were written meanwhile; none was lost, none repeated", flush=True)
        outages.etcd.kill()
        outages.steps_of(args.down)
        print(f"all nodes were down for {args.down:.0f} s", flush=True)
        outages.etcd.start()
        outages.kill_a_host()
        outages.finish()
        longest, lost = outages.longest_steps()
        print(f"the longest step took {longest:.2f} s, and {lost:.2f} s when a host was killed; all as without")
    return 0


if __name__ == "__main__":
    sys.exit(main())
