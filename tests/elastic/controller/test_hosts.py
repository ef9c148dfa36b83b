"""The controller's connection to an agent that the tests play."""

import asyncio
import contextlib
import time

import pytest

from elastic.controller.hosts import CopyError, Exit, Host, Made
from elastic.errors import PoolError
from tests.elastic.connections import SECRET, frames_server, run


class Stage:
    """A host, its agent's end of the connection, and what the host said of its loss."""

    def __init__(self, host, agent, losses):
        self.host = host
        self.agent = agent
        self.losses = losses
        self.lost = asyncio.Event()

    def __iter__(self):
        return iter((self.host, self.agent))


@contextlib.asynccontextmanager
async def stage():
    async with frames_server() as server:
        losses = []
        lost = asyncio.Event()
        connecting = asyncio.create_task(
            Host.connect("h3", server.address, SECRET, lambda *loss: (losses.append(loss), lost.set()), "r7")
        )
        agent = await server.connections.get()
        agent.write({"host": "h3", "devices": 2, "pid": 7, "holds": [b"digest"], "cores": 2})
        host = await connecting
        made = Stage(host, agent, losses)
        made.lost = lost
        try:
            yield made
        finally:
            host.close()


def on_a_stage(play):
    async def main():
        async with stage() as made:
            await play(made, *made)

    run(main())


def test_a_host_presents_itself_as_the_controller():
    async def play(stage, host, agent):
        assert agent.hello == {"role": "controller", "run": "r7", "host": "h3"}
        assert (host.id, host.devices, host.pid, host.holds) == ("h3", 2, 7, [b"digest"])

    on_a_stage(play)


def test_a_standby_is_taken_as_soon_as_there_is_one_and_each_once():
    async def play(stage, host, agent):
        taking = [asyncio.create_task(host.take_standby()) for _ in range(2)]
        assert [(await agent.read())[0] for _ in taking] == [{"want": "standby"}] * 2
        agent.write({"standby": 41, "address": "127.0.0.1:1041"})
        assert (await agent.read())[0] == {"use": 41}
        agent.write({"standby": 42, "address": "127.0.0.1:1042"})
        assert (await agent.read())[0] == {"use": 42}
        assert await asyncio.gather(*taking) == [(41, "127.0.0.1:1041"), (42, "127.0.0.1:1042")]

    on_a_stage(play)


def test_a_standby_that_died_is_not_taken():
    async def play(stage, host, agent):
        agent.write({"standby": 41, "address": "127.0.0.1:1041"})
        agent.write({"exited": 41, "reason": "was killed by SIGKILL", "by_itself": False, "log": ""})
        agent.write({"standby": 42, "address": "127.0.0.1:1042"})
        # A first one, to know that all three were heard.
        agent.write({"standby": 43, "address": "127.0.0.1:1043"})
        pids = {(await host.take_standby())[0], (await host.take_standby())[0]}
        assert pids == {42, 43}

    on_a_stage(play)


def test_the_reason_of_an_exit_comes_with_the_last_words():
    async def play(stage, host, agent):
        agent.write({"standby": 41, "address": "a:1"})
        await host.take_standby()
        exit = host.exit_of(41)
        assert not exit.done()
        agent.write({"exited": 41, "reason": "was killed by SIGSEGV", "by_itself": True, "log": "last line"})
        assert (await exit).by_itself
        reason = (await exit).reason
        assert reason.startswith("was killed by SIGSEGV")
        assert "last line" in reason

    on_a_stage(play)


def test_the_reason_of_an_exit_can_be_asked_for_after_it_was_heard():
    """The news of an exit and the end of the executor's own stream come in either order."""

    async def play(stage, host, agent):
        agent.write({"standby": 41, "address": "a:1"})
        await host.take_standby()
        agent.write({"exited": 41, "reason": "was killed by SIGSEGV", "by_itself": True, "log": ""})
        agent.write({"standby": 42, "address": "a:2"})
        await host.take_standby()
        assert await host.exit_of(41) == Exit("was killed by SIGSEGV", by_itself=True)

    on_a_stage(play)


def test_a_host_whose_devices_fail_a_health_check_has_no_executors_any_more():
    async def play(stage, host, agent):
        wrong = asyncio.Queue()
        host.on_wrong_result = wrong.put_nowait
        agent.write({"standby": 41, "address": "a:1"})
        agent.write({"wrong_result": "device 1 computed wrongly"})
        assert await wrong.get() == "device 1 computed wrongly"
        with pytest.raises(PoolError, match="h3: a health check of its devices failed: device 1 computed wrongly"):
            await host.take_standby()
        assert stage.losses == []

    on_a_stage(play)


def test_it_is_known_when_the_devices_of_a_host_last_passed_a_health_check():
    async def play(stage, host, agent):
        assert host.checked is None
        agent.write({"checked": 3600.0})
        agent.write({"standby": 41, "address": "a:1"})
        await host.stand_by()
        assert 3600 <= time.monotonic() - host.checked < 3700

    on_a_stage(play)


def test_a_kill_is_passed_on():
    async def play(stage, host, agent):
        host.kill(41)
        assert (await agent.read())[0] == {"kill": 41}

    on_a_stage(play)


