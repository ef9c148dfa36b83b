"""Whom this host reaches: a connection to each of some other agents. Not for: whether these move, which others see.

Only the kernels of both sides have to answer in time, since an agent that is frozen or busy is not cut off. What
follows, the proof of the secret and a farewell, is a matter of courtesy: else the other side would count a stranger.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Sequence

from elastic import calling
from elastic.handshake import HandshakeError

_CONNECT_S = 1.5
"""How long a connection may take: long enough for a second try of the kernel, which it makes after a second."""

_FAREWELL_S = 5.0


class Reach:
    """Connects to other agents."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._farewells: set[asyncio.Task[None]] = set()

    async def unreached(self, addresses: Sequence[str]) -> list[str]:
        """Those of the addresses to which no connection can be had."""
        reached = await asyncio.gather(*map(self._reaches, addresses))
        return [address for address, there in zip(addresses, reached, strict=True) if not there]

    def close(self) -> None:
        for farewell in self._farewells:
            farewell.cancel()

    async def _reaches(self, address: str) -> bool:
        try:
            async with asyncio.timeout(_CONNECT_S):
                sock = await calling.connect(address)
        except ConnectionRefusedError:
            return True  # By the other side's kernel, since no agent is there: that is another's to notice.
        except OSError:
            return False
        farewell = asyncio.get_running_loop().create_task(self._part(sock))
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)
        return True

    async def _part(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError, HandshakeError):
            async with asyncio.timeout(_FAREWELL_S):
                link = await calling.link_over(sock, self._secret, {"role": "probe"}, lambda *_: None, lambda _: None)
                link.close()
