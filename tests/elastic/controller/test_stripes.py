"""Snapshots whose shards are protected by parity: what is made where, and what is brought back when hosts are lost."""

import contextlib
import functools
import itertools
import random
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import checkpoint
from elastic.controller import stripes
from elastic.controller.hosts import Made
from elastic.controller.snapshots import DataLossError, SnapshotError
from elastic.host_memory import digest_of
from tests.elastic.controller.test_snapshots import Stage

SIZE = 20_000


def shard(array, device, version=0):
    return random.Random(f"{array} {device} {version}").randbytes(SIZE)


def staged(hosts=4, protection="parity=3+1", arrays=3, devices=None):
    """A stage on which each device has a shard of its own of each array."""
    stage = Stage(hosts, devices or hosts, protection)
    fill(stage, arrays)
    return contextlib.closing(stage)


def fill(stage, arrays, version=0):
    for array in range(arrays):
        for device in range(stage.devices):
            stage.put(array, shard(array, device, version), device)


def made(stage):
    return sum(len(host.made) for host in stage.hosts.values())


def rot(stage, digest, host):
    assert digest in stage.hosts[host].memory
    stage.hosts[host].rotten.add(digest)


# What is kept


def test_each_shard_is_once_in_memory_and_parity_takes_a_third():
    with staged() as stage:
        snapshot = stage.commit()
        facts = stage.snapshots.facts(0.0)
        assert stage.copied() == []
        assert facts.parity_bytes == pytest.approx(snapshot.nbytes / 3, rel=0.01)
        assert (facts.protection, facts.copies, facts.copies_bytes) == ("parity=3+1", 1, 0)
        kept = sum(len(data) for host in stage.hosts.values() for data in host.memory.values())
        assert kept == snapshot.nbytes + facts.parity_bytes


def test_what_an_earlier_snapshot_protects_is_not_encoded_again():
    with staged() as stage:
        stage.commit()
        before = made(stage)
        for device in range(4):
            stage.put(2, shard(2, device, 1), device)
        stage.commit(2)
        assert 1 <= made(stage) - before <= 2
        now = made(stage)
        stage.commit(3)
        assert made(stage) == now


def test_blocks_that_no_stripe_needs_are_given_back():
    with staged() as stage:
        stage.commit()
        fill(stage, 3, version=1)
        snapshot = stage.commit(2)
        needed = {block.name for stripe in snapshot.stripes for block in stripe.blocks}
        assert {digest for host in stage.hosts.values() for digest in host.memory} == needed


def test_a_snapshot_does_not_count_before_its_parity_is_made():
    with staged() as stage:
        before = stage.snapshots.committed
        stage.hosts["h2"].failure = "its memory is full"
        with pytest.raises(SnapshotError, match="host h2: its memory is full"):
            stage.take()
        assert stage.snapshots.committed is before


def test_why_a_host_could_not_make_parity_is_told():
    with staged() as stage:

        async def make_blocks(jobs):
            return Made([b""] * len(jobs), [], "No space left on device")

        stage.hosts["h1"].make_blocks = make_blocks
        with pytest.raises(SnapshotError, match="host h1: No space left on device"):
            stage.take()


def test_two_hosts_copy_to_each_other():
    with staged(hosts=2) as stage:
        assert stage.commit().stripes == ()
        assert len(stage.copied()) == 6
        assert stage.snapshots.facts(0.0).copies == 2


def test_copies_that_a_small_pool_made_are_given_back_when_it_is_large_again():
    with staged(hosts=3, protection="parity=2+2", devices=3) as stage:
        stage.commit()
        assert stage.snapshots.facts(0.0).copies == 3
        stage.join("h3")
        stage.commit(2)
        facts = stage.snapshots.facts(0.0)
        # Nine shards are four pairs, and one that is copied.
        assert (facts.copies, facts.copies_bytes, facts.parity_bytes) == (1, 2 * SIZE, 8 * SIZE)
        assert sum(len(host.memory) for host in stage.hosts.values()) == 9 + 2 + 8


def test_three_copies_survive_two_losses():
    with staged(hosts=5, protection="copies=3") as stage:
        before = dict(stage.world.arrays)
        stage.commit()
        assert stage.snapshots.facts(0.0).copies == 3
        stage.lose("h1", "h4")
        assert stage.restore() == before


# What comes back


@pytest.mark.parametrize(
    ("hosts", "protection", "losses"), [(4, "parity=3+1", 1), (4, "parity=2+2", 2), (6, "parity=4+2", 2)]
)
def test_whichever_hosts_are_lost_everything_comes_back(hosts, protection, losses):
    for gone in itertools.combinations([f"h{number}" for number in range(hosts)], losses):
        with staged(hosts, protection, devices=2 * hosts) as stage:
            before = dict(stage.world.arrays)
            stage.commit()
            stage.lose(*gone)
            assert stage.restore() == before


def test_one_host_after_the_other_may_be_lost_until_one_is_left():
    with staged() as stage:
        before = dict(stage.world.arrays)
        stage.commit()
        for lost in ("h3", "h0", "h1"):
            stage.lose(lost)
            assert stage.snapshots.exposed
            assert stage.restore() == before
            stage.run(stage.snapshots.protect())
            assert not stage.snapshots.exposed


def test_a_shard_that_several_hosts_need_is_rebuilt_on_one_and_sent_to_the_others():
    with staged() as stage:
        stage.commit()
        records = stage.snapshots.committed.records
        for device in (0, 1):
            records[0, device] = [0, device, *records[0, 3][2:]]
        stage.lose("h3")
        before, devices = made(stage), stage.devices
        stage.restore()
        assert [stage.world.arrays[0, device] for device in range(devices)].count(shard(0, 3)) == 3
        assert made(stage) - before == 3  # One for each array.


