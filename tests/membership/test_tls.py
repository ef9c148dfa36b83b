"""TLS, with a client certificate, against a real etcd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from membership import Etcd, EtcdUnavailable, PoolAddress, Put, Timing
from tests.membership.certificates import Authority
from tests.membership.servers import RealEtcd

QUICK = Timing(call=1.0, connect=0.5)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("tls") / "ours").found()
    made.certify("server")
    made.certify("client")
    return made


@pytest.fixture
def secure_etcd(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealEtcd]:
    options = [
        *("--cert-file", authority.path("server.pem"), "--key-file", authority.path("server.key")),
        *("--client-cert-auth", "--trusted-ca-file", authority.path("ca.pem")),
    ]
    server = RealEtcd(tmp_path_factory.mktemp("etcd"), 1, options, scheme="https")
    server.start()
    yield server
    server.kill()


def address(server: RealEtcd, environment: dict[str, str], scheme: str = "etcds") -> PoolAddress:
    return PoolAddress.parse(f"{scheme}://{server.endpoints[0]}", environment)


def credentials(authority: Authority) -> dict[str, str]:
    return {
        "ELASTIC_ETCD_CA": authority.path("ca.pem"),
        "ELASTIC_ETCD_CERT": authority.path("client.pem"),
        "ELASTIC_ETCD_KEY": authority.path("client.key"),
    }


async def test_a_client_with_a_certificate_is_let_in(secure_etcd: RealEtcd, authority: Authority) -> None:
    async with Etcd(address(secure_etcd, credentials(authority))) as etcd:
        revision = await etcd.put("a", b"v")
        async with etcd.watch("a", revision) as events:
            assert isinstance(await anext(events), Put)


async def test_whoever_is_not_trusted_gets_an_error_that_names_the_endpoint(
    secure_etcd: RealEtcd, authority: Authority, tmp_path: Path
) -> None:
    foreign = Authority(tmp_path / "foreign").found()
    right = credentials(authority)
    for environment, scheme in (
        ({"ELASTIC_ETCD_CA": right["ELASTIC_ETCD_CA"]}, "etcds"),  # We show no certificate.
        ({**right, "ELASTIC_ETCD_CA": foreign.path("ca.pem")}, "etcds"),  # We do not trust the server's.
        ({}, "etcds"),  # Nor do the public authorities know it.
        ({}, "etcd"),
    ):
        async with Etcd(address(secure_etcd, environment, scheme), QUICK) as etcd:
            with pytest.raises(EtcdUnavailable) as caught:
                await etcd.get("a")
            assert list(caught.value.tried) == secure_etcd.endpoints
