"""The package as a whole: what it needs, and that it does not disturb the process it lives in."""

from __future__ import annotations

import subprocess
import sys

from tests.membership.servers import ROOT, Embedded

FORKING = """
import asyncio, os, subprocess, sys
from membership import Etcd, PoolAddress

async def main():
    async with Etcd(PoolAddress.parse(sys.argv[1])) as etcd:
        for index in range(100):
            writing = asyncio.create_task(etcd.put("key", b"%d" % index))
            await asyncio.sleep(0)
            subprocess.run(["true"], preexec_fn=lambda: None, check=True)
            await writing

asyncio.run(main())
"""


def python(
    program: str, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        check=True,
        text=True,
        capture_output=True,
        cwd=ROOT,
        env=environment or {},
        timeout=60,
    )


def test_it_needs_neither_jax_nor_the_other_packages() -> None:
    loaded = python("import sys, membership.server.__main__; print(*sorted(sys.modules))").stdout.split()
    assert {name.partition(".")[0] for name in loaded}.isdisjoint({"jax", "jaxlib", "elastic", "checkpoint", "chaos"})


def test_a_process_that_uses_it_may_start_others(own_embedded: Embedded) -> None:
    address = own_embedded.address()
    done = python(FORKING, str(address), environment={"ELASTIC_ETCD_PASSWORD": own_embedded.password})
    assert done.stderr == ""