def test_memory_is_used_before_parity():
    with staged() as stage:
        stage.commit()
        before = made(stage)
        stage.restore()
        assert (stage.copied(), made(stage)) == ([], before)


def test_too_many_losses_at_once_are_a_data_loss():
    with staged() as stage:
        stage.commit()
        stage.lose("h0", "h1")
        with pytest.raises(DataLossError, match="arrays 0, 1, 2 is lost: too many hosts died"):
            stage.restore()


@pytest.mark.parametrize("gone", list(itertools.combinations(["h0", "h1", "h2", "h3"], 2)))
def test_what_could_be_had_if_a_host_came_back_counts_its_parity(gone):
    with staged() as stage:
        stage.commit()
        stage.lose(*gone)
        assert not stage.snapshots.would_be_whole([])
        assert all(stage.snapshots.would_be_whole([back]) for back in gone)
        stage.snapshots.host_holds(gone[0], [])  # It came back with nothing.
        assert not stage.snapshots.would_be_whole([gone[0]])
        assert stage.snapshots.would_be_whole(gone)


# Bad blocks


def test_a_bad_shard_is_named_and_rebuilt(caplog):
    with staged() as stage:
        before = dict(stage.world.arrays)
        stage.commit()
        rot(stage, digest_of(shard(1, 2)), "h2")
        assert stage.restore() == before
        assert f"the copy {digest_of(shard(1, 2)).hex()} on host h2 is bad" in caplog.text


def test_a_bad_block_is_named_and_another_is_used(caplog):
    with staged(protection="parity=2+2") as stage:
        before = dict(stage.world.arrays)
        snapshot = stage.commit()
        stripe = next(found for found in snapshot.stripes if found.data[0].host == "h0")
        rot(stage, stripe.data[1].name, stripe.data[1].host)
        stage.lose("h0")
        assert stage.restore() == before
        assert f"the copy {stripe.data[1].name.hex()} on host {stripe.data[1].host} is bad" in caplog.text


def test_too_many_bad_blocks_are_a_data_loss_that_names_them_after_one_attempt_each(caplog):
    with staged() as stage:
        snapshot = stage.commit()
        stripe = next(found for found in snapshot.stripes if found.data[0].host == "h0")
        rot(stage, stripe.parity[0].name, stripe.parity[0].host)
        stage.lose("h0")
        words = f"the copy {stripe.parity[0].name.hex()} on host {stripe.parity[0].host} is bad"
        with pytest.raises(DataLossError, match=f"is lost: {words}"):
            stage.restore()
        assert caplog.text.count(words) == 1


def test_each_host_whose_copy_of_a_shard_is_bad_is_named_once(caplog):
    with staged(hosts=2, protection="copies=2", arrays=1) as stage:
        stage.commit()
        rotten = digest_of(shard(0, 0))
        for host in ("h0", "h1"):
            rot(stage, rotten, host)
        with pytest.raises(DataLossError) as error:
            stage.restore()
        for host in ("h0", "h1"):
            words = f"the copy {rotten.hex()} on host {host} is bad"
            assert words in str(error.value)
            assert caplog.text.count(words) == 1


def test_a_bad_shard_fails_the_snapshot_that_needs_it_and_not_the_next(caplog):
    with staged() as stage:
        stage.commit()
        rotten = digest_of(shard(0, 0))
        for array in range(3):  # So that all stripes are new.
            for device in range(1, 4):
                stage.put(array, shard(array, device, 1), device)
        rot(stage, rotten, "h0")
        with pytest.raises(SnapshotError, match=f"the copy {rotten.hex()} on host h0 is bad"):
            stage.take(2)
        stage.run(stage.snapshots.tidy())
        assert rotten not in stage.hosts["h0"].memory  # So the executor saves it again.
        stage.commit(3)
        before = dict(stage.world.arrays)
        stage.lose("h0")
        assert stage.restore() == before


# Any story


class AnyTwoHostsMayBeLost(RuleBasedStateMachine):
    """Whatever is saved, lost, brought back and protected: after each commit any two hosts can be done without."""

    @initialize(hosts=st.integers(2, 6), k=st.integers(1, 3))
    def begin(self, hosts, k):
        self.stage = Stage(hosts, devices=6, protection=f"parity={k}+2")
        self.saved = {}
        self.next = hosts
        self.patch = mock.patch.object(stripes, "stripes", functools.partial(checkpoint.stripes, small=2))
        self.patch.start()

    def teardown(self):
        if hasattr(self, "stage"):
            self.patch.stop()
            self.stage.close()

    @rule(array=st.integers(1, 4), data=st.binary(max_size=4), devices=st.sets(st.integers(0, 5), min_size=1))
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

    @precondition(lambda self: len(self.stage.hosts) > 2)
    @rule(data=st.data())
    def lose_some_and_recover(self, data):
        ids = data.draw(st.lists(st.sampled_from(sorted(self.stage.hosts)), unique=True, min_size=1, max_size=2))
        self.stage.lose(*ids)
        self.stage.restore()
        assert self.stage.world.arrays == self.saved
        self.stage.run(self.stage.snapshots.protect())

    @rule()
    def join(self):
        self.stage.join(f"h{self.next}")
        self.next += 1
        self.stage.run(self.stage.snapshots.protect())

    @invariant()
    def what_is_said_to_be_somewhere_is_there(self):
        if not hasattr(self, "stage"):
            return
        for digest, homes in self.stage.snapshots.committed.homes.items():
            assert all(digest in self.stage.hosts[id].memory for id in homes & set(self.stage.hosts))


AnyTwoHostsMayBeLost.TestCase.settings = settings(deadline=None, max_examples=60, stateful_step_count=15)
TestAnyTwoHostsMayBeLost = AnyTwoHostsMayBeLost.TestCase
