"""Where a pool's etcd is, how to get in, and which pool: parsed from one address and a few environment variables.

    etcd://h1:2379,h2:2379,h3/mypool     several endpoints, one pool; the port is 2379 if none is given
    etcds://user@h1/mypool               over TLS, as a user
    etcd://[::1]:2379                    IPv6; the pool's name is "default" if none is given
    etcd://unix:/run/elastic/etcd.sock   a socket of this machine; the pool is always "default"

Secrets never stand in an address, which shows up in process lists and logs. The password comes from
ELASTIC_ETCD_PASSWORD or from the file named by ELASTIC_ETCD_PASSWORD_FILE; for TLS, ELASTIC_ETCD_CA, ELASTIC_ETCD_CERT
and ELASTIC_ETCD_KEY name PEM files. All files are read once, here. Not for: talking to etcd.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from membership.errors import AddressError

DEFAULT_POOL = "default"
DEFAULT_PORT = 2379

PASSWORD = "ELASTIC_ETCD_PASSWORD"
PASSWORD_FILE = "ELASTIC_ETCD_PASSWORD_FILE"
CA = "ELASTIC_ETCD_CA"
CERT = "ELASTIC_ETCD_CERT"
KEY = "ELASTIC_ETCD_KEY"

_UNIX = "unix:"
_POOL = re.compile(r"[A-Za-z0-9._-]{1,63}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,253}[A-Za-z0-9])?")
_EXAMPLE = "Write it like etcd://h1:2379,h2:2379/mypool, or etcds:// for TLS."


@dataclass(frozen=True, slots=True)
class Tls:
    """What TLS needs, as PEM. Without ``ca`` the usual public authorities count; ``cert`` and ``key`` come together."""

    ca: bytes | None = None
    cert: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class PoolAddress:
    """Where a pool's etcd is. ``str`` gives the address again, without anything secret.

    Attributes:
        endpoints: as ``host:port``, ``[ipv6]:port`` or ``unix:/path``; at least one.
        pool: the pool's name.
        user: the etcd user; None if etcd asks for none. ``password`` is there exactly if ``user`` is.
        tls: None for a connection in clear.
    """

    endpoints: tuple[str, ...]
    pool: str = DEFAULT_POOL
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Tls | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str, environment: Mapping[str, str] = os.environ) -> PoolAddress:
        """The address ``text``, completed from ``environment``. Raises `AddressError`."""
        scheme, separator, rest = text.partition("://")
        if not separator or scheme not in ("etcd", "etcds"):
            raise AddressError(f"a pool's address begins with etcd:// or etcds://, this one does not. {_EXAMPLE}")
        user, at, where = rest.rpartition("@")
        address = cls(*_place(where))
        if at:
            if ":" in user:  # Not echoed: what follows the colon is a password.
                raise AddressError(
                    "the address holds a password, which others could read in process lists and logs. Write only "
                    f"user@ and put the password into {PASSWORD} or a file named by {PASSWORD_FILE}"
                )
            if not user:
                raise AddressError(f"the address has an @ but no user before it. {_EXAMPLE}")
            address = replace(address, user=user)
        return replace(address, password=_password(address.user, environment), tls=_tls(scheme == "etcds", environment))

    @property
    def prefix(self) -> str:
        """What the keys of this pool begin with."""
        return f"/elastic/{self.pool}/"

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        pool = "" if self.endpoints[0].startswith(_UNIX) else f"/{self.pool}"
        return f"{'etcds' if self.tls else 'etcd'}://{user}{','.join(self.endpoints)}{pool}"


def _place(where: str) -> tuple[tuple[str, ...], str]:
    """The endpoints and the pool."""
    if where.startswith(_UNIX):
        if not where.removeprefix(_UNIX).startswith("/") or "," in where:
            raise AddressError(f"{where!r} is not one absolute path. Write it like etcd://unix:/run/elastic/etcd.sock")
        return (where,), DEFAULT_POOL
    hosts, _, pool = where.partition("/")
    pool = pool or DEFAULT_POOL
    if not _POOL.fullmatch(pool):
        raise AddressError(f"{pool!r} cannot name a pool: use up to 63 letters, digits, '-', '_' and '.'")
    endpoints = tuple(_endpoint(host) for host in hosts.split(","))
    if len(set(endpoints)) < len(endpoints):
        raise AddressError(f"an endpoint stands twice in {hosts!r}: name each once")
    return endpoints, pool


def _endpoint(text: str) -> str:
    """``host:port`` in one spelling."""
    host, port = text, ""
    if text.startswith("["):
        literal, bracket, rest = text[1:].partition("]")
        if not bracket or not _is_ipv6(literal) or (rest and not rest.startswith(":")):
            raise AddressError(f"{text!r} is no IPv6 address with a port. Write it like [::1]:2379")
        host, port = f"[{literal}]", rest[1:] if rest else str(DEFAULT_PORT)
    else:
        host, colon, port = text.partition(":")
        if _is_ipv6(text):
            raise AddressError(f"an IPv6 address stands in brackets: write [{text}]:{DEFAULT_PORT}")
        if not _HOST.fullmatch(host):
            raise AddressError(f"{text!r} is no host and port. {_EXAMPLE}")
        port = port if colon else str(DEFAULT_PORT)
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise AddressError(f"{text!r} has no port between 1 and 65535. {_EXAMPLE}")
    return f"{host.lower()}:{int(port)}"


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _password(user: str | None, environment: Mapping[str, str]) -> str | None:
    given = [name for name in (PASSWORD, PASSWORD_FILE) if environment.get(name)]
    if len(given) == 2:
        raise AddressError(f"{given[0]} and {given[1]} are both set: unset one")
    if user is None:
        if given:
            raise AddressError(f"{given[0]} is set, but the address names no user. Write etcd://user@host/pool")
        return None
    if not given:
        raise AddressError(
            f"the address names the user {user!r}, but there is no password: set {PASSWORD_FILE} to a file "
            f"that holds it, or {PASSWORD}"
        )
    if given[0] == PASSWORD:
        return environment[PASSWORD]
    try:
        password = _file(PASSWORD_FILE, environment).decode().strip()
    except UnicodeDecodeError:
        password = ""
    if not password:
        raise AddressError(f"{PASSWORD_FILE}={environment[PASSWORD_FILE]} holds no password")
    return password


def _tls(wanted: bool, environment: Mapping[str, str]) -> Tls | None:
    given = [name for name in (CA, CERT, KEY) if environment.get(name)]
    if not wanted:
        if given:
            raise AddressError(
                f"{', '.join(given)} is set, but the address asks for no TLS: write etcds://, or unset it"
            )
        return None
    if (CERT in given) != (KEY in given):
        missing = KEY if CERT in given else CERT
        raise AddressError(f"{CERT} and {KEY} belong together: set {missing} as well")
    ca, cert, key = (_file(name, environment) if name in given else None for name in (CA, CERT, KEY))
    return Tls(ca, cert, key)


def _file(name: str, environment: Mapping[str, str]) -> bytes:
    try:
        return Path(environment[name]).read_bytes()
    except OSError as error:
        raise AddressError(f"{name}={environment[name]} cannot be read: {error.strerror}") from None
