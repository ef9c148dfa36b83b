"""What a new world is told, what becomes of answers that were given before, and who is to blame when worlds end."""

import asyncio
from functools import partial

import pytest

from elastic import wire
from elastic.commands import Command
from elastic.controller.journal import Entry, Journal
from elastic.controller.placement import spread
from elastic.controller.replay import Suspicion, find_culprit, tell_all
from elastic.controller.world import WorldLost
from elastic.errors import HostLostError
from elastic.status import Code, StatusError
from tests.elastic.connections import run

ALL = (0, 1, 2, 3)
CRASH = HostLostError("h1", "its executor was killed by SIGABRT", "its agent", by_itself=True)
KILL = HostLostError("h1", "its executor was killed by SIGKILL", "its agent")


class PlayedWorld:
    """A world of 2 hosts x 2 devices that notes what it is told.

    `fatal` has arrays whose computation ends it, with `failure`; `failing` those whose computation fails.
    """

    def __init__(self, *, fatal=(), failing=(), failure=CRASH):
        self.placement = spread(5, ["h0", "h1"], 4)
        self.told = []
        self.waited = []
        self.asked = []
        self._fatal, self._failing, self._failure = set(fatal), set(failing), failure

    def post(self, devices, header, payload=b"", far=None):
        self.told.append((devices, wire.unpack_header(header), payload))

    async def call(self, devices, command, arguments):
        await asyncio.sleep(0)
        assert command is Command.WAIT
        [arrays] = arguments
        self.waited.append(arrays)
        if self._fatal & set(arrays):
            raise WorldLost(self._failure)
        if self._failing & set(arrays):
            raise StatusError(Code.INTERNAL, "division by zero")

    def ask(self, devices, command, arguments, answer):
        self.asked.append((devices, command, arguments, answer))

    @property
    def commands(self):
        return [Command(message[0]) for _, message, _ in self.told]


def entry(command, *arguments, payload=b"", devices=ALL, answer=None, request=0):
    message = (command, request, *arguments) if request else (command, *arguments)
    return Entry(devices, command, wire.frame_header(message, len(payload)), payload, request, answer)


def put(array):
    return entry(Command.PUT, array, "f4", [1], None, [0], None, None, None, payload=b"\0\0\0\0")


def execute(results, program=7, status=0, arguments=()):
    return entry(Command.EXECUTE, program, list(arguments), list(results), [], status)


def read(array, device, *, answer=None, seen=None):
    made = entry(Command.READ, array, device, [4], None, devices=(device,), answer=answer, request=9)
    made.seen = seen
    return made


def journal_of(*entries):
    journal = Journal()
    for each in entries:
        journal.add(each)
    return journal


# Suspicion


def lost(suspicion, journal, *failures):
    for failure in failures:
        suspicion.world_lost(failure, journal)
    return suspicion.raised


def test_the_second_world_that_ends_by_itself_raises_suspicion():
    suspicion, journal = Suspicion(), Journal()
    assert not suspicion.raised
    assert not lost(suspicion, journal, CRASH)
    assert lost(suspicion, journal, CRASH)


def test_kills_from_outside_do_not_count():
    suspicion, journal = Suspicion(), Journal()
    assert not lost(suspicion, journal, *[KILL] * 20)
    assert not lost(suspicion, journal, CRASH, KILL, KILL)
    assert lost(suspicion, journal, CRASH)


def test_a_snapshot_in_between_clears_everybody():
    suspicion, journal = Suspicion(), journal_of(put(1), put(2), put(3))
    assert not lost(suspicion, journal, CRASH)
    journal.trim(2)
    assert not lost(suspicion, journal, CRASH)
    assert lost(suspicion, journal, CRASH)
    journal.trim(3)
    assert not lost(suspicion, journal, KILL)


def test_what_is_only_added_to_the_journal_clears_nobody():
    suspicion, journal = Suspicion(), Journal()
    assert not lost(suspicion, journal, CRASH)
    journal.add(put(1))
    assert lost(suspicion, journal, CRASH)


def test_after_it_is_settled_two_more_worlds_have_to_end():
    suspicion, journal = Suspicion(), Journal()
    assert lost(suspicion, journal, CRASH, CRASH)
    suspicion.settle()
    assert not suspicion.raised
    assert not lost(suspicion, journal, CRASH)
    assert lost(suspicion, journal, CRASH)


# Telling all


def verified(world, *entries):
    told = []
    count, verification = tell_all(journal_of(*entries), world, told.append)
    return told, count, verification


def test_everything_that_changes_the_hosts_is_told_in_order():
    entries = [put(1), execute([2]), entry(Command.FREE, [1]), execute([3])]
    told, count, verification = verified(PlayedWorld(), *entries)
    assert told == entries
    assert count == 4
    assert (verification.waiting, verification.equal, verification.different) == (0, 0, [])


def test_settled_questions_are_not_told_again_and_open_ones_are():
    def answer(*_):
        raise AssertionError("nobody has answered")

    settled = [entry(command, 3, request=8) for command in (Command.WAIT, Command.TEXT, Command.COST, Command.READ)]
    opened = [
        read(1, 2, answer=answer),
        entry(Command.WAIT, [1], answer=answer, request=8),
        entry(Command.UNLOAD, 7, request=8),
    ]
    world = PlayedWorld()
    told, count, _ = verified(world, *settled, *opened)
    assert told == opened
    assert count == 3
    assert world.asked == []


