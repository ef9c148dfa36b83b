"""Bugs that are planted into a real run are caught, each by the check whose matter it is."""

import os
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from chaos import Report, parse
from chaos.plan import AtStep
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
SAVE = replace(KILL, snapshot_budget=0.3, faults=(replace(KILL.faults[0], when=AtStep(20)),))
STORE = replace(SAVE, checkpoint_every=0.5)

# In place of a module that Python loads at its start if it is there: it changes what the process is about to run.
PLANT = """
import sys
if {module!r} in sys.orig_argv:
{code}
"""

BUGS = {
    "an operation is left out of a replay": (
        "numbers",
        KILL,
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
    "callbacks run again in a replay": (
        "exactly once",
        KILL,
        "elastic.controller",
        """
    from elastic.controller.callbacks import CallbackSwitch
    CallbackSwitch.repeat = CallbackSwitch.clear
""",
    ),
    "nobody watches the hosts": (
        "liveness",
        FREEZE,
        "elastic.controller",
        """
    from elastic.controller.watch import Watch
    Watch.begin = lambda self, name, incarnation, silent: None
""",
    ),
    "health forgets what happened": (
        "truth",
        KILL,
        "elastic.controller",
        """
    from elastic.controller.changes import Changes
    Changes.told = lambda self: []
""",
    ),
    "copies are removed before there are others": (
        "durability",
        SAVE,
        "elastic.agent",
        """
    from elastic import host_memory
    host_memory.keep_only = lambda memory, digests: [file.unlink() for file in memory.iterdir() if file.is_file()]
""",
    ),
    "a checkpoint is not on disk, as after a power cut before it was flushed": (
        "durability",
        STORE,
        "elastic.agent",
        """
    from elastic.agent import storage
    write_durably = storage.write_durably
    storage.write_durably = lambda path, data: write_durably(path, bytes(len(data)))
""",
    ),
    "what the run has made is not removed": (
        "clean",
        KILL,
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


@pytest.mark.parametrize("plan", [KILL, STORE])
def test_without_a_bug_every_check_holds(plan, clean, tmp_path):
    assert broken(clean, tmp_path, plan) == {}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug, clean, tmp_path, monkeypatch):
    check, plan, module, code = BUGS[bug]
    (tmp_path / "sitecustomize.py").write_text(PLANT.format(module=module, code=code))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert check in broken(clean, tmp_path, plan)
