"""`elastic diagnose` on real pools."""

import psutil
import pytest

from tests.elastic.up import FOREVER


@pytest.fixture
def pool(elastic):
    code, text = elastic("up", "--hosts", "2", "--devices-per-host", "1")
    assert code == 0, text
    return elastic


def test_a_pool_that_answers(pool):
    with pool.run("--hosts", "1", str(pool.script), FOREVER) as run:
        run.wait_for("running")
        code, text = pool("diagnose")
        assert code == 0, text
        lines = text.splitlines()
        assert lines[0].startswith("pool etcd://unix:")
        assert lines[-1] == "everything answers"
        for part in (
            "supervisor",
            "etcd unix:",
            "controller of run",
            "agent of host h0",
            "executor of host",
            "standby",
        ):
            assert any(line.startswith(f"  {part}") for line in lines), (part, text)
        assert "used by run" in text
        assert "no run uses it" in text


def test_a_frozen_agent_is_found_and_how_to_thaw_it(pool):
    [frozen] = [
        process
        for process in pool.supervisor().children()
        if "elastic.agent" in process.cmdline() and "h1" in process.cmdline()
    ]
    frozen.suspend()
    code, text = pool("diagnose")
    assert code == 1
    assert "  agent of host h1: NO ANSWER" in text
    assert f"kill -CONT {frozen.pid}" in text
    assert "  agent of host h0: NO ANSWER" not in text
    frozen.resume()


def test_an_etcd_that_is_gone_is_found(pool):
    supervisor = pool.supervisor()
    # So that it is not started again.
    supervisor.suspend()
    [etcd] = [child for child in supervisor.children() if "membership.server" in child.cmdline()]
    etcd.kill()
    psutil.wait_procs([etcd], timeout=10)
    code, text = pool("diagnose", "--pool", f"etcd://unix:{pool.directory.membership_socket}")
    assert code == 1
    assert "etcd unix:" in text
    assert "NO ANSWER" in text
    supervisor.resume()


def test_no_pool(elastic):
    code, text = elastic("diagnose")
    assert code == 1
    assert "no pool of this user lives on this machine" in text
