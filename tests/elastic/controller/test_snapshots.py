"""Snapshots: where copies go, which of them are used, and what is lost when too many are gone."""

import asyncio
import contextlib

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from checkpoint import Protection, Work
from elastic.commands import Command
from elastic.controller.hosts import CopyError
from elastic.controller.placement import spread
from elastic.controller.snapshots import DataLossError, SnapshotError, Snapshots
from elastic.controller.world import WorldLost
from elastic.errors import HostLostError
from elastic.host_memory import digest_of
from elastic.status import Code, StatusError
from tests.elastic.controller.played_parity import made_of


class Host:
    """A host with a memory, a dictionary."""

    def __init__(self, id):
        self.id = self.address = id
        self.memory = {}
        self.rotten = set()
        """Copies whose bytes were changed."""
        self.got = []
        """Sizes of copies that others sent."""
        self.made = []
        """Blocks of stripes that it made."""
        self.peers = {}
        """The hosts by their addresses."""
        self.failure = None
        self.draining = False
        self.work = 0.0

    async def send_copies(self, digests, to):
        await asyncio.sleep(0)
        for digest in digests:
            if self.failure or to.failure:
                raise CopyError(f"host {self.id}: {self.failure or to.failure}")
            if digest not in self.memory or digest in self.rotten:
                raise CopyError(f"host {self.id}: the copy {digest.hex()} is not here", [digest])
            to.memory[digest] = self.memory[digest]
            to.rotten.discard(digest)
            to.got.append(len(self.memory[digest]))

    def take_work(self):
        return Work("m", 2, self.work)

    async def make_blocks(self, jobs):
        await asyncio.sleep(0)
        if self.failure:
            raise CopyError(f"host {self.id}: {self.failure}")
        return made_of(jobs, self._find, self._save_made)

    def _find(self, address, digest):
        host = self.peers.get(address) if address else self
        return None if host is None or digest in host.rotten else host.memory.get(digest)

    def _save_made(self, digest, data):
        self.memory[digest] = data
        self.rotten.discard(digest)
        self.made.append(digest)

    async def keep_copies(self, digests):
        self.rotten &= set(digests)
        self.memory = {digest: data for digest, data in self.memory.items() if digest in set(digests)}


class World:
    """As `World` to snapshots; its arrays are (array, device) -> bytes or an error."""

    def __init__(self, hosts, devices):
        self.hosts = hosts
        self.placement = spread(1, list(hosts)[:devices], devices)
        self.arrays = {}
        self.failure = None
        self.full = set()
        self.told = []

    async def call_each(self, command, arguments):
        self.told.append(command)
        if self.failure:
            raise WorldLost(self.failure)
        handler = self._snapshot if command is Command.SNAPSHOT else self._restore
        answers = {host: handler(host, *arguments(host)) for host in self.placement.hosts}
        await asyncio.sleep(0)
        return answers

    def _snapshot(self, host, number):
        if host in self.full:
            return StatusError(Code.RESOURCE_EXHAUSTED, "No space left on device")
        records = []
        for (array, device), value in self.arrays.items():
            if isinstance(value, StatusError):
                records.append([array, -1, "error", int(value.code), value.message])
            elif self.placement.host_of(device) == host:
                digest = digest_of(value)
                self.hosts[host].memory[digest] = value
                records.append([array, device, "bytes", "uint8", [len(value)], None, len(value), digest])
        return {"records": records, "seconds": 0.5 if host == "h0" else 0.25}

    def _restore(self, host, number, records):
        bad = []
        for array, device, what, *rest in records:
            if what == "error":
                self.arrays[array, device] = StatusError(*rest)
                continue
            assert self.placement.host_of(device) == host
            found = self.hosts[host]
            if rest[-1] not in found.memory or rest[-1] in found.rotten:
                bad.append(rest[-1])
            else:
                self.arrays[array, device] = found.memory[rest[-1]]
        return bad


