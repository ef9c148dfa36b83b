"""Whatever a client does and whatever becomes of hosts, in any order: it reads what it would read if nothing died."""

import asyncio
import contextlib

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastic.controller.snapshots import SnapshotError
from elastic.controller.world import WorldLost
from tests.elastic.controller.played import ABORTED, KILLED, made_by, with_hosts

STEPS = st.one_of(
    st.tuples(st.just("put"), st.binary(max_size=2)),
    st.tuples(st.just("execute"), st.lists(st.integers(0, 9), min_size=1, max_size=2)),
    st.tuples(st.just("free"), st.integers(0, 9)),
    st.tuples(st.just("read"), st.tuples(st.integers(0, 9), st.integers(0, 5))),
    st.tuples(st.just("snapshot"), st.none()),
    st.tuples(st.just("turn"), st.integers(1, 30)),
    st.tuples(st.just("end_executor"), st.integers(0, 9)),
    st.tuples(st.just("lose_host"), st.integers(0, 9)),
    st.tuples(st.just("join"), st.none()),
)


class Client:
    """What a client does, and what it should see of it."""

    def __init__(self, pool, program):
        self.pool = pool
        self.program = program
        self.values = {}
        self.reads = []
        self.tasks = []
        self.losing = False

    def pick(self, number):
        return sorted(self.values)[number % len(self.values)] if self.values else None

    def put(self, data):
        self.values[self.pool.put(data)] = data

    def execute(self, numbers):
        arguments = [self.pick(number) for number in numbers]
        if self.values:
            result = self.pool.execute(self.program, *arguments)
            self.values[result] = made_by(self.program, *(self.values[argument] for argument in arguments))

    def free(self, number):
        if self.values:
            array = self.pick(number)
            del self.values[array]
            self.pool.free(array)

    def read(self, where):
        number, device = where
        if self.values:
            array = self.pick(number)
            self.reads.append((self.pool.read(array, device), self.values[array]))

    def snapshot(self, _):
        async def take():
            with contextlib.suppress(WorldLost, SnapshotError):  # It would be tried again.
                await self.pool.snapshot()

        # One after the other, as the run takes them.
        if all(task.done() for task in self.tasks):
            self.tasks.append(asyncio.create_task(take()))

    def end_executor(self, number):
        hosts = sorted(self.pool.hosts)
        host = self.pool.hosts[hosts[number % len(hosts)]]
        if host.executors:
            # One that aborts by itself is a matter of its own: the same one twice would be to blame.
            host.end_executor(KILLED if number else ABORTED)

    def lose_host(self, number):
        """One at a time: nothing can save what all of its homes have lost at once."""
        snapshots = self.pool.run._snapshots
        at_rest = self.pool.run._line.now is not None and not snapshots.exposed and not self.losing
        if len(self.pool.hosts) > 1 and at_rest and all(task.done() for task in self.tasks):
            hosts = sorted(self.pool.hosts)
            self.pool.hosts[hosts[number % len(hosts)]].die()

    async def step(self, what, how):
        if what == "turn":
            for _ in range(how):
                await asyncio.sleep(0)
        elif what == "join":
            if len(self.pool.all_hosts) < 6:
                await self.pool.join(f"h{len(self.pool.all_hosts)}")
        else:
            getattr(self, what)(how)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEPS, min_size=5, max_size=40))
def test_a_client_reads_what_it_would_read_if_nothing_died(steps):
    async def play(pool):
        client = Client(pool, await pool.load())
        for what, how in steps:
            await client.step(what, how)
        client.reads += [(pool.read(array, device), data) for array, data in client.values.items() for device in (0, 5)]
        for reading, data in client.reads:
            assert await reading == data
        await asyncio.gather(*client.tasks)
        assert pool.failures == []
        assert pool.run.verification.different == []

    with_hosts(play)
