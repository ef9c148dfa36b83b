"""Which hosts of a pool a run gets, keeps and gives back; the agents are played."""

import asyncio
import contextlib
from dataclasses import replace

import pytest

from elastic.controller import roster as roster_module
from elastic.controller.roster import Roster
from membership import EtcdUnavailable
from membership.backoff import BackOff
from membership.registry import Claims
from tests.elastic.connections import SECRET, run
from tests.elastic.controller.pool import pool


class Run:
    """What a run is told by its roster."""

    def __init__(self, pool, claims, most, least=1):
        self.joined, self.lost, self.drains = asyncio.Queue(), asyncio.Queue(), asyncio.Queue()
        self.roster = Roster(
            pool.etcd,
            claims,
            SECRET,
            least,
            most,
            joined=self.joined.put_nowait,
            lost=lambda *loss: self.lost.put_nowait(loss),
            drains=lambda *drain: self.drains.put_nowait(drain),
            awaited=lambda: self.awaited,
        )
        self.awaited = []
        self.changed = asyncio.Event()
        self.roster.on_change = self.changed.set

    async def until_waits_for(self, words):
        while words not in self.roster.waits_for():
            self.changed.clear()
            await self.changed.wait()


def with_a_pool(play, most=8, claims=Claims, least=1):
    """Plays with a pool and the roster of a run in it."""

    async def main():
        async with pool() as made:
            taken = await made.run("run", claims)
            run = Run(made, taken, most, least)
            taken._taken = run.roster.taken
            following = asyncio.create_task(run.roster.follow())
            try:
                await play(made, run)
            finally:
                following.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await following

    run(main())


@pytest.fixture
def hasty(monkeypatch):
    """Tries again without delay."""
    monkeypatch.setattr(roster_module, "_AGAIN_S", 0.01)
    monkeypatch.setattr(roster_module, "_BACK_OFF", BackOff(first=0.01, cap=0.02))


def test_a_free_host_is_claimed_and_handed_over_as_soon_as_it_has_a_standby():
    async def play(pool, run):
        agent = await pool.host("h1")
        await agent.present()
        assert agent.connection.hello == {"role": "controller", "run": "run", "host": "h1", "pool": "default"}
        assert await pool.claimed() == {"h1": "run"}
        await run.until_waits_for("0 of 1 (h1 starts)")
        assert run.joined.empty()
        agent.stand_by()
        host = await run.joined.get()
        assert (host.id, host.devices, host.record) == ("h1", 2, agent.registration.record)
        assert host.far
        assert run.roster.waits_for() == ""

    with_a_pool(play)


def test_hosts_that_were_there_before_are_taken_too():
    async def play():
        async with pool() as made:
            agents = [await made.host(f"h{index}") for index in range(3)]
            run = Run(made, await made.run("run"), 8)
            following = asyncio.create_task(run.roster.follow())
            for agent in agents:
                await agent.serve()
            assert {(await run.joined.get()).id for _ in agents} == {"h0", "h1", "h2"}
            following.cancel()

    run(play())


def test_nothing_is_said_before_it_is_known_which_hosts_and_claims_there_are():
    async def play():
        async with pool() as made:
            agent, other = await made.host("h1"), await made.run("other")
            assert await other.claim(agent.registration.record)
            run = Run(made, await made.run("run"), 8)
            said = asyncio.Queue()
            run.roster.on_change = lambda: said.put_nowait(run.roster.waits_for())
            following = asyncio.create_task(run.roster.follow())
            assert await said.get() == "0 of 1 (h1 is claimed by run other)"
            following.cancel()

    run(play())


def test_no_more_hosts_are_taken_than_the_run_wants_and_one_more_when_one_dies():
    async def play(pool, run):
        agents = [await pool.host(f"h{index}") for index in range(2)]
        for agent in agents:
            await agent.serve()
            await run.joined.get()
        third, other = await pool.host("h2"), await pool.run("other")
        assert await other.claim(third.registration.record)
        await other.release("h2")
        assert await pool.claimed() == {"h0": "run", "h1": "run"}
        await agents[0].die()
        await third.serve()
        assert (await run.joined.get()).id == "h2"

    with_a_pool(play, most=2)


