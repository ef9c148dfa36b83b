import json
import os
import select
import signal
import socket
import stat
import threading
import time

import pytest

from elastic import restart
from elastic.errors import HostLostError, PoolError, UsageError
from elastic.local_pool import StartInterrupted
from elastic.pool_events import ControllerDied, HostLost, HostRecovered, RunWaits
from tests.elastic.fake_pool import FAULTS, FakePool
from tests.elastic.processes import wait_gone


@pytest.fixture
def base(short_directory):
    return short_directory


@pytest.fixture
def fault(monkeypatch):
    return lambda **faults: monkeypatch.setenv(FAULTS, json.dumps(faults))


def _note(pool, name):
    return json.loads((pool.directory.path / f"{name}.json").read_text())


def _pids(pool):
    return {path.stem: json.loads(path.read_text())["pid"] for path in pool.directory.path.glob("*.json")}


def _next_event(pool, timeout_s=20.0):
    """Waits as the contract says: for the descriptor or the deadline."""
    give_up = time.monotonic() + timeout_s
    while time.monotonic() < give_up:
        until = min(give_up, pool.deadline() or give_up)
        select.select([pool], [], [], max(0.0, until - time.monotonic()))
        if event := pool.poll():
            return event
    raise AssertionError("nothing happened to the pool")


def test_a_pool_comes_up_and_leaves_nothing(base):
    with FakePool(hosts=3, devices_per_host=2, base_dir=base) as pool:
        pids = _pids(pool)
        assert sorted(pids) == ["controller", "h0", "h1", "h2", "membership"]
        assert pool.address == f"grpc://unix:{pool.directory.path}/client.sock"
        assert pool.poll() is None
    wait_gone(pids.values(), 0)
    assert not list(base.iterdir())
    pool.stop()


def test_command_lines_are_the_contract(base):
    with FakePool(
        hosts=2,
        devices_per_host=4,
        spares=1,
        snapshot_budget=0.25,
        protect="parity=3+1",
        on_loss="wait",
        verify_every=3,
        base_dir=base,
    ) as pool:
        path = str(pool.directory.path)
        etcd = ["--pool", f"etcd://unix:{path}/etcd.sock"]
        membership = _note(pool, "membership")["argv"][2:]
        assert membership == ["--unix", f"{path}/etcd.sock"]
        agent = _note(pool, "h2")["argv"][2:]
        assert agent == ["--id", "h2", "--devices", "4", *etcd, "--run-dir", path]
        controller = _note(pool, "controller")["argv"][2:]
        sizes = ["--hosts", "2", "--spares", "1", "--virtual-devices", "8", "--snapshot-budget", "0.25"]
        policy = ["--protect", "parity=3+1", "--on-loss", "wait", "--verify-every", "3"]
        assert controller == ["--run-dir", path, *etcd, "--run-id", pool.directory.path.name, *sizes, *policy]
        secret = pool.directory.secret.read_text()
        assert not any(secret in argument for argument in (*membership, *agent, *controller))


def test_metrics_and_a_trace_are_the_controllers_matter(base, tmp_path):
    trace = tmp_path / "trace"
    with FakePool(hosts=1, metrics="127.0.0.1:0", trace=trace, base_dir=base) as pool:
        assert _note(pool, "controller")["argv"][-4:] == ["--metrics", "127.0.0.1:0", "--trace", str(trace)]
        assert pool.metrics_url == ""  # This controller has none.


def test_children_have_sessions_of_their_own_and_a_clean_environment(base, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "elastic,cpu")
    monkeypatch.setenv("ELASTIC_CONTROLLER", "grpc://127.0.0.1:1")
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_use_thunk_runtime=true")
    with FakePool(hosts=1, base_dir=base) as pool:
        for name in ("h0", "controller"):
            note = _note(pool, name)
            assert note["sid"] == note["pid"] != os.getsid(0)
            assert not {"JAX_PLATFORMS", "ELASTIC_CONTROLLER"} & set(note["env"])
            assert note["env"]["XLA_FLAGS"] == "--xla_cpu_use_thunk_runtime=true"
            assert note["env"]["PYTHONSAFEPATH"] == "1"


@pytest.mark.parametrize(("name", "called"), [("membership", "the membership server"), ("h1", "the agent of host h1")])
def test_a_child_that_says_why_it_failed(base, fault, name, called):
    fault(**{name: "fail"})
    with pytest.raises(PoolError, match=f"{called} could not start: the dog ate it; feed the dog") as raised:
        FakePool(base_dir=base).start()
    assert "what the log says" in str(raised.value)
    assert not list(base.iterdir())


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("membership", "the membership server"),
        ("h2", "the agent of host h2"),
        ("controller", "the controller"),
    ],
)
def test_a_child_that_dies_while_starting(base, fault, name, called):
    fault(**{name: "die"})
    with pytest.raises(PoolError, match=f"{called} ended with exit code 3 while the pool started") as raised:
        FakePool(base_dir=base).start()
    assert "\n  Traceback: something broke" in str(raised.value)
    assert not list(base.iterdir())


