"""The entries of the ledger of a run's time: what a second may be spent on."""

from __future__ import annotations

from collections.abc import Mapping

ENTRIES = (
    "idle",
    "fence",
    "world",
    "restore",
    "replay",
    "detecting",
    "moving",
    "replayed",
    "compiling",
    "starting",
    "waiting",
    "snapshotting",
    "productive",
)
"""Where several apply to a moment, the first counts.

idle          there is nothing to do it for, or with: no client, too few hosts, or the run has failed
fence, world, restore, replay
              the phases of recoveries from losses: until the generation is raised, executors form a world, arrays are
              back, and all is told again that came after the snapshot
detecting     a host that was lost had given no sign of life, and nobody had noticed yet
moving        the run goes on with other hosts, though none was lost
replayed      what had been computed before a loss is computed again
compiling     a program is compiled
starting      from the start to the first value that the script gets
waiting       for input: all that the client asked for is answered, and it has asked for nothing since
snapshotting  saving arrays held the run up
productive    all else
"""

STOPS = ("idle", "fence", "world", "restore", "replay", "detecting", "moving", "replayed")
"""Those in which nothing new is done."""


def goodput(seconds: Mapping[str, float]) -> float:
    """The productive share of the time since the script's first value, for seconds by entry; 1 if it had none."""
    after_start = sum(seconds.values()) - seconds["starting"]
    return seconds["productive"] / after_start if after_start > 0 else 1.0
