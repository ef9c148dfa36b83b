"""Bugs to plant into a real run: what is changed in one kind of its processes, and the check that is to see it.

The script is `steps.py`: it reads a value and calls back in each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos import Plan, parse

SCRIPT = [str(Path(__file__).with_name("steps.py")), "40", "0.1"]


def plan(fault: str, at: str = "step: 4", **settings: Any) -> Plan:
    """Does one thing to one of two hosts; without other settings no snapshot is taken."""
    faults = f"faults: [{{fault: {fault}, host: h1, at: {{{at}}}}}]"
    usual = {"seed": 1, "patience": 30, "hosts": 2, "devices_per_host": 1, "snapshot_budget": 0}
    return parse("\n".join([faults, *(f"{name}: {value}" for name, value in {**usual, **settings}.items())]))


KILL = plan("kill-executor")
FREEZE = plan("freeze-executor, for: 600")
THAW = plan("freeze-executor, for: 3")
KILL_LATER = plan("kill-executor", "step: 20", snapshot_budget=0.3)
STORE = plan("kill-executor", "step: 20", snapshot_budget=0.3, checkpoint_every=0.5)
PLANS = {"kill": KILL, "freeze": FREEZE, "thaw": THAW, "kill later": KILL_LATER, "store": STORE}
"""Those that a run without a bug comes through."""


@dataclass(frozen=True)
class Bug:
    """A build with a bug.

    Attributes:
        caught_by: the check whose matter it is.
        words: of what that check has to say; empty if that varies.
        module: the module that the processes run which have the bug.
        code: what is changed in them.
        plan: what is done to the run.
    """

    caught_by: str
    words: str
    module: str
    code: str
    plan: Plan = KILL


BUGS = {
    "a replay skips an operation": Bug(
        "numbers",
        "a replay gave another value",
        "elastic.controller",
        """
from elastic.controller import line, replay
from elastic.commands import Command
def skip_one(journal, world, tell):
    runs = [entry for entry in journal.entries if entry.command is Command.EXECUTE]
    return replay.tell_all(journal, world, lambda entry: None if entry in runs[2:3] else tell(entry))
line.tell_all = skip_one
""",
    ),
    "a snapshot is torn": Bug(
        "numbers",
        "when nothing happens",
        "elastic.executor.template",
        """
from dataclasses import replace
from elastic.executor import snapshots
whole = snapshots._record
def torn(array, device, held):
    values = held.values.copy()
    values[values.shape[0] // 2 :] = 0
    return whole(array, device, replace(held, values=values))
snapshots._record = lambda array, device, held: (torn if held.values.ndim else whole)(array, device, held)
""",
        plan=KILL_LATER,
    ),
    "a replay begins too late": Bug(
        "exactly once",
        "and the snapshot that counts is of",
        "elastic.controller",
        """
from elastic.controller.line import Line
use = Line.use
def late(self, world):
    if world.placement.generation > 1:
        self.journal.replay_starts(self.journal.replay_from + 1)
    return use(self, world)
Line.use = late
""",
    ),
    "callbacks of a replay reach the client": Bug(
        "exactly once",
        "too often",
        "elastic.controller",
        """
from elastic.controller.callbacks import CallbackSwitch
CallbackSwitch.repeat = lambda self, snapshot: self.clear()
""",
    ),
    "the fence is off": Bug(
        "one owner",
        "a message of generation 1 was accepted in generation 2",
        "elastic.controller",
        """
from elastic.controller.world import World
def goes_on(self, failure):
    self.failure = failure
World._end = goes_on
World.close = lambda self: None
""",
        plan=THAW,
    ),
    "who falls silent is not missed": Bug(
        "liveness",
        "was not noticed within",
        "elastic.controller",
        """
from elastic.controller.watch import Watch
Watch.begin = lambda self, name, incarnation, silent: None
""",
        plan=FREEZE,
    ),
    "health tells of no failure": Bug(
        "truth",
        "health tells of 0 changes",
        "elastic.controller",
        """
from elastic.controller.changes import Changes
Changes.told = lambda self: []
""",
    ),
    "copies are removed before there are others": Bug(
        "durability",
        "",
        "elastic.agent",
        """
from elastic import host_memory
host_memory.keep_only = lambda memory, digests: [file.unlink() for file in memory.iterdir() if file.is_file()]
""",
        plan=KILL_LATER,
    ),
    "a checkpoint is not on disk, as after a power cut before it was flushed": Bug(
        "durability",
        "",
        "elastic.agent",
        """
from elastic.agent import storage
write_durably = storage.write_durably
storage.write_durably = lambda path, data: write_durably(path, bytes(len(data)))
""",
        plan=STORE,
    ),
    "the directory of a run is left": Bug(
        "clean",
        "has left /",
        "elastic.cli",
        """
from elastic.run_directory import RunDirectory
RunDirectory.remove = RunDirectory.remove_if_orphaned = lambda self: None
""",
    ),
    "a process outlives its agent": Bug(
        "clean",
        "has left the process",
        "elastic.agent",
        """
import subprocess
subprocess.Popen(["sleep", "60"], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
""",
    ),
}
"""By what is wrong with it."""