class Stage:
    def __init__(self, hosts=3, devices=6, protection="copies=2"):
        self.hosts = {}
        for number in range(hosts):
            self.join(f"h{number}")
        self.devices = devices
        self.snapshots = Snapshots(self.hosts, Protection.parse(protection))
        self.world = World(self.hosts, devices)
        self._runner = asyncio.Runner()
        self.run = self._runner.run

    def close(self):
        self._runner.close()

    def join(self, id):
        host = self.hosts[id] = Host(id)
        host.peers = self.hosts
        return host

    def copied(self):
        """Sizes of all copies that were sent."""
        return [size for host in self.hosts.values() for size in host.got]

    def put(self, array, data, *devices):
        for device in devices:
            self.world.arrays[array, device] = data

    def take(self, position=1):
        return self.run(self.snapshots.take(self.world, position))

    def commit(self, position=1):
        snapshot = self.take(position)
        self.run(self.snapshots.commit(snapshot))
        return snapshot

    def lose(self, *ids):
        for id in ids:
            host = self.hosts.pop(id)
            host.failure = "its agent is gone"
            host.memory.clear()
            self.snapshots.host_lost(id)

    def restore(self):
        """The arrays of another world, of the hosts that are left."""
        self.world = World(self.hosts, self.devices)
        self.run(self.snapshots.restore(self.world))
        return self.world.arrays


@pytest.fixture
def stage():
    with contextlib.closing(Stage()) as made:
        yield made


# Taking


def test_every_shard_gets_a_second_home_on_another_host(stage):
    for device in range(6):
        stage.put(device, bytes([device]) * 10, device)
    snapshot = stage.commit()
    for device in range(6):
        homes = snapshot.homes[digest_of(bytes([device]) * 10)]
        assert stage.world.placement.host_of(device) in homes
        assert len(homes) == 2


def test_second_homes_are_balanced_by_bytes(stage):
    for number, size in enumerate([400, 100, 100, 100, 100]):
        stage.put(number, bytes([number]) * size, 0)
    stage.commit()
    assert sorted(sum(stage.hosts[id].got) for id in ("h1", "h2")) == [400, 400]


def test_what_the_sharding_replicates_on_another_host_needs_no_copy(stage):
    stage.put(1, b"replicated", 0, 2)
    stage.put(2, b"twice on one host", 4, 5)
    stage.commit()
    assert [host.got for host in stage.hosts.values()].count([]) == 2
    (copies,) = [host.got for host in stage.hosts.values() if host.got]
    assert copies == [len(b"twice on one host")]


def test_equal_contents_are_copied_once_whichever_arrays_they_are_of(stage):
    for array in (1, 2, 3):
        stage.put(array, b"same", 0, 1)
    snapshot = stage.commit()
    assert stage.copied() == [4]
    assert (len(snapshot.records), snapshot.nbytes) == (6, 4)


def test_what_the_snapshot_before_copied_is_not_copied_again(stage):
    stage.put(1, b"stays", 0)
    stage.commit()
    stage.put(2, b"is new", 0)
    for host in stage.hosts.values():
        host.got.clear()
    stage.commit(2)
    assert stage.copied() == [len(b"is new")]


def test_memory_that_is_not_needed_any_more_is_given_back_when_the_next_counts(stage):
    stage.put(1, b"goes", 0)
    stage.commit()
    del stage.world.arrays[1, 0]
    stage.put(2, b"stays", 0)
    stage.take(2)
    assert any(b"goes" in host.memory.values() for host in stage.hosts.values())
    stage.commit(2)
    assert not any(b"goes" in host.memory.values() for host in stage.hosts.values())


def test_a_pool_of_one_host_keeps_one_copy():
    with contextlib.closing(Stage(hosts=1, devices=2)) as stage:
        stage.put(1, b"x", 0, 1)
        assert stage.commit().homes == {digest_of(b"x"): {"h0"}}
        assert stage.restore() == {(1, 0): b"x", (1, 1): b"x"}


def test_saving_costs_what_hosts_of_one_machine_have_to_do_with_its_cores(stage):
    stage.hosts["h2"].work = 0.8
    assert stage.run(stage.snapshots.commit(stage.take())) == pytest.approx((0.5 + 0.25 + 0.25 + 0.8) / 2 + 0.15)


def test_a_host_without_space_is_named_and_the_snapshot_before_counts(stage):
    stage.put(1, b"x", 0)
    before = stage.commit()
    stage.world.full.add("h1")
    with pytest.raises(SnapshotError, match="host h1 could not save its arrays: No space left"):
        stage.take(2)
    assert stage.snapshots.committed is before


def test_a_host_that_takes_no_copies_is_named_and_the_snapshot_before_counts(stage):
    before = stage.snapshots.committed
    stage.put(1, b"x", 0)
    stage.hosts["h1"].failure = stage.hosts["h2"].failure = "its memory is full"
    with pytest.raises(SnapshotError, match="its memory is full"):
        stage.take()
    assert stage.snapshots.committed is before


def test_a_world_that_is_lost_gives_no_snapshot(stage):
    stage.world.failure = HostLostError("h1", "gone")
    with pytest.raises(WorldLost, match="h1"):
        stage.take()


