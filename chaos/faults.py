"""The catalogue: every fault that can be planned, and what is known of it. How they are done is not said here."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Target(enum.Enum):
    """What a fault is addressed to."""

    HOST = "host"
    """One or several hosts."""
    POINT = "point"
    """Whichever process comes first to a point of its work."""
    RUN = "run"
    """The run as a whole."""
    ETCD = "etcd"
    """The pool's etcd."""


@dataclass(frozen=True)
class Fault:
    """One entry of the catalogue.

    Attributes:
        takes_memory: the copies of arrays in the host's memory are gone, or out of reach for a while.
        lasts: seconds until it is taken back, unless the plan says otherwise; None if it is not taken back.
        noticed: whether the run must notice it, provided that it lasts for `noticeable` seconds.
        ends_run: the run cannot survive it; what is checked is how it ends.
        changes_pool: the hosts must stand in networks of their own, which needs root.
        silent: only a run that verifies its results can find it out.
        spares_hosts: no host is given up for it, so that it is no cause for one that is.
        stored: it hits what a run with `checkpoint_every` has on disk, or does with its disk.
        changes_disk: the run's checkpoints must be on a disk of their own, which needs root.
        rots: bits change in what the hosts keep, or, if it hits no host, in what is on disk.
        comes_back: the host is well in between, and hit again.
        signs: the kinds of events that show that it was noticed; empty if that is shown by a host, or the world, that
            is given up.
    """

    name: str
    target: Target
    explanation: str
    takes_memory: bool = False
    lasts: float | None = None
    noticed: bool = True
    noticeable: float = 2.0
    ends_run: bool = False
    changes_pool: bool = False
    silent: bool = False
    spares_hosts: bool = False
    stored: bool = False
    changes_disk: bool = False
    rots: bool = False
    comes_back: bool = False
    signs: tuple[str, ...] = ()


POINTS = {
    "compile": "an executor is about to compile a program",
    "collective": "an executor is about to run its part of a program of several hosts",
    "snapshot": "an executor has saved a part of a snapshot, and has not told of it",
    "restore": "an executor of a new world has restored a part of what it has to hold",
    "copies": "an agent has sent a part of the second copies of a snapshot",
    "parity": "an agent has made a part of the parity of a snapshot, or of what was lost",
    "store": "an agent has written a part of a checkpoint",
}
"""Where a process may die, and when it is there."""

POINTS_OF_AGENTS = ("copies", "parity", "store")
"""Those at which it is an agent, so that what the host has in its memory is gone."""

