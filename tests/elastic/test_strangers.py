"""Ten thousand connections that should not be, to an agent and an executor at work: each is counted, none disturbs."""

from __future__ import annotations

import collections
import os
import random
import socket
import threading
import time

import psutil
import pytest

from elastic import wire
from elastic.commands import Command
from elastic.handshake import MAGIC, NO_TLS, OPENING_BYTES, OTHER_POOL, REPLY_BYTES, Dialer
from tests.elastic.agents import Agent
from tests.elastic.connections import PATIENCE

SEED = "ELASTIC_FUZZ_SEED"
"""The environment variable that repeats a run."""

FRAMES = 10_000
AT_ONCE = 40
GENERATION = 5

GARBAGE, FOREIGN, WRONG, OLD = "garbage", "foreign_pool", "wrong_secret", "old_generation"
SILENT, TLS = "silent", "tls"


class Broken:
    """One connection: what it sends at first, what once it was replied to, and what it must be counted as."""

    def __init__(self, reason, opening, dialer=None, then=b"", proof=None, hears=b""):
        self.reason = reason
        self.opening = opening
        self.dialer = dialer
        """Who proves the secret with `then` behind the proof; without one, `proof` is sent as it is."""
        self.then = then
        self.proof = proof
        self.hears = hears
        """What it may be told, if it is not replied to."""

    @property
    def wants_reply(self):
        return self.dialer is not None or self.proof is not None


def flipped(rng, data, first=0, last=None):
    """The bytes with one bit of some of them changed."""
    changed = bytearray(data)
    bit = rng.randrange(8 * first, 8 * (len(data) if last is None else last))
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


class Strangers:
    """Makes broken connections. Everything is drawn from `rng`, but for the nonces of handshakes."""

    def __init__(self, rng, secret):
        self._rng = rng
        self._secret = secret

    def opening(self):
        return Dialer(self._secret).opening()

    def proven(self, reason, hello, behind=b""):
        dialer = Dialer(self._secret)
        return Broken(
            reason, dialer.opening(), dialer, (hello if isinstance(hello, bytes) else wire.frame(hello)) + behind
        )

    # Before a proof

    def nothing(self):
        return Broken(SILENT, b"")

    def random_bytes(self):
        drawn = self._rng.randbytes(self._rng.choice((1, 7, 48, 49, 500, 100_000)))
        return Broken(GARBAGE, drawn.lstrip(b"E\x16") or b"x")

    def another_protocol(self):
        other = (
            b"GET / HTTP/1.1\r\n\r\n",
            b"SSH-2.0-OpenSSH_9\r\n",
            b"ELASTIC1" + bytes(32),
        )
        return Broken(GARBAGE, self._rng.choice(other))

    def tls(self):
        return Broken(TLS, b"\x16\x03\x01\x02\0\1\0" + self._rng.randbytes(200), hears=NO_TLS)

    def frames_without_a_handshake(self):
        return Broken(GARBAGE, wire.frame({"role": "controller", "generation": GENERATION}))

    def oversized_length(self):
        return Broken(GARBAGE, b"\xff\xff\xff\x3f" + b"\xff" * 8 + bytes(100))

    def cut_opening(self):
        return Broken(GARBAGE, self.opening()[: self._rng.randrange(1, OPENING_BYTES)])

    def flipped_magic(self):
        return Broken(GARBAGE, flipped(self._rng, self.opening(), last=len(MAGIC)))

    def flipped_pool(self):
        return Broken(FOREIGN, flipped(self._rng, self.opening(), len(MAGIC), len(MAGIC) + 8), hears=OTHER_POOL)

    def another_pools_secret(self):
        return Broken(FOREIGN, Dialer(self._rng.randbytes(32)).opening(), hears=OTHER_POOL)

    def no_proof(self):
        return Broken(WRONG, self.opening(), proof=b"")

    def cut_proof(self):
        return Broken(WRONG, self.opening(), proof=self._rng.randbytes(self._rng.randrange(1, 32)))

    def guessed_proof(self):
        return Broken(WRONG, self.opening(), proof=self._rng.randbytes(32) + wire.frame({"role": "controller"}))

    # With a proof

    def cut_hello(self):
        hello = wire.frame({"role": "controller", "generation": GENERATION + 1})
        return self.proven(GARBAGE, hello[: self._rng.randrange(0, len(hello))])

    def flipped_hello(self):
        return self.proven(GARBAGE, flipped(self._rng, wire.frame({"role": "tourist"})))

    def no_hello(self):
        none = [1, 2], None, "controller", 7, {"role": "tourist"}, {"role": ["peer"]}, {"role": None}, {}
        return self.proven(GARBAGE, self._rng.choice(none))

    def hello_of_an_oversized_length(self):
        head = wire.frame_header({"role": "peer"}, self._rng.choice((1, 1 << 40, (1 << 64) - 1)))
        return self.proven(GARBAGE, self._rng.choice((head, b"\xff\xff\xff\x3f" + bytes(8) + bytes(50))))

    def broken_frame(self):
        """What is neither a frame nor the beginning of one."""
        return self._rng.choice(
            (
                b"\xff" * 60,
                b"\x01\x00\x00\x00" + bytes(8) + b"\xc1",
                b"\x02\x00\x00\x00" + bytes(8) + b"\x01\x01",
                wire.frame_header([b"digest"], (1 << 63) + self._rng.getrandbits(40)) + b"x",
                *map(wire.frame, (None, 5, "text", [self._rng.random()], [[]] * 7, {"use": 1}, [b"", b"", b""])),
            )
        )


