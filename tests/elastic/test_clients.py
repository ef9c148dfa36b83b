"""Clients that reach a pool which runs already: by our variables, by pathwaysutils, one after the other."""

import os
import subprocess
import sys

import pytest

from elastic.local_pool import LocalPool

PROGRAM = "import jax; print(len(jax.devices()), (jax.numpy.arange(3.0) * 2).tolist())"


@pytest.fixture(scope="module")
def pool():
    with LocalPool(hosts=2, devices_per_host=1) as pool:
        yield pool


def client(pool, program, **variables):
    environment = {**os.environ, **pool.environment, **variables}
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process):
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return out


def test_clients_may_come_one_after_the_other(pool):
    for _ in range(3):
        assert output(client(pool, PROGRAM)) == "2 [0.0, 2.0, 4.0]\n"


def test_the_address_alone_is_enough(pool):
    variables = {"JAX_PLATFORMS": "elastic", "ELASTIC_CONTROLLER": pool.address}
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "IFRT_", "ELASTIC_"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**bare, **variables}, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "2 [0.0, 2.0, 4.0]\n", "")


def test_a_second_client_is_refused_while_the_first_is_there(pool):
    first = client(pool, "import jax; jax.devices(); print('here', flush=True); input()")
    assert first.stdout.readline() == "here\n"
    second = client(pool, PROGRAM)
    _, errors = second.communicate(timeout=60)
    assert second.returncode == 1
    assert "another client uses this controller" in errors
    first.communicate("\n", timeout=60)
    assert first.returncode == 0
    assert output(client(pool, PROGRAM)) == "2 [0.0, 2.0, 4.0]\n"


def test_a_client_that_is_killed_leaves_the_pool_to_the_next(pool):
    first = client(pool, "import jax; x = jax.numpy.ones(9); print('here', flush=True); input()")
    assert first.stdout.readline() == "here\n"
    first.kill()
    first.communicate()
    assert output(client(pool, PROGRAM)) == "2 [0.0, 2.0, 4.0]\n"


def test_pathways_own_client_library_reaches_the_pool(pool):
    program = f"import pathwaysutils; pathwaysutils.initialize(); {PROGRAM}"
    assert output(client(pool, program, JAX_PLATFORMS="proxy")) == "2 [0.0, 2.0, 4.0]\n"


def test_a_notebook_starts_a_pool_of_its_own():
    program = "import elastic; elastic.init(hosts=2, devices_per_host=1)\n" + PROGRAM
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "2 [0.0, 2.0, 4.0]\n"), done.stderr
