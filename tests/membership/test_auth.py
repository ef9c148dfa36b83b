"""Users and passwords: against the embedded server with a secret, and a real etcd with users."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator

import pytest

from membership import AuthError, Etcd, MembershipError, PoolAddress, Put, View
from tests.membership.servers import RealEtcd, Server

PASSWORD = "correct horse"
MINE = "/mine/"


def gateway(endpoint: str, path: str, body: dict[str, object], token: str = "") -> dict[str, object]:
    """A request to the JSON gateway of etcd, for what the client has no method for."""
    headers = {"Authorization": token} if token else {}
    request = urllib.request.Request(f"http://{endpoint}/v3/{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        found: dict[str, object] = json.load(answer)
        return found


def give_etcd_users(endpoint: str) -> None:
    """Users root and elastic; elastic has a right to the keys under `MINE` only."""

    def text(key: str) -> str:
        return base64.b64encode(key.encode()).decode()

    gateway(endpoint, "auth/role/add", {"name": "hosts"})
    keys = {"permType": "READWRITE", "key": text(MINE), "range_end": text(MINE[:-1] + "0")}
    gateway(endpoint, "auth/role/grant", {"name": "hosts", "perm": keys})
    for user, role in (("root", "root"), ("elastic", "hosts")):
        gateway(endpoint, "auth/user/add", {"name": user, "password": PASSWORD})
        gateway(endpoint, "auth/user/grant", {"user": user, "role": role})
    gateway(endpoint, "auth/enable", {})


@pytest.fixture
def etcd_with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealEtcd]:
    server = RealEtcd(tmp_path_factory.mktemp("etcd"), 1, ["--bcrypt-cost", "4"])
    server.start()
    give_etcd_users(server.endpoints[0])
    server.user, server.password = "elastic", PASSWORD
    yield server
    server.kill()


@pytest.fixture(params=["own_embedded", "etcd_with_users"])
def guarded(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue(request.param)
    return server


def as_user(server: Server, user: str, password: str) -> PoolAddress:
    return PoolAddress.parse(f"etcd://{user}@{server.endpoints[0]}", {"ELASTIC_ETCD_PASSWORD": password})


async def test_a_user_with_the_right_password_is_let_in(guarded: Server) -> None:
    async with Etcd(guarded.address()) as etcd, etcd.watch_prefix(MINE, 1) as events:
        await etcd.put(MINE + "a", b"v")
        assert isinstance(await anext(events), Put)
        lease = await etcd.grant(60)
        await etcd.put(MINE + "b", b"v", lease=lease.id)
        assert not [each for each in (await etcd.status()).values() if isinstance(each, MembershipError)]


@pytest.mark.parametrize("user", ["elastic", "nobody"])
async def test_a_wrong_user_or_password_is_an_error_that_says_so_and_does_not_repeat_it(
    guarded: Server, user: str
) -> None:
    wrong = PASSWORD + "!"
    async with Etcd(as_user(guarded, user, wrong)) as etcd:
        for ask in (etcd.get(MINE), etcd.put(MINE, b""), etcd.grant(5), anext(etcd.watch(MINE, 1))):
            with pytest.raises(AuthError, match="the user or the password is wrong") as caught:
                await ask
            assert user in str(caught.value)
            assert wrong not in str(caught.value)
        (status,) = (await etcd.status()).values()
        assert isinstance(status, AuthError)


async def test_without_a_user_the_error_says_how_to_give_one(guarded: Server) -> None:
    async with Etcd(PoolAddress.parse(f"etcd://{guarded.endpoints[0]}", {})) as etcd:
        with pytest.raises(AuthError, match="etcd://user@host/pool"):
            await etcd.put(MINE, b"")


async def test_a_user_for_an_etcd_without_users_is_an_error_that_says_so(etcd: Server) -> None:
    async with Etcd(as_user(etcd, "elastic", PASSWORD)) as client:
        with pytest.raises(AuthError, match="without user@"):
            await client.get(MINE)


async def test_a_token_that_is_no_longer_accepted_is_replaced(guarded: Server) -> None:
    view = View()
    async with Etcd(guarded.address()) as etcd, etcd.watch_prefix(MINE) as events:
        await etcd.put(MINE + "a", b"1")
        while MINE + "a" not in view.contents:
            view.apply(await anext(events))
        # The tokens of both kinds of server live in memory.
        guarded.kill()
        guarded.start()
        assert await etcd.get(MINE + "none") is None
        await etcd.put(MINE + "b", b"2")
        while MINE + "b" not in view.contents:
            view.apply(await anext(events))


async def test_a_key_that_the_user_has_no_right_to_is_an_error_for_calls_and_watches(
    etcd_with_users: RealEtcd,
) -> None:
    async with Etcd(etcd_with_users.address()) as etcd, etcd.watch_prefix(MINE, 1) as allowed:
        with pytest.raises(AuthError, match="no right to these keys"):
            await etcd.put("/theirs", b"")
        for forbidden in (etcd.watch("/theirs", 1), etcd.watch("/theirs")):
            with pytest.raises(AuthError, match="no right to these keys"):
                await anext(forbidden)
        await etcd.put(MINE + "a", b"v")
        assert isinstance(await anext(allowed), Put)