def test_an_old_log_is_not_quoted(base, fault):
    logs = base / "logs"
    logs.mkdir()
    (logs / "h0.log").write_text("yesterday's news\n")
    fault(h0="die")
    with pytest.raises(PoolError, match="something broke") as raised:
        FakePool(log_dir=logs, base_dir=base).start()
    assert "yesterday" not in str(raised.value)
    assert "something broke" in (logs / "h0.log").read_text()


def test_a_child_that_cannot_be_started(base, monkeypatch):
    pool = FakePool(base_dir=base)
    monkeypatch.setattr(pool, "controller_command", lambda directory: ["/no/such/program"])
    with pytest.raises(PoolError, match="cannot start the pool"):
        pool.start()
    assert not list(base.iterdir())


def test_a_start_can_be_interrupted(base, fault):
    fault(controller="silent")
    pool = FakePool(base_dir=base)
    read, write = os.pipe()
    interrupt = threading.Timer(0.0, os.write, (write, b"x"))
    interrupt.start()
    with pytest.raises(StartInterrupted):
        pool.start(interrupt_fd=read)
    interrupt.join()
    assert not list(base.iterdir())
    assert os.read(read, 1) == b"x"  # Whoever owns the descriptor still learns what it was.
    os.close(read)
    os.close(write)


def test_wrong_settings_start_nothing(base):
    with pytest.raises(UsageError, match="budget"):
        FakePool(snapshot_budget=1, base_dir=base).start()
    with pytest.raises(UsageError, match="one may stack, spare, wait, surface; 'pray' is none of these"):
        FakePool(on_loss="pray", base_dir=base).start()
    with pytest.raises(UsageError, match="with one host results cannot be verified"):
        FakePool(hosts=1, verify_every=2, base_dir=base).start()
    with pytest.raises(UsageError, match="leave one of them out"):
        FakePool(verify_every=2, on_loss="surface", base_dir=base).start()
    with pytest.raises(UsageError, match="not -1"):
        FakePool(verify_every=-1, base_dir=base).start()
    with pytest.raises(UsageError, match=r"copies=N or parity=K\+M, such as parity=3\+1; not by 'prayer'"):
        FakePool(protect="prayer", base_dir=base).start()
    with pytest.raises(UsageError, match="0 hosts"):
        FakePool(hosts=0, base_dir=base).start()
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(UsageError, match="in use"):
        FakePool(listen=f"127.0.0.1:{server.getsockname()[1]}", base_dir=base).start()
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(UsageError, match="in use"):
        FakePool(metrics=f"127.0.0.1:{server.getsockname()[1]}", base_dir=base).start()
    with pytest.raises(UsageError, match=r"the trace cannot be written to .*nowhere/trace: No such file or directory"):
        FakePool(trace=base / "nowhere" / "trace", base_dir=base).start()
    assert not list(base.iterdir())


def test_a_pool_starts_once(base):
    with FakePool(hosts=1, base_dir=base) as pool, pytest.raises(UsageError, match="started already"):
        pool.start()
    with pytest.raises(UsageError, match="started already"):
        pool.start()
    with pytest.raises(PoolError, match="not running"):
        _ = pool.address


def test_who_does_not_leave_is_killed(base, fault):
    fault(h0="stubborn", controller="stubborn")
    pool = FakePool(hosts=2, base_dir=base).start()
    pids = _pids(pool)
    began = time.monotonic()
    pool.stop()
    assert time.monotonic() - began < 2
    wait_gone(pids.values(), 0)
    assert not list(base.iterdir())


def test_what_a_child_left_behind_is_killed(base, fault):
    fault(h0="orphan")
    pool = FakePool(hosts=1, base_dir=base).start()
    orphan = int((pool.directory.path / "orphan").read_text())
    pool.stop()
    wait_gone([orphan])


def test_a_host_that_dies_is_told_once_and_the_run_goes_on(base):
    with FakePool(hosts=3, base_dir=base) as pool:
        pids = _pids(pool)
        os.kill(pids["h1"], signal.SIGKILL)
        event = _next_event(pool)
        words = f"its agent (pid {pids['h1']}) was killed by SIGKILL"
        phases = {"fence": 0.05, "world": 0.2}
        assert event == HostRecovered("h1", words, True, "the others take over", 0.25, phases, 3)
        assert str(event) == f"host h1 was lost: {words}; the run went on after 0.25 s: the others take over"
        assert event.phases_text == "fence 50 ms, world 200 ms; 3 operations replayed"
        assert pool.poll() is None
        for name in ("h0", "h2", "controller"):
            os.kill(pids[name], 0)


