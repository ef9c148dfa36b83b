"""Hosts that are cut off under a run, from all or from each other, and come back; in network namespaces."""

import re
import secrets
import sys
import tempfile
from pathlib import Path

import pytest

from chaos.network import GATEWAY, Network, missing
from elastic.pool_secret import FILE
from membership import PASSWORD_FILE
from tests.elastic.hosts import Command
from tests.elastic.runs import run_to_end
from tests.membership.servers import launch_embedded, ready_line

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

SCRIPT = """
import os, sys, time
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
sharding = NamedSharding(Mesh(np.array(jax.devices()), "d"), P("d"))
x = jax.device_put(np.arange(24.0, dtype=np.float32), sharding)
step = jax.jit(lambda a, i: (a * 1.01 - a.sum() / 24 + i, a.max()))
for i in range(60):
    x, top = step(x, i)
    print(f"step {i} {float(top).hex()}", flush=True)
    while i in (20, 40) and len(sys.argv) > 1 and not os.path.exists(f"{sys.argv[1]}-{i}"):
        time.sleep(0.01)
print(np.asarray(x).tobytes().hex())
"""


EVERYBODY = [("h2", other) for other in ("h1", GATEWAY)]
PEERS = [("h2", "h1")]


@pytest.mark.parametrize(
    ("others", "loss", "back"),
    [
        # It was cut off from etcd, too: its lease is over, and it registers as another incarnation.
        pytest.param(EVERYBODY, r"host (h2) was lost: .*silent", "it joined", id="from all"),
        # Each of the two is cut off from the other: the one of the higher rank is done without, whichever that is.
        pytest.param(
            PEERS,
            r"host (h\d) was lost: it is cut off from",
            "the other hosts reach it again",
            id="from the other host",
        ),
    ],
)
def test_a_run_goes_on_without_a_host_that_is_cut_off_and_uses_it_again_when_it_is_back(others, loss, back):
    ways = [*others, *((receiver, sender) for sender, receiver in others)]
    with tempfile.TemporaryDirectory(prefix="c", dir="/dev/shm") as path, Network(["h1", "h2"]) as network:
        directory = Path(path)
        (directory / "base").mkdir()
        (directory / "script.py").write_text(SCRIPT)
        secret = directory / "secret"
        secret.write_text(secrets.token_hex(32))
        server = launch_embedded(("--listen", f"{network.gateway}:0", "--allow-remote", "--secret-file", str(secret)))
        try:
            pool = str(ready_line(server)["address"])
            environment = {FILE: str(secret), PASSWORD_FILE: str(secret), "ELASTIC_RUN_BASE": str(directory / "base")}
            output = play(pool, environment, network, directory, ways, loss, back)
        finally:
            server.kill()
            server.wait()
    assert output == undisturbed()


def play(pool, environment, network, directory, ways, loss, back):
    """What the script prints while one of its two hosts is cut off, is lost for that, and comes back."""

    def host(name):
        options = ("host", "--pool", pool, "--id", name, "--listen", f"{network.address(name)}:0")
        return Command(*options, environment=environment, program=network.command(name, ELASTIC))

    go = str(directory / "go")
    with host("h1") as first, host("h2") as second:
        first.wait_for("registered")
        second.wait_for("registered")
        with Command(
            "run", "--pool", pool, "--hosts=2", str(directory / "script.py"), go, environment=environment
        ) as run:
            run.wait_for("step 20 ")
            network.sever(ways)
            Path(f"{go}-20").touch()  # Who computes nothing needs no other host.
            lost = re.search(loss, run.wait_for("was lost: "))
            assert lost, run.text
            run.wait_for("step 40 ")  # Without it.
            network.mend(ways)
            run.wait_for(f"host {lost[1]} changed: {back}")
            Path(f"{go}-40").touch()
            assert run.finish() == 0, run.text
            assert sum("was lost" in line for line in run.lines) == 1, run.text
            return [line for line in run.lines if not line.startswith("elastic:")]


ELASTIC = (sys.executable, "-m", "elastic.cli")


def undisturbed():
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "script.py"
        script.write_text(SCRIPT)
        run = run_to_end(script, hosts=2, devices=2)
        assert run.process.returncode == 0, run.text
        return run.output