FAULTS = {
    fault.name: fault
    for fault in (
        Fault("kill-executor", Target.HOST, "the process that owns the devices gets SIGKILL; the host lives on"),
        Fault("kill-agent", Target.HOST, "the agent gets SIGKILL, and all else on the host with it", takes_memory=True),
        Fault("kill-host", Target.HOST, "agent and executor get SIGKILL at the same moment", takes_memory=True),
        Fault("freeze-executor", Target.HOST, "the executor is stopped, and goes on later", lasts=3.0),
        Fault("freeze-agent", Target.HOST, "the agent is stopped, and goes on later", takes_memory=True, lasts=3.0),
        Fault("freeze-host", Target.HOST, "agent and executor are stopped, and go on", takes_memory=True, lasts=3.0),
        Fault(
            "zombie",
            Target.HOST,
            "the host is stopped for so long that others have long taken over, and then acts as if nothing had been",
            takes_memory=True,
            lasts=8.0,
        ),
        Fault(
            "flap",
            Target.HOST,
            "the agent is stopped and goes on, over and over: the host is given up, comes back, is given up",
            takes_memory=True,
            lasts=12.0,
            comes_back=True,
        ),
        Fault(
            "slow",
            Target.HOST,
            "the executor gets only a share of its time, in slices of 50 ms",
            lasts=5.0,
            noticed=False,
        ),
        Fault(
            "preempt",
            Target.HOST,
            "the host is told to leave (SIGTERM), and killed if it is still there when the time is over",
            takes_memory=True,
            lasts=20.0,
            noticed=False,
        ),
        Fault(
            "cut",
            Target.HOST,
            "the host's cable is pulled, and plugged in again: nobody reaches it, and it reaches nobody; needs root",
            takes_memory=True,
            lasts=4.0,
            changes_pool=True,
        ),
        Fault(
            "cut-in",
            Target.HOST,
            "what others send to the host is lost; they hear it; needs root",
            takes_memory=True,
            lasts=6.0,
            changes_pool=True,
        ),
        Fault(
            "cut-out",
            Target.HOST,
            "what the host sends to others is lost; it hears them; needs root",
            takes_memory=True,
            lasts=4.0,
            changes_pool=True,
        ),
        Fault(
            "cut-peers",
            Target.HOST,
            "the host and the other hosts do not reach each other; controller and etcd reach all; needs root",
            takes_memory=True,
            lasts=8.0,
            noticeable=5.0,  # Hosts are asked whether they reach each other only when something is overdue.
            changes_pool=True,
        ),
        Fault(
            "cut-controller",
            Target.HOST,
            "the host and the controller do not reach each other; etcd and the other hosts reach both; needs root",
            takes_memory=True,
            lasts=4.0,
            changes_pool=True,
        ),
        Fault(
            "cut-etcd",
            Target.HOST,
            "the host and etcd do not reach each other, for longer than its lease lasts; needs root",
            lasts=8.0,
            noticed=False,
            spares_hosts=True,
            changes_pool=True,
        ),
        Fault(
            "delay",
            Target.HOST,
            "what the host sends and what is sent to it takes longer, each way; needs root",
            lasts=10.0,
            noticed=False,
            changes_pool=True,
        ),
        Fault(
            "recycle-address",
            Target.HOST,
            "the host is killed, and one of another name comes up at its address and port; needs root",
            takes_memory=True,
            changes_pool=True,
        ),
        Fault(
            "die",
            Target.POINT,
            f"the next process that comes to a point is killed there: {', '.join(POINTS)}",
            takes_memory=True,
        ),
        Fault(
            "flip-bit",
            Target.HOST,
            "one bit of an array that a device of the host is about to use is changed; nothing else shows it",
            noticed=False,
            silent=True,
            signs=("corruption",),
        ),
        Fault(
            "kill-etcd-leader",
            Target.ETCD,
            "the member of etcd that leads gets SIGKILL, and is started again",
            lasts=3.0,
            noticed=False,
            spares_hosts=True,
        ),
        Fault(
            "kill-etcd",
            Target.ETCD,
            "all members of etcd get SIGKILL, and are started again; what etcd keeps on disk is still there",
            lasts=5.0,
            noticed=False,
            spares_hosts=True,
        ),
        Fault(
            "freeze-etcd",
            Target.ETCD,
            "all members of etcd are stopped, and go on later",
            lasts=8.0,
            noticed=False,
            spares_hosts=True,
        ),
        Fault(
            "compact-etcd",
            Target.ETCD,
            "etcd forgets its history, and is stopped for so long that who watches has to begin anew",
            lasts=6.0,
            noticed=False,
            spares_hosts=True,
        ),
        Fault(
            "disk-full",
            Target.RUN,
            "the disk with the run's checkpoints has no space left, and has it again; needs root",
            lasts=10.0,
            stored=True,
            changes_disk=True,
            signs=("not_stored",),
        ),
        Fault(
            "disk-read-only",
            Target.RUN,
            "the disk with the run's checkpoints cannot be written to, and can again; needs root",
            lasts=10.0,
            stored=True,
            changes_disk=True,
            signs=("not_stored",),
        ),
        Fault(
            "disk-slow",
            Target.HOST,
            "every file of a checkpoint that the host writes or reads takes four seconds longer",
            lasts=10.0,
            stored=True,
            signs=("slow_disk",),
        ),
        Fault(
            "memory-pressure",
            Target.HOST,
            "the host has no space left for copies of arrays, and has it again",
            lasts=5.0,
            noticed=False,
            signs=("not_saved",),
        ),
        Fault(
            "rot-copy",
            Target.HOST,
            "one bit of each copy of arrays in the host's memory is changed; who restores from it finds that",
            takes_memory=True,
            noticed=False,
            rots=True,
            signs=("bad_copy",),
        ),
        Fault(
            "rot-parity",
            Target.HOST,
            "one bit of each block of parity in the host's memory is changed; who restores from it finds that",
            takes_memory=True,
            noticed=False,
            rots=True,
            signs=("bad_copy",),
        ),
        Fault(
            "rot-checkpoint",
            Target.RUN,
            "one bit of each array in the newest checkpoint on disk is changed; who restores from it finds that",
            noticed=False,
            stored=True,
            rots=True,
            signs=("bad_file",),
        ),
        Fault("kill-controller", Target.RUN, "the controller gets SIGKILL, which ends the run", ends_run=True),
        Fault("kill-client", Target.RUN, "the script gets SIGKILL, which ends the run", ends_run=True),
    )
}
"""By name."""