class ToAgent(Strangers):
    def broken_copies(self):
        return self.proven(GARBAGE, {"role": self._rng.choice(("copies", "blocks"))}, self.broken_frame())

    def controller_of_another_pool(self):
        return self.proven(FOREIGN, {"role": "controller", "run": "r", "pool": "another"})


class ToExecutor(Strangers):
    def old_generation(self):
        role = self._rng.choice(("controller", "peer", "callbacks"))
        return self.proven(OLD, {"role": role, "generation": self._rng.choice((None, 0, 1, 4, 6, "5", [5]))})

    def second_controller(self):
        return self.proven(OLD, {"role": self._rng.choice(("controller", "callbacks")), "generation": GENERATION})

    def broken_shards(self):
        return self.proven(GARBAGE, {"role": "peer", "generation": GENERATION}, self.broken_frame())


def kinds(strangers):
    return [
        getattr(strangers, name)
        for name in dir(strangers)
        if not name.startswith("_") and name not in ("opening", "proven", "broken_frame")
    ]


def read_all(sock):
    data = b""
    try:
        while more := sock.recv(1 << 12):
            data += more
    except ConnectionError:
        pass
    return data


def send_all(sock, data, end):
    try:
        sock.sendall(data)
        if end:
            sock.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # It has closed the connection already, as it may.


def visit(address, ones):
    """Has some connections to an address at once, and checks what each is told."""
    target = wire.parse_address(address)
    socks = [socket.create_connection(target, PATIENCE) for _ in ones]
    for sock, one in zip(socks, ones, strict=True):
        send_all(sock, one.opening, not one.wants_reply)
    for sock, one in zip(socks, ones, strict=True):
        if one.wants_reply:
            reply = b""
            while len(reply) < REPLY_BYTES and (more := sock.recv(REPLY_BYTES - len(reply))):
                reply += more
            send_all(sock, one.dialer.proof(reply) + one.then if one.dialer else one.proof, True)
    for sock, one in zip(socks, ones, strict=True):
        with sock:
            heard = read_all(sock)
        if one.reason == FOREIGN and one.dialer is not None:
            assert wire.unframe(heard)[0]["refused"] == "host h7 is in pool default, and run r in another"
        else:
            assert heard in (b"", one.hears), (one.reason, one.opening, one.then, heard)


