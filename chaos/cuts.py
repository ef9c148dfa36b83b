"""Which ways of the network each kind of cut takes. Pure; the cable is in `chaos.network`."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.network import GATEWAY, Way

ETCD = "etcd"
"""The name under which etcd stands in the network."""


def ways(fault: str, host: str, hosts: Sequence[str]) -> list[Way]:
    """What is lost: each way from a sender to a receiver.

    Args:
        fault: `cut`, or one of the faults that begin with `cut-`.
        host: that is cut off.
        hosts: all of them.
    """
    peers = [peer for peer in hosts if peer != host]
    others = {"cut-peers": peers, "cut-controller": [GATEWAY], "cut-etcd": [ETCD]}.get(fault, [*peers, GATEWAY, ETCD])
    to, of = [(other, host) for other in others], [(host, other) for other in others]
    return {"cut-in": to, "cut-out": of}.get(fault, [*to, *of])
