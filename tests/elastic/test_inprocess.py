import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.elastic import fake_pool

ROOT = Path(__file__).parents[2]
PRELUDE = """
import glob, json, os, sys
from elastic import local_pool
from tests.elastic.fake_pool import FakePool
local_pool.LocalPool = FakePool
import elastic
"""


@pytest.fixture
def run(short_directory):
    """Runs a program in a fresh process, where `elastic.init` starts small programs; checks that nothing is left."""

    def run(code, **environment):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("ELASTIC_", "JAX_"))}
        process = subprocess.run(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
            env={**clean, "PYTHONPATH": str(ROOT), fake_pool.BASE: str(short_directory), **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert not list(short_directory.iterdir())
        return process

    return run


def succeeded(process):
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_importing_elastic_imports_no_jax(run):
    assert succeeded(run("print('jax' in sys.modules, 'numpy' in sys.modules)")) == "False False\n"


def test_a_pool_for_this_process(run):
    code = """
        pool = elastic.init(hosts=3, devices_per_host=2)
        assert os.environ["ELASTIC_CONTROLLER"] == pool.address
        assert os.environ["ELASTIC_LAUNCHER"] == str(os.getpid())
        assert elastic.init(hosts=3, devices_per_host=2) is pool
        try:
            elastic.init(hosts=2)
        except elastic.UsageError as error:
            print(error)
        import jax
        print(jax.config.jax_platforms, jax.config.read("jax_backend_target") == pool.address)
    """
    first, second = succeeded(run(code)).splitlines()
    assert first.startswith("elastic.init was called before with other arguments (3 hosts x 2 devices)")
    assert second == "elastic,cpu True"


def test_after_importing_jax_and_again_after_stopping(run):
    code = """
        import jax
        before = dict(os.environ)
        pool = elastic.init(hosts=1)
        assert jax.config.jax_platforms == "elastic,cpu"
        assert jax.config.read("jax_backend_target") == pool.address
        pool.stop()
        pool.stop()
        assert dict(os.environ) == before
        print(repr(jax.config.jax_platforms), repr(jax.config.read("jax_backend_target")))
        other = elastic.init(hosts=2)
        assert other is not pool
        pool.stop()
        assert os.environ["ELASTIC_CONTROLLER"] == other.address
    """
    assert succeeded(run(code, JAX_PLATFORMS="cpu")) == "'cpu' ''\n"


def test_too_late(run):
    code = """
        import jax
        jax.devices()
        try:
            elastic.init()
        except elastic.UsageError as error:
            print(error)
    """
    text = succeeded(run(code, JAX_PLATFORMS="cpu"))
    assert "JAX has chosen its devices already; call elastic.init before" in text


def test_where_a_pool_is_already(run):
    code = """
        import logging
        logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
        pool = elastic.init(hosts=8)
        assert pool.address == "grpc://unix:/somewhere"
        pool.stop()
        assert elastic.init().address == pool.address
    """
    text = succeeded(run(code, ELASTIC_CONTROLLER="grpc://unix:/somewhere"))
    assert text.startswith("elastic.init starts no pool: this process uses the one at grpc://unix:/somewhere")


def test_a_pool_that_cannot_start(run):
    code = """
        for _ in range(2):
            try:
                elastic.init(hosts=1)
            except elastic.PoolError as error:
                print(str(error).splitlines()[0])
        assert "ELASTIC_CONTROLLER" not in os.environ
    """
    lines = succeeded(run(code, **{fake_pool.FAULTS: '{"h0": "fail"}'})).splitlines()
    assert lines == ["the agent of host h0 could not start: the dog ate it; feed the dog"] * 2


KILL_H0 = """
    import signal, threading
    heard = threading.Event()
    class Stderr:
        def write(self, text):
            sys.__stderr__.write(text)
            if "\\n" in text:
                heard.set()
        def flush(self):
            pass
    sys.stderr = Stderr()
    pool = elastic.init(hosts=HOSTS)
    directory = os.path.dirname(os.environ["ELASTIC_TOKEN_FILE"])
    os.kill(json.load(open(directory + "/h0.json"))["pid"], signal.SIGKILL)
    assert heard.wait(20)
"""


@pytest.mark.parametrize(("hosts", "prefix", "end"), [(2, "", "the others take over"), (1, "error: ", "kernel)")])
def test_a_lost_host_is_told(run, hosts, prefix, end):
    process = run(KILL_H0.replace("HOSTS", str(hosts)))
    succeeded(process)
    assert process.stderr.count("\n") == 1
    assert process.stderr.startswith(f"elastic: {prefix}host h0 was lost: its agent (pid ")
    assert process.stderr.endswith(f"{end}\n")


def test_a_process_that_is_killed_leaves_nothing_even_if_a_fork_of_it_lives(run):
    code = """
        import signal
        from tests.elastic.processes import wait_gone
        read, write = os.pipe()
        parent = os.getpid()
        elastic.init(hosts=2)
        directory = os.path.dirname(os.environ["ELASTIC_TOKEN_FILE"])
        pids = [json.load(open(path))["pid"] for path in glob.glob(directory + "/*.json")]
        assert len(pids) == 4
        if os.fork() == 0:
            os.kill(parent, signal.SIGKILL)
            wait_gone([parent, *pids], 2)
            print("all gone", flush=True)
            os._exit(0)
        signal.pause()
    """
    process = run(code)
    assert (process.returncode, process.stdout) == (-9, "all gone\n")
