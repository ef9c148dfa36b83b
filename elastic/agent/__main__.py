"""`python -m elastic.agent`: one host's agent, as the launcher of a local pool starts it."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path

import membership.forking  # noqa: F401  Before anything that imports gRPC.
from elastic import stacks
from elastic.agent.agent import HostSettings, Reporter, read_secret, serve
from elastic.agent.device_health import every_of
from elastic.run_directory import RunDirectory
from membership import HostRecord, MembershipError, PoolAddress


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m elastic.agent", description=__doc__)
    parser.add_argument("--id", required=True, help="the host's name in the pool")
    parser.add_argument("--devices", type=int, required=True, help="how many devices it contributes")
    parser.add_argument("--pool", required=True, metavar="URL", help="the pool's etcd")
    parser.add_argument("--listen", default="127.0.0.1:0", help="HOST:PORT to listen on")
    parser.add_argument("--run-dir", type=Path, required=True, help="directory of the run; holds the secret and logs")
    arguments = parser.parse_args()
    stacks.offer()
    run_dir: Path = arguments.run_dir
    os.environ["ELASTIC_SECRET_FILE"] = str(run_dir / "secret")

    def ready(host: HostRecord) -> None:
        print(json.dumps({"ready": {"id": host.id, "address": host.address, "pid": host.pid}}), flush=True)

    try:
        settings = HostSettings(
            id=arguments.id,
            devices=arguments.devices,
            listen=arguments.listen,
            secret=read_secret(run_dir / "secret"),
            log=run_dir / "logs" / f"{arguments.id}-executors.log",
            memory=run_dir / "memory" / arguments.id,
            check_every=every_of(os.environ),
        )
        asyncio.run(serve(settings, PoolAddress.parse(arguments.pool), sys.stdin.fileno(), Reporter(ready)))
    except (OSError, ValueError, MembershipError) as error:
        print(json.dumps({"failed": f"host {arguments.id} cannot start: {error}"}), flush=True)
        return 1
    # If the launcher is gone, however it went, nobody else removes what it made.
    RunDirectory(run_dir).remove_if_orphaned()
    return 0


if __name__ == "__main__":
    sys.exit(main())
