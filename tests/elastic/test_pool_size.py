import socket

import pytest

from elastic import pool_size
from elastic.errors import PoolError, UsageError

GB = 10**9


@pytest.mark.parametrize(("hosts", "devices"), [(1, 1), (4, 2), (64, 8), (1, 512)])
def test_sizes_that_make_sense(hosts, devices):
    pool_size.check_size(hosts, devices, 64 * GB)


@pytest.mark.parametrize(
    ("hosts", "devices", "text"),
    [
        (0, 2, "0 hosts.*at least 1"),
        (-1, 2, "-1 hosts.*at least 1"),
        (4, 0, "0 devices.*at least 1"),
        (1000, 2, "1,000 hosts.*250 MB, 250 GB in all, and it has 64 GB; ask for at most 64"),
        (65, 1, "at most 64"),
        (8, 100, "800 devices.*at most 512; ask for at most 64 a host"),
        (64, 9, "576 devices"),
    ],
)
def test_sizes_that_do_not(hosts, devices, text):
    with pytest.raises(UsageError, match=text):
        pool_size.check_size(hosts, devices, 64 * GB)


def test_a_small_machine_holds_fewer_hosts():
    pool_size.check_size(8, 1, 2 * GB)
    with pytest.raises(UsageError, match=r"2\.2 GB in all, and it has 2\.0 GB; ask for at most 8"):
        pool_size.check_size(9, 1, 2 * GB)
    pool_size.check_size(1, 8, GB // 10)  # One host is worth a try anywhere.


def test_machine_memory_is_plausible():
    assert GB // 10 < pool_size.machine_memory() < 1 << 50


def test_a_python_without_jax(monkeypatch):
    monkeypatch.setattr(pool_size.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PoolError, match=r"has no jax; install it with .*pip install jax"):
        pool_size.check_python()


@pytest.mark.parametrize("listen", ["7777", "localhost", "127.0.0.1:", ":7777", "127.0.0.1:0", "h:70000", "h:x", ""])
def test_what_is_no_address(listen):
    with pytest.raises(UsageError, match="give HOST:PORT"):
        pool_size.check_listen(listen)


def test_a_free_and_a_busy_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} of 127.0.0.1 is in use"):
            pool_size.check_listen(f"127.0.0.1:{port}")
    pool_size.check_listen(f"127.0.0.1:{port}")


def test_an_address_of_another_machine():
    with pytest.raises(UsageError, match="address of this machine"):
        pool_size.check_listen("192.0.2.1:7777")  # RFC 5737: reserved for documentation.
