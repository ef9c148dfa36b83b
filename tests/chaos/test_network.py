"""Networks of namespaces: real interfaces, real packets."""

import contextlib
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from chaos import network as network_module
from chaos.network import GATEWAY, Network, NetworkError, cannot_delay, missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
delays = pytest.mark.skipif(cannot_delay() is not None, reason=str(cannot_delay()))

ECHO = """
import socket, sys
with socket.create_server((sys.argv[1], 0)) as server:
    print(server.getsockname()[1], flush=True)
    connection, _ = server.accept()
    while data := connection.recv(100):
        connection.sendall(data)
"""


@pytest.fixture
def network():
    with Network(["a", "b"]) as network:
        yield network


@contextlib.contextmanager
def echo(network, host):
    """A connection to a program on a host, which answers all that it is told."""
    command = network.command(host, [sys.executable, "-c", ECHO, network.address(host)])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline())
        with socket.create_connection((network.address(host), port), 10) as connection:
            yield connection
        process.kill()


ANSWER = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
    own.bind((sys.argv[1], 0))
    print(own.getsockname()[1], flush=True)
    while True:
        word, sender = own.recvfrom(100)
        print(word.decode(), flush=True)
        own.sendto(word, sender)
"""


class Talker:
    """Says something to a program that answers with the same; what is lost is not said again."""

    def __init__(self, own, address):
        self._own, self._address = own, address

    def __call__(self, word):
        self._own.sendto(word, self._address)

    def answer(self):
        return self._own.recv(100)


@contextlib.contextmanager
def datagrams(network, host):
    """What a program on a host has heard, as a function that waits for it, and who talks to it."""
    command = network.command(host, [sys.executable, "-c", ANSWER, network.address(host)])
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        port = int(process.stdout.readline())
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.settimeout(20)
            yield lambda: process.stdout.readline().strip(), Talker(own, (network.address(host), port))
        process.kill()


KNOCK = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 9), 0.5)
except ConnectionRefusedError:  # Somebody is there to say no.
    sys.exit(0)
except TimeoutError:
    sys.exit(1)
"""


def reaches(network, one, other):
    command = network.command(one, [sys.executable, "-c", KNOCK, network.address(other)])
    return {0: True, 1: False}[subprocess.run(command, check=False).returncode]


def seconds_of_an_answer(connection):
    began = time.monotonic()
    says(connection, b"x")
    return time.monotonic() - began


def says(connection, word):
    connection.sendall(word)
    return connection.recv(100)


def test_hosts_are_reached_by_their_addresses(network):
    with echo(network, "a") as a, echo(network, "b") as b:
        assert says(a, b"x") == b"x"
        assert says(b, b"y") == b"y"


def test_who_is_cut_off_hears_nothing_until_the_cable_is_back_and_others_notice_nothing(network):
    with echo(network, "a") as a, echo(network, "b") as b:
        network.cut("a")
        a.sendall(b"lost?")
        a.settimeout(0.5)
        with pytest.raises(TimeoutError):
            a.recv(100)
        assert says(b, b"y") == b"y"
        a.settimeout(20)
        network.heal("a")
        assert a.recv(100) == b"lost?"  # TCP sends it again.


def test_a_way_that_is_cut_in_one_direction_is_open_in_the_other(network):
    with datagrams(network, "a") as (heard, say):
        network.sever([("a", GATEWAY)])
        say(b"1")
        assert heard() == b"1"
        network.mend([("a", GATEWAY)])
        say(b"2")
        assert (heard(), say.answer()) == (b"2", b"2")  # The answer to the first is lost.
        network.sever([(GATEWAY, "a")])
        say(b"3")
        network.mend([(GATEWAY, "a")])
        say(b"4")
        assert (heard(), say.answer()) == (b"4", b"4")


def test_a_host_that_is_cut_off_another_reaches_the_rest(network):
    with echo(network, "a") as a, echo(network, "b") as b:
        network.sever([("a", "b"), ("b", "a")])
        assert says(a, b"x") == b"x"
        assert says(b, b"y") == b"y"
        assert not reaches(network, "a", "b")
        network.mend([("a", "b"), ("b", "a")])
        assert reaches(network, "a", "b")


def test_a_way_that_is_cut_twice_is_open_when_both_cuts_are_over(network):
    network.cut("a")
    network.sever([("a", "b")])
    network.heal("a")
    assert not reaches(network, "a", "b")
    network.mend([("a", "b")])
    assert reaches(network, "a", "b")


