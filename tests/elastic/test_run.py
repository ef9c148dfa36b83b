"""`elastic run` end to end: results, exit codes, failures, and that nothing is left."""

import re
import signal
from pathlib import Path

import psutil
import pytest

from tests.elastic.runs import Run, run_plainly, run_to_end

EXAMPLES = Path(__file__).parents[2] / "examples"

LOOP = """
import os, sys, jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
sharding = NamedSharding(Mesh(np.array(jax.devices()), "d"), P("d"))
x = jax.device_put(np.arange(24.0, dtype=np.float32), sharding)
step = jax.jit(lambda a: a - a.sum() / 24 + 1)
i = 0
while not os.path.exists(os.path.join(os.path.dirname(sys.argv[0]), "end")):
    x = step(x)
    float(x[0])
    i += 1
    if i == 3:
        print("running", flush=True)
print("ended")
"""


@pytest.fixture
def loop(tmp_path):
    script = tmp_path / "loop.py"
    script.write_text(LOOP)
    return script


def digest_of(text):
    return re.search(r"digest: (\w+)", text)[1]


def run_directories():
    return set(Path("/dev/shm").glob("elastic-*"))


@pytest.mark.parametrize(
    ("program", "spreads"),
    [
        (("digits.py", "--epochs=2", "--digest"), [(1, 8), (2, 4), (4, 2), (8, 1)]),
        (("transformer.py", "--steps=6", "--digest"), [(1, 8), (4, 2)]),
    ],
    ids=["digits.py", "transformer.py"],
)
def test_results_do_not_depend_on_how_the_devices_are_spread_over_hosts(program, spreads):
    script, *arguments = program
    digests = {}
    for hosts, devices in spreads:
        run = run_to_end(EXAMPLES / script, *arguments, hosts=hosts, devices=devices)
        assert run.process.returncode == 0, run.text
        digests[hosts, devices] = digest_of(run.text)
    assert len(set(digests.values())) == 1, digests


def test_the_example_reaches_the_accuracy_of_plain_jax():
    def accuracy(text):
        return float(re.search(r"^test accuracy: ([\d.]+)%", text, re.MULTILINE)[1])

    ours = run_to_end(EXAMPLES / "digits.py", "--epochs=8", hosts=4, devices=2)
    plain = run_plainly(EXAMPLES / "digits.py", "--epochs=8")
    assert accuracy(ours.text) == pytest.approx(accuracy(plain.stdout), abs=0.6)
    assert accuracy(ours.text) > 93


def test_checkpoints_of_orbax_are_written_meanwhile_and_restored_on_other_hosts(tmp_path):
    def run(directory, steps, hosts, devices):
        arguments = (str(tmp_path / directory), "--every=5", f"--steps={steps}")
        run = run_to_end(EXAMPLES / "checkpointed.py", *arguments, hosts=hosts, devices=devices)
        assert run.process.returncode == 0, run.text
        return run

    whole = run("whole", 20, hosts=2, devices=2)
    run("parts", 10, hosts=2, devices=2)
    second = run("parts", 20, hosts=1, devices=4)
    assert "from step 10" in second.output[0]
    assert digest_of(second.text) == digest_of(whole.text)


def test_hundreds_of_collectives_may_be_under_way_at_once(tmp_path):
    script = tmp_path / "chain.py"
    script.write_text(LOOP.split("i = 0")[0] + "for _ in range(300): x = step(x)\nprint(np.asarray(x)[:3])\n")
    run = run_to_end(script, hosts=2, devices=2)
    assert run.output == ["[-10.5  -9.5  -8.5]"]


def test_the_file_of_an_upload_goes_when_a_snapshot_holds_its_bytes(tmp_path):
    script = tmp_path / "upload.py"
    script.write_text(
        "import os, jax, numpy as np\n"
        "x = [jax.device_put(np.full(1 << 20, i, np.uint8), d) for i, d in enumerate(jax.devices())]\n"
        "print([int(a[5]) for a in x])\n"
        "directory = os.environ['IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION_DIRECTORY']\n"
        "while os.listdir(directory):\n    x[0] += 1\n"
        "print(directory.startswith('/dev/shm/elastic-'), [int(a[7]) for a in x[1:]])\n"
    )
    assert run_to_end(script).output == ["[0, 1, 2, 3]", "True [1, 2, 3]"]


