"""Hosts, claims and generations, against each kind of server: who has what, and what a death leaves of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from membership import Compare, Delete, Etcd, EtcdUnavailable, KeyValue, OutcomeUnknown, Put, PutKey, Timing
from membership.api import LEASE_REVOKE
from membership.errors import AlreadyThere, Fenced
from membership.proto import etcd_pb2 as pb
from membership.registry import Claims, HostRecord, Keys, Registration, RunRecord, host_of, run_of
from tests.membership.network import Network, network
from tests.membership.servers import Embedded, Server

TTL = 2
SHORT = 1
"""Seconds of a lease that is meant to end."""

QUICK = Timing(call=0.3, attempt=0.1, connect=0.1, quiet=0.1)


class Pool:
    """One pool of a server, which no other test uses, and whoever takes part in it."""

    def __init__(self, server: Server, net: Network) -> None:
        self._address = replace(server.address(), pool=uuid.uuid4().hex)
        self._through = replace(self._address, endpoints=tuple(net.endpoints))
        self._stack = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self.net = net
        self.keys = Keys(self._address.prefix)
        self.etcd: Etcd
        """A client that nothing disturbs."""

    async def __aenter__(self) -> Pool:
        self.etcd = await self._stack.enter_async_context(Etcd(self._address))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    async def client(self, timing: Timing | None = None) -> Etcd:
        """A client whose way to the server may be disturbed."""
        return await self._stack.enter_async_context(Etcd(self._through, timing))

    def keep(self, holder: Registration | Claims) -> asyncio.Task[None]:
        task = asyncio.create_task(holder.keep())
        self._tasks.append(task)
        return task

    async def contents(self) -> dict[str, bytes]:
        """All keys of the pool, without its prefix."""
        listing = await self.etcd.list(self._address.prefix)
        return {kv.key.removeprefix(self._address.prefix): kv.value for kv in listing.kvs}

    async def until(self, key: str, event: type[Put | Delete], after: int = 0) -> KeyValue | None:
        """The first event of this kind that happens to a key after a revision."""
        async with self.etcd.watch(key, after + 1) as events:
            async for found in events:
                if isinstance(found, event):
                    return found.kv if isinstance(found, Put) else None
        raise AssertionError("unreachable")

    async def until_changed(self, registration: Host) -> HostRecord:
        return await asyncio.wait_for(registration.records.get(), 20)

    async def lose(self, key: str) -> None:
        """Ends the lease of a key, as etcd does with one that was not renewed."""
        found = await self.etcd.get(key)
        assert found is not None
        await self.etcd._caller.call(LEASE_REVOKE, pb.LeaseRevokeRequest(ID=found.lease), "revoking")


class Host(Registration):
    """A registration that notes its incarnations."""

    def __init__(self, etcd: Etcd, record: HostRecord, ttl: int = TTL) -> None:
        self.records: asyncio.Queue[HostRecord] = asyncio.Queue()
        super().__init__(etcd, record, ttl, self.records.put_nowait)


class Run(Claims):
    """Claims that note which hosts were taken from them."""

    def __init__(self, etcd: Etcd, id: str = "run", pid: int = 1, ttl: int = TTL) -> None:
        self.taken: list[str] = []
        super().__init__(etcd, RunRecord(id, "unix:/run/client.sock", pid, 8), ttl, self.taken.append)


@contextlib.asynccontextmanager
async def pool_of(server: Server) -> AsyncIterator[Pool]:
    async with network(server.endpoints) as net, Pool(server, net) as pool:
        yield pool


def record(id: str = "h1", pid: int = 7) -> HostRecord:
    return HostRecord(id, f"127.0.0.1:{1000 + pid}", 2, pid, "a machine")


async def registered(pool: Pool, id: str = "h1", pid: int = 7, ttl: int = TTL) -> Host:
    host = Host(await pool.client(), record(id, pid), ttl)
    await host.start()
    return host


async def started(pool: Pool, id: str = "run", pid: int = 1, ttl: int = TTL) -> Run:
    return await Run(await pool.client(), id, pid, ttl).start()


# Hosts


async def test_a_host_is_known_by_its_name_and_the_revision_of_its_registration(server: Server) -> None:
    async with pool_of(server) as pool:
        host = await registered(pool)
        kv = await pool.etcd.get(pool.keys.host("h1"))
        assert kv is not None
        assert host_of(kv) == host.record == await pool.until_changed(host)
        assert host.record.incarnation == kv.create_revision
        assert host.record == replace(record(), incarnation=kv.create_revision, ttl=host.record.ttl)
        assert host.record.ttl >= TTL


async def test_a_host_that_says_that_it_drains_is_the_same_incarnation(server: Server) -> None:
    async with pool_of(server) as pool:
        host = await registered(pool)
        incarnation = host.record.incarnation
        await host.drain("SIGTERM")
        kv = await pool.etcd.get(pool.keys.host("h1"))
        assert kv is not None
        found = host_of(kv)
        assert found is not None
        assert (found.incarnation, found.draining) == (incarnation, "SIGTERM")


async def test_a_host_says_that_it_is_in_quarantine_also_when_it_registers_again_and_when_that_is_over(
    server: Server,
) -> None:
    async with pool_of(server) as pool:

        async def said() -> tuple[int, str]:
            kv = await pool.etcd.get(pool.keys.host("h1"))
            found = host_of(kv) if kv is not None else None
            assert found is not None
            return found.incarnation, found.quarantined

        host = await registered(pool)
        incarnation = host.record.incarnation
        await host.quarantine("device 1 computed wrongly")
        assert await said() == (incarnation, "device 1 computed wrongly")
        await host.leave()
        await host.start()
        again = host.record.incarnation
        assert again > incarnation
        assert await said() == (again, "device 1 computed wrongly")
        await host.quarantine("")
        assert await said() == (again, "")


async def test_a_host_that_drains_does_not_write_over_another_of_its_name(server: Server) -> None:
    async with pool_of(server) as pool:
        first = await registered(pool, pid=7)
        await pool.etcd.delete(pool.keys.host("h1"))
        second = await registered(pool, pid=8)
        await first.drain("SIGTERM")
        kv = await pool.etcd.get(pool.keys.host("h1"))
        assert kv is not None
        assert host_of(kv) == second.record


async def test_a_second_host_of_the_same_name_is_refused_while_the_first_lives(server: Server) -> None:
    async with pool_of(server) as pool:
        first = await registered(pool, pid=7)
        second = Host(await pool.client(), record(pid=8), ttl=SHORT)
        with pytest.raises(AlreadyThere, match=r"h1 is in this pool already.*1007"):
            await second.start()
        kv = await pool.etcd.get(pool.keys.host("h1"))
        assert kv is not None
        assert host_of(kv) == first.record
        assert second.records.empty()


async def test_a_host_gets_in_when_the_lease_of_an_earlier_one_of_its_name_ends(server: Server) -> None:
    async with pool_of(server) as pool:
        async with Etcd(pool.etcd.address) as dies:
            first = Host(dies, record(pid=7), ttl=SHORT)
            await first.start()
        # Its client is closed, as when the machine lost its power: nobody renews the lease or takes the entry back.
        assert await pool.etcd.get(pool.keys.host("h1")) is not None
        second = Host(await pool.client(), record(pid=8), ttl=3)
        await second.start()
        assert second.record.incarnation > first.record.incarnation


async def test_a_host_whose_entry_was_removed_registers_again_as_another_incarnation(server: Server) -> None:
    async with pool_of(server) as pool:
        host = await registered(pool)
        before = await pool.until_changed(host)
        pool.keep(host)
        await pool.etcd.delete(pool.keys.host("h1"))
        after = await pool.until_changed(host)
        assert after.incarnation > before.incarnation
        assert replace(after, incarnation=0) == replace(before, incarnation=0)
        kv = await pool.etcd.get(pool.keys.host("h1"))
        assert kv is not None
        assert host_of(kv) == after


async def test_a_host_whose_lease_was_lost_registers_again_as_another_incarnation(server: Server) -> None:
    async with pool_of(server) as pool:
        host = await registered(pool)
        before = await pool.until_changed(host)
        pool.keep(host)
        for _ in range(2):
            await pool.lose(pool.keys.host("h1"))
            after = await pool.until_changed(host)
            assert after.incarnation > before.incarnation
            before = after


async def test_a_host_that_was_removed_while_etcd_is_away_registers_when_etcd_is_back(server: Server) -> None:
    async with pool_of(server) as pool:
        host = Host(await pool.client(QUICK), record())
        await host.start()
        before = await pool.until_changed(host)
        pool.keep(host)
        pool.net.cut()
        await pool.etcd.delete(pool.keys.host("h1"))
        await pool.net.refused.wait()
        assert host._lease is not None
        await host._lease.lost.wait()
        pool.net.heal()
        assert (await pool.until_changed(host)).incarnation > before.incarnation


async def test_an_etcd_that_goes_away_right_after_the_removal_does_not_end_the_care_for_an_entry(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pool_of(server) as pool:
        host = await registered(pool)
        await pool.until_changed(host)
        lease = host._lease
        assert lease is not None
        revoke = lease.revoke

        async def unreachable() -> None:
            await revoke()
            raise EtcdUnavailable("revoking a lease", 5, {})

        monkeypatch.setattr(lease, "revoke", unreachable)
        keeping = pool.keep(host)
        await pool.etcd.delete(pool.keys.host("h1"))
        await pool.until_changed(host)
        assert not keeping.done()


async def test_an_outage_that_is_shorter_than_the_lease_changes_nothing(server: Server) -> None:
    async with pool_of(server) as pool:
        host, run = await registered(pool, ttl=10), await started(pool, ttl=10)
        assert await run.claim(host.record)
        await run.advance(1)
        for holder in (host, run):
            pool.keep(holder)
        before = await pool.contents()
        pool.net.cut()
        await pool.net.refused.wait()
        pool.net.heal()
        await run.advance(2)
        after = await pool.contents()
        assert {name for name in after if after[name] != before[name]} == {"runs/run/generation"}
        assert set(after) == set(before)
        await pool.until_changed(host)
        assert host.records.empty()
        assert run.taken == []


async def test_a_registration_whose_answer_was_lost_is_found(server: Server) -> None:
    async with pool_of(server) as pool:
        host = Host(LosesAnswers(await pool.client(), applied=True), record())
        await host.start()
        kv = await pool.etcd.get(pool.keys.host("h1"))
        assert kv is not None
        assert host_of(kv) == host.record


async def test_a_registration_that_may_have_been_applied_does_not_stand_in_its_own_way(server: Server) -> None:
    """What a try left behind is on its lease, which must not be renewed any more."""
    async with pool_of(server) as pool:
        etcd = LosesAnswers(await pool.client(), applied=True, hides=True)
        host = Host(etcd, record())
        with pytest.raises(OutcomeUnknown):
            await host.start()
        await host.start()
        assert await pool.until_changed(host) == host.record


class LosesAnswers(Etcd):
    """A client that loses the answer to its first transaction.

    `applied`: whether that was done; `hides`: whether the read after it does not show that.
    """

    def __init__(self, etcd: Etcd, *, applied: bool, hides: bool = False) -> None:
        self.__dict__.update(etcd.__dict__)
        self.applied, self.hides = applied, hides
        self.losing = 1

    async def txn(self, *arguments, **named):  # type: ignore[no-untyped-def]
        if not self.losing:
            return await super().txn(*arguments, **named)
        self.losing -= 1
        if self.applied:
            await super().txn(*arguments, **named)
        raise OutcomeUnknown("a transaction", {"h1:2379": "no answer"})

    async def get(self, key: str) -> KeyValue | None:
        found = await super().get(key)
        self.hides, hidden = False, self.hides
        return None if hidden else found


# Claims


async def test_a_host_is_claimed_by_one_run_and_free_after_its_release(server: Server) -> None:
    async with pool_of(server) as pool:
        host, first, second = await registered(pool), await started(pool, "first"), await started(pool, "second", 2)
        assert await first.claim(host.record)
        assert await first.claim(host.record)
        assert not await second.claim(host.record)
        await second.release("h1")  # Not its own.
        assert not await second.claim(host.record)
        await first.release("h1")
        assert await second.claim(host.record)
        assert (await pool.contents())["claims/h1"] == b"second"


async def test_claims_of_many_runs_at_once_have_one_winner_each(server: Server) -> None:
    async with pool_of(server) as pool:
        hosts = [await registered(pool, f"h{index}") for index in range(3)]
        runs = [await started(pool, f"run{index}", index) for index in range(4)]
        for host in hosts:
            won = await asyncio.gather(*(run.claim(host.record) for run in runs))
            assert sum(won) == 1
            winner = (await pool.contents())[f"claims/{host.record.id}"]
            assert winner == f"run{won.index(True)}".encode()


async def test_a_claim_needs_the_incarnation_that_it_was_made_for(server: Server) -> None:
    async with pool_of(server) as pool:
        host, run = await registered(pool), await started(pool)
        first = await pool.until_changed(host)
        pool.keep(host)
        await pool.etcd.delete(pool.keys.host("h1"))
        second = await pool.until_changed(host)
        assert not await run.claim(first)
        assert await run.claim(second)
        # Nor is a claim on one that has been there one on another.
        assert not await run.claim(first)
        assert not await run.claim(record("never-registered"))


async def test_hosts_are_claimed_together_also_if_one_of_them_is_the_runs_already(server: Server) -> None:
    async with pool_of(server) as pool:
        hosts = [(await registered(pool, f"h{index}")).record for index in range(3)]
        run, other = await started(pool), await started(pool, "other", 2)
        assert await run.claim(hosts[1])
        assert await run.claim(*hosts)
        assert await run.claim(*hosts)
        assert not await other.claim(hosts[2])


async def test_a_run_that_has_said_more_of_itself_is_not_fenced_by_what_it_said_before(server: Server) -> None:
    async with pool_of(server) as pool:
        etcd = LosesAnswers(await pool.client(), applied=False)
        etcd.losing = 0
        run = await Run(etcd).start()
        await run.advance(1)
        etcd.losing = 1
        with pytest.raises(OutcomeUnknown):
            await run.describe(16)
        # Its lease counts as lost here before etcd drops it, so that the entry still stands.
        run._lease._owner._lose(run._lease.id, "its deadline passed")
        await run.advance(2)
        about = await pool.etcd.get(pool.keys.run("run"))
        assert about is not None
        assert run_of(about) == RunRecord("run", "unix:/run/client.sock", 1, 16)


async def test_claims_end_with_the_run(server: Server) -> None:
    async with pool_of(server) as pool:
        host, run = await registered(pool), await started(pool)
        await run.claim(host.record)
        await run.advance(1)
        await run.close()
        assert list(await pool.contents()) == ["hosts/h1"]


async def test_claims_end_with_the_lease_of_a_run_that_was_killed(server: Server) -> None:
    async with pool_of(server) as pool:
        host, second = await registered(pool), await started(pool, "second", 2)
        async with Etcd(pool.etcd.address) as dies:
            run = await Run(dies, ttl=SHORT).start()
            await run.claim(host.record)
            await run.advance(1)
        assert not await second.claim(host.record)
        await pool.until(pool.keys.claim("h1"), Delete)
        assert sorted(await pool.contents()) == ["hosts/h1", "runs/second/about"]
        assert await second.claim(host.record)


async def test_a_run_of_the_same_name_is_refused_and_leaves_nothing(server: Server) -> None:
    async with pool_of(server) as pool:
        await started(pool, pid=1)
        before = await pool.contents()
        with pytest.raises(AlreadyThere, match="a run named run"):
            await started(pool, pid=2)
        assert await pool.contents() == before


async def test_a_dead_host_is_buried_with_its_claim(server: Server) -> None:
    async with pool_of(server) as pool:
        host, run = await registered(pool), await started(pool)
        await run.claim(host.record)
        await run.bury(host.record)
        assert list(await pool.contents()) == ["runs/run/about"]


async def test_a_host_that_died_unclaimed_is_buried(server: Server) -> None:
    async with pool_of(server) as pool:
        host, run = await registered(pool), await started(pool)
        await run.bury(host.record)
        assert list(await pool.contents()) == ["runs/run/about"]


async def test_a_host_that_another_run_has_is_not_buried(server: Server) -> None:
    async with pool_of(server) as pool:
        host, run, other = await registered(pool), await started(pool), await started(pool, "other", 2)
        await other.claim(host.record)
        before = await pool.contents()
        await run.bury(host.record)
        assert await pool.contents() == before


async def test_another_incarnation_is_not_buried_but_what_was_claimed_of_the_dead_one_is_free(server: Server) -> None:
    async with pool_of(server) as pool:
        host, run, other = await registered(pool), await started(pool), await started(pool, "other", 2)
        first = await pool.until_changed(host)
        await run.claim(first)
        pool.keep(host)
        await pool.etcd.delete(pool.keys.host("h1"))
        second = await pool.until_changed(host)
        await run.bury(first)
        assert sorted(await pool.contents()) == ["hosts/h1", "runs/other/about", "runs/run/about"]
        assert await other.claim(second)


async def test_the_claim_on_a_host_that_left_by_itself_is_free_after_its_burial(server: Server) -> None:
    async with pool_of(server) as pool:
        host, run = await registered(pool), await started(pool)
        await run.claim(host.record)
        await host.leave()
        await run.bury(host.record)
        assert list(await pool.contents()) == ["runs/run/about"]


async def test_a_burial_that_comes_late_undoes_no_claim_on_a_newer_incarnation(server: Server) -> None:
    async with pool_of(server) as pool:
        host, run = await registered(pool), await started(pool)
        first = await pool.until_changed(host)
        await run.claim(first)
        pool.keep(host)
        await pool.etcd.delete(pool.keys.host("h1"))
        second = await pool.until_changed(host)
        assert await run.claim(second)
        await run.bury(first)
        assert {"hosts/h1", "claims/h1"} <= set(await pool.contents())


@pytest.mark.parametrize("applied", [True, False])
async def test_a_claim_whose_answer_was_lost_is_known_afterwards_or_not_made(server: Server, applied: bool) -> None:
    async with pool_of(server) as pool:
        host, etcd = await registered(pool), LosesAnswers(await pool.client(), applied=applied)
        etcd.losing = 0
        run = await Run(etcd).start()
        etcd.losing = 1
        if applied:
            assert await run.claim(host.record)
        else:
            with pytest.raises(OutcomeUnknown):
                await run.claim(host.record)
        assert ("claims/h1" in await pool.contents()) == applied
        assert await run.claim(host.record)


@pytest.mark.parametrize("applied", [True, False])
async def test_so_are_several_claims_in_one_and_those_made_before_do_not_disturb(server: Server, applied: bool) -> None:
    async with pool_of(server) as pool:
        hosts = [(await registered(pool, f"h{index}")).record for index in range(3)]
        etcd = LosesAnswers(await pool.client(), applied=applied)
        etcd.losing = 0
        run = await Run(etcd).start()
        etcd.losing = 1
        if applied:
            assert await run.claim(*hosts[:2])
        else:
            with pytest.raises(OutcomeUnknown):
                await run.claim(*hosts[:2])
            assert [name for name in await pool.contents() if name.startswith("claims/")] == []
        assert await run.claim(*hosts[1:])
        assert await run.claim(*hosts)
        assert [name for name in await pool.contents() if name.startswith("claims/")] == [
            f"claims/h{i}" for i in range(3)
        ]
        assert not await (await started(pool, "other", 2)).claim(*hosts)


# The generation


async def test_the_generation_grows_from_what_its_writer_knows(server: Server) -> None:
    async with pool_of(server) as pool:
        run = await started(pool)
        for generation in (1, 2, 3, 7):
            await run.advance(generation)
            assert (await pool.contents())["runs/run/generation"] == b"%d" % generation


async def test_a_controller_is_fenced_by_another_that_raised_the_generation(server: Server) -> None:
    async with pool_of(server) as pool:
        run = await started(pool)
        await run.advance(3)
        await pool.etcd.put(pool.keys.generation("run"), b"4")
        for generation in (4, 5):
            with pytest.raises(Fenced, match="generation of run run is 4, not 3"):
                await run.advance(generation)
        assert (await pool.contents())["runs/run/generation"] == b"4"


@pytest.mark.parametrize("applied", [True, False])
async def test_a_generation_whose_answer_was_lost_can_be_raised_again(server: Server, applied: bool) -> None:
    async with pool_of(server) as pool:
        etcd = LosesAnswers(await pool.client(), applied=applied)
        etcd.losing = 0
        run = await Run(etcd).start()
        for generation in (1, 2):
            etcd.losing = 1
            if applied:
                await run.advance(generation)
            else:
                with pytest.raises(OutcomeUnknown):
                    await run.advance(generation)
                await run.advance(generation)
            assert (await pool.contents())["runs/run/generation"] == b"%d" % generation


# A lost lease


async def test_everything_is_claimed_again_after_a_lost_lease(server: Server) -> None:
    async with pool_of(server) as pool:
        hosts = [await registered(pool, f"h{index}") for index in range(3)]
        run = await started(pool)
        for host in hosts:
            await run.claim(host.record)
        await run.release("h2")
        await run.advance(5)
        pool.keep(run)
        before = await pool.contents()
        revision = (await pool.etcd.list(pool.keys.claims)).revision
        await pool.lose(pool.keys.run("run"))
        await pool.until(pool.keys.claim("h1"), Put, revision)
        assert await pool.contents() == before
        assert run.taken == []
        await run.advance(6)


async def test_the_generation_can_be_raised_before_the_loss_of_the_lease_was_noticed(server: Server) -> None:
    async with pool_of(server) as pool:
        host, run = await registered(pool), await started(pool, ttl=60)
        await run.claim(host.record)
        await run.advance(5)
        await pool.lose(pool.keys.run("run"))
        assert list(await pool.contents()) == ["hosts/h1"]
        await run.advance(6)
        contents = await pool.contents()
        assert contents["runs/run/generation"] == b"6"
        assert contents["claims/h1"] == b"run"


@pytest.mark.parametrize("applied", [True, False])
async def test_a_run_that_was_described_anew_is_still_the_same_after_a_lost_lease(
    server: Server, applied: bool
) -> None:
    async with pool_of(server) as pool:
        etcd = LosesAnswers(await pool.client(), applied=False)
        etcd.losing = 0
        run = await Run(etcd, ttl=60).start()
        if applied:
            await run.describe(4)
        else:
            etcd.losing = 1
            with pytest.raises(OutcomeUnknown):
                await run.describe(4)
        # As when a new lease is there before the entry has gone with the old one.
        run._incomplete = True
        await run.advance(1)
        await pool.lose(pool.keys.run("run"))
        await run.advance(2)
        found = await pool.etcd.get(pool.keys.run("run"))
        assert found is not None
        assert run_of(found) == RunRecord("run", "unix:/run/client.sock", 1, 4)


async def test_a_controller_whose_run_was_taken_over_does_not_describe_it(server: Server) -> None:
    async with pool_of(server) as pool:
        first = await started(pool, pid=1, ttl=60)
        await pool.lose(pool.keys.run("run"))
        await started(pool, pid=2)
        before = await pool.contents()
        with pytest.raises(Fenced, match="another controller has taken over run run"):
            await first.describe(4)
        assert await pool.contents() == before


async def test_a_host_that_another_run_took_meanwhile_is_told(server: Server) -> None:
    async with pool_of(server) as pool:
        hosts = [await registered(pool, f"h{index}") for index in range(2)]
        run, other = await started(pool, ttl=60), await started(pool, "other", 2)
        for host in hosts:
            await run.claim(host.record)
        await run.advance(1)
        await pool.lose(pool.keys.run("run"))
        assert await other.claim(hosts[1].record)
        await run.advance(2)
        assert run.taken == ["h1"]
        contents = await pool.contents()
        assert (contents["claims/h0"], contents["claims/h1"]) == (b"run", b"other")


async def test_a_controller_whose_run_was_taken_over_meanwhile_is_fenced_and_disturbs_nothing(server: Server) -> None:
    async with pool_of(server) as pool:
        host, first = await registered(pool), await started(pool, pid=1)
        await first.claim(host.record)
        await first.advance(7)
        await pool.lose(pool.keys.run("run"))
        second = await started(pool, pid=2)
        await second.claim(host.record)
        await second.advance(1)
        before = await pool.contents()
        with pytest.raises(Fenced):
            await first.advance(8)
        with pytest.raises(Fenced, match="another controller has taken over run run"):
            await first.keep()
        with pytest.raises(Fenced, match="another controller has taken over run run"):
            await first.claim(host.record)
        assert await pool.contents() == before
        await second.advance(2)


async def test_a_run_claims_everything_again_when_etcd_comes_back_empty(own_embedded: Embedded) -> None:
    """The embedded server forgets all with its process."""
    async with pool_of(own_embedded) as pool:
        host, run = await registered(pool, ttl=3), await started(pool, ttl=3)
        await pool.until_changed(host)
        await run.claim(host.record)
        await run.advance(1)
        for holder in (host, run):
            pool.keep(holder)
        own_embedded.kill()
        own_embedded.start()
        await pool.until(pool.keys.claim("h1"), Put)
        await pool.until_changed(host)
        assert sorted(await pool.contents()) == ["claims/h1", "hosts/h1", "runs/run/about", "runs/run/generation"]
        await run.advance(2)


async def test_an_outage_that_is_longer_than_the_leases_disturbs_neither_hosts_nor_run(server: Server) -> None:
    async with pool_of(server) as pool:
        host, run = await registered(pool, ttl=SHORT), await started(pool, ttl=SHORT)
        first = await pool.until_changed(host)
        await run.claim(host.record)
        await run.advance(1)
        for holder in (host, run):
            pool.keep(holder)
        assert run.unheard_s is None
        pool.net.cut()
        revision = (await pool.etcd.list(pool.keys.claims)).revision
        await pool.until(pool.keys.claim("h1"), Delete, revision)
        await pool.until(pool.keys.host("h1"), Delete, revision)
        assert run.unheard_s
        pool.net.heal()
        await pool.until(pool.keys.claim("h1"), Put, revision)
        second = await pool.until_changed(host)
        assert second.incarnation > first.incarnation
        assert run.taken == []
        await run.advance(2)
        assert run.unheard_s is None
        assert await run.claim(second)


# Records


HOST = {"id": "h1", "address": "127.0.0.1:1", "devices": 2, "pid": 7, "machine": "m"}


def kv(key: str, value: object) -> KeyValue:
    return KeyValue(key, value if isinstance(value, bytes) else json.dumps(value).encode(), 5, 6, 2)


def test_what_a_newer_version_writes_besides_is_left_out_and_what_an_older_one_leaves_out_is_usual() -> None:
    found = host_of(kv("/elastic/pool/hosts/h1", {**HOST, "colour": "green", "incarnation": 99}))
    assert found == HostRecord("h1", "127.0.0.1:1", 2, 7, "m", incarnation=5)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff\xfe\x00",
        b"{",
        b"[" * 100_000,
        [],
        [1, 2],
        "id",
        7,
        None,
        {},
        {"id": "h1"},
        {**HOST, "devices": "two"},
        {**HOST, "address": None},
        {**HOST, "pid": [7]},
        {**HOST, "id": "h2"},
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_no_host_is_skipped(value: object) -> None:
    assert host_of(kv("/elastic/pool/hosts/h1", value)) is None


def test_a_run_is_read_back_and_what_is_no_run_is_skipped() -> None:
    about = {"id": "run", "address": "unix:/s", "pid": 3, "virtual_devices": 8}
    assert run_of(kv("/elastic/pool/runs/run/about", {**about, "colour": "green"})) == RunRecord("run", "unix:/s", 3, 8)
    for value in (b"\xff", {}, {**about, "virtual_devices": "many"}, HOST):
        assert run_of(kv("/elastic/pool/runs/run/about", value)) is None


async def test_names_may_hold_what_json_has_to_escape(server: Server) -> None:
    async with pool_of(server) as pool:
        host = await registered(pool, 'h"1\\ü')
        found = (await pool.etcd.list(pool.keys.hosts)).kvs
        assert [host_of(kv) for kv in found] == [host.record]


# Again and again


async def test_register_kill_and_restart_leave_no_key_behind(server: Server) -> None:
    async with pool_of(server) as pool:
        run = await started(pool)
        incarnations = []
        for round in range(20):
            etcd = Etcd(pool.etcd.address)
            host = Host(etcd, record(pid=round))
            await host.start()
            incarnations.append(host.record.incarnation)
            assert await run.claim(host.record)
            await etcd.close()  # Killed: nothing is taken back.
            await run.bury(host.record)
        assert incarnations == sorted(set(incarnations))
        assert list(await pool.contents()) == ["runs/run/about"]
        await run.close()
        assert await pool.contents() == {}


async def test_a_key_of_nobody_is_not_taken_for_ones_own(server: Server) -> None:
    async with pool_of(server) as pool:
        host, run = await registered(pool), await started(pool)
        await pool.etcd.txn([Compare.missing(pool.keys.claim("h1"))], [PutKey(pool.keys.claim("h1"), b"")])
        assert not await run.claim(host.record)
        await run.release("h1")
        assert "claims/h1" in await pool.contents()
