"""A real agent with a real template and real executors, to controllers that the tests play."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess

import psutil
import pytest

from elastic import fault_points, wire
from elastic.agent.agent import HostSettings, executor_environment, read_secret
from elastic.handshake import HandshakeError
from membership import Etcd, Keys, PoolAddress, host_of
from tests.elastic.agents import Agent, Controller, command
from tests.elastic.connections import PATIENCE
from tests.elastic.processes import wait_gone


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    """One agent for all tests of this file; each leaves it with a standby and without a controller."""
    made = Agent(tmp_path_factory.mktemp("run"))
    yield made
    made.close()


def test_an_agent_presents_its_host_and_a_standby_comes(agent):
    with agent.controller() as (_, pid, address):
        assert pid in agent.descendants()
        assert address.startswith("127.0.0.1:")


def test_a_standby_that_is_killed_is_reported_and_replaced(agent):
    with agent.controller() as (controller, pid, _):
        os.kill(pid, signal.SIGKILL)
        exited = controller.hear()
        assert exited["exited"] == pid
        assert "SIGKILL" in exited["reason"]
        assert controller.standby()[0] != pid


def test_an_executor_that_is_taken_makes_room_for_another_and_is_killed_on_demand(agent):
    with agent.controller() as (controller, pid, _):
        controller.channel.send({"use": pid})
        second, _ = controller.standby()
        controller.channel.send({"kill": pid})
        exited = controller.hear()
        assert (exited["exited"], "SIGKILL" in exited["reason"]) == (pid, True)
        assert second in agent.descendants()


def test_a_standby_that_is_wanted_comes_once(agent):
    with agent.controller() as (controller, pid, _):
        controller.channel.send({"want": "standby"})  # There is one.
        controller.channel.send({"use": pid})
        controller.channel.send({"want": "standby"})
        controller.channel.send({"want": "standby"})
        second, _ = controller.standby()
        controller.channel.send({"use": second})
        third, _ = controller.standby()  # The next event: nobody came between.
        assert len({pid, second, third}) == 3


def test_an_agent_says_whom_it_does_not_reach(agent):
    with agent.controller() as (controller, *_), socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        nobody = f"127.0.0.1:{full.getsockname()[1]}"
        with socket.create_connection(full.getsockname()):  # There is room for one.
            controller.channel.send({"reach": [agent.address, nobody], "order": 7})
            assert controller.hear() == {"done": 7, "problem": None, "unreached": [nobody]}


def test_executors_that_a_controller_used_die_with_its_connection_and_standbys_live(agent):
    with agent.controller() as (controller, pid, _):
        controller.channel.send({"use": pid})
        second, _ = controller.standby()
        # One that cannot notice anything by itself any more.
        os.kill(pid, signal.SIGSTOP)
    wait_gone([pid])
    with agent.controller() as (_, standby, _):
        assert standby == second


def test_a_second_controller_is_refused_in_words_and_disturbs_nobody(agent):
    with agent.controller() as (controller, pid, _):
        second = Controller(agent.dial({"role": "controller"}))
        assert "h7 is in use by another controller" in second.hear()["refused"]
        second.channel.send({"kill": pid})
        second.channel.send({"use": pid})
        assert second.until_gone() == []
        second.channel.close()
        controller.channel.send({"use": pid})
        assert controller.standby()[0] != pid
        assert psutil.Process(pid).is_running()


def test_who_looks_for_a_host_that_was_at_this_address_before_is_told_whose_it_is(agent):
    stray = Controller(agent.dial({"role": "controller", "host": "h6"}))
    assert stray.hear()["refused"] == "host h7 is at this address, and not h6"
    stray.channel.close()
    with agent.controller():
        pass


def test_whoever_does_not_know_the_secret_is_refused_and_disturbs_nobody(agent):
    with agent.controller() as (controller, pid, address):
        for target in (agent.address, address):
            with pytest.raises(HandshakeError):
                agent.dial({"role": "controller"}, secret=b"a guess", address=target)
            for garbage in (b"GET / HTTP/1.1\r\n\r\n" + bytes(100), b"ELASTIC2" + bytes(64), bytes(1000)):
                with socket.create_connection(wire.parse_address(target), PATIENCE) as stranger:
                    stranger.sendall(garbage)
                    with contextlib.suppress(ConnectionError):
                        while stranger.recv(4096):
                            pass
        controller.channel.send({"use": pid})
        assert controller.standby()[0] != pid


def test_whoever_plays_another_role_is_turned_away(agent):
    stranger = Controller(agent.dial({"role": "tourist"}))
    assert stranger.until_gone() == []
    with agent.controller():
        pass


@pytest.mark.parametrize("nonsense", ["no map", None, {"use": [1]}, {"kill": "all"}, {}], ids=repr)
def test_a_controller_that_sends_nonsense_is_dropped_or_ignored_and_the_next_is_served(agent, nonsense):
    with agent.controller() as (controller, pid, _):
        controller.channel.send(nonsense)
    with agent.controller() as (_, standby, _):
        assert standby == pid


def test_an_executor_ends_with_the_stream_of_its_controller(agent):
    with agent.controller() as (controller, pid, address):
        controller.channel.send({"use": pid})
        controller.standby()
        executor = agent.dial({"role": "controller", "generation": 1}, address=address)
        executor.close()
        exited = controller.hear()
        assert (exited["exited"], exited["reason"]) == (pid, "exited with status 0")


def test_executors_die_with_their_template_and_a_new_one_comes(agent):
    with agent.controller() as (controller, pid, _):
        controller.channel.send({"use": pid})
        standby, _ = controller.standby()
        template = psutil.Process(pid).ppid()
        assert template != agent.process.pid
        os.kill(template, signal.SIGKILL)
        exits = {event["exited"]: event["reason"] for event in (controller.hear(), controller.hear())}
        assert set(exits) == {pid, standby}
        assert all("template" in reason and "SIGKILL" in reason for reason in exits.values())
        wait_gone([pid, standby, template])
        fresh, _ = controller.standby()
        assert psutil.Process(fresh).ppid() != template


@pytest.mark.parametrize("end", ["launcher-gone", "killed"])
def test_an_agent_that_ends_leaves_no_process(tmp_path, end):
    agent = Agent(tmp_path)
    with agent.controller() as (controller, pid, _):
        controller.channel.send({"use": pid})
        controller.standby()
        family = agent.descendants()
        assert len(family) == 3  # The template, an executor, a standby.
        if end == "killed":
            agent.process.kill()
        else:
            agent.process.stdin.close()
        agent.process.wait(PATIENCE)
        wait_gone(family)
    assert agent.process.returncode == (0 if end == "launcher-gone" else -signal.SIGKILL)
    agent.close()


def test_an_agent_tells_controllers_and_the_pool_that_its_devices_compute_wrongly(tmp_path):
    point = (tmp_path, fault_points.DEVICE_CHECK, "h7")
    agent = Agent(tmp_path, ELASTIC_CHECK_EVERY="0.05", **{fault_points.DIRECTORY: str(tmp_path)})
    try:
        controller = Controller(agent.dial({"role": "controller"}))
        while "checked" not in (event := controller.hear()):
            pass
        assert event["checked"] < PATIENCE
        fault_points.arm(*point, "wrong-result 0")
        while "wrong_result" not in (event := controller.hear()):
            pass
        assert event["wrong_result"].startswith("device 0 computed wrongly")
        fault_points.disarm(*point)
        # Also when later checks are passed: it is not to be used for a while.
        while "checked" not in controller.hear():
            pass
        controller.channel.close()
        words = event["wrong_result"]
        while (event := (controller := Controller(agent.dial({"role": "controller"}))).hear()).get("refused"):
            pass  # It has not noticed yet that the first one left.
        assert event["host"] == "h7"
        assert controller.hear() == {"wrong_result": words}
        assert asyncio.run(registered(tmp_path)).quarantined == words
    finally:
        agent.close()


def test_a_host_that_a_controller_found_wrong_stays_away_as_after_a_failed_check(tmp_path):
    agent = Agent(tmp_path, ELASTIC_CHECK_EVERY="0.05")
    try:
        controller = Controller(agent.dial({"role": "controller"}))
        controller.channel.send({"quarantine": "device 1 computed wrongly"})
        while "wrong_result" not in (event := controller.hear()):
            pass
        assert event["wrong_result"] == "device 1 computed wrongly"
        while "checked" not in controller.hear():  # It passes checks, which is not enough.
            pass
        assert asyncio.run(registered(tmp_path)).quarantined == "device 1 computed wrongly"
    finally:
        agent.close()


async def registered(directory):
    """The host as its pool has it, once that knows of a quarantine."""
    pool = PoolAddress.parse(f"etcd://unix:{directory / 'etcd.sock'}")
    async with Etcd(pool) as etcd, etcd.watch(Keys(pool.prefix).host("h7"), 1) as events:
        while True:
            record = host_of(await etcd.get(Keys(pool.prefix).host("h7")))
            if record.quarantined:
                return record
            await anext(events)


def test_an_agent_that_cannot_start_says_why(tmp_path):
    ended = subprocess.run(
        command(tmp_path), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
    )
    assert ended.returncode == 1
    assert "h7 cannot start" in json.loads(ended.stdout)["failed"]


# What is decided without processes


def test_executors_do_not_inherit_what_is_meant_for_the_client():
    client = {
        "JAX_PLATFORMS": "elastic,cpu",
        "ELASTIC_CONTROLLER": "grpc://unix:/somewhere",
        "JAX_BACKEND_TARGET": "grpc://unix:/somewhere",
        "JAX_NUM_CPU_DEVICES": "8",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8 --xla_cpu_enable_fast_math=true",
        "HOME": "/home/user",
    }
    environment = executor_environment(dict(client))
    assert environment["HOME"] == "/home/user"
    assert environment["XLA_FLAGS"] == "--xla_cpu_enable_fast_math=true"
    assert environment["OPENBLAS_NUM_THREADS"] == "1"
    assert not {"JAX_PLATFORMS", "ELASTIC_CONTROLLER", "JAX_BACKEND_TARGET", "JAX_NUM_CPU_DEVICES"} & set(environment)


def test_a_secret_is_read_from_its_file(tmp_path):
    path = tmp_path / "secret"
    with pytest.raises(OSError, match="secret"):
        read_secret(path)
    path.write_text("00ff10\n")
    assert read_secret(path) == b"\x00\xff\x10"
    path.write_text("no hexadecimal number")
    with pytest.raises(ValueError, match="hexadecimal"):
        read_secret(path)


def test_the_secret_is_not_in_the_text_of_settings(tmp_path):
    settings = HostSettings("h7", 2, "127.0.0.1:0", b"do not tell", tmp_path, tmp_path)
    assert "do not tell" not in repr(settings)