def test_a_host_that_dies_right_after_it_answered_gives_no_snapshot(stage):
    """All have answered, and then there is nobody any more who has its arrays."""
    stage.put(1, b"x", 2)
    call_each = stage.world.call_each

    async def call_and_lose(command, arguments):
        answers = await call_each(command, arguments)
        stage.world.failure = HostLostError("h1", "gone")
        stage.lose("h1")
        return answers

    stage.world.call_each = call_and_lose
    with pytest.raises(WorldLost, match="h1"):
        stage.take()


# Restoring


@pytest.mark.parametrize("lost", ["h0", "h1", "h2"])
def test_whichever_host_is_lost_everything_comes_back(stage, lost):
    for device in range(6):
        stage.put(7, bytes([device]) * 10, device)
    before = dict(stage.world.arrays)
    stage.commit()
    stage.lose(lost)
    assert stage.restore() == before


def test_copies_are_fetched_from_those_who_have_least_to_send(stage):
    for array in range(10):
        stage.put(array, bytes([array]) * 100, 0, 2)  # On h0 and h1.
    stage.commit()
    stage.world.arrays.clear()
    stage.snapshots.committed.records.update(
        {(array, 4): [array, 4, *record[2:]] for (array, _), record in list(stage.snapshots.committed.records.items())}
    )
    sent = {}
    for host in stage.hosts.values():
        send = host.send_copies

        async def counted(digests, to, host=host, send=send):
            sent[host.id, to.id] = len(digests)
            await send(digests, to)

        host.send_copies = counted
    stage.restore()
    assert sent == {("h0", "h2"): 5, ("h1", "h2"): 5}


def test_errors_come_back_on_every_host(stage):
    stage.world.arrays[1, -1] = StatusError(Code.INTERNAL, "the cause")
    stage.commit()
    stage.lose("h1")
    (error,) = stage.restore().values()
    assert (error.code, error.message) == (Code.INTERNAL, "the cause")


def test_without_arrays_nobody_is_asked(stage):
    stage.restore()
    assert stage.world.told == []


def test_a_bad_copy_that_another_host_wants_is_taken_from_a_third(caplog):
    with contextlib.closing(Stage(hosts=4, devices=2)) as stage:
        stage.put(1, b"x", 0, 1)  # On h0 and h1.
        stage.commit()
        digest = digest_of(b"x")
        stage.hosts["h0"].rotten.add(digest)
        world = World({id: stage.hosts[id] for id in ("h2", "h3")}, 2)
        stage.run(stage.snapshots.restore(world))
        assert world.arrays == {(1, 0): b"x", (1, 1): b"x"}
        assert stage.snapshots.committed.homes[digest] == {"h1", "h2", "h3"}


def test_a_bad_copy_is_done_without_if_there_is_another(stage, caplog):
    stage.put(1, b"x", 0)
    (homes,) = stage.commit().homes.values()
    stage.hosts["h0"].rotten.add(digest_of(b"x"))
    assert stage.restore() == {(1, 0): b"x"}
    assert digest_of(b"x").hex() in caplog.text
    assert "host h0" in caplog.text
    assert homes >= {"h0"}  # It has a good one again.


def test_a_copy_that_is_bad_everywhere_is_a_data_loss_that_names_the_arrays(stage):
    stage.put(5, b"x", 0)
    stage.put(6, b"y", 0)
    stage.put(7, b"x", 2)
    stage.commit()
    for host in stage.hosts.values():
        host.rotten.add(digest_of(b"x"))
    with pytest.raises(StatusError) as raised:
        stage.restore()
    assert raised.value.code is Code.DATA_LOSS
    assert "arrays 5, 7 is lost" in raised.value.message


def test_too_many_losses_at_once_are_a_data_loss_that_names_all_arrays(stage):
    stage.put(5, b"x", 0)
    stage.put(6, b"y", 2, 4)
    stage.put(7, b"x", 1)
    (second,) = stage.commit().homes[digest_of(b"x")] - {"h0"}
    stage.lose("h0", second)
    with pytest.raises(DataLossError, match="arrays 5, 7 is lost") as raised:
        stage.restore()
    assert raised.value.code is Code.DATA_LOSS


def test_a_host_that_comes_back_with_its_memory_counts_again(stage):
    stage.put(5, b"x", 0)
    homes = stage.commit().homes[digest_of(b"x")]
    holders = {id: stage.hosts[id] for id in homes}
    memory = dict(holders["h0"].memory)
    stage.lose(*homes)
    back = stage.hosts["h0"] = Host("h0")
    back.memory = memory
    stage.snapshots.host_holds("h0", [*memory, digest_of(b"of another run")])
    assert stage.restore() == {(5, 0): b"x"}