def test_a_host_that_the_run_cannot_do_without_is_taken_though_it_has_enough():
    async def play(pool, run):
        run.awaited = ["h3"]
        agents = {id: await pool.host(id) for id in ("h1", "h2", "h3")}
        for id in ("h1", "h3"):
            await agents[id].serve()
            assert (await run.joined.get()).id == id
        assert await pool.claimed() == {"h1": "run", "h3": "run"}

    with_a_pool(play, most=1)


def test_a_host_that_another_run_has_is_left_alone_until_its_claim_ends():
    async def play(pool, run):
        run.roster._least = 2
        other = await pool.run("other")
        agent = await pool.host("h1")
        assert await other.claim(agent.registration.record)
        await run.until_waits_for("0 of 2 (h1 is claimed by run other)")
        run.roster._least = 1
        free = await pool.host("h2")
        await free.serve()
        assert (await run.joined.get()).id == "h2"
        assert await pool.claimed() == {"h1": "other", "h2": "run"}
        await other.release("h1")
        await agent.serve()
        assert (await run.joined.get()).id == "h1"

    with_a_pool(play)


def test_a_host_that_is_given_back_is_free_and_its_connection_ends():
    async def play(pool, run):
        first, second = await pool.host("h1"), await pool.host("h2")
        await asyncio.gather(first.serve(), second.serve())
        await run.joined.get(), await run.joined.get()
        other = await pool.run("other")
        run.roster._most = 1
        run.roster.give_back("h1")
        await first.connection.until_gone()
        await pool.until_gone(pool.keys.claim("h1"))
        assert await other.claim(first.registration.record)
        assert run.lost.empty()
        assert run.roster.waits_for() == ""
        run.roster._least = 2
        await run.until_waits_for("1 of 2 (h1 is claimed by run other)")

    with_a_pool(play)


# The first hosts of a run


def test_a_run_takes_its_first_hosts_at_once_and_later_what_comes():
    async def play(pool, run):
        first = await pool.host("h1")
        await run.until_waits_for("1 of 2 (others have to be started)")
        assert run.roster.lacks_hosts
        assert await pool.claimed() == {}
        second = await pool.host("h2")
        await asyncio.gather(first.present(), second.present())
        await run.until_waits_for("0 of 2 (h1 starts, h2 starts)")
        assert not run.roster.lacks_hosts
        claims = (await pool.etcd.list(pool.keys.claims)).kvs
        assert [kv.create_revision for kv in claims] == [claims[0].create_revision] * 2
        first.stand_by(), second.stand_by()
        assert {(await run.joined.get()).id for _ in range(2)} == {"h1", "h2"}
        assert run.roster.waits_for() == ""
        third = await pool.host("h3")
        await third.serve()
        assert (await run.joined.get()).id == "h3"

    with_a_pool(play, least=2)


def test_runs_that_wait_for_the_same_hosts_do_not_keep_each_other_waiting(hasty):
    async def play():
        async with pool() as made:
            runs = {name: Run(made, await made.run(name), 2, least=2) for name in ("a", "b")}
            following = [asyncio.create_task(run.roster.follow()) for run in runs.values()]
            for index in range(3):
                agent = await made.host(f"h{index}")
                following.append(asyncio.create_task(agent.serve()))
            joined = [asyncio.create_task(run.joined.get()) for run in runs.values()]
            await asyncio.wait(joined, return_when=asyncio.FIRST_COMPLETED)
            assert [task.done() for task in joined].count(True) == 1
            [winner, loser] = runs if joined[0].done() else reversed(runs)
            await runs[loser].until_waits_for(f"1 of 2 (h0 is claimed by run {winner}, h1 is claimed by run {winner})")
            assert await made.claimed() == {"h0": winner, "h1": winner}
            assert runs[loser].roster.lacks_hosts
            for task in (*following, *joined):
                task.cancel()

    run(play())


