"""`python -m elastic.supervisor`: keeps a background pool; `elastic up` starts it, `elastic down` ends it.

Prints one line of JSON on stdout, {"ready": ...} or {"failed": ...}, and then nothing more. It is a session of its own,
so no terminal ends it; SIGTERM does.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import sys
import time

from elastic import pool_target
from elastic.background_pool import BackgroundPool, about
from elastic.errors import ElasticError, UsageError
from elastic.local_pool import StartInterrupted
from elastic.signals import SignalReader

_ENDS = (signal.SIGTERM, signal.SIGINT)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m elastic.supervisor", description=__doc__)
    parser.add_argument("--hosts", type=int, required=True)
    parser.add_argument("--devices-per-host", type=int, required=True)
    parser.add_argument("--listen", metavar="HOST:PORT")
    parser.add_argument("--log-dir", metavar="DIR")
    arguments = parser.parse_args()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    pool = BackgroundPool(arguments.hosts, arguments.devices_per_host, arguments.listen, arguments.log_dir)
    with SignalReader(_ENDS) as signals:
        try:
            pool.start(signals.fileno())
        except StartInterrupted:
            return 1
        except ElasticError as error:
            print(json.dumps({"failed": str(error), "usage": isinstance(error, UsageError)}), flush=True)
            return 1
        try:
            address = pool.pool_address(pool.directory)
            pool_target.save(pool.directory, address, pool.hosts, pool.devices_per_host)
            print(json.dumps({"ready": about(pool)}), flush=True)
            _let_go_of_terminal(pool)
            _keep(pool, signals)
        finally:
            pool.stop()
    return 0


def _keep(pool: BackgroundPool, signals: SignalReader) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(pool, selectors.EVENT_READ)
        selector.register(signals, selectors.EVENT_READ)
        while True:
            deadline = pool.deadline()
            selector.select(None if deadline is None else max(0.0, deadline - time.monotonic()))
            if signals.read():
                return
            pool.poll()


def _let_go_of_terminal(pool: BackgroundPool) -> None:
    """Nobody waits for what this process says from now on."""
    log = os.open(pool.directory.logs / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(log, 2)
    os.close(nowhere)
    os.close(log)


if __name__ == "__main__":
    sys.exit(main())