@pytest.mark.parametrize(("statement", "code"), [("pass", 0), ("raise SystemExit(7)", 7), ("1/0", 1)])
def test_the_exit_code_is_the_scripts(tmp_path, statement, code):
    script = tmp_path / "script.py"
    script.write_text(f"import jax\nassert len(jax.devices()) == 2\n{statement}\n")
    run = run_to_end(script, hosts=1, devices=2)
    assert run.process.returncode == code, run.text


def test_a_script_may_end_before_its_programs_have_made_their_callbacks(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import threading, jax\n"
        "def show(i):\n"
        "    threading.main_thread().join()\n"
        "    print(i, flush=True)\n"
        "jax.jit(lambda: jax.lax.fori_loop(0, 20, lambda i, _: jax.debug.callback(show, i), None))()\n"
    )
    run = run_to_end(script, hosts=2, devices=1)
    assert run.process.returncode == 0, run.text
    assert sorted(map(int, run.output)) == list(range(20)), run.text


@pytest.mark.parametrize("victim", ["executor", "agent", "template"])
def test_a_host_that_dies_is_told_of_and_the_script_goes_on(loop, tmp_path, victim):
    with Run(loop, hosts=3, devices=1, options=("-v",)) as run:
        run.wait_for("running")
        run.role(victim)[1].kill()
        run.wait_for("the run went on")
        (tmp_path / "end").touch()
        assert run.finish() == 0, run.text
        run.wait_until_gone(2)
    (told,) = [line for line in run.errors if "was lost" in line]
    assert re.search(r"elastic: host h\d was lost: .*(SIGKILL|agent)", told), run.text
    assert run.output[-1] == "ended"


def test_a_script_whose_arrays_died_with_all_hosts_gets_an_error_that_names_one(tmp_path):
    loop = tmp_path / "loop.py"
    # An upload's file is there for as long as the arrays can be made again without any host.
    uploaded = "y = jax.device_put(np.ones(1 << 16), jax.devices()[0])\n"
    snapshot = "not os.listdir(os.environ['IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION_DIRECTORY'])"
    loop.write_text(LOOP.replace("i = 0\n", f"i = 0\n{uploaded}").replace("i == 3", snapshot))
    with Run(loop, hosts=2, devices=1) as run:
        run.wait_for("running")
        for agent in run.role("agent"):
            agent.kill()
        assert run.finish() == 1
        run.wait_until_gone(2)
    assert re.search(r"JaxRuntimeError: UNAVAILABLE: host h\d was lost: ", run.text), run.text
    assert re.search(r"elastic: error: host h\d was lost: .*; the run cannot go on", run.text), run.text
    assert "every copy of arrays" in run.text


def test_a_dead_controller_gives_the_script_an_error_and_ends_the_pool(loop):
    with Run(loop) as run:
        run.wait_for("running")
        [controller] = run.role("controller")
        controller.kill()
        assert run.finish() == 1
        run.wait_until_gone(2)
    assert "controller" in run.text


def test_a_launcher_that_is_killed_takes_everything_along(loop):
    before = run_directories()
    with Run(loop) as run:
        run.wait_for("running")
        run.snapshot()
        [mine] = {
            Path(p.environ()["ELASTIC_CONTROLLER"].removeprefix("grpc://unix:")).parent for p in run.role("script")
        }
        run.process.kill()
        run.wait_until_gone(2)
    assert mine not in before
    assert not mine.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_script_and_the_pool(loop, number):
    with Run(loop) as run:
        run.wait_for("running")
        run.snapshot()
        run.process.send_signal(number)
        assert run.finish() == 128 + number
        run.wait_until_gone(2)


def test_a_script_that_is_killed_gives_137(loop):
    with Run(loop) as run:
        run.wait_for("running")
        [script] = run.role("script")
        script.kill()
        assert run.finish() == 137
        run.wait_until_gone(2)


def test_an_executor_that_cannot_start_says_why(loop):
    run = run_to_end(loop, environment={"XLA_FLAGS": "--xla_no_such_flag=1"})
    assert run.process.returncode == 1
    assert "xla_no_such_flag" in run.text
    assert "host h" in run.text
    assert "Traceback" not in run.text


def test_standbys_do_no_work_and_hold_no_connection(loop):
    with Run(loop, hosts=2, devices=1) as run:
        run.wait_for("running")
        assert len(run.role("executor")) == 2
        assert len(run.role("agent")) == 2
        for standby in run.role("standby"):
            assert psutil.Process(standby.pid).num_threads() == 3  # It waits, listens and beats.