def test_a_host_whose_agent_ended_gets_another(base, fault, monkeypatch):
    monkeypatch.setattr(restart, "_RESTART_S", 0.0)
    fault(controller="welcome")
    with FakePool(hosts=2, base_dir=base) as pool:
        for _ in range(3):
            before = _pids(pool)
            os.kill(before["h1"], signal.SIGKILL)
            lost, back = _next_event(pool), _next_event(pool)
            assert (lost.host, lost.lost) == ("h1", True)
            assert f"(pid {before['h1']})" in lost.reason
            assert (back.host, back.lost, back.reason) == ("h1", False, "it joined")
            assert str(back).startswith("host h1 changed: it joined; the run went on")
            assert _pids(pool)["h1"] != before["h1"]


def test_a_host_that_dies_over_and_over_has_to_wait_for_another_agent_ever_longer(base, fault, monkeypatch):
    fault(controller="welcome")
    monkeypatch.setattr(restart, "_RESTART_S", 1000.0)
    monkeypatch.setattr(restart, "_LONGEST_RESTART_S", 1500.0)
    with FakePool(hosts=2, base_dir=base) as pool:
        for pause in (1000, 1500):
            os.kill(_pids(pool)["h1"], signal.SIGKILL)
            assert isinstance(_next_event(pool), HostRecovered)
            assert pause - 20 < pool.deadline() - time.monotonic() <= pause
            pool._restarts["h1"].at = time.monotonic()
            assert _next_event(pool).reason == "it joined"


def test_a_membership_server_that_dies_is_started_again_and_the_run_goes_on(base, monkeypatch):
    monkeypatch.setattr(restart, "_RESTART_S", 0.0)
    with FakePool(hosts=2, base_dir=base) as pool:
        before = _pids(pool)
        os.kill(before["membership"], signal.SIGKILL)
        while _pids(pool)["membership"] == before["membership"]:
            assert pool.poll() is None
        after = _pids(pool)
        assert {**after, "membership": 0} == {**before, "membership": 0}
        while not pool.directory.membership_socket.exists():  # It notes its pid before it listens.
            assert pool.poll() is None
    wait_gone([after["membership"]], 0)


def test_hosts_that_die_together_are_told_one_by_one(base):
    with FakePool(hosts=3, base_dir=base) as pool:
        pids = _pids(pool)
        for host in ("h0", "h2"):
            os.kill(pids[host], signal.SIGKILL)
        events = [_next_event(pool), _next_event(pool)]
        assert all(isinstance(event, HostRecovered) for event in events)
        assert {event.host: event.reason for event in events} == {
            host: f"its agent (pid {pids[host]}) was killed by SIGKILL" for host in ("h0", "h2")
        }
        assert pool.poll() is None


def test_without_its_last_host_a_run_is_over_and_the_controller_stays(base):
    with FakePool(hosts=2, base_dir=base) as pool:
        pids = _pids(pool)
        os.kill(pids["h1"], signal.SIGKILL)
        assert isinstance(_next_event(pool), HostRecovered)
        os.kill(pids["h0"], signal.SIGKILL)
        lost = HostLost("h0", f"its agent (pid {pids['h0']}) was killed by SIGKILL")
        assert _next_event(pool) == lost
        assert str(lost).startswith("host h0 was lost: its agent")
        assert pool.poll() is None
        os.kill(pids["controller"], 0)


def test_a_run_that_is_over_sends_the_agents_home(base, fault):
    fault(controller="accuse")
    with FakePool(hosts=3, base_dir=base) as pool:
        pids = _pids(pool)
        os.kill(pids["controller"], signal.SIGUSR1)
        assert isinstance(_next_event(pool), HostLost)
        wait_gone([pids["h0"], pids["h1"], pids["h2"]])  # Which is no further loss.
        assert pool.poll() is None
        os.kill(pids["controller"], 0)


def test_a_lost_host_whose_agent_lives_has_the_controllers_reason(base, fault):
    fault(controller="accuse")
    with FakePool(hosts=2, base_dir=base) as pool:
        os.kill(_pids(pool)["controller"], signal.SIGUSR1)
        event = _next_event(pool)
        assert str(event) == "host h0 was lost: its executor was killed by SIGSEGV"


def test_a_run_that_waits_for_a_host_is_told_and_is_not_over(base, fault):
    fault(controller="patient")
    with FakePool(hosts=2, base_dir=base) as pool:
        pids = _pids(pool)
        os.kill(pids["h1"], signal.SIGKILL)
        waits, ends = _next_event(pool), f"its agent (pid {pids['h1']}) was killed by SIGKILL"
        assert waits == RunWaits("h1", ends, "2 of 4 virtual devices have no place")
        assert str(waits).endswith("SIGKILL; the run waits: 2 of 4 virtual devices have no place")
        os.kill(pids["h0"], 0)
        assert _next_event(pool) == HostLost("h1", "its connection closed", "nobody came")
        assert str(HostLost("h1", "it died", "nobody came")) == "host h1 was lost: it died; nobody came"


