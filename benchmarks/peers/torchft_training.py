"""A small training with torchft on gloo: replica groups of one process each, a lighthouse, and a supervisor.

    python benchmarks/peers/torchft_training.py [--replicas 4]

Data parallel over the replica groups, 100,000 parameters with momentum. A group that dies is started again at once and
gets its state from another. Group 0 prints `step NUMBER LOSS SECONDS` for each step that was committed.
"""

import argparse
import datetime
import itertools
import os
import signal
import subprocess
import sys
import time

WIDTHS = (128, 256, 256, 10)
BATCH = 256


def run_replica(index: int, replicas: int, lighthouse: str) -> None:
    """One replica group."""
    import torch
    from torch import nn
    from torch.distributed import TCPStore
    from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

    torch.set_num_threads(1)
    torch.manual_seed(0)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    layers: list[nn.Module] = []
    for rows, columns in itertools.pairwise(WIDTHS):
        layers += [nn.Linear(rows, columns), nn.ReLU(), nn.Dropout(0.1)]
    network = nn.Sequential(*layers[:-2])
    inner = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)

    def load(state: dict) -> None:
        network.load_state_dict(state["network"])
        inner.load_state_dict(state["optimizer"])

    manager = Manager(
        pg=ProcessGroupGloo(timeout=datetime.timedelta(seconds=5)),
        load_state_dict=load,
        state_dict=lambda: {"network": network.state_dict(), "optimizer": inner.state_dict()},
        min_replica_size=1,
        timeout=datetime.timedelta(seconds=10),
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        lighthouse_addr=lighthouse,
        replica_id=f"replica{index}_",
        hostname="127.0.0.1",
    )
    model, optimizer = DistributedDataParallel(manager, network), Optimizer(manager, inner)
    while True:
        step = manager.current_step()
        generator = torch.Generator().manual_seed(step * replicas + index)
        x_BxD = torch.randn(BATCH // replicas, WIDTHS[0], generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x_BxD), x_BxD[:, : WIDTHS[-1]].abs().argmax(1))
        loss.backward()
        optimizer.step()
        if index == 0 and manager.current_step() > step:
            print("step", step, loss.item(), time.monotonic(), flush=True)


def supervise(replicas: int) -> None:
    """Runs the lighthouse here and the groups as children, for ever."""
    from torchft.coordination import LighthouseServer

    lighthouse = LighthouseServer(
        bind="127.0.0.1:0", min_replicas=1, join_timeout_ms=1000, quorum_tick_ms=20, heartbeat_timeout_ms=1000
    )
    address = f"http://127.0.0.1:{lighthouse.address().rsplit(':', 1)[1]}"
    command = [sys.executable, __file__, "--replicas", str(replicas), "--lighthouse", address, "--replica"]
    children: dict[int, subprocess.Popen[bytes]] = {}
    try:
        while True:
            for index in range(replicas):
                if index not in children or children[index].poll() is not None:
                    children[index] = subprocess.Popen([*command, str(index)])
            time.sleep(0.05)
    finally:
        for child in children.values():
            child.kill()
        for child in children.values():
            child.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--replica", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--lighthouse", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.replica is not None:
        run_replica(args.replica, args.replicas, args.lighthouse)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    supervise(args.replicas)


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.setdefault("RUST_LOG", "error")
    main()
