"""Verifying: one in so many intervals between two snapshots is executed again elsewhere, and compared.

The run goes on meanwhile. What is found out is told; who was wrong, if that can be told, is quarantined; and if the
run's own arrays were wrong, it goes back to the last verified snapshot, from which all is computed again: whoever was
wrong may have been so in intervals that nobody looked at. What counts as wrong is decided in `majority`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from elastic.controller import history
from elastic.controller.again import Again
from elastic.controller.findings import Finding, VerifiedFacts
from elastic.controller.line import Line
from elastic.controller.majority import Execution, Shard, Verdict, judge, next_hosts
from elastic.controller.placement import Placement
from elastic.controller.recovery import Recovery
from elastic.controller.snapshots import EMPTY, Snapshot, SnapshotError, Snapshots
from elastic.controller.worlds import Worlds
from elastic.errors import HostLostError, PoolError
from elastic.status import StatusError

log = logging.getLogger(__name__)

_VERIFIED, _START, _END = "verified", "where what is executed again begins", "where it ends"
"""Snapshots whose copies hosts have to keep."""

_AHEAD_S = 3.0
"""How long the run goes on, at least, before it waits for what is executed again. As far as it gets ahead, so long the
next interval is: both share the processors, so without an end each would be longer than the one before."""

_AGAIN_S = 5.0
"""Seconds until what could not be verified is tried again, if nothing more is computed meanwhile."""

_MOST = 100
"""Findings that are remembered."""

_MOST_RETURNS = 3
"""How often in a row a run goes back to the same snapshot without knowing whose fault it is."""

_ONE_HOST = "results cannot be verified: it takes a second host that is in use by nobody else"
_DETECTED_BY = "the controller, which compared executions"


class Verifying:
    """Has what a run computes executed a second time, and acts on what comes of it."""

    def __init__(
        self,
        every: int,
        line: Line,
        worlds: Worlds,
        snapshots: Snapshots,
        recovery: Recovery,
        again: Again,
        *,
        stands: Callable[[Snapshot], None],
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        give_up: Callable[[HostLostError], None],
    ) -> None:
        """One in `every` intervals is executed again; with 1 all are. `stands(snapshot)`: it is verified, or will never
        be, so that the run goes back to no other. `start(work)` does something in the background, `give_up` ends the
        run."""
        self.problem = ""
        """Why the last attempt to verify came to nothing, or why there will be none; empty if all is well."""
        self._every = every
        self._line = line
        self._worlds = worlds
        self._snapshots = snapshots
        self._recovery = recovery
        self._again = again
        self._stands = stands
        self._start = start
        self._give_up = give_up
        self._returns = 0
        """How often the run has gone back to the verified snapshot, and nobody was named."""
        self._hopeless = False
        """Whether the program does not give the same each time, so that there is nothing to compare."""
        self._count = 0
        """Intervals since the last that was to be executed again."""
        self._placements: list[tuple[int, tuple[str, ...]]] = []
        """(position, host of each virtual device) of the snapshots since the verified one."""
        self._taken_at = time.monotonic()
        """When the last snapshot was taken."""
        self.going_on: asyncio.Task[None] | None = None
        """Verifies a snapshot, or has done so."""
        self._verified = self._executions = 0
        self._at: float | None = None
        self._findings: deque[Finding] = deque(maxlen=_MOST)

    @property
    def base(self) -> Snapshot:
        """The one to go back to."""
        return self._snapshots.also_kept.get(_VERIFIED, EMPTY)

    @property
    def is_due(self) -> bool:
        """Whether a snapshot is wanted though the client may ask for nothing more: so that the journal becomes shorter,
        or since the last one was passed over or not verified, and nothing is to be left out."""
        left_out = self._every == 1 and self._snapshots.committed.position > self.base.position
        if self.problem and time.monotonic() - self._taken_at < _AGAIN_S:
            left_out = False
        return (left_out or self._line.keeps_much) and not self._busy

    def close(self) -> None:
        if self.going_on is not None:
            self.going_on.cancel()

    def forget(self) -> None:
        """The client whose arrays these were has left."""
        for key in (_VERIFIED, _START, _END):
            self._snapshots.also_kept.pop(key, None)
        self._placements.clear()
        self._count, self._hopeless, self.problem = 0, False, ""

    def taken(self, snapshot: Snapshot, placement: Placement) -> None:
        """A snapshot was taken, and is about to count."""
        hosts = tuple(placement.host_of(device) for device in range(len(placement.owners)))
        self._placements.append((snapshot.position, hosts))
        self._count += 1
        between, self._taken_at = time.monotonic() - self._taken_at, time.monotonic()
        if self._busy:
            return
        much = self._line.keeps_much
        if len(self._worlds.usable) < 2 and not self._hopeless:
            self.problem = _ONE_HOST
            self._take_as_it_is(snapshot)
        elif self._hopeless or (self.problem and much):
            self._take_as_it_is(snapshot)
        elif self._count >= self._every or self.problem or much:
            self._count = 0
            # If nothing is to be left out, there may be several intervals since the last execution began.
            start = self.base if self._every == 1 else self._snapshots.committed
            self._snapshots.also_kept |= {_START: start, _END: snapshot}
            # One in several is a shorter interval than what the run does meanwhile: it need not wait.
            ahead = max(_AHEAD_S, 2 * between) if self._every == 1 else math.inf
            self.going_on = self._start(self._verify(start, snapshot, self._own(start, snapshot, hosts), ahead))

    def facts(self, now: float) -> VerifiedFacts:
        """How it stands, at a time of the monotonic clock."""
        return VerifiedFacts(
            every=self._every,
            operation=self.base.position,
            age=None if self._at is None else now - self._at,
            verified=self._verified,
            executions=self._executions,
            verifying=self._busy,
            problem=self.problem,
            findings=tuple(self._findings),
        )

    @property
    def _busy(self) -> bool:
        return self.going_on is not None and not self.going_on.done()

    def _own(self, start: Snapshot, end: Snapshot, hosts: tuple[str, ...]) -> Execution:
        """The run's own execution."""
        earlier = [there for position, there in self._placements if position > start.position]
        before: dict[int, frozenset[str]] = {}
        for device, last in enumerate(hosts):
            others = frozenset(there[device] for there in earlier) - {last}
            if others:
                before[device] = others
        return Execution(hosts, self._again.first(start, end), before)

    async def _verify(self, start: Snapshot, end: Snapshot, own: Execution, ahead: float) -> None:
        """The run goes on for `ahead` seconds at most until that is done."""
        began, executions, problem = time.monotonic(), [own], ""
        wait = asyncio.get_running_loop().call_later(ahead, self._line.hold, True)
        try:
            while (hosts := next_hosts(executions, self._worlds.usable)) is not None:
                if len(executions) > 1:  # If two differ, what the run computes now may be of no use.
                    self._line.hold(True)
                executions.append(await self._again.execute(start, end, hosts, own.digests))
                self._executions += 1
        except (StatusError, PoolError, SnapshotError) as error:
            problem = str(error)
        finally:
            wait.cancel()
            self._line.hold(False)
        self._snapshots.also_kept.pop(_START, None)
        kept = self._snapshots.also_kept.pop(_END, None)  # As it is protected now.
        if kept is None or kept.number != end.number:
            return  # The client has left, or the run has gone back behind it.
        if problem or len(executions) == 1:
            self._not_verified(end, problem or _ONE_HOST)
            return
        seconds = time.monotonic() - began
        facts = {"start": start.position, "executions": len(executions), "seconds": seconds}
        history.tell("compared", number=end.number, operation=end.position, **facts)
        await self._conclude(start, kept, executions, judge(executions))

    def _not_verified(self, end: Snapshot, why: str) -> None:
        """What comes until the next snapshot is executed again instead; all since the last, if nothing is left out."""
        log.warning("the snapshot at operation %s was not verified: %s", end.position, why)
        history.tell("not_verified", number=end.number, operation=end.position, why=why)
        self.problem = why

    async def _conclude(self, start: Snapshot, end: Snapshot, executions: Sequence[Execution], found: Verdict) -> None:
        own, self.problem = executions[0], ""
        if found.right is own and len(executions) == 2:
            self._passed(end)
            return
        goes_back = found.right is not None and any(not shard.read for shard in own.differing(found.right))
        reads: list[Shard] = []
        # From a snapshot that may be wrong itself comes no measure for reads: then the replay tells which were wrong.
        if found.right is not None and (start.number == self.base.number or not goes_back):
            reads = self._again.correct(start, end, found.right)
        finding = Finding.of(executions, found, start.position, end.position, reads, goes_back)
        self._findings.append(finding)
        log.error("%s", finding.what)
        history.tell("corruption", **finding.told())
        if found.right is None:
            self._hopeless, self.problem = True, finding.what
            self._take_as_it_is(end)
        elif goes_back:
            await self._go_back(finding)
        else:
            self._passed(end)
            self._worlds.quarantine(finding.host, finding.reason)

    def _passed(self, end: Snapshot) -> None:
        self._verified += 1
        self._at, self._returns = time.monotonic(), 0
        self._take_as_it_is(end)
        history.tell("verified_snapshot", number=end.number, operation=end.position)

    def _take_as_it_is(self, snapshot: Snapshot) -> None:
        """From now on the run would go back to this one."""
        self._snapshots.also_kept[_VERIFIED] = snapshot
        self._placements = [(position, hosts) for position, hosts in self._placements if position > snapshot.position]
        self._stands(snapshot)

    async def _go_back(self, finding: Finding) -> None:
        """Computes again everything since the verified snapshot, without the culprit if there is one."""
        forgotten = self._line.forgotten
        try:
            world = await self._line.world()
        except StatusError:
            return  # The run has failed.
        if self._line.forgotten != forgotten:
            return
        began = time.monotonic()
        self._line.leave()
        self._worlds.end(world)
        self._snapshots.go_back_to(self.base)
        self._line.journal.replay_starts(max(self.base.position, self._line.journal.start))
        self._placements.clear()
        self._count = 0
        history.tell("moving", host=finding.host, reason=finding.what)
        history.tell("went_back", operation=self._line.journal.replay_from, to="verified")
        self._worlds.quarantine(finding.host, finding.reason)
        failure = HostLostError(finding.host, finding.reason if finding.host else finding.what, _DETECTED_BY)
        self._returns = 0 if finding.host else self._returns + 1
        if self._returns > _MOST_RETURNS:
            self._give_up(failure)
            return
        await self._recovery.recover(failure, "corrected", began)
        finding.replay = self._recovery.verification
