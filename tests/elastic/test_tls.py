"""TLS between the processes of a pool: what crosses it, and what is said where the two sides do not fit."""

import asyncio
import json
import os
import queue
import secrets
import socket
import threading
from pathlib import Path

import numpy as np
import pytest

from elastic import calling, tls, wire
from elastic.door import Door, ThreadedDoor
from elastic.errors import UsageError
from elastic.handshake import WANTS_TLS, Dialer, HandshakeError
from elastic.refusals import Reason
from tests.elastic.connections import PATIENCE, SECRET, run
from tests.elastic.hosts import Command
from tests.elastic.status_contract import check_report
from tests.elastic.up import FOREVER, SCRIPT
from tests.membership.certificates import Authority

MIB = 1 << 20
HELLO = {"role": "peer"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("tls") / "ours").found()
    made.certify("one")
    made.certify("two")
    return made


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("tls") / "foreign").found()
    made.certify("one")
    return made


def variables(authority, name="one"):
    return {
        tls.CERT: authority.path(f"{name}.pem"),
        tls.KEY: authority.path(f"{name}.key"),
        tls.CA: authority.path("ca.pem"),
    }


@pytest.fixture
def dials_with(monkeypatch):
    """Sets what this process shows and accepts when it dials; None is no TLS."""

    def use(authority, name="two"):
        for variable in (tls.CERT, tls.KEY, tls.CA):
            monkeypatch.delenv(variable, raising=False)
        for variable, value in ({} if authority is None else variables(authority, name)).items():
            monkeypatch.setenv(variable, value)

    use(None)
    return use


class Threaded:
    """A door of threads that gives back what comes, and what it refused."""

    def __init__(self, settings):
        self.refused = queue.SimpleQueue()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.getsockname())

        def serve(hello, channel, who):
            while True:
                message, payload = channel.receive()
                channel.send(message, payload)

        refused = lambda reason, words: self.refused.put((reason, words))  # noqa: E731
        threading.Thread(target=ThreadedDoor(self._listener, SECRET, serve, refused, settings).run, daemon=True).start()

    def next_refused(self):
        return self.refused.get(timeout=PATIENCE)

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class OnLoop:
    def __init__(self, settings):
        self.refused = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

        def serve(hello, link):
            def echo(message, payload):
                link.send(wire.frame_header(message, len(payload)))
                if payload:
                    link.send(payload)

            link.redirect(echo, lambda _: None)

        async def start():
            door = Door(SECRET, serve, lambda reason, words: self.refused.put((reason, words)), settings)
            return await self._loop.create_server(door, "127.0.0.1", 0)

        self._server = asyncio.run_coroutine_threadsafe(start(), self._loop).result(PATIENCE)
        self.address = "{}:{}".format(*self._server.sockets[0].getsockname())

    next_refused = Threaded.next_refused

    def close(self):
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


@pytest.fixture(params=[Threaded, OnLoop])
def listening(request):
    """Makes a listener with what an authority has certified, or without TLS."""
    made = []

    def listen(authority, name="one"):
        made.append(request.param(None if authority is None else tls.ours(variables(authority, name))))
        return made[-1]

    yield listen
    for one in made:
        one.close()


def dial_blocking(address):
    return calling.dial(address, SECRET, HELLO, PATIENCE)


def dial_on_loop(address):
    async def main():
        (await calling.open_link(address, SECRET, HELLO, lambda *_: None, lambda _: None)).close()

    run(main())


both_dialers = pytest.mark.parametrize("dial", [dial_blocking, dial_on_loop])


def test_frames_cross_tls_between_blocking_channels_and_links(listening, dials_with, authority):
    dials_with(authority)
    at = listening(authority)
    channel = dial_blocking(at.address)
    payload = np.random.default_rng(1).integers(0, 256, 5 * MIB + 3, np.uint8)
    sender = threading.Thread(
        target=lambda: [channel.send([turn], memoryview(payload) if turn % 10 == 3 else b"x") for turn in range(40)]
    )
    sender.start()
    for turn in range(40):
        message, received = channel.receive()
        assert message == [turn]
        assert np.array_equal(np.frombuffer(received, np.uint8), payload) if turn % 10 == 3 else received == b"x"
    sender.join(PATIENCE)
    channel.close()