def test_the_first_hosts_are_claimed_again_when_etcd_is_back(hasty):
    async def play(pool, run):
        agents = [await pool.host(f"h{index}") for index in range(2)]
        await asyncio.gather(*(agent.serve() for agent in agents))
        assert {(await run.joined.get()).id for _ in agents} == {"h0", "h1"}

    with_a_pool(play, claims=AwayAtFirst, least=2)


def test_a_first_host_that_cannot_be_used_is_given_back_and_another_taken(hasty):
    async def play(pool, run):
        await pool.host("h1", listens=False)
        good = await pool.host("h2")
        await good.serve()
        await run.joined.get()
        await run.until_waits_for("1 of 2 (h1 cannot be used: the agent of host h1 at 127.0.0.1:9 cannot be reached")
        other = await pool.host("h3")
        await other.serve()
        assert (await run.joined.get()).id == "h3"
        await pool.until_gone(pool.keys.claim("h1"))
        assert await pool.claimed() == {"h2": "run", "h3": "run"}

    with_a_pool(play, most=2, least=2)


# Hosts that die


def test_the_run_is_told_of_a_dead_host_which_is_buried_and_taken_again_when_it_is_back():
    async def play(pool, run):
        agent = await pool.host("h1")
        await agent.serve()
        first = await run.joined.get()
        await agent.die()
        id, reason = await run.lost.get()
        assert id == "h1"
        assert "agent is gone" in reason
        await pool.until_gone(pool.keys.host("h1"))
        assert await pool.claimed() == {}
        back = await pool.host("h1")
        await back.serve()
        second = await run.joined.get()
        assert second.incarnation > first.incarnation
        assert second.record.incarnation > first.record.incarnation
        assert run.lost.empty()

    with_a_pool(play)


def test_a_host_that_dies_while_it_starts_is_buried_and_the_run_never_hears_of_it():
    async def play(pool, run):
        agent = await pool.host("h1")
        await agent.present()
        await run.until_waits_for("h1 starts")
        await agent.die()
        await pool.until_gone(pool.keys.host("h1"))
        assert run.lost.empty()
        assert run.joined.empty()

    with_a_pool(play)


def test_a_host_whose_entry_ends_while_it_starts_is_given_up():
    """Nobody watches its heartbeats yet."""

    async def play(pool, run):
        agent = await pool.host("h1")
        await agent.present()
        await run.until_waits_for("h1 starts")
        await agent.registration.leave()
        await agent.connection.until_gone()
        await pool.until_gone(pool.keys.claim("h1"))
        assert run.lost.empty()

    with_a_pool(play)


def test_a_host_that_has_lost_its_lease_is_still_there_and_buried_under_its_new_incarnation():
    async def play(pool, run):
        agent = await pool.host("h1")
        await agent.serve()
        host = await run.joined.get()
        before = host.record.incarnation
        await agent.registration.leave()
        await agent.registration.start()
        while host.record.incarnation == before:
            run.changed.clear()
            await run.changed.wait()
        assert host.record == agent.registration.record
        assert run.lost.empty()
        await agent.die()
        await run.lost.get()
        await pool.until_gone(pool.keys.host("h1"))

    with_a_pool(play)


def test_another_host_of_the_same_name_is_not_buried_with_the_dead_one():
    """As when a machine was cut off, its lease ended, and it has started again before its old connection is missed."""

    async def play(pool, run):
        old = await pool.host("h1")
        await old.serve()
        await run.joined.get()
        await old.registration.leave()
        new = await pool.host("h1")
        while run.roster._known.get("h1") != new.registration.record:
            run.changed.clear()
            await run.changed.wait()
        await old.die()
        await run.lost.get()
        await new.serve()
        host = await run.joined.get()
        assert host.record == new.registration.record == await pool.record_of("h1")

    with_a_pool(play)


