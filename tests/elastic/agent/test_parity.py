"""Parity blocks and lost shards, made by an agent of what others send, over real sockets."""

import asyncio
import contextlib

import pytest

from checkpoint import Codec
from checkpoint.parity import _reed_solomon as reed_solomon
from elastic import host_memory
from elastic.agent import blocks, parity
from elastic.door import Door
from elastic.host_memory import contents, digest_of, save
from tests.elastic.connections import SECRET, frames_server, run

DATA = [b"first shard", b"second", b"the third of the shards"]
LARGE = [bytes([number]) * (blocks.PIECE * 2 + number) for number in (1, 2, 3)]


class Host:
    """The end of an agent that others read blocks from."""

    def __init__(self, memory):
        memory.mkdir()
        self.memory = memory
        self.asked = 0

    async def __aenter__(self):
        self._links = []

        def serve(hello, link):
            assert hello == {"role": blocks.ROLE}
            self.asked += 1
            self._links.append(link)
            blocks.serve(self.memory, link)

        self._server = await asyncio.get_running_loop().create_server(Door(SECRET, serve), "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self.die()

    def die(self):
        self._server.close()
        for link in self._links:
            link.close()

    def keep(self, data):
        save(self.memory, digest_of(data), data)

    def rot(self, data):
        """One bit of it flips."""
        path = self.memory / digest_of(data).hex()
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:])


class Stage:
    """Hosts with the blocks of one stripe, a block each, and one more that makes blocks."""

    def __init__(self, directory, data, m):
        self.k, self.m, self.data = len(data), m, data
        self.size = max(map(len, data))
        known = dict(enumerate(data))
        self.blocks = [*data, *(bytes(Codec(self.k, m).make(self.k + j, known, self.size)) for j in range(m))]
        self.hosts = [Host(directory / f"h{number}") for number in range(len(self.blocks))]
        self.here = directory / "here"
        self.here.mkdir()

    def job(self, want, numbers, digest=None):
        """To make a block of those with these numbers, where they are."""
        listed = [
            [number, digest_of(self.blocks[number]), len(self.blocks[number]), [self.hosts[number].address]]
            for number in numbers
        ]
        wanted = self.blocks[want]
        known = {"digest": digest_of(wanted) if digest is None else digest, "bytes": len(wanted)}
        return {"k": self.k, "m": self.m, "want": want, "blocks": listed, **known}

    async def make(self, *jobs):
        return await asyncio.to_thread(parity.carry_out, self.here, jobs, SECRET)


def on_hosts(play, directory, data=DATA, m=1):
    async def main():
        stage = Stage(directory, data, m)
        async with contextlib.AsyncExitStack() as stack:
            for host, block in zip(stage.hosts, stage.blocks, strict=True):
                await stack.enter_async_context(host)
                host.keep(block)
            await play(stage)

    run(main())


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("data", [DATA, LARGE, [b"alone", b""]], ids=["small", "large", "empty"])
def test_a_parity_block_is_made_of_what_others_send(tmp_path, data, m):
    async def play(stage):
        jobs = [stage.job(stage.k + j, range(stage.k), digest=b"") for j in range(m)]
        parity_blocks = stage.blocks[stage.k :]
        assert await stage.make(*jobs) == {"made": list(map(digest_of, parity_blocks)), "bad": [], "problem": None}
        assert [bytes(host_memory.read(stage.here, digest_of(block))) for block in parity_blocks] == parity_blocks

    on_hosts(play, tmp_path, data, m)


