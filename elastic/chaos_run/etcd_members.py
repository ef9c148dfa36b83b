"""The etcd of a pool as processes of this machine, each of which can be killed, stopped and started again.

It is the embedded server, which is a member by itself and forgets everything with its end, or a real etcd of one or
three members, which keep what they know in the directory of the run.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

from chaos import EMBEDDED
from elastic.errors import PoolError, UsageError
from membership import PASSWORD_FILE, Etcd, EtcdUnavailable, MemberStatus, PoolAddress, Timing

T = TypeVar("T")

_PORT = 2379
_START_S = 30.0
_QUICK = Timing(call=2.0, attempt=0.5, connect=0.5)
"""For the runner, which has other things to do as well."""


def own_address() -> str:
    """An address of this machine that nobody else is likely to have, at which ports are free."""
    return f"127.213.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"


def check(kind: str) -> None:
    """Raises `UsageError` if there is no such etcd on this machine."""
    if kind != EMBEDDED:
        _program()


class EtcdMembers:
    """All members of one etcd.

    Raises `UsageError` if there is no etcd on this machine, `PoolError` if it does not start.
    """

    def __init__(
        self,
        kind: str,
        address: str,
        directory: Path,
        log: IO[bytes],
        environment: Mapping[str, str],
        within: Callable[[Sequence[str]], Sequence[str]],
    ) -> None:
        """
        Args:
            kind: one of `chaos.ETCDS`.
            address: where they listen.
            directory: of the run, with its secret.
            within: makes of a command the one that runs it where the address is.
        """
        embedded = kind == EMBEDDED
        secret = directory / "secret"
        self.variables = {PASSWORD_FILE: str(secret)} if embedded else {}
        """What its clients need to get in."""
        commands = [_embedded(address, secret)] if embedded else _real(int(kind), address, directory)
        endpoints = [f"{address}:{_port(index)}" for index in range(len(commands))]
        self.url = f"etcd://{'elastic@' if embedded else ''}{','.join(endpoints)}"
        self._endpoints = endpoints
        self._commands = [within(command) for command in commands]
        self._log, self._environment = log, environment
        self._members = [self._launch(command) for command in self._commands]
        try:
            self.wait_until_served()
        except PoolError:
            self.end()
            raise

    def wait_until_served(self) -> None:
        """Returns when it answers. Raises `PoolError` if it does not come to that."""
        try:
            self._ask(lambda etcd: etcd.get("/"), Timing(call=_START_S))
        except EtcdUnavailable as error:
            raise PoolError(f"the pool's etcd does not serve: {error}") from error

    # What happens to it

    def kill_leader(self) -> None:
        """Kills the member that leads. Raises `PoolError` if nobody does."""
        _kill(self._members[self._leader()])

    def kill(self) -> None:
        """Kills all members."""
        for member in self._members:
            _kill(member)

    def start_again(self) -> None:
        """Starts the members that have ended."""
        pairs = zip(self._members, self._commands, strict=True)
        self._members = [self._launch(command) if member.poll() is not None else member for member, command in pairs]

    def freeze(self) -> None:
        """Stops all members: who has a connection to one hears nothing any more."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def compact(self) -> None:
        """Has it forget its history, and with it a change that nobody has seen. Raises `MembershipError`."""

        async def change_and_compact(etcd: Etcd) -> None:
            await etcd.put("/compacted", b"")
            await etcd.compact(await etcd.put("/compacted", b""))

        self._ask(change_and_compact, _QUICK)

    def end(self) -> None:
        self.kill()
        for member in self._members:
            member.communicate()

    def _leader(self) -> int:
        if len(self._members) == 1:
            return 0
        said = self._ask(lambda etcd: etcd.status(), _QUICK)
        for index, endpoint in enumerate(self._endpoints):
            status = said[endpoint]
            if isinstance(status, MemberStatus) and status.leads:
                return index
        raise PoolError("no member of etcd leads")

    def _ask(self, question: Callable[[Etcd], Awaitable[T]], timing: Timing) -> T:
        async def ask() -> T:
            async with Etcd(PoolAddress.parse(self.url, self.variables), timing) as etcd:
                return await question(etcd)

        return asyncio.run(ask())

    def _signal(self, number: signal.Signals) -> None:
        for member in self._members:
            member.send_signal(number)

    def _launch(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # The embedded server's lifeline.
            stdout=self._log,
            stderr=self._log,
            env=self._environment,
            start_new_session=True,
        )


def _embedded(address: str, secret: Path) -> Sequence[str]:
    where = ("--listen", f"{address}:{_port(0)}", "--allow-remote", "--secret-file", str(secret))
    return [sys.executable, "-m", "membership.server", *where]


def _real(count: int, address: str, directory: Path) -> list[Sequence[str]]:
    program = _program()
    peers = [f"http://{address}:{_port(index) + 1}" for index in range(count)]
    cluster = ",".join(f"m{index}={peer}" for index, peer in enumerate(peers))
    commands: list[Sequence[str]] = []
    for index, peer in enumerate(peers):
        client = f"http://{address}:{_port(index)}"
        commands.append(
            [
                *(program, "--name", f"m{index}", "--data-dir", str(directory / f"etcd{index}")),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", cluster, "--initial-cluster-token", directory.name),
                *("--logger", "zap", "--log-level", "warn"),
            ]
        )
    return commands


def _program() -> str:
    program = shutil.which("etcd")
    if program is None:
        raise UsageError(
            "the plan wants a real etcd, and there is none on this machine: install it, such as by apt-get install "
            f"etcd-server, or say --etcd {EMBEDDED}"
        )
    return program


def _port(index: int) -> int:
    """Of a member, for clients; the next one is for other members."""
    return _PORT + 2 * index


def _kill(member: subprocess.Popen[bytes]) -> None:
    member.kill()
    member.wait()