def test_a_host_that_another_run_took_while_etcd_was_away_is_lost_and_left_in_peace():
    async def play(pool, run):
        agent = await pool.host("h1")
        await agent.serve()
        await run.joined.get()
        claims = run.roster._claims
        await claims._lease.revoke()
        other = await pool.run("other")
        assert await other.claim(agent.registration.record)
        await claims.advance(1)
        assert await run.lost.get() == ("h1", "another run has it now")
        await agent.connection.until_gone()
        assert await pool.claimed() == {"h1": "other"}
        assert await pool.record_of("h1") == agent.registration.record

    with_a_pool(play)


# Hosts that leave


@pytest.mark.parametrize("says", ["agent", "entry", "both"])
def test_a_host_that_is_about_to_leave_is_told_once_and_not_taken_again_after_it_is_given_back(says):
    async def play(pool, run):
        agent = await pool.host("h1")
        await agent.serve()
        await run.joined.get()
        if says != "entry":
            agent.connection.write({"draining": "SIGTERM"})
            assert await run.drains.get() == ("h1", "SIGTERM")
        if says != "agent":
            await agent.registration.drain("SIGTERM")
        if says == "entry":
            assert await run.drains.get() == ("h1", "SIGTERM")
        run.roster.give_back("h1")
        await agent.connection.until_gone()
        await pool.until_gone(pool.keys.claim("h1"))
        await run.until_waits_for("0 of 1 (h1 drains)")
        other = await pool.host("h2")
        await other.serve()
        assert (await run.joined.get()).id == "h2"
        assert await pool.claimed() == {"h2": "run"}
        assert run.drains.empty()
        assert run.lost.empty()

    with_a_pool(play)


def test_a_host_that_drains_is_not_taken():
    async def play(pool, run):
        run.roster._least = 2
        leaving = await pool.host("h1")
        await leaving.registration.drain("SIGTERM")
        await run.until_waits_for("0 of 2 (h1 drains)")
        run.roster._least = 1
        staying = await pool.host("h2")
        await staying.serve()
        assert (await run.joined.get()).id == "h2"
        assert await pool.claimed() == {"h2": "run"}

    with_a_pool(play)


@pytest.mark.parametrize("says", ["agent", "entry"])
def test_a_host_that_wants_to_leave_before_it_has_a_standby_is_given_back(says):
    async def play(pool, run):
        agent = await pool.host("h1")
        await agent.present()
        await run.until_waits_for("h1 starts")
        if says == "agent":
            agent.connection.write({"draining": "SIGTERM"})
        else:
            await agent.registration.drain("SIGTERM")
        await agent.connection.until_gone()
        await pool.until_gone(pool.keys.claim("h1"))
        assert run.joined.empty()
        assert run.drains.empty()

    with_a_pool(play)


# Hosts whose devices failed a health check


def test_a_host_in_quarantine_is_not_taken_before_that_is_over():
    async def play(pool, run):
        run.roster._least = 2
        bad = await pool.host("h1")
        await bad.registration.quarantine("device 1 computed wrongly")
        await run.until_waits_for("0 of 2 (h1 is quarantined: device 1 computed wrongly)")
        run.roster._least = 1
        good = await pool.host("h2")
        await good.serve()
        assert (await run.joined.get()).id == "h2"
        assert await pool.claimed() == {"h2": "run"}
        await bad.registration.quarantine("")
        await bad.serve()
        assert (await run.joined.get()).id == "h1"

    with_a_pool(play)


def test_a_host_that_says_so_when_it_is_taken_is_given_back_and_another_taken():
    async def play(pool, run):
        bad = await pool.host("h1")
        await bad.present()
        bad.connection.write({"wrong_result": "device 1 computed wrongly"})
        bad.stand_by()
        await run.until_waits_for("h1 cannot be used: host h1: a health check of its devices failed: device 1")
        good = await pool.host("h2")
        await good.serve()
        assert (await run.joined.get()).id == "h2"
        assert run.lost.empty()

    with_a_pool(play)


# Hosts that cannot be used


