"""Copies from one host's memory to another's, over real sockets."""

import asyncio
import contextlib
import os

import pytest

from elastic import calling
from elastic.agent.copies import ROLE, Receiver, send
from elastic.agent.work_meter import WorkMeter
from elastic.door import Door
from elastic.host_memory import contents, digest_of, save
from tests.elastic.connections import SECRET, frames_server, run


class Host:
    """The end of an agent that takes copies."""

    def __init__(self, memory):
        memory.mkdir()
        self.memory = memory

    async def __aenter__(self):
        self.receiver = Receiver(self.memory, WorkMeter())
        self._links = []

        def serve(hello, link):
            assert hello == {"role": ROLE}
            self._links.append(link)
            self.receiver.serve(link)

        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(Door(SECRET, serve), "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        self.receiver.close()
        for link in self._links:
            link.close()


@contextlib.asynccontextmanager
async def two_hosts(directory):
    """(the memory of one that sends, one that receives)"""
    source = directory / "source"
    source.mkdir()
    async with Host(directory / "there") as there:
        yield source, there


def kept(memory, *contents):
    digests = [digest_of(data) for data in contents]
    for digest, data in zip(digests, contents, strict=True):
        save(memory, digest, data)
    return digests


def on_two_hosts(play, directory):
    async def main():
        async with two_hosts(directory) as (source, there):
            await play(source, there)

    run(main())


async def sent(source, digests, address, secret=SECRET):
    """Sends in a thread, as agents do; what went wrong, or None."""
    return (await asyncio.to_thread(send, source, digests, address, secret))["problem"]


@pytest.mark.parametrize("data", [[], [b""], [b"x"], [b"1", b"", b"3" * 100], [bytes(5 << 20)]], ids=len)
def test_copies_arrive_as_they_were(tmp_path, data):
    async def play(source, there):
        digests = kept(source, *data)
        assert await sent(source, digests, there.address) is None
        assert set(contents(there.memory)) == set(digests)
        for digest, expected in zip(digests, data, strict=True):
            assert (there.memory / digest.hex()).read_bytes() == expected

    on_two_hosts(play, tmp_path)


def test_the_copy_that_is_missing_or_was_changed_is_named(tmp_path):
    async def play(source, there):
        good, bad = kept(source, b"good", b"bad")
        (source / bad.hex()).write_bytes(b"bat")
        for _ in ("it was changed", "it is missing"):
            outcome = await asyncio.to_thread(send, source, [good, bad], there.address, SECRET)
            assert outcome["bad"] == [bad]

    on_two_hosts(play, tmp_path)


def test_what_is_there_already_is_replaced_by_the_same(tmp_path):
    async def play(source, there):
        digests = kept(source, b"x")
        kept(there.memory, b"x")
        assert await sent(source, digests, there.address) is None
        assert contents(there.memory) == digests

    on_two_hosts(play, tmp_path)


def test_several_hosts_may_send_at_once(tmp_path):
    async def play(source, there):
        digests = kept(source, *(bytes([number]) * 100_000 for number in range(8)))
        outcomes = await asyncio.gather(*(sent(source, [digest], there.address) for digest in digests))
        assert outcomes == [None] * 8
        assert set(contents(there.memory)) == set(digests)

    on_two_hosts(play, tmp_path)


def test_a_host_that_keeps_a_copy_which_has_rotted_does_not_pass_it_on(tmp_path):
    async def play(source, there):
        good, bad = kept(source, b"good", b"bad")
        (source / bad.hex()).write_bytes(b"bat")
        problem = await sent(source, [good, bad], there.address)
        assert f"{bad.hex()} was changed" in problem

    on_two_hosts(play, tmp_path)


def test_what_a_host_does_not_have_it_cannot_send(tmp_path):
    async def play(source, there):
        digest = digest_of(b"never saved")
        assert f"{digest.hex()} is not here" in await sent(source, [digest], there.address)
        assert contents(there.memory) == []

    on_two_hosts(play, tmp_path)


def test_bytes_that_were_changed_on_their_way_are_refused(tmp_path):
    async def play(source, there):
        def send_changed():
            channel = calling.dial(there.address, SECRET, {"role": ROLE})
            channel.send([digest_of(b"sent")], b"came")
            channel.send([digest_of(b"good")], b"good")
            channel.send([])
            answer = channel.receive()[0]
            channel.close()
            return answer

        (problem,) = await asyncio.to_thread(send_changed)
        assert f"{digest_of(b'sent').hex()} was changed on its way" in problem
        assert contents(there.memory) == [digest_of(b"good")]

    on_two_hosts(play, tmp_path)


def test_a_full_memory_is_told_to_the_sender(tmp_path, monkeypatch):
    async def play(source, there):
        digests = kept(source, b"x" * 100)

        def rename(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "rename", rename)
        assert "No space left" in await sent(source, digests, there.address)
        assert list(there.memory.iterdir()) == []

    on_two_hosts(play, tmp_path)


def test_who_does_not_know_the_secret_leaves_nothing(tmp_path):
    async def play(source, there):
        digests = kept(source, b"x")
        assert await sent(source, digests, there.address, b"a guess")
        assert contents(there.memory) == []

    on_two_hosts(play, tmp_path)


def test_a_host_that_is_of_another_pool_gets_nothing(tmp_path):
    async def main():
        source = tmp_path / "source"
        source.mkdir()
        digests = kept(source, b"x")
        async with frames_server(b"another secret") as stranger:
            assert await sent(source, digests, stranger.address)
            assert stranger.connections.empty()

    run(main())


@pytest.mark.parametrize("when", ["never-there", "after-the-hello", "before-the-answer"])
def test_a_host_that_goes_away_is_a_problem_in_words_and_no_wait(tmp_path, when):
    async def main():
        source = tmp_path / "source"
        source.mkdir()
        digests = kept(source, b"x")
        async with frames_server() as there:
            address = there.address
            if when != "never-there":
                sending = asyncio.create_task(sent(source, digests, address))
                connection = await there.connections.get()
                if when == "before-the-answer":
                    assert await connection.read() == ([digests[0]], b"x")
                    assert await connection.read() == ([], b"")
                connection.drop()
                assert await sending
        if when == "never-there":
            assert "refused" in await sent(source, digests, address)

    run(main())


def test_the_end_is_answered_when_everything_is_saved(tmp_path):
    """The controller counts on it from then on."""

    async def play(source, there):
        digests = kept(source, *(bytes([number]) * 1000 for number in range(20)))
        assert await sent(source, digests, there.address) is None
        assert len(contents(there.memory)) == 20

    on_two_hosts(play, tmp_path)