def test_links_cross_tls_with_large_payloads_both_ways(listening, dials_with, authority):
    dials_with(authority)
    at = listening(authority)
    payload = bytes(range(256)) * (12 * MIB // 256) + b"end"

    async def main():
        heard = asyncio.Queue()
        ended = asyncio.get_running_loop().create_future()
        link = await calling.open_link(
            at.address, SECRET, HELLO, lambda message, data: heard.put_nowait((message, bytes(data))), ended.set_result
        )
        for turn in range(3):
            link.send(wire.frame_header(turn, len(payload)))
            link.send(memoryview(payload))
            link.send(wire.frame("after"))
        for turn in range(3):
            assert await heard.get() == (turn, payload)
            assert await heard.get() == ("after", b"")
        link.close()
        assert await ended

    run(main())


def test_nothing_readable_crosses_the_wire(dials_with, authority):
    dials_with(authority)
    at = Threaded(tls.ours(variables(authority)))
    said = []

    def relay(source, sink):
        while data := source.recv(1 << 16):
            said.append(data)
            sink.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as between:

        def pass_on():
            ours, _ = between.accept()
            with ours, socket.create_connection(wire.parse_address(at.address)) as theirs:
                back = threading.Thread(target=relay, args=(theirs, ours))
                back.start()
                relay(ours, theirs)
                theirs.shutdown(socket.SHUT_RDWR)
                back.join(PATIENCE)

        thread = threading.Thread(target=pass_on)
        thread.start()
        channel = dial_blocking("{}:{}".format(*between.getsockname()))
        channel.send(["a word that stands out"], b"and another" * 1000)
        assert channel.receive()[0] == ["a word that stands out"]
        channel.close()
        thread.join(PATIENCE)
    whole = b"".join(said)
    assert len(whole) > 20_000
    assert not any(word in whole for word in (b"stands out", b"another", b"ELASTIC", b"role"))
    at.close()


def test_who_stands_in_between_with_a_certificate_of_the_same_authority_is_found_out(dials_with, authority):
    """It passes the proof of the secret on from one connection to the other, without knowing the secret."""
    dials_with(authority)
    at = Threaded(tls.ours(variables(authority)))
    its = tls.ours(variables(authority, "two"))

    def relay(source, sink):
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.close()

    with socket.create_server(("127.0.0.1", 0)) as between:

        def pass_on():
            ours = its.listening.wrap_socket(between.accept()[0], server_side=True)
            theirs = its.dialing.wrap_socket(socket.create_connection(wire.parse_address(at.address)))
            theirs.sendall(ours.recv(1 << 16))
            ours.sendall(theirs.recv(1 << 16))
            ours.close()
            theirs.close()

        thread = threading.Thread(target=pass_on)
        thread.start()
        with pytest.raises(HandshakeError, match="does not know this pool's secret"):
            dial_blocking("{}:{}".format(*between.getsockname()))
        thread.join(PATIENCE)
    assert at.next_refused()[0] is Reason.WRONG_SECRET
    at.close()


@both_dialers
def test_who_has_no_certificate_is_told_to_set_one(listening, dials_with, authority, dial):
    at = listening(authority)
    with pytest.raises(HandshakeError, match="speaks TLS, and this process has no certificate: set ELASTIC_TLS_CERT"):
        dial(at.address)
    reason, words = at.next_refused()
    assert reason is Reason.TLS
    assert "does not speak TLS: set ELASTIC_TLS_CERT" in words


@both_dialers
def test_who_has_a_certificate_where_there_is_no_tls_is_told_so(listening, dials_with, authority, dial):
    dials_with(authority)
    at = listening(None)
    with pytest.raises(HandshakeError, match="does not speak TLS, and this process has a certificate: set ELASTIC"):
        dial(at.address)
    assert at.next_refused()[0] is Reason.TLS


@both_dialers
def test_a_listener_of_another_authority_is_not_accepted(listening, dials_with, authority, foreign, dial):
    dials_with(authority)
    at = listening(foreign)
    with pytest.raises(HandshakeError, match=r"its certificate is not accepted.*ELASTIC_TLS_CA must hold"):
        dial(at.address)
    assert at.next_refused()[0] is Reason.TLS


@both_dialers
def test_a_dialer_of_another_authority_is_not_accepted(
    listening, dials_with, authority, foreign, dial, monkeypatch, tmp_path
):
    both = tmp_path / "both.pem"
    both.write_bytes(b"".join(Path(one.path("ca.pem")).read_bytes() for one in (authority, foreign)))
    dials_with(foreign, "one")
    monkeypatch.setenv(tls.CA, str(both))
    at = listening(authority)
    with pytest.raises(HandshakeError, match=r"there is no TLS with it.*must be signed by an authority in its"):
        dial(at.address)
    assert at.next_refused()[0] is Reason.TLS


@both_dialers
def test_a_wrong_secret_is_refused_behind_tls_too(listening, dials_with, authority, dial, monkeypatch):
    dials_with(authority)
    at = listening(authority)
    monkeypatch.setattr("tests.elastic.test_tls.SECRET", b"another")
    with pytest.raises(HandshakeError, match="it is of another pool"):
        dial(at.address)
    assert at.next_refused()[0] is Reason.FOREIGN_POOL


def test_garbage_behind_tls_is_refused(listening, authority):
    at = listening(authority)
    context = tls.ours(variables(authority, "two")).dialing
    with context.wrap_socket(socket.create_connection(wire.parse_address(at.address), PATIENCE)) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert at.next_refused()[0] is Reason.GARBAGE


def test_garbage_instead_of_tls_is_refused(listening, authority):
    at = listening(authority)
    for garbage, reason in ((b"GET / HTTP/1.1\r\n", Reason.GARBAGE), (b"\x16\x03\x01\0\5hello", Reason.TLS)):
        with socket.create_connection(wire.parse_address(at.address), PATIENCE) as sock:
            sock.sendall(garbage)
            assert at.next_refused()[0] is reason


def test_without_certificates_there_is_no_tls():
    assert tls.ours({}) is None


def test_certificates_that_cannot_be_used_are_refused_in_words(authority, foreign, tmp_path):
    right = variables(authority)
    empty = tmp_path / "empty.pem"
    empty.touch()
    for wrong, words in (
        ({tls.KEY: ""}, f"but not {tls.KEY}: for TLS set all three"),
        ({tls.CERT: "", tls.KEY: ""}, f"but not {tls.CERT}"),
        ({tls.CERT: "/no/file"}, "/no/file"),
        ({tls.CA: str(empty)}, "holds no authority"),
        ({tls.KEY: foreign.path("one.key")}, "are no certificate and its key"),
    ):
        with pytest.raises(UsageError, match=words):
            tls.ours({**right, **wrong})


class Pool:
    """A pool in a real etcd, whose hosts and runs have the environment that they are given."""

    def __init__(self, directory, etcd):
        base = directory / "base"
        base.mkdir()
        self.url = f"etcd://{etcd.endpoints[0]}/p"
        self.script = directory / "script.py"
        self.script.write_text(SCRIPT)
        secret = directory / "secret"
        secret.write_text(secrets.token_hex(32))
        self._environment = {"ELASTIC_RUN_BASE": str(base), "ELASTIC_SECRET_FILE": str(secret)}

    def host(self, name, certificates):
        return self.start("host", "--pool", self.url, "--id", name, certificates=certificates)

    def run(self, steps, certificates):
        return self.start("run", "--pool", self.url, "--hosts", "2", str(self.script), steps, certificates=certificates)

    def report(self, certificates):
        with self.start("health", "--pool", self.url, "--json", certificates=certificates) as health:
            health.finish()
            report = json.loads(health.text)
        check_report(report)
        return report

    def start(self, *arguments, certificates):
        return Command(*arguments, environment={**self._environment, **certificates})


@pytest.fixture
def pool(real_etcd):
    return Pool(*real_etcd)


def test_a_run_over_tls_and_what_is_refused_on_the_way(pool, authority):
    one, two = variables(authority, "one"), variables(authority, "two")
    with pool.host("a1", one) as first, pool.host("a2", two) as second:
        address = first.wait_for("registered").rpartition(" at ")[2]
        second.wait_for("registered")
        with socket.create_connection(wire.parse_address(address), PATIENCE) as sock:
            sock.sendall(Dialer(os.urandom(32)).opening())
            assert sock.recv(1000, socket.MSG_WAITALL) == WANTS_TLS
        with pool.run(FOREVER, two) as running:
            running.wait_for("running")
            while not (report := pool.report(one))["hosts"][0]["refused"]:
                pass
            assert report["status"] == "healthy"
            assert [host["refused"] for host in report["hosts"]] == [{"tls": 1}, {}]
            assert report["run"]["refused"] == {}
            with pool.start("health", "--pool", pool.url, certificates={}) as health:
                health.finish()
                assert "refused connections: a1: 1 tls" in health.text
            with pool.start("diagnose", "--pool", pool.url, certificates=one) as diagnose:
                assert diagnose.finish() == 0, diagnose.text
        with pool.run("5", one) as again:
            assert again.finish() == 0, again.text
        with pool.run("5", {}) as bare:
            assert "speaks TLS, and this process has no certificate" in bare.wait_for("cannot be used")