def test_reads_that_were_answered_are_compared():
    world = PlayedWorld()
    told, count, verification = verified(world, put(1), read(1, 2, seen=b"\x01\x02"), read(1, 0, seen=b"\x03"))
    assert (len(told), count) == (1, 1)
    assert [asked[:3] for asked in world.asked] == [
        ((2,), Command.DIGEST, [1, 2, [4]]),
        ((0,), Command.DIGEST, [1, 0, [4]]),
    ]
    assert verification.waiting == 2
    for (*_, answer), digest in zip(world.asked, (b"\x01\x02", b"\x03"), strict=True):
        answer(None, digest, b"")
    assert (verification.waiting, verification.equal, verification.different) == (0, 2, [])


def test_a_difference_names_array_device_and_host(caplog):
    world = PlayedWorld()
    *_, verification = verified(world, put(17), read(17, 2, seen=b"\xaa\xbb"))
    [(*_, answer)] = world.asked
    answer(None, b"\xcc\xdd", b"")
    assert verification.different == [
        "array 17 on virtual device 2 of host h1 is ccdd in the replay, and was aabb before"
    ]
    assert verification.different[0] in caplog.text
    assert (verification.waiting, verification.equal) == (0, 0)


def test_a_value_that_cannot_be_read_any_more_is_a_difference_but_a_lost_world_is_none():
    world = PlayedWorld()
    *_, verification = verified(world, read(17, 0, seen=b"\xaa"), read(18, 3, seen=b"\xbb"))
    (*_, first), (*_, second) = world.asked
    first(StatusError(Code.INTERNAL, "out of paper"), None, b"")
    second(WorldLost(KILL), None, b"")
    assert verification.different == [
        "array 17 on virtual device 0 of host h0 cannot be read in the replay (out of paper), and was aa before"
    ]
    assert (verification.waiting, verification.equal) == (0, 0)


def test_an_open_read_that_is_told_is_not_compared():
    world = PlayedWorld()
    told, _, verification = verified(world, read(1, 2, answer=lambda *_: None, seen=None))
    assert len(told) == 1
    assert (world.asked, verification.waiting) == ([], 0)


# Finding who is to blame


def test_one_operation_after_the_other_is_told_and_each_execution_awaited():
    world = PlayedWorld()
    entries = [put(1), execute([2, 3], status=4), entry(Command.FREE, [2]), execute([5]), execute([])]
    run(find_culprit(journal_of(*entries), world))
    assert world.commands == [each.command for each in entries]
    assert [payload for _, _, payload in world.told] == [b"\0\0\0\0", b"", b"", b"", b""]
    assert world.waited == [[2, 3, 4], [5], []]


def test_the_execution_that_ends_the_world_becomes_an_error_of_its_results_and_its_status():
    before, culprit, after = execute([2]), execute([3, 4], program=11, status=5), execute([6], arguments=[3])
    journal = journal_of(put(1), before, culprit, after)
    world = PlayedWorld(fatal=[4])
    with pytest.raises(WorldLost) as raised:
        run(find_culprit(journal, world))
    assert raised.value.failure is CRASH
    assert culprit.command is Command.FAIL
    command, arrays, code, text = culprit.message()
    assert (command, arrays, code) == (Command.FAIL, [3, 4, 5], Code.INTERNAL)
    assert "ended the process that ran it, twice" in text
    assert "SIGABRT" in text
    assert world.commands == [Command.PUT, Command.EXECUTE, Command.EXECUTE]
    assert [each.command for each in (before, after)] == [Command.EXECUTE] * 2
    # The next world is told the error in its place, and what follows.
    again = PlayedWorld(fatal=[4])
    run(find_culprit(journal, again))
    assert again.commands == [Command.PUT, Command.EXECUTE, Command.FAIL, Command.EXECUTE]


def test_an_execution_without_results_that_ends_worlds_is_known_by_its_status():
    culprit = execute([], status=5)
    with pytest.raises(WorldLost):
        run(find_culprit(journal_of(culprit), PlayedWorld(fatal=[5])))
    assert culprit.message()[:2] == [Command.FAIL, [5]]


def test_the_journal_knows_its_size_after_somebody_was_blamed():
    journal = journal_of(execute([2]), execute([3]))
    with pytest.raises(WorldLost):
        run(find_culprit(journal, PlayedWorld(fatal=[3])))
    assert journal.nbytes == sum(each.nbytes for each in journal.entries)
    journal.trim(2)
    assert journal.nbytes == 0


def test_an_execution_that_fails_as_it_should_is_not_to_blame():
    entries = [execute([2]), execute([3])]
    world = PlayedWorld(failing=[2, 3])
    run(find_culprit(journal_of(*entries), world))
    assert [each.command for each in entries] == [Command.EXECUTE] * 2
    assert len(world.told) == 2


def test_a_world_that_was_killed_blames_nobody():
    entries = [execute([2]), execute([3])]
    before = [each.message() for each in entries]
    with pytest.raises(WorldLost) as raised:
        run(find_culprit(journal_of(*entries), PlayedWorld(fatal=[3], failure=KILL)))
    assert raised.value.failure is KILL
    assert [each.message() for each in entries] == before


def test_settled_questions_are_nobodys_fault_and_not_told():
    world = PlayedWorld()
    run(find_culprit(journal_of(read(1, 2, seen=b"\x01"), execute([2]), entry(Command.TEXT, 7, request=9)), world))
    assert world.commands == [Command.EXECUTE]


def test_several_that_end_worlds_are_found_one_by_one():
    journal = journal_of(*(execute([number]) for number in range(1, 9)))
    fatal = {2, 5, 8}
    world = partial(PlayedWorld, fatal=fatal)
    for found in range(1, 4):
        with pytest.raises(WorldLost):
            run(find_culprit(journal, world()))
        assert sum(each.command is Command.FAIL for each in journal.entries) == found
    run(find_culprit(journal, world()))
    assert {each.message()[1][0] for each in journal.entries if each.command is Command.FAIL} == fatal