def test_it_survives_the_loss_of_hosts_for_as_long_as_others_hold_everything(stage):
    assert stage.snapshots.survives(["h0", "h1", "h2"])  # Of nothing.
    stage.put(5, b"x", 0)
    homes = stage.commit().homes[digest_of(b"x")]
    assert all(stage.snapshots.survives([id]) for id in stage.hosts)
    assert not stage.snapshots.survives(homes)
    other = next(iter(homes - {"h0"}))
    stage.lose(other)
    assert not stage.snapshots.survives(["h0"])


def test_it_survives_what_parity_can_give_back():
    with contextlib.closing(Stage(hosts=4, devices=8, protection="parity=2+1")) as stage:
        for device in range(0, 8, 2):
            stage.put(device, bytes([device]) * 100, device)
        stage.commit()
        assert all(stage.snapshots.survives([id]) for id in stage.hosts)
        assert not stage.snapshots.survives(["h0", "h1", "h2"])


def test_what_a_host_held_counts_again_when_it_is_back(stage):
    stage.put(5, b"x", 0)
    stage.put(6, b"y", 2)
    stage.commit()
    held = stage.snapshots.held_by("h1")
    assert digest_of(b"y") in held
    stage.snapshots.host_lost("h1")
    assert stage.snapshots.held_by("h1") == []
    stage.snapshots.host_holds("h1", held)
    assert set(stage.snapshots.held_by("h1")) == set(held)


def test_what_a_loss_left_with_one_home_is_protected_again(stage):
    for device in range(6):
        stage.put(7, bytes([device]) * 10, device)
    stage.commit()
    assert not stage.snapshots.exposed
    stage.lose("h1")
    assert stage.snapshots.exposed
    stage.run(stage.snapshots.protect())
    assert not stage.snapshots.exposed
    stage.lose("h0")
    assert len(stage.restore()) == 6


def test_what_nobody_has_any_more_does_not_keep_the_rest_from_being_protected(stage):
    stage.put(5, b"x", 0)
    stage.put(6, b"y", 2, 4)
    homes = stage.commit().homes
    stage.lose("h0", *(homes[digest_of(b"x")] - {"h0"}))
    stage.run(stage.snapshots.protect())
    with pytest.raises(DataLossError, match="arrays 5 "):
        stage.restore()


class AnyOneHostMayBeLost(RuleBasedStateMachine):
    """Whatever is saved, lost, brought back and protected: after each commit any one host can be done without."""

    @initialize(hosts=st.integers(2, 5))
    def begin(self, hosts):
        self.stage = Stage(hosts, devices=6)
        self.saved = {}
        self.next = hosts

    def teardown(self):
        if hasattr(self, "stage"):
            self.stage.close()

    @rule(array=st.integers(1, 4), data=st.binary(max_size=3), devices=st.sets(st.integers(0, 5), min_size=1))
    def put(self, array, data, devices):
        self.stage.put(array, data, *devices)

    @rule(array=st.integers(1, 4))
    def free(self, array):
        arrays = self.stage.world.arrays
        for key in [key for key in arrays if key[0] == array]:
            del arrays[key]

    @rule()
    def commit(self):
        self.saved = dict(self.stage.world.arrays)
        self.stage.commit()

    @precondition(lambda self: len(self.stage.hosts) > 1)
    @rule(data=st.data())
    def lose_one_and_recover(self, data):
        self.stage.lose(data.draw(st.sampled_from(sorted(self.stage.hosts))))
        self.stage.restore()
        assert self.stage.world.arrays == self.saved
        self.stage.run(self.stage.snapshots.protect())

    @rule()
    def join(self):
        id = f"h{self.next}"
        self.next += 1
        self.stage.join(id)
        self.stage.run(self.stage.snapshots.protect())

    @invariant()
    def everything_has_as_many_homes_as_it_can(self):
        if not hasattr(self, "stage"):
            return
        for digest, homes in self.stage.snapshots.committed.homes.items():
            living = homes & set(self.stage.hosts)
            assert len(living) >= min(2, len(self.stage.hosts))
            assert all(digest in self.stage.hosts[id].memory for id in living)


AnyOneHostMayBeLost.TestCase.settings = settings(deadline=None, max_examples=40, stateful_step_count=15)
TestAnyOneHostMayBeLost = AnyOneHostMayBeLost.TestCase
