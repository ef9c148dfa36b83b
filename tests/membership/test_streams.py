"""Streams that begin again by themselves, and end when they are told to; without etcd."""

import asyncio
from types import SimpleNamespace

import pytest

from membership.calls import NotServed
from membership.errors import AuthError
from membership.streams import hold_open

METHOD = SimpleNamespace(path="/a.Service/Stream")


class Caller:
    """Its only endpoint opens a stream whenever it is asked to."""

    def __init__(self):
        self.timing = SimpleNamespace(call=1.0, connect=1.0, attempt=1.0)
        self.endpoints = self
        self.name = "the only endpoint"
        self.open = 0

    async def connected(self, seconds, patience):
        return self

    async def credentials(self, endpoint):
        return ()

    def leave(self, endpoint):
        pass

    def stream(self, method, metadata):
        self.open += 1
        return self

    def cancel(self):
        self.open -= 1


async def ends(task):
    """How a task ends that must end."""
    await asyncio.wait([task], timeout=5)
    assert task.done()
    return task


@pytest.fixture
def caller():
    return Caller()


async def breaks():
    raise NotServed("it is gone")


def test_a_stream_that_breaks_begins_again_when_all_that_held_it_have_ended(caller):
    async def main():
        talks, held = 0, 0
        third = asyncio.Event()

        async def holds():
            nonlocal held
            held += 1
            try:
                await asyncio.Event().wait()
            finally:
                held -= 1

        def talk(stream):
            nonlocal talks
            talks += 1
            assert (held, caller.open) == (0, 1)
            if talks == 3:
                third.set()
            return [holds()] if talks == 3 else [holds(), breaks()]

        task = asyncio.create_task(hold_open(caller, METHOD, talk))
        await third.wait()
        task.cancel()
        assert (await ends(task)).cancelled()
        assert (held, caller.open) == (0, 0)

    asyncio.run(main())


def test_a_stream_that_is_ended_while_it_breaks_does_not_begin_again(caller):
    async def main():
        ending, may_end = asyncio.Event(), asyncio.Event()

        async def ends_slowly():
            try:
                await asyncio.Event().wait()
            finally:
                ending.set()
                await may_end.wait()

        task = asyncio.create_task(hold_open(caller, METHOD, lambda stream: [ends_slowly(), breaks()]))
        await ending.wait()
        task.cancel()
        await asyncio.sleep(0)
        may_end.set()
        assert (await ends(task)).cancelled()
        assert caller.open == 0

    asyncio.run(main())


def test_an_error_that_no_other_stream_would_mend_is_raised(caller):
    async def main():
        async def refused():
            raise AuthError("you are not let in")

        with pytest.raises(AuthError, match="not let in"):
            await hold_open(caller, METHOD, lambda stream: [refused()])
        assert caller.open == 0

    asyncio.run(main())
