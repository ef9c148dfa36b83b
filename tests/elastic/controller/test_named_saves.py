"""Checkpoints that a client asks for, on played hosts and a real disk."""

import pytest

import checkpoint
from elastic.commands import Command
from elastic.controller import shardings
from elastic.controller.arrays import Array
from elastic.proto import ifrt_pb2 as pb
from elastic.status import StatusError
from tests.elastic.controller.played import NEVER_S, made_by, told, with_hosts
from tests.elastic.controller.played_link import PlayedLink

U8 = int(pb.DTypeProto.KIND_U8)
EVERYWHERE = pb.OpSharding(type=pb.OpSharding.REPLICATED).SerializeToString()


class Client:
    """The client's end of the connection for saves."""

    def __init__(self, pool, root):
        self._pool, self._root = pool, root
        self._link = PlayedLink()
        self._marks = 0
        pool.run.saves.serve_client(self._link)

    def array(self, number, size, *devices):
        sharding = shardings.single(devices[0]) if len(devices) == 1 else shardings.tiled(devices, EVERYWHERE)
        return Array(number, U8, (size,), sharding)

    def mark(self, *arrays):
        self._pool.run.saves.mark(arrays)
        self._marks += 1

    async def until_kept(self):
        for mark in list(self._pool.run.saves._marks.values()):
            await mark.kept.wait()

    def ask(self, step, *paths, save=1, marks=1, first=None, small=(), data=b""):
        leaves = [*([[path], None, None] for path in paths), *small]
        first = self._marks - marks if first is None else first
        self._link.receive([save, first, marks, str(self._root), step, "client", leaves, {"epoch": 2}], data)

    async def answer(self):
        while not self._link.sent:
            await pool_moves(self._pool)
        (((save, path, size, problem), _),) = self._link.heard()
        assert save == 1
        return path, size, problem


async def pool_moves(pool):
    """Lets the run and its threads do something."""
    await pool.run.saves._disk.do(lambda: None)


def values(root, step, name):
    folder = root / str(step)
    manifest = checkpoint.load_manifest(folder)
    entry = manifest.array((name,))
    return checkpoint.read_region(folder, manifest, entry, checkpoint.whole(entry.shape)).tobytes()


def test_what_is_marked_is_written_as_it_was_though_it_is_gone(tmp_path):
    async def play(pool):
        client = Client(pool, tmp_path)
        x = pool.put(b"abc")
        client.mark(client.array(x, 3, *range(6)))
        pool.free(x)
        client.ask(40, "x")
        path, size, problem = await client.answer()
        assert (path, size, problem) == (str(tmp_path / "40"), 3, "")
        assert checkpoint.verify(tmp_path / "40") == []
        assert values(tmp_path, 40, "x") == b"abc"
        assert checkpoint.load_manifest(tmp_path / "40").extra == {"epoch": 2}
        await pool.until(lambda: not any(host.marked for host in pool.hosts.values()))

    with_hosts(play)


def test_what_asks_for_a_mark_may_come_before_it(tmp_path):
    async def play(pool):
        client = Client(pool, tmp_path)
        client.ask(40, "x", first=0)
        await pool_moves(pool)
        client.mark(client.array(pool.put(b"abc"), 3, *range(6)))
        assert (await client.answer())[2] == ""
        await pool.until(lambda: not any(host.marked for host in pool.hosts.values()))

    with_hosts(play)


def test_a_mark_that_could_not_be_made_is_told_and_the_next_save_works(tmp_path):
    async def play(pool):
        client = Client(pool, tmp_path)
        client.ask(40, "x", first=0)
        pool.run.saves.mark_failed("array 7 is an error")
        assert (await client.answer())[2] == "array 7 is an error"
        client.ask(41, "x", first=1)
        client.mark(client.array(pool.put(b"abc"), 3, *range(6)))
        assert (await client.answer())[2] == ""

    with_hosts(play)


def test_a_client_that_leaves_is_not_waited_for(tmp_path):
    async def play(pool):
        client = Client(pool, tmp_path)
        client.ask(40, "x", first=0)
        await pool_moves(pool)
        pool.leave()
        assert (await client.answer())[2] == "the arrays were not marked"

    with_hosts(play)


def test_what_everybody_has_is_kept_by_two_hosts(tmp_path):
    async def play(pool):
        client = Client(pool, tmp_path)
        client.mark(client.array(pool.put(b"abc"), 3, *range(6)))
        await pool.until(lambda: len([host for host in pool.hosts.values() if host.marked]) == 2)
        client.ask(40, "x")
        await client.answer()

    with_hosts(play)


def test_a_host_that_dies_with_what_another_keeps_changes_nothing(tmp_path):
    async def play(pool):
        client = Client(pool, tmp_path)
        client.mark(client.array(pool.put(b"abc"), 3, *range(6)))
        await client.until_kept()
        next(host for host in pool.hosts.values() if host.marked).die()
        await pool.recovered.get()
        client.ask(40, "x")
        assert (await client.answer())[2] == ""

    with_hosts(play)


