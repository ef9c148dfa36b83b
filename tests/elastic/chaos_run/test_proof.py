"""`elastic chaos`, for real: a script, hosts that die, and what is said of it."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from chaos import parse
from chaos.history import parse as parse_history
from tests.elastic.processes import wait_gone

SCRIPT = str(Path(__file__).with_name("steps.py"))
SMALL = ("--hosts=3", "--devices-per-host=1")


def descendants(pid):
    """All processes that a process has started, and those that they have."""
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def chaos(*arguments, **settings):
    command = [sys.executable, "-m", "elastic.cli", "chaos", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **settings)


def test_the_smoke_plan_holds_and_leaves_a_report(tmp_path):
    with chaos("run", "smoke", *SMALL, f"--out={tmp_path}", "--json", "--", SCRIPT, "60", "0.15") as process:
        output, errors = process.communicate()
    report = json.loads(output)
    broken = {check["name"]: check["problems"] for check in report["checks"] if not check["held"]}
    assert (broken, process.returncode) == ({}, 0), errors
    assert [fault["fault"] for fault in report["faults"]] == ["kill-executor", "kill-host", "freeze-executor", "die"]
    assert all(fault["noticed"] is not None for fault in report["faults"])
    assert json.loads((tmp_path / "report.json").read_text()) == report
    assert "<svg" in (tmp_path / "report.html").read_text()
    assert len(parse((tmp_path / "plan.yaml").read_text()).faults) == 4
    assert len(parse_history((tmp_path / "chaos.jsonl").read_text()).of("callback")) >= 60


def test_a_script_that_fails_by_itself_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("raise SystemExit('I cannot')")
    with chaos("run", "smoke", *SMALL, f"--out={tmp_path}", str(script)) as process:
        _, errors = process.communicate()
    assert process.returncode == 2
    assert "the script fails without any fault" in errors
    assert "I cannot" in errors


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_what_is_killed_takes_the_script_and_all_hosts_along(tmp_path, number):
    with chaos("run", "smoke", *SMALL, f"--out={tmp_path}", SCRIPT, "1000", "1") as process:
        started = tmp_path / "clean.out"
        while not (started.exists() and "step 0" in started.read_text()):
            assert process.poll() is None
        pids = descendants(process.pid)
        process.send_signal(number)
        process.wait()
        process.communicate()
    assert len(pids) > 10
    wait_gone(pids)
