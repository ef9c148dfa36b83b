"""Scripts that choose the CPU compute on the pool that they were started on."""

import os
import subprocess
import sys

import pytest

from elastic import client_environment as variables
from elastic.platform_names import is_the_script
from tests.elastic.runs import run_to_end

CHOICES = {
    "platforms": 'jax.config.update("jax_platforms", "cpu")',
    "platform_name": 'jax.config.update("jax_platform_name", "cpu")',
    "number_of_cpus_too": 'jax.config.update("jax_platform_name", "cpu"); jax.config.update("jax_num_cpu_devices", 3)',
    "cpu_first": 'jax.config.update("jax_platform_name", "cpu"); jax.devices("cpu")',
}
# Who computed, what a callback got, and that the CPU of the process itself is still there.
PROGRAM = """
x = jax.numpy.arange(3.0)
jax.debug.print("{}", x)
jax.effects_barrier()
cpu = jax.devices("cpu")[0]
version = x.device.client.platform_version.partition(",")[0]
print(jax.device_count(), version, jax.default_backend(), cpu.client.platform_version)
"""


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_the_script_gets_the_pool(tmp_path, choice):
    script = tmp_path / "script.py"
    script.write_text(f"import jax\n{choice}\n{PROGRAM}")
    run = run_to_end(script, hosts=2, devices=1)
    assert run.output == ["[0. 1. 2.]", "2 elastic cpu cpu"], run.text


def test_the_scripts_environment_is_a_choice_too_and_its_children_may_stay_away(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, subprocess, sys\n"
        "os.environ['JAX_PLATFORMS'] = 'cpu'\n"
        f"import jax\n{PROGRAM}\n"
        "child = 'import jax; print(jax.devices()[0].client.platform_version)'\n"
        "subprocess.run([sys.executable, '-c', child], check=True)\n"
    )
    run = run_to_end(script, hosts=2, devices=1)
    assert run.output == ["[0. 1. 2.]", "2 elastic cpu cpu", "cpu"], run.text


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_a_notebook_gets_its_pool(choice):
    program = f"import elastic, jax\n{choice.partition('; jax.devices')[0]}\nelastic.init(2, 1)\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "[0. 1. 2.]\n2 elastic cpu cpu\n"), done.stderr


def test_who_is_the_script():
    parent, this = str(os.getppid()), str(os.getpid())
    assert is_the_script({variables.SCRIPT_OF: parent, variables.LAUNCHER: parent})
    assert is_the_script({variables.LAUNCHER: this})
    assert not is_the_script({variables.SCRIPT_OF: "1", variables.LAUNCHER: "1"} if parent != "1" else {})
    assert not is_the_script({variables.LAUNCHER: parent})  # A child of a notebook.
    assert not is_the_script({})
