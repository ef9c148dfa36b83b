"""Bugs that are planted into a real run are caught, each by the check whose matter it is."""

import os
import textwrap
from pathlib import Path

import pytest

from chaos import Report, parse
from elastic.chaos_run.proof import disturbed, undisturbed

SCRIPT = [str(Path(__file__).with_name("steps.py")), "40", "0.1"]

_PLAN = """
    seed: 1
    hosts: 2
    devices_per_host: 1
    snapshot_budget: 0
    faults:
      - {fault: FAULT, host: h1, at: {step: 4}}
    """
KILL = parse(textwrap.dedent(_PLAN).replace("FAULT", "kill-executor"))
FREEZE = parse("patience: 30" + textwrap.dedent(_PLAN).replace("FAULT", "freeze-executor, for: 600"))

# In place of a module that Python loads at its start if it is there: it changes what the process is about to run.
PLANT = """
import sys
if {module!r} in sys.orig_argv:
{code}
"""

BUGS = {
    "numbers": (
        "elastic.controller",
        """
    from elastic.controller import line, replay
    from elastic.commands import Command
    def skip_one(journal, world, tell):
        runs = [entry for entry in journal.entries if entry.command is Command.EXECUTE]
        return replay.tell_all(journal, world, lambda entry: None if entry in runs[1:2] else tell(entry))
    line.tell_all = skip_one
""",
    ),
    "exactly once": (
        "elastic.controller",
        """
    from elastic.controller.callbacks import CallbackSwitch
    CallbackSwitch.repeat = CallbackSwitch.clear
""",
    ),
    "liveness": (
        "elastic.controller",
        """
    from elastic.controller.watch import Watch
    Watch.begin = lambda self, name, incarnation, silent: None
""",
    ),
    "truth": (
        "elastic.controller",
        """
    from elastic.controller.changes import Changes
    Changes.told = lambda self: []
""",
    ),
    "clean": (
        "elastic.cli",
        """
    from elastic.run_directory import RunDirectory
    RunDirectory.remove = RunDirectory.remove_if_orphaned = lambda self: None
""",
    ),
}


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return undisturbed(KILL, SCRIPT, tmp_path_factory.mktemp("clean"), "clean")


def broken(clean, directory, plan=KILL):
    chaos, _ = disturbed(plan, SCRIPT, directory, "chaos", lambda _: None)
    assert len(chaos.of("injected")) == 1, chaos.of("skipped")
    return {
        verdict.name: verdict.problems for verdict in Report.of(plan, clean, chaos, SCRIPT).verdicts if not verdict.held
    }


def test_without_a_bug_every_check_holds(clean, tmp_path):
    assert broken(clean, tmp_path) == {}


@pytest.mark.parametrize("check", BUGS)
def test_a_planted_bug_is_caught(check, clean, tmp_path, monkeypatch):
    module, code = BUGS[check]
    (tmp_path / "sitecustomize.py").write_text(PLANT.format(module=module, code=code))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert check in broken(clean, tmp_path, FREEZE if check == "liveness" else KILL)
