"""`elastic chaos`, for real: a script, hosts that die, and what is said of it."""

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from chaos import cannot_delay, missing, parse
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


@pytest.mark.skipif(bool(missing() or cannot_delay()), reason=str(missing() or cannot_delay()))
def test_what_is_killed_takes_the_network_along(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text("faults: [{fault: delay, host: h1, for: 600, at: {step: 1}}]")
    with chaos("run", str(plan), *SMALL, f"--out={tmp_path}", SCRIPT, "8", "1") as process:
        while not (lines := delay_lines(process.pid)):
            assert process.poll() is None
        pids, mine = descendants(process.pid), devices(lines[0].removeprefix("near"))
        process.kill()
        process.wait()
        process.communicate()
    assert mine
    wait_gone(pids)
    assert not mine & devices("")


def delay_lines(pid):
    """The first device of each delay line that a process has started."""
    found = []
    for child in psutil.Process(pid).children():
        with contextlib.suppress(psutil.Error):  # It has ended.
            command = child.cmdline()
            found += [command[-3]] if any(part.endswith("delay_line.py") for part in command) else []
    return found


def devices(ending):
    """The numbers of all network devices of this machine whose names end so; no other device ever gets the same."""
    found = set()
    for path in Path("/sys/class/net").glob(f"*{ending}/ifindex"):
        with contextlib.suppress(OSError):  # Those of other tests may go at any moment.
            found.add(int(path.read_text()))
    return found