def test_what_died_with_its_only_host_is_told(tmp_path):
    async def play(pool):
        client = Client(pool, tmp_path)
        client.mark(client.array(pool.put(b"abc", (0,)), 3, 0))
        await client.until_kept()
        pool.hosts["h0"].die()
        await pool.recovered.get()
        client.ask(40, "x")
        path, _, problem = await client.answer()
        assert path == ""
        assert "hosts were lost" in problem or "nobody else has it" in problem
        assert checkpoint.steps(tmp_path) == []

    with_hosts(play)


def test_a_mark_that_a_host_died_over_is_kept_by_the_replay(tmp_path):
    async def play(pool):
        client = Client(pool, tmp_path)
        step = await pool.load()
        x = pool.put(b"x")
        await pool.snapshot()
        y = pool.execute(step, x)
        pool.hold(Command.HOLD)
        client.mark(client.array(y, 16, 0))
        await pool.until_held(Command.HOLD)
        pool.free(y)
        pool.hosts["h0"].die()
        pool.release(Command.HOLD)
        await pool.recovered.get()
        client.ask(40, "y")
        assert (await client.answer())[2] == ""
        assert values(tmp_path, 40, "y") == made_by(step, b"x")

    with_hosts(play)


def test_once_kept_it_is_not_asked_for_again(tmp_path):
    async def play(pool):
        client = Client(pool, tmp_path)
        client.mark(client.array(pool.put(b"abc"), 3, 2))
        await client.until_kept()
        client.ask(40, "x")
        await client.answer()
        pool.hosts["h0"].end_executor()
        await pool.recovered.get()
        assert not any(told(host.executor, Command.HOLD) for host in pool.hosts.values())

    with_hosts(play)


def test_values_that_no_host_has_come_with_the_message(tmp_path):
    async def play(pool):
        client = Client(pool, tmp_path)
        client.ask(40, marks=0, small=[[["n"], None, ["uint8", [2], 2]], [["m"], None, ["uint8", [], 1]]], data=b"789")
        assert (await client.answer())[1:] == (3, "")
        assert values(tmp_path, 40, "n") == b"78"
        assert values(tmp_path, 40, "m") == b"9"

    with_hosts(play)


def test_several_marks_make_one_checkpoint(tmp_path):
    async def play(pool):
        client = Client(pool, tmp_path)
        client.mark(client.array(pool.put(b"abc", (0, 1)), 3, 0, 1))
        client.mark(client.array(pool.put(b"de", (4,)), 2, 4))
        client.ask(40, "x", "y", marks=2)
        assert (await client.answer())[2] == ""
        assert [values(tmp_path, 40, name) for name in "xy"] == [b"abc", b"de"]

    with_hosts(play)


def test_an_array_that_holds_an_error_cannot_be_saved(tmp_path):
    async def play(pool):
        client = Client(pool, tmp_path)
        x = next(pool.numbers)
        pool.run.send((0,), Command.FAIL, [[x], 13, "it was divided by zero"])
        client.mark(client.array(x, 3, 0))
        client.ask(40, "x")
        assert (await client.answer())[2] == "it was divided by zero"
        assert checkpoint.steps(tmp_path) == []

    with_hosts(play)


def test_a_full_disk_is_told_and_nothing_is_left(tmp_path):
    async def play(pool):
        client = Client(pool, tmp_path)
        client.mark(client.array(pool.put(b"abc"), 3, *range(6)))
        pool.disk_is_full = True
        client.ask(40, "x")
        assert "No space left on device" in (await client.answer())[2]
        assert list(tmp_path.iterdir()) == []

    with_hosts(play)


def test_what_was_not_marked_cannot_be_saved(tmp_path):
    async def play(pool):
        client = Client(pool, tmp_path)
        client.ask(40, "x")
        assert (await client.answer())[2] == "the arrays were not marked"

    with_hosts(play)


def test_the_next_client_counts_its_marks_from_the_beginning(tmp_path):
    async def play(pool):
        first = Client(pool, tmp_path)
        first.mark(first.array(pool.put(b"old"), 3, *range(6)))
        pool.leave()
        second = Client(pool, tmp_path)
        second.mark(second.array(pool.put(b"new"), 3, *range(6)))
        second.ask(40, "x")
        assert (await second.answer())[2] == ""
        assert values(tmp_path, 40, "x") == b"new"

    with_hosts(play)


def test_arrays_whose_division_is_not_known_are_refused_at_the_mark(tmp_path):
    async def play(pool):
        client = Client(pool, tmp_path)
        array = Array(1, U8, (4,), shardings.even((0, 1), (2,)))
        with pytest.raises(StatusError):
            client.mark(array)

    with_hosts(play, pause_s=NEVER_S)
