"""What an agent makes of jobs (see `elastic.agent.parity`), for hosts whose memory is a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from checkpoint import Codec
from elastic.controller.hosts import Made
from elastic.host_memory import digest_of


def made_of(
    jobs: Sequence[dict[str, Any]], find: Callable[[str, bytes], bytes | None], save: Callable[[bytes, bytes], None]
) -> Made:
    """Makes blocks; `find(address, digest)` gives the good ones, and of the host itself where there is no address."""
    digests: list[bytes] = []
    bad: list[tuple[str, bytes]] = []
    problem = None
    for job in jobs:
        there: dict[int, bytes] = {}
        places = ((number, name, address) for number, name, _, addresses in job["blocks"] for address in addresses)
        for number, name, address in places:
            if number in there or len(there) == job["k"]:
                continue
            data = find(address, name)
            if data is None:
                bad.append((address, name))
            else:
                there[number] = data
        if len(there) < job["k"]:
            digests.append(b"")
            problem = problem or "too few blocks are good"
            continue
        data = bytes(Codec(job["k"], job["m"]).make(job["want"], there, max(map(len, there.values()))))[: job["bytes"]]
        assert job["digest"] in (b"", digest_of(data))
        digests.append(digest_of(data))
        save(digests[-1], data)
    return Made(digests, bad, problem)
