"""Plain multi-process JAX on one machine: `jax.distributed` and gloo, one process a host.

    python benchmarks/peers/multiprocess_jax.py --hosts 4 --devices-per-host 2 SCRIPT [ARGS...]

Runs the script in every process, as a user without a platform would. When one process fails, the others are ended too,
because they would wait for it in a collective; with `--restart` all are then started again.
"""

import argparse
import os
import runpy
import signal
import socket
import subprocess
import sys
import time


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_process(index: int, hosts: int, port: int, script: str, args: list[str]) -> None:
    """One process of the world."""
    import jax

    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=hosts, process_id=index)
    sys.argv = [script, *args]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


def run_world(hosts: int, devices_per_host: int, script: str, args: list[str]) -> int:
    """All processes, until every one has ended well or one has not. Returns the exit code of the first that failed."""
    env = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(devices_per_host),
        "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
    }
    command = [sys.executable, __file__, "--hosts", str(hosts), "--port", str(free_port())]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for index in range(hosts):
            processes.append(subprocess.Popen([*command, "--index", str(index), script, *args], env=env))
        while True:
            codes = [process.poll() for process in processes]
            failed = [code for code in codes if code]
            if failed:
                return failed[0] if failed[0] > 0 else 128 - failed[0]
            if None not in codes:
                return 0
            time.sleep(0.05)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--devices-per-host", type=int, default=2)
    parser.add_argument("--restart", action="store_true", help="until the script ends well")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--index", type=int, help=argparse.SUPPRESS)
    parser.add_argument("script")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if args.index is not None:
        run_process(args.index, args.hosts, args.port, args.script, args.args)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        while True:
            code = run_world(args.hosts, args.devices_per_host, args.script, args.args)
            if code == 0 or not args.restart:
                return code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