def test_a_host_that_cannot_be_reached_is_given_back_while_others_are_taken(hasty):
    async def play(pool, run):
        await pool.host("h1", listens=False)
        await run.until_waits_for("h1 cannot be used: the agent of host h1 at 127.0.0.1:9 cannot be reached")
        good = await pool.host("h2")
        await good.serve()
        assert (await run.joined.get()).id == "h2"
        await pool.until_gone(pool.keys.claim("h1"))

    with_a_pool(play)


def test_a_host_that_could_not_be_used_is_tried_again(hasty):
    async def play(pool, run):
        agent = await pool.host("h1")
        for _ in range(3):
            await agent.present()
            agent.connection.write({"exited": 0, "reason": "executors cannot start here", "by_itself": True, "log": ""})
            await run.until_waits_for("h1 cannot be used: host h1: executors cannot start here")
        await agent.serve()
        assert (await run.joined.get()).id == "h1"
        assert run.lost.empty()

    with_a_pool(play)


def test_an_agent_that_does_not_answer_keeps_nobody_waiting():
    async def play(pool, run):
        frozen = await pool.host("h1")
        await frozen.connected()
        good = await pool.host("h2")
        await good.serve()
        assert (await run.joined.get()).id == "h2"
        run.roster._least = 2
        await run.until_waits_for("1 of 2 (h1 starts)")

    with_a_pool(play)


def test_an_agent_that_does_not_answer_is_given_back(hasty, monkeypatch):
    monkeypatch.setattr(roster_module, "_CONNECT_S", 0.05)

    async def play(pool, run):
        frozen = await pool.host("h1")
        await frozen.connected()
        await run.until_waits_for("did not answer within 0.05 s")
        await frozen.connection.until_gone()
        await frozen.connected()  # And tried again.

    with_a_pool(play)


@pytest.mark.parametrize("value", [b"", b"garbage", b'{"id": "h0", "address": 5}', b'{"id": "another"}'])
def test_entries_that_are_no_hosts_are_passed_over(value):
    async def play(pool, run):
        await pool.etcd.put(pool.keys.host("h0"), value)
        agent = await pool.host("h1")
        await agent.serve()
        assert (await run.joined.get()).id == "h1"

    with_a_pool(play)


# An etcd that is away


class AwayAtFirst(Claims):
    """Claims whose first tries fail because etcd cannot be reached."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.tries = {"claim": 2, "bury": 2, "release": 2}

    async def _try(self, what, work, *hosts):
        self.tries[what] -= 1
        if self.tries[what] >= 0:
            raise EtcdUnavailable(what, 5, {})
        return await work(*hosts)

    async def claim(self, *hosts):
        return await self._try("claim", super().claim, *hosts)

    async def bury(self, host):
        return await self._try("bury", super().bury, host)

    async def release(self, host):
        return await self._try("release", super().release, host)


def test_what_etcd_could_not_be_told_is_told_when_it_is_back(hasty):
    async def play(pool, run):
        first, second = await pool.host("h1"), await pool.host("h2")
        await asyncio.gather(first.serve(), second.serve())
        await run.joined.get(), await run.joined.get()
        run.roster._most = 0
        run.roster.give_back("h1")
        await second.die()
        await pool.until_gone(pool.keys.claim("h1"))
        await pool.until_gone(pool.keys.claim("h2"))
        await pool.until_gone(pool.keys.host("h2"))
        assert await pool.record_of("h1") == first.registration.record

    with_a_pool(play, claims=AwayAtFirst)


def test_a_host_that_is_taken_again_before_etcd_heard_that_it_was_given_back_stays_taken(hasty):
    async def play(pool, run):
        agent = await pool.host("h1")
        await agent.serve()
        await run.joined.get()
        run.roster.give_back("h1")
        await agent.serve()
        again = await run.joined.get()
        other = await pool.host("h2")
        await other.serve()
        await run.joined.get()
        assert await pool.claimed() == {"h1": "run", "h2": "run"}
        assert again.record == replace(agent.registration.record)
        assert run.lost.empty()

    with_a_pool(play, claims=AwayAtFirst)