def test_what_a_dead_agent_means_for_the_run_is_the_controllers_to_say(base, fault):
    """It may have been a host that nothing ran on."""
    fault(controller="mute")
    with FakePool(hosts=2, base_dir=base) as pool:
        pids = _pids(pool)
        os.kill(pids["h0"], signal.SIGTERM)
        wait_gone([pids["h0"]])
        assert pool.poll() is None
        assert pool.poll(closing=True) is None
        os.kill(pids["h1"], 0)


def test_the_last_poll_waits_for_no_explanation(base, fault):
    fault(controller="doom")
    with FakePool(hosts=2, base_dir=base) as pool:
        os.kill(_pids(pool)["controller"], signal.SIGUSR1)
        while not (pool.directory.path / "said").exists():
            pass
        recovered, lost = pool.poll(closing=True), pool.poll(closing=True)
        assert (type(recovered), type(lost)) == (HostRecovered, HostLost)
        assert (recovered.host, lost.host) == ("h1", "h0")
        assert pool.poll(closing=True) is None


def test_a_dead_controller_sends_the_agents_home(base):
    with FakePool(hosts=2, base_dir=base) as pool:
        pids = _pids(pool)
        os.kill(pids["controller"], signal.SIGKILL)
        assert _next_event(pool) == ControllerDied(f"(pid {pids['controller']}) was killed by SIGKILL")
        wait_gone([pids["h0"], pids["h1"]])


def test_agents_that_do_not_go_home_are_killed(base, fault):
    fault(h0="stubborn")
    with FakePool(hosts=2, base_dir=base) as pool:
        pids = _pids(pool)
        os.kill(pids["controller"], signal.SIGKILL)
        assert isinstance(_next_event(pool), ControllerDied)
        assert pool.deadline() is not None
        select.select([], [], [], max(0.0, pool.deadline() - time.monotonic()))
        assert pool.poll() is None
        wait_gone([pids["h0"]])


def test_watching_in_a_thread(base):
    events, happened = [], threading.Event()

    def report(event):
        events.append(event)
        happened.set()

    with FakePool(hosts=2, base_dir=base) as pool:
        pool.watch(report)
        os.kill(_pids(pool)["h1"], signal.SIGKILL)
        assert happened.wait(20)
    assert [event.host for event in events] == ["h1"]


def test_a_host_that_the_controller_loses_while_starting(base, fault):
    fault(controller="hasty")
    with pytest.raises(HostLostError, match="host h0 was lost: its executor was killed by SIGSEGV") as raised:
        FakePool(hosts=2, base_dir=base).start()
    assert raised.value.host == "h0"


def test_the_client_environment(base, monkeypatch):
    for name in ("JAX_PLATFORMS", "TF_CPP_MIN_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    with FakePool(hosts=1, base_dir=base) as pool:
        path = pool.directory.path
        assert pool.environment == {
            "JAX_PLATFORMS": "elastic,cpu",
            "ELASTIC_CONTROLLER": pool.address,
            "ELASTIC_TOKEN_FILE": f"{path}/secret",
            "JAX_BACKEND_TARGET": pool.address,
            "IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS": "true",
            "IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION_DIRECTORY": f"{path}/uploads",
            "IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION_THRESHOLD_BYTES": "65536",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "elastic,cpu"),
        ("cpu", "elastic,cpu"),
        ("cuda,cpu", "elastic,cpu"),
        ("elastic", "elastic"),
        ("proxy", "proxy"),
        ("proxy,cpu", "proxy,cpu"),
    ],
)
def test_platforms_that_lead_to_a_pool_are_kept(base, monkeypatch, before, after):
    monkeypatch.setenv("JAX_PLATFORMS", before)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    monkeypatch.setenv("JAX_BACKEND_TARGET", "grpc://elsewhere:1")
    with FakePool(hosts=1, base_dir=base) as pool:
        assert pool.environment["JAX_PLATFORMS"] == after
        assert pool.environment["TF_CPP_MIN_LOG_LEVEL"] == "0"
        assert pool.environment["JAX_BACKEND_TARGET"] == pool.address


def test_parity_without_its_library_starts_nothing(base, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="needs the package zfec"):
        FakePool(protect="parity=2+2", base_dir=base).start()
    assert not list(base.iterdir())


def test_metrics_without_their_library_start_nothing(base, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"need the package prometheus-client: pip install 'elastic-jax\[metrics\]'"):
        FakePool(metrics="127.0.0.1:0", base_dir=base).start()
    assert not list(base.iterdir())