@pytest.mark.parametrize("data", [DATA, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("lost", range(3))
def test_a_lost_shard_is_made_of_any_k_blocks_that_are_left(tmp_path, data, lost):
    async def play(stage):
        for numbers in ({0, 1, 2, 3} - {lost}, {1, 2, 3, 4} - {lost}, {0, 2, 3, 4} - {lost}):
            assert (await stage.make(stage.job(lost, numbers)))["made"] == [digest_of(data[lost])]
            assert bytes(host_memory.read(stage.here, digest_of(data[lost]))) == data[lost]

    on_hosts(play, tmp_path, data, m=2)


def test_what_is_in_its_own_memory_is_not_asked_for(tmp_path):
    async def play(stage):
        save(stage.here, digest_of(DATA[0]), DATA[0])
        job = stage.job(3, range(3))
        job["blocks"][0][3].insert(0, "")
        assert (await stage.make(job))["made"] == [digest_of(stage.blocks[3])]
        assert [host.asked for host in stage.hosts] == [0, 1, 1, 0]

    on_hosts(play, tmp_path)


def test_many_blocks_are_made_over_the_same_connections(tmp_path):
    async def play(stage):
        await stage.make(*[stage.job(3, range(3))] * 5)
        assert [host.asked for host in stage.hosts] == [1, 1, 1, 0]

    on_hosts(play, tmp_path)


@pytest.mark.parametrize("data", [DATA, LARGE], ids=["small", "large"])
def test_a_bad_block_is_named_and_another_is_used(tmp_path, data):
    async def play(stage):
        stage.hosts[1].rot(data[1])
        said = await stage.make(stage.job(0, [1, 2, 3, 4]))
        assert said["made"] == [digest_of(data[0])]
        assert said["bad"] == [(stage.hosts[1].address, digest_of(data[1]))]
        assert said["problem"] is None

    on_hosts(play, tmp_path, data, m=2)


def test_a_bad_copy_of_a_block_gives_way_to_another_copy_of_it(tmp_path):
    async def play(stage):
        stage.hosts[0].rot(DATA[0])
        stage.hosts[3].keep(DATA[0])
        job = stage.job(3, range(3), digest=b"")
        job["blocks"][0][3].append(stage.hosts[3].address)
        said = await stage.make(job)
        assert said["made"] == [digest_of(stage.blocks[3])]
        assert said["bad"] == [(stage.hosts[0].address, digest_of(DATA[0]))]

    on_hosts(play, tmp_path)


def test_too_many_bad_blocks_are_an_error_that_names_them_after_one_attempt_each(tmp_path):
    async def play(stage):
        stage.hosts[1].rot(DATA[1])
        stage.hosts[3].rot(stage.blocks[3])
        said = await stage.make(stage.job(0, [1, 2, 3, 4]))
        assert said["made"] == [b""]
        for number in (1, 3):
            there = f"block {digest_of(stage.blocks[number]).hex()} at {stage.hosts[number].address}: it was changed"
            assert there in said["problem"]
        assert f"block {digest_of(DATA[0]).hex()} cannot be made: it needs 3 blocks" in said["problem"]
        assert len(said["bad"]) == 2
        assert contents(stage.here) == []
        assert list(stage.here.iterdir()) == []
        assert max(host.asked for host in stage.hosts) <= 3

    on_hosts(play, tmp_path, m=2)


def test_a_block_that_is_not_there_any_more_is_bad_too(tmp_path):
    async def play(stage):
        (stage.hosts[1].memory / digest_of(DATA[1]).hex()).unlink()
        (stage.hosts[2].memory / digest_of(DATA[2]).hex()).write_bytes(DATA[2][:-1])
        said = await stage.make(stage.job(0, [1, 2, 3, 4]))
        assert "it is missing: No such file" in said["problem"]
        assert f"it is missing: it ends after {len(DATA[2]) - 1} of {len(DATA[2])} bytes" in said["problem"]
        assert len(said["bad"]) == 2

    on_hosts(play, tmp_path, m=2)


def test_a_block_that_was_bad_is_not_tried_for_the_next(tmp_path):
    async def play(stage):
        stage.hosts[1].rot(DATA[1])
        said = await stage.make(stage.job(0, [1, 2, 3, 4]), stage.job(0, [1, 2, 3, 4]), stage.job(0, [1, 2, 3]))
        assert said["made"] == [digest_of(DATA[0])] * 2 + [b""]
        assert "it was bad before" in said["problem"]
        assert len(said["bad"]) == 1

    on_hosts(play, tmp_path, m=2)


def test_a_host_that_is_gone_makes_no_block_bad(tmp_path):
    async def play(stage):
        stage.hosts[1].die()
        said = await stage.make(stage.job(0, [1, 2, 3, 4]), stage.job(0, [1, 2, 3]))
        assert said["made"] == [digest_of(DATA[0]), b""]
        assert said["bad"] == []
        assert stage.hosts[1].address in said["problem"]

    on_hosts(play, tmp_path, m=2)


def test_a_host_that_does_not_answer_is_given_up_and_another_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "PATIENCE_S", 0.2)

    async def play(stage):
        async with frames_server() as frozen:
            job = stage.job(0, [1, 2, 3, 4])
            job["blocks"][0][3] = [frozen.address]
            said = await stage.make(job, job)
        assert said == {"made": [digest_of(DATA[0])] * 2, "bad": [], "problem": None}

    on_hosts(play, tmp_path, m=2)


def test_good_blocks_that_are_of_another_stripe_are_noticed(tmp_path):
    async def play(stage):
        said = await stage.make(stage.job(0, [1, 2, 3], digest=digest_of(b"something else")))
        assert f"{digest_of(b'something else').hex()} is not what was made" in said["problem"]
        assert list(stage.here.iterdir()) == []

    on_hosts(play, tmp_path)


def test_a_full_memory_is_told_and_leaves_nothing(tmp_path, monkeypatch):
    async def play(stage):
        def add(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(host_memory.Growing, "add", add)
        said = await stage.make(stage.job(3, range(3)))
        assert "No space left" in said["problem"]
        assert list(stage.here.iterdir()) == []

    on_hosts(play, tmp_path)


def test_a_library_that_is_missing_is_told(tmp_path, monkeypatch):
    async def play(stage):
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
        monkeypatch.setattr("checkpoint.parity._reed_solomon", reed_solomon.__wrapped__)  # Nothing remembered.
        assert "needs the package zfec" in (await stage.make(stage.job(3, range(3))))["problem"]

    on_hosts(play, tmp_path, m=2)