def test_a_host_that_computed_wrongly_is_told_to_stay_away():
    async def play(stage, host, agent):
        host.quarantine("it computed wrongly")
        assert (await agent.read())[0] == {"quarantine": "it computed wrongly"}

    on_a_stage(play)


def test_a_host_whose_executors_cannot_start_is_a_pool_error():
    async def play(stage, host, agent):
        taking = asyncio.create_task(host.take_standby())
        agent.write(
            {"exited": 0, "reason": "executors cannot start here", "by_itself": False, "log": "No module named jax"}
        )
        with pytest.raises(PoolError, match="h3") as raised:
            await taking
        assert "executors cannot start here" in str(raised.value)
        assert "No module named jax" in str(raised.value)

    on_a_stage(play)


def test_a_host_that_another_controller_uses_is_a_pool_error():
    async def play(stage, host, agent):
        agent.write({"refused": "host h3 is in use by another controller"})
        with pytest.raises(PoolError, match="in use by another controller"):
            await host.take_standby()

    on_a_stage(play)


def test_an_agent_that_goes_away_is_a_loss_with_a_reason():
    async def play(stage, host, agent):
        agent.drop()
        await stage.lost.wait()
        ((id, reason),) = stage.losses
        assert id == "h3"
        assert "agent is gone" in reason

    on_a_stage(play)


@pytest.mark.parametrize("standby", [False, True], ids=["none-stood-by", "one-stood-by"])
def test_a_host_whose_agent_is_gone_gives_no_standby(standby):
    """What stood by has died with its agent."""

    async def play(stage, host, agent):
        if standby:
            agent.write({"standby": 41, "address": "a:1"})
            agent.write({"standby": 42, "address": "a:2"})
            await host.take_standby()
        agent.drop()
        await stage.lost.wait()
        with pytest.raises(PoolError, match="agent is gone"):
            await host.take_standby()

    on_a_stage(play)


def test_an_agent_that_cannot_be_reached_is_a_pool_error():
    async def main():
        async with frames_server() as server:
            address = server.address
        for wrong in (address, "nonsense"):
            with pytest.raises(PoolError, match="h3"):
                await Host.connect("h3", wrong, SECRET, print)

    run(main())


def test_an_agent_of_another_pool_is_a_pool_error():
    async def main():
        async with frames_server(b"another secret") as server:
            with pytest.raises(PoolError, match="does not know this pool's secret"):
                await Host.connect("h3", server.address, SECRET, print)

    run(main())


def test_copies_to_a_host_that_is_lost_meanwhile_are_an_error_though_the_sender_says_nothing():
    async def main():
        async with stage() as one, stage() as other:
            sending = asyncio.create_task(one.host.send_copies([b"x"], other.host))
            await one.agent.read()
            other.host.close()
            with pytest.raises(CopyError, match="its agent is gone"):
                await sending

    run(main())


def test_a_host_says_whom_it_does_not_reach():
    async def main():
        async with stage() as one, stage() as two, stage() as three:
            asking = asyncio.create_task(one.host.unreached([two.host, three.host]))
            (order, _) = await one.agent.read()
            assert order == {"reach": [two.host.address, three.host.address], "order": order["order"]}
            two.host.id, three.host.id = "h2", "h4"
            one.agent.write({"done": order["order"], "problem": None, "unreached": [three.host.address]})
            assert await asking == {"h4"}

    run(main())


def test_an_order_is_known_to_be_overdue_until_it_is_carried_out():
    async def play(stage, host, agent):
        assert host.asked_since is None
        before = time.monotonic()
        orders = []
        for _ in range(2):
            orders.append(asyncio.create_task(host.keep_copies([])))
            await agent.read()
        first = host.asked_since
        assert before <= first <= time.monotonic()
        agent.write({"done": 1, "problem": None})
        await orders[0]
        assert host.asked_since > first
        agent.write({"done": 2, "problem": None})
        await orders[1]
        assert host.asked_since is None

    on_a_stage(play)


def test_copies_to_and_from_a_host_that_is_cut_off_are_not_waited_for():
    async def main():
        async with stage() as one, stage() as other:
            sends = [one.host.send_copies([b"x"], other.host), other.host.send_copies([b"y"], one.host)]
            sending = [asyncio.create_task(send) for send in sends]
            await one.agent.read()
            await other.agent.read()
            other.host.give_up_orders("it is cut off from h1")
            for send in sending:
                with pytest.raises(CopyError, match="it is cut off from h1"):
                    await send
            assert (one.host.failure, other.host.failure) == (None, None)

    run(main())


def test_blocks_are_made_and_what_was_bad_is_told():
    async def play(stage, host, agent):
        making = asyncio.create_task(host.make_blocks([{"want": 3}, {"want": 0}]))
        (order, _) = await agent.read()
        assert order == {"make": [{"want": 3}, {"want": 0}], "order": order["order"]}
        agent.write({"done": order["order"], "made": [b"x", b""], "bad": [["h1:1", b"y"]], "problem": "y was changed"})
        assert await making == Made([b"x", b""], [("h1:1", b"y")], "y was changed")

    on_a_stage(play)


def test_blocks_that_nobody_makes_any_more_are_an_error():
    async def play(stage, host, agent):
        making = asyncio.create_task(host.make_blocks([{"want": 3}]))
        await agent.read()
        agent.drop()
        with pytest.raises(CopyError, match="host h3: its agent is gone"):
            await making

    on_a_stage(play)