class Work:
    """A controller at work with an agent and an executor: both answer it, again and again, until it is told to end."""

    def __init__(self, agent, controller, pid, address):
        self._agent = controller.channel
        self._agent.send({"use": pid})
        self.refusals = collections.Counter()
        self._told = threading.Condition()
        self._executor = agent.dial({"role": "controller", "generation": GENERATION}, address=address)
        self._callbacks = agent.dial({"role": "callbacks", "generation": GENERATION}, address=address)
        coordinator = self._ask_executor(Command.COORDINATE, 1)
        spec = {"generation": GENERATION, "rank": 0, "processes": 1, "coordinator": coordinator, "platform": "cpu"}
        self._ask_executor(Command.JOIN, {**spec, "placement": [[0, 0]], "peers": [address]})
        self.rounds = 0
        self.slowest = 0.0
        self.error = None
        self._ending = False
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _ask_executor(self, command, *arguments):
        self._executor.send([command, 1, *arguments])
        (request, code, result), _ = self._executor.receive()
        assert (request, code) == (1, 0), result
        return result

    def _ask_agent(self, number):
        self._agent.send({"keep": [], "order": number})
        while True:
            event = self._agent.receive()[0]
            if "refusals" in event:
                with self._told:
                    self.refusals = collections.Counter(event["refusals"])
                    self._told.notify()
            assert "exited" not in event, event
            if "done" in event:
                assert (event["done"], event["problem"]) == (number, None)
                return

    def _work(self):
        try:
            while not self._ending:
                began = time.monotonic()
                self._ask_agent(self.rounds)
                self._ask_executor(Command.PING)
                self.slowest = max(self.slowest, time.monotonic() - began)
                self.rounds += 1
        except BaseException as error:
            self.error = error

    def wait_for(self, refusals):
        with self._told:
            assert self._told.wait_for(lambda: self.refusals == refusals, PATIENCE), (self.refusals, refusals)

    def end(self):
        self._ending = True
        self._thread.join(PATIENCE)
        assert self.error is None, self.error
        for channel in (self._executor, self._callbacks):
            channel.close()


class Use:
    """What a process uses."""

    def __init__(self, pid):
        self._process = psutil.Process(pid)
        self.before = self.now()

    def now(self):
        """(Open descriptors, threads)."""
        return self._process.num_fds(), self._process.num_threads()

    def memory(self):
        return self._process.memory_info().rss


@pytest.fixture
def agent(tmp_path):
    made = Agent(tmp_path)
    yield made
    made.close()


def test_ten_thousand_strangers_are_refused_and_counted_and_disturb_nobody(agent):
    seed = int(os.environ.get(SEED) or random.SystemRandom().getrandbits(32))
    print(f"{SEED}={seed} repeats this")
    rng = random.Random(seed)
    with agent.controller() as (controller, pid, address):
        work = Work(agent, controller, pid, address)
        targets = [
            (agent.address, kinds(ToAgent(rng, agent.secret))),
            (address, kinds(ToExecutor(rng, agent.secret))),
        ]
        expected = collections.Counter()

        def strangers(count):
            for number in range(count // AT_ONCE):
                target, makes = targets[number % 2]
                ones = [rng.choice(makes)() for _ in range(AT_ONCE)]
                visit(target, ones)
                expected.update(one.reason for one in ones)
            work.wait_for(expected)

        strangers(FRAMES // 10)  # What grows now are buffers and the like.
        uses = {name: Use(number) for name, number in (("agent", agent.process.pid), ("executor", pid))}
        memory = {name: use.memory() for name, use in uses.items()}
        rounds = work.rounds
        strangers(FRAMES)
        assert expected.total() >= FRAMES
        assert work.rounds - rounds > 50
        assert work.slowest < 5
        for name, use in uses.items():
            # Pools of threads fill up, and one or two connections may not have ended yet; a leak would be of hundreds.
            assert all(now <= before + 8 for now, before in zip(use.now(), use.before, strict=True)), (name, use.now())
            assert use.memory() - memory[name] < 16 << 20, name
        work.end()
