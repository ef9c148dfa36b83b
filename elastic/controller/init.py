"""What the client learns of the pool when it connects: virtual devices and their memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from elastic.proto import ifrt_pb2 as pb

_RUNTIME_TYPE = "elastic"
"""Not "pathways": Orbax would take the bytes of checkpoints for a Pathways server's to write."""


def describe_client(session: int, devices: Sequence[dict[str, Any]]) -> pb.InitResponse:
    """The answer to InitRequest. `devices` are the virtual devices as their executors describe them, with the
    "slice" of each, if hosts are to look like slices.

    All belong to one process, the client's: it is the only one in which the user's program runs.
    """
    platform = devices[0]["platform"]
    response = pb.InitResponse(
        session_id=session,
        platform_name=platform,
        platform_version=f"elastic, {devices[0]['platform_version']}",
        platform_id=1,
        process_index=0,
        runtime_type=_RUNTIME_TYPE,
    )
    response.client_attributes.SetInParent()
    # What jax.export asks of a client before it serializes a program for it.
    response.client_attributes.attributes["serialize_with_sdy"].bool_value = True
    kinds = list(dict.fromkeys(kind for device in devices for kind in device["memories"]))
    for number, device in enumerate(devices):
        name = f"{platform.capitalize()}Device(id={number})"
        described = response.all_devices.add(
            id=number,
            local_device_id=number,
            local_hardware_id=number,
            platform_name=platform,
            device_kind=device["kind"],
            default_memory_id=_memory_id(number, kinds, device["default_memory"]),
            memory_ids=[_memory_id(number, kinds, kind) for kind in device["memories"]],
            debug_string=f"{platform}:{number}",
            to_string=name,
        )
        described.attributes.SetInParent()
        if "slice" in device:
            described.attributes.attributes["slice_index"].int64_value = device["slice"]
        for kind in device["memories"]:
            response.memories.add(
                id=_memory_id(number, kinds, kind),
                memory_space_kind=kind,
                kind_id=kinds.index(kind),
                device_ids=[number],
                debug_string=f"{kind} of {platform}:{number}",
                to_string=f"{kind} of {name}",
            )
        response.primary_device_ids.append(number)
        response.addressable_device_ids.append(number)
    return response


def _memory_id(device: int, kinds: Sequence[str], kind: str) -> int:
    return device * len(kinds) + kinds.index(kind)
