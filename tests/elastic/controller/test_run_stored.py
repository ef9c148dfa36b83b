"""Runs whose snapshots are stored on disk: what they can go back to, and what happens when the disk is bad."""

import asyncio

import pytest

import checkpoint
from checkpoint import dispatch
from elastic.commands import Command
from elastic.controller import durable, file_reading, file_writing, line
from elastic.status import Code, StatusError
from tests.elastic.connections import run
from tests.elastic.controller.played import made_by, played, told


def with_disk(play, directory, **how):
    """Plays a test on a pool whose snapshots can be stored in a directory."""

    async def main():
        async with played(checkpoint=directory, **how) as pool:
            await play(pool)

    run(main())


def steps_in(directory):
    return [step.number for step in checkpoint.steps(directory) if step.finished]


def test_when_all_hosts_have_died_the_run_goes_on_from_what_is_stored(tmp_path):
    async def play(pool):
        step = await pool.load()
        x = pool.execute(step, pool.put(b"x"))
        await pool.store()
        y = pool.execute(step, x)
        seen = await pool.read(y)
        await pool.lose_all()
        assert (await pool.recovered.get()).operations_replayed == 1
        assert await pool.read(y, 5) == made_by(step, made_by(step, b"x")) == seen
        assert pool.fetched
        assert pool.run.verification.different == []

    with_disk(play, tmp_path)


def test_a_later_snapshot_that_only_memory_had_is_made_again(tmp_path):
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        await pool.store()
        y = pool.execute(step, x)
        await pool.snapshot()
        z = pool.execute(step, y)
        await pool.lose_all()
        await pool.recovered.get()
        assert await pool.read(z) == made_by(step, made_by(step, b"x"))

    with_disk(play, tmp_path)


def test_a_snapshot_that_hosts_come_to_late_is_stored_if_that_is_due_by_then(tmp_path, monkeypatch):
    async def play(pool):
        await pool.store()
        x = pool.put(b"x")
        pool.hold(Command.SNAPSHOT)
        late = asyncio.create_task(pool.snapshot())
        await pool.until_held(Command.SNAPSHOT)
        monkeypatch.setattr(pool.run._durable, "_every_s", 0.0)
        pool.release(Command.SNAPSHOT)
        await late
        await pool.run._saving.storing
        assert pool.run._durable.latest.snapshot.records.keys() >= {(x, 0)}

    with_disk(play, tmp_path)


def test_before_anything_is_stored_all_is_told_again(tmp_path):
    async def play(pool):
        step = await pool.load()
        y = pool.execute(step, pool.put(b"x"))
        pool.hosts["h0"].stores.clear()  # The first one is never finished.
        await pool.begin_to_store()
        await pool.lose_all()
        await pool.recovered.get()
        assert await pool.read(y) == made_by(step, b"x")

    with_disk(play, tmp_path)


def test_as_long_as_memory_has_it_nothing_is_read_from_disk(tmp_path):
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        await pool.store()
        y = pool.execute(step, x)
        await pool.snapshot()
        pool.hosts["h1"].die()
        await pool.recovered.get()
        assert told(pool.hosts["h0"].executor) == []
        assert await pool.read(y) == made_by(step, b"x")
        assert pool.fetched == []

    with_disk(play, tmp_path)


def test_a_bad_copy_in_memory_gives_way_to_the_stored_one(tmp_path):
    async def play(pool):
        x = pool.put(b"x")
        await pool.store()
        for host in pool.hosts.values():
            host.memory = dict.fromkeys(host.memory, b"rotten")
        pool.hosts["h1"].end_executor()
        await pool.recovered.get()
        assert await pool.read(x) == b"x"
        assert pool.fetched

    with_disk(play, tmp_path)


def test_if_the_stored_one_is_bad_too_the_error_names_array_and_file_after_one_look(tmp_path):
    async def play(pool):
        x = pool.put(b"x")
        await pool.store()
        files = list(tmp_path.glob("*/state/*/c/0"))
        for file in files:
            file.write_bytes(b"y")
        await pool.lose_all()
        await pool.until(lambda: pool.failures)
        (failure,) = pool.failures
        assert f"every copy of arrays {x} is lost" in str(failure)
        assert any(f"{file} was changed" in str(failure) for file in files)
        assert len(set(pool.fetched)) == len(pool.fetched)
        with pytest.raises(StatusError) as raised:
            await pool.read(x)
        assert raised.value.code is Code.UNAVAILABLE

    with_disk(play, tmp_path)


def test_a_full_disk_is_told_and_the_checkpoint_before_stays(tmp_path):
    async def play(pool):
        x = pool.put(b"x")
        await pool.store()
        before = steps_in(tmp_path)
        y = pool.put(b"y")
        pool.disk_is_full = True
        await pool.store()
        assert "No space left on device" in pool.run._durable.problem
        assert steps_in(tmp_path) == before
        assert [step.finished for step in checkpoint.steps(tmp_path)] == [True]
        await pool.lose_all()
        await pool.recovered.get()
        assert [await pool.read(array) for array in (x, y)] == [b"x", b"y"]
        pool.disk_is_full = False
        await pool.store()
        assert pool.run._durable.problem == ""
        assert steps_in(tmp_path)[0] > before[0]

    with_disk(play, tmp_path)


def test_what_the_controller_itself_cannot_write_is_told_in_words(tmp_path):
    directory = tmp_path / "directory"
    directory.touch()

    async def play(pool):
        pool.put(b"x")
        await pool.store()
        assert pool.run._durable.problem.endswith(f"could not be stored: {directory}: File exists")

    with_disk(play, directory)


