"""Placement: which host owns which virtual device, as a pure function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Placement:
    """virtual device -> (rank, local index) in one generation; `hosts` names the ranks."""

    generation: int
    hosts: tuple[str, ...]
    owners: tuple[tuple[int, int], ...]
    reason: str

    def ranks(self, devices: Sequence[int]) -> tuple[int, ...]:
        """The ranks that own any of the virtual devices, ascending."""
        return tuple(sorted({self.owners[device][0] for device in devices}))

    def host_of(self, device: int) -> str:
        """The host that owns a virtual device."""
        return self.hosts[self.owners[device][0]]

    def local_devices(self, rank: int) -> tuple[int, ...]:
        """The virtual devices of one rank, in the order of their local indices."""
        return tuple(device for device, (owner, _) in enumerate(self.owners) if owner == rank)


def spread(generation: int, hosts: Sequence[str], devices: int) -> Placement:
    """Contiguous blocks of virtual devices, as equal as they can be, over the hosts in their order.

    Neighbours in a mesh are mostly neighbours in number, so blocks keep most of their traffic inside a host.
    Raises `ValueError` if there is no host, or a host would own nothing.
    """
    if not hosts or devices < len(hosts):
        raise ValueError(f"{devices} virtual devices cannot be spread over {len(hosts)} hosts")
    owners: list[tuple[int, int]] = []
    used = [0] * len(hosts)
    for device in range(devices):
        rank = device * len(hosts) // devices
        owners.append((rank, used[rank]))
        used[rank] += 1
    reason = f"{devices} virtual devices spread evenly over {len(hosts)} host{'s' if len(hosts) != 1 else ''}"
    return Placement(generation, tuple(hosts), tuple(owners), reason)
