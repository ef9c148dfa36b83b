"""What is lost with a device, as plain data: which arrays, what the journal says instead, when it is forgotten."""

import pytest

from elastic import wire
from elastic.commands import Command
from elastic.controller.journal import Entry, Journal
from elastic.controller.losses import Losses, made_by
from elastic.status import Code


def entry(command, *arguments, devices=(0, 1), **rest):
    return Entry(devices, command, wire.frame_header((command, *arguments), 0), **rest)


GONE = "virtual device 1 without a physical device since h0 went"
PUT = (7, "uint8", [1], None, [0, 1], None, None, None)
EXECUTE = (5, [7], [8, 9], [], 10)


@pytest.fixture
def losses():
    made = Losses()
    made.place([1], "h0 went")
    return made


@pytest.fixture
def journal():
    return Journal()


@pytest.mark.parametrize(
    ("command", "arguments", "arrays"),
    [
        (Command.PUT, PUT, [7]),
        (Command.EXECUTE, EXECUTE, [8, 9, 10]),
        (Command.EXECUTE, (5, [7], [8], [], 0), [8]),
        (Command.ALIAS, (8, [[7, 0]]), [8]),
        (Command.COPY, (8, 7, [[0, 1]], None, None), [8]),
        (Command.FREE, ([7],), []),
        (Command.READ, (1, 7, 0, None, None), []),
    ],
)
def test_what_operations_make(command, arguments, arrays):
    assert made_by(entry(command, *arguments)) == arrays


def test_operations_for_other_devices_are_no_concern(losses):
    assert losses.concern(entry(Command.PUT, *PUT))
    assert not losses.concern(entry(Command.PUT, *PUT, devices=(0, 2)))
    assert not Losses().concern(entry(Command.PUT, *PUT))


def test_what_would_have_made_arrays_makes_errors(losses, journal):
    execute = entry(Command.EXECUTE, *EXECUTE, program=5)
    journal.add(execute)
    assert losses.take(journal, execute) is None
    assert execute.message() == [Command.FAIL, [8, 9, 10], Code.DATA_LOSS, GONE]
    assert execute.program == 0
    assert losses.told() == [((0, 1), [[8, 9, 10], Code.DATA_LOSS, GONE])]


@pytest.mark.parametrize("command", [Command.READ, Command.WAIT, Command.TEXT, Command.COST])
def test_a_question_is_answered_with_the_loss(losses, journal, command):
    error = losses.take(journal, entry(command, 1, 7, 0, None, None, request=1))
    assert (error.code, error.message) == (Code.DATA_LOSS, GONE)


@pytest.mark.parametrize("command", [Command.FREE, Command.UNLOAD, Command.FAIL])
def test_what_gives_back_stays_as_it_is(losses, journal, command):
    given = entry(command, [7], 1, "text")
    header = given.header
    journal.add(given)
    assert losses.take(journal, given) is None
    assert given.header == header


def test_an_array_keeps_the_reason_for_which_it_was_lost_first(losses):
    losses.add({7: (1, 2)})
    losses.place([1, 2], "h2 went")
    losses.add({7: (1, 2), 8: (2,)})
    losses.place([], "")
    assert sorted(losses.told()) == [
        ((1, 2), [[7], Code.DATA_LOSS, GONE]),
        ((2,), [[8], Code.DATA_LOSS, "virtual device 2 without a physical device since h2 went"]),
    ]


def test_a_device_without_a_place_keeps_its_reason_for_as_long_as_it_has_none(losses, journal):
    losses.place([0, 1], "h2 went")

    def answer():
        return losses.take(journal, entry(Command.WAIT, 1, [7], request=1)).message

    losses.place([0, 1, 2], "h2 went")
    assert answer() == "virtual devices 0, 2 without a physical device since h2 went"
    losses.place([1], "h3 went")
    assert answer() == GONE
    losses.place([], "")
    losses.place([1], "h3 went")
    assert answer() == "virtual device 1 without a physical device since h3 went"


def test_what_was_freed_is_forgotten_when_nothing_before_it_is_told_again(losses, journal):
    losses.add({7: (1,), 8: (1,)})
    journal.add(entry(Command.FREE, [7]))
    assert len(losses) == 2
    losses.trimmed(journal.trim(1))
    assert len(losses) == 1
    losses.forget()
    assert losses.told() == []