def test_the_journal_is_kept_until_a_snapshot_is_stored(tmp_path):
    async def play(pool):
        journal = pool.run._line.journal
        pool.put(b"x")
        await pool.store()
        assert len(journal.entries) == 0
        pool.put(b"y")
        await pool.snapshot()
        assert (len(journal.entries), journal.to_replay()) == (1, [])
        await pool.store()
        assert len(journal.entries) == 0

    with_disk(play, tmp_path)


def test_a_journal_that_has_grown_large_calls_for_a_snapshot_that_is_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(line, "_LARGE", 5000)
    monkeypatch.setattr(durable, "_AGAIN_S", 0)

    async def play(pool):
        journal = pool.run._line.journal
        await pool.store()
        pool.put(b"x" * 3000)
        await pool.snapshot()
        assert len(journal.entries) == 1
        pool.put(b"y" * 3000)
        await pool.snapshot()
        await pool.run._saving.storing
        assert len(journal.entries) == 0

    with_disk(play, tmp_path)


def test_only_the_newest_two_are_kept(tmp_path):
    async def play(pool):
        for number in range(4):
            pool.put(bytes([number]))
            await pool.store()
        assert len(steps_in(tmp_path)) == 2

    with_disk(play, tmp_path)


def test_hosts_keep_what_is_being_stored_though_a_newer_snapshot_counts(tmp_path):
    async def play(pool):
        x = pool.put(b"x")
        for host in pool.hosts.values():
            host.stores.clear()
        storing = await pool.begin_to_store()
        pool.free(x)
        pool.put(b"y")
        await pool.snapshot()
        for host in pool.hosts.values():
            host.stores.set()
        await storing
        assert pool.run._durable.latest

    with_disk(play, tmp_path)


def test_a_host_that_dies_while_it_writes_leaves_it_to_the_one_with_the_copy(tmp_path):
    async def play(pool):
        x = pool.put(b"x")
        pool.hosts["h0"].stores.clear()
        storing = await pool.begin_to_store()
        pool.hosts["h0"].die()
        await pool.recovered.get()
        await storing
        assert pool.run._durable.latest
        assert await pool.read(x) == b"x"

    with_disk(play, tmp_path)


def test_a_host_whose_disk_hangs_is_named_and_others_write_what_it_was_to_write(tmp_path, monkeypatch):
    monkeypatch.setattr(file_writing, "_LOOK_S", 0.01)
    monkeypatch.setattr(dispatch, "PATIENCE_S", 0.05)

    async def play(pool):
        for number in range(3):
            pool.put(bytes([number]) * 10)
        pool.hosts["h0"].stores.clear()
        durable, told = pool.run._durable, []
        durable._tell_slow = lambda slow: told.extend(slow)
        await pool.store()
        assert set(told) == {"h0"}
        assert durable.latest
        assert checkpoint.verify(durable.latest.path) == []
        pool.hosts["h0"].stores.set()

    with_disk(play, tmp_path)


def test_for_a_host_whose_disk_hangs_another_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(file_reading, "_LOOK_S", 0.01)
    monkeypatch.setattr(file_reading, "_PATIENCE_S", 0.05)

    async def play(pool):
        arrays = [pool.put(bytes([number]) * 10) for number in range(3)]
        await pool.store()
        ids = list(pool.hosts)
        for id in ids:
            pool.hosts[id].die()
        for id in ids:
            host = await pool.join(id)
            if id == "h1":
                host.reads.clear()
        await pool.recovered.get()
        assert [await pool.read(array, 2) for array in arrays] == [bytes([number]) * 10 for number in range(3)]
        assert "h1" not in {host for host, _ in pool.fetched}
        pool.hosts["h1"].reads.set()

    with_disk(play, tmp_path)


def test_one_that_is_stored_when_the_run_has_gone_back_behind_it_is_not_gone_back_to(tmp_path):
    async def play(pool):
        step = await pool.load()
        x = pool.put(b"x")
        await pool.store()
        y = pool.execute(step, x)
        durable, go_on = pool.run._durable, asyncio.Event()
        store = durable.store

        async def slowly(snapshot, arrays):
            stored = await store(snapshot, arrays)
            await go_on.wait()
            return stored

        durable.store = slowly
        storing = await pool.begin_to_store()
        await pool.lose_all()
        await pool.recovered.get()
        go_on.set()
        await storing
        await pool.lose_all()
        await pool.recovered.get()
        assert await pool.read(y) == made_by(step, b"x")

    with_disk(play, tmp_path)


def test_what_a_client_had_that_left_is_nothing_to_go_back_to(tmp_path):
    async def play(pool):
        x = pool.put(b"x")
        await pool.store()
        pool.leave()
        y = pool.put(b"y")
        await pool.lose_all()
        await pool.recovered.get()
        assert await pool.read(y) == b"y"
        with pytest.raises(StatusError, match=f"array {x} is not"):
            await pool.read(x)

    with_disk(play, tmp_path)


def test_health_tells_of_it(tmp_path):
    async def play(pool):
        pool.put(b"x")
        await pool.store()
        facts = pool.run._durable.facts(pool.run._durable.latest.at + 2)
        assert (facts.directory, facts.age, facts.problem, facts.nbytes) == (str(tmp_path), 2, "", 6)

    with_disk(play, tmp_path)
