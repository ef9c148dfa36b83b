"""Addresses of pools: what they say, and how a wrong one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from membership import AddressError, PoolAddress, Tls

SECRET = "correct horse"


@pytest.mark.parametrize(
    ("text", "endpoints", "pool"),
    [
        ("etcd://h1:2379,h2:2380/mypool", ("h1:2379", "h2:2380"), "mypool"),
        ("etcd://h1", ("h1:2379",), "default"),
        ("etcd://h1/", ("h1:2379",), "default"),
        ("etcd://H1.Example.org:1", ("h1.example.org:1",), "default"),
        ("etcd://10.0.0.1,10.0.0.2/a-b_c.9", ("10.0.0.1:2379", "10.0.0.2:2379"), "a-b_c.9"),
        ("etcd://[::1]:2379,[fe80::1]/p", ("[::1]:2379", "[fe80::1]:2379"), "p"),
        ("etcd://unix:/run/elastic/etcd.sock", ("unix:/run/elastic/etcd.sock",), "default"),
    ],
)
def test_an_address_names_endpoints_and_a_pool(text: str, endpoints: tuple[str, ...], pool: str) -> None:
    address = PoolAddress.parse(text, {})
    assert (address.endpoints, address.pool, address.user, address.tls) == (endpoints, pool, None, None)
    assert PoolAddress.parse(str(address), {}) == address


def test_the_keys_of_a_pool_stand_under_its_name() -> None:
    assert PoolAddress.parse("etcd://h1/mypool", {}).prefix == "/elastic/mypool/"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("h1:2379", "begins with etcd://"),
        ("http://h1", "begins with etcd://"),
        ("etcd://", "no host"),
        ("etcd://h1,,h2", "no host"),
        ("etcd://h1:0", "no port"),
        ("etcd://h1:65536", "no port"),
        ("etcd://h1:x", "no port"),
        ("etcd://h1:", "no port"),
        ("etcd://h1:²", "no port"),
        ("etcd://-h1", "no host"),
        ("etcd://h1 h2", "no host"),
        ("etcd://::1", r"write \[::1\]:2379"),
        ("etcd://[::1", "no IPv6"),
        ("etcd://[h1]:2379", "no IPv6"),
        ("etcd://[::1]2379", "no IPv6"),
        ("etcd://h1:1,H1:1/p", "twice"),
        ("etcd://h1/two/parts", "cannot name a pool"),
        ("etcd://h1/ü", "cannot name a pool"),
        ("etcd://h1/" + "x" * 64, "cannot name a pool"),
        ("etcd://unix:relative.sock", "absolute path"),
        ("etcd://unix:/a,unix:/b", "absolute path"),
        ("etcd://@h1", "no user"),
    ],
)
def test_a_wrong_address_is_refused_with_what_to_write(text: str, words: str) -> None:
    with pytest.raises(AddressError, match=words):
        PoolAddress.parse(text, {})


def test_the_password_comes_from_a_variable_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(SECRET + "\n")
    for environment in ({"ELASTIC_ETCD_PASSWORD": SECRET}, {"ELASTIC_ETCD_PASSWORD_FILE": str(file)}):
        address = PoolAddress.parse("etcd://me@h1/p", environment)
        assert (address.user, address.password) == ("me", SECRET)
        assert str(address) == "etcd://me@h1:2379/p"


def test_no_text_of_an_address_shows_its_secrets(tmp_path: Path) -> None:
    for name in ("cert", "key"):
        (tmp_path / name).write_text(SECRET)
    address = PoolAddress.parse(
        "etcds://me@h1",
        {
            "ELASTIC_ETCD_PASSWORD": SECRET,
            "ELASTIC_ETCD_CERT": str(tmp_path / "cert"),
            "ELASTIC_ETCD_KEY": str(tmp_path / "key"),
        },
    )
    assert address.tls is not None
    assert address.tls.key == SECRET.encode()
    for text in (str(address), repr(address), repr(address.tls)):
        assert SECRET not in text


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(AddressError, match="ELASTIC_ETCD_PASSWORD_FILE") as caught:
        PoolAddress.parse(f"etcd://me:{SECRET}@h1", {})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "environment", "words"),
    [
        ("etcd://me@h1", {}, "there is no password: set ELASTIC_ETCD_PASSWORD_FILE"),
        ("etcd://h1", {"ELASTIC_ETCD_PASSWORD": SECRET}, "names no user"),
        ("etcd://me@h1", {"ELASTIC_ETCD_PASSWORD": "a", "ELASTIC_ETCD_PASSWORD_FILE": "b"}, "unset one"),
        ("etcd://me@h1", {"ELASTIC_ETCD_PASSWORD_FILE": "/no/such"}, "cannot be read: No such file"),
        ("etcd://me@h1", {"ELASTIC_ETCD_PASSWORD_FILE": "/dev/null"}, "holds no password"),
        ("etcd://h1", {"ELASTIC_ETCD_CA": "/dev/null"}, "write etcds://"),
        ("etcds://h1", {"ELASTIC_ETCD_CERT": "/dev/null"}, "set ELASTIC_ETCD_KEY"),
        ("etcds://h1", {"ELASTIC_ETCD_KEY": "/dev/null"}, "set ELASTIC_ETCD_CERT"),
        ("etcds://h1", {"ELASTIC_ETCD_CA": "/no/such"}, "ELASTIC_ETCD_CA=/no/such cannot be read"),
    ],
)
def test_half_of_a_setting_is_refused_with_how_to_complete_it(
    text: str, environment: dict[str, str], words: str
) -> None:
    with pytest.raises(AddressError, match=words):
        PoolAddress.parse(text, environment)


def test_tls_without_files_trusts_the_public_authorities() -> None:
    address = PoolAddress.parse("etcds://h1/p", {})
    assert address.tls == Tls()
    assert str(address) == "etcds://h1:2379/p"
