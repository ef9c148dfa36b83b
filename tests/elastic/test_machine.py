"""Which processes share a machine's memory."""

import os
import subprocess
import sys
from pathlib import Path

from elastic.machine import machine_id

PROGRAM = "from elastic.machine import machine_id; print(machine_id())"
ROOT = Path(__file__).parents[2]


def told(*command):
    program = [*command, sys.executable, "-c", PROGRAM]
    return subprocess.run(program, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()


def test_processes_of_one_machine_tell_the_same():
    assert machine_id() == machine_id() == told()


def test_it_is_made_of_the_boot_and_the_shared_memory():
    boot, _, device = machine_id().rpartition(":")
    assert boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert int(device) == os.stat("/dev/shm").st_dev


def test_another_boot_or_another_shared_memory_is_another_machine(monkeypatch):
    here = machine_id()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", lambda *_, **__: "another-boot\n")
        rebooted = machine_id()
    with monkeypatch.context() as patch:
        # As in another container: it has a /dev/shm of its own.
        patch.setattr(os, "stat", lambda _, stat=os.stat: stat("/proc"))
        container = machine_id()
    assert len({here, rebooted, container}) == 3