@delays
def test_what_a_delayed_host_sends_and_gets_takes_longer_until_it_is_hastened_and_connections_stay(network):
    with echo(network, "a") as a, echo(network, "b") as b:
        network.delay("a", 0.2)
        assert seconds_of_an_answer(a) >= 0.4
        assert min(seconds_of_an_answer(b) for _ in range(5)) < 0.2
        network.hasten("a")
        assert says(a, b"x") == b"x"  # What was under way then, TCP sends again.
        assert min(seconds_of_an_answer(a) for _ in range(5)) < 0.2


@delays
def test_much_passes_a_delayed_host_unchanged(network):
    data = random.Random(0).randbytes(1 << 20)
    with echo(network, "a") as a:
        network.delay("a", 0.01)
        sender = threading.Thread(target=a.sendall, args=[data])
        sender.start()
        answer = b""
        while len(answer) < len(data):
            answer += a.recv(1 << 16)
        sender.join()
    assert answer == data


@delays
def test_a_delayed_host_can_be_cut_off(network):
    network.delay("a", 0.01)
    assert reaches(network, "b", "a")
    network.cut("a")
    assert not reaches(network, "b", "a")
    network.heal("a")
    assert reaches(network, "b", "a")


@delays
def test_a_host_is_delayed_once(network):
    network.delay("a", 0.01)
    with pytest.raises(NetworkError, match="what a sends is delayed already"):
        network.delay("a", 0.01)
    network.hasten("a")
    network.hasten("a")
    network.delay("a", 0.01)
    assert reaches(network, "b", "a")


@delays
@pytest.mark.parametrize("taken", ["near", "slow"])
def test_a_delay_that_fails_half_way_leaves_all_as_it_was(network, taken):
    before = devices(network)
    with foreign_device(f"{taken}{network.number}-2") as foreign:
        with pytest.raises(NetworkError, match=r"cannot be delayed|exists"):
            network.delay("a", 0.01)
        assert devices(network) <= before | {foreign}
        assert reaches(network, "b", "a")
    network.delay("a", 0.01)
    assert reaches(network, "b", "a")


@delays
def test_a_delay_line_that_has_ended_is_told_when_the_host_has_its_cable_again(network):
    network.delay("a", 0.01)
    [line] = [child for child in psutil.Process().children() if f"near{network.number}-2" in child.cmdline()]
    line.kill()
    assert not reaches(network, "b", "a")
    with pytest.raises(NetworkError, match="the delay line of a had failed, and cut it off"):
        network.hasten("a")
    assert reaches(network, "b", "a")


def test_networks_beside_each_other_have_different_addresses_and_none_stays():
    with Network(["a"]) as one, Network(["a"]) as two:
        bridges = {one.gateway, two.gateway}
        assert len(bridges) == 2
        assert bridges <= addresses()
    assert not bridges & addresses()


def test_a_network_that_another_has_made_is_found_by_its_number(network):
    other = Network.made(["a", "b"], network.number)
    assert (other.gateway, other.address("b")) == (network.gateway, network.address("b"))
    with echo(network, "b") as b:
        other.cut("b")
        other.heal("b")
        assert says(b, b"x") == b"x"


def test_networks_can_be_made_at_the_same_time():
    made = []

    def make():
        with Network(["a", "b"]) as network:
            made.append(network.gateway)

    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 3
    assert not set(made) & addresses()


def test_a_network_of_too_many_hosts_is_not_begun(monkeypatch):
    before = addresses()
    monkeypatch.setattr(network_module, "_MOST_HOSTS", 2)
    with pytest.raises(NetworkError, match="at most 2 hosts, not 3"):
        Network(["a", "b", "c"])
    assert addresses() == before


@contextlib.contextmanager
def foreign_device(name):
    """A device that stands where one of a network should; the network may remove it."""
    subprocess.run(["ip", "link", "add", name, "type", "bridge"], check=True)
    try:
        yield name
    finally:
        subprocess.run(["ip", "link", "del", name], check=False)


def devices(network):
    """The names of the network's devices that are in no namespace."""
    return {path.name for path in Path("/sys/class/net").glob(f"*{network.number}*")}


def addresses():
    """All IPv4 addresses of this namespace."""
    shown = subprocess.run(["ip", "-o", "-4", "address"], capture_output=True, text=True, check=True).stdout
    return {line.split()[3].partition("/")[0] for line in shown.splitlines()}
