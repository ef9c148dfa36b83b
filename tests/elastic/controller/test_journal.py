"""The journal: what another world must be told, what is still to be answered, and what is kept for it."""

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from elastic import wire
from elastic.commands import Command
from elastic.controller.journal import Entry, Journal
from elastic.host_memory import digest_of

STATES = [Command.PUT, Command.EXECUTE, Command.ALIAS, Command.COPY, Command.FREE, Command.UNLOAD]
QUESTIONS = [Command.READ, Command.WAIT, Command.TEXT, Command.COST]


def told(journal):
    return [entry.header for entry in journal.entries if not entry.settled]


def command(name, number=Command.EXECUTE, **more):
    return Entry((0,), number, name, **more)


def question(name, number=Command.READ, answer=lambda *_: None):
    return Entry((0,), number, name, request=7, answer=answer)


@pytest.fixture
def journal():
    return Journal()


def test_a_new_world_is_told_everything_in_order(journal):
    for name in (b"1", b"2", b"3"):
        journal.add(command(name))
    assert told(journal) == [b"1", b"2", b"3"]
    assert (journal.start, journal.end) == (0, 3)


@pytest.mark.parametrize("number", QUESTIONS, ids=lambda number: number.name)
def test_a_question_is_told_until_it_is_answered(journal, number):
    asked = question(b"?", number)
    journal.add(asked)
    journal.add(command(b"1"))
    assert told(journal) == [b"?", b"1"]
    asked.answer = None
    assert told(journal) == [b"1"]


@pytest.mark.parametrize("number", STATES, ids=lambda number: number.name)
def test_what_changes_the_hosts_is_told_again_whether_it_was_answered_or_not(journal, number):
    asked = question(b"!", number)
    journal.add(asked)
    asked.answer = None
    assert told(journal) == [b"!"]


def test_those_who_wait_are_found_by_position(journal):
    first, second = question(b"first"), question(b"second")
    for entry in (first, command(b"1"), second):
        journal.add(entry)
    assert journal.waiting_before(0) == []
    assert journal.waiting_before(2) == [first]
    assert journal.waiting_before(3) == [first, second]
    journal.trim(1)
    assert journal.waiting_before(1) == []
    assert journal.waiting_before(3) == [second]


def test_what_lies_before_a_snapshot_is_told_no_more(journal):
    for name in (b"1", b"2", b"3"):
        journal.add(command(name))
    journal.trim(2)
    assert told(journal) == [b"3"]
    assert (journal.start, journal.end) == (2, 3)
    journal.trim(1)  # A snapshot from before: that is forgotten already.
    assert told(journal) == [b"3"]


def test_what_lies_between_two_positions_is_found_as_far_as_it_is_kept(journal):
    for name in (b"0", b"1", b"2", b"3"):
        journal.add(command(name))
    assert [entry.header for entry in journal.between(1, 3)] == [b"1", b"2"]
    journal.trim(2)
    assert [entry.header for entry in journal.between(0, 3)] == [b"2"]
    assert journal.between(0, 1) == []


def test_a_file_is_kept_for_as_long_as_its_command_may_be_told_again(journal, tmp_path):
    path = tmp_path / "upload"
    path.write_bytes(b"bytes")
    journal.add(command(b"1", Command.PUT, file=str(path), file_bytes=5))
    journal.add(command(b"2"))
    journal.trim(0)
    assert path.exists()
    journal.trim(1)
    assert not path.exists()


def test_a_file_that_is_gone_already_is_no_error(journal, tmp_path):
    journal.add(command(b"1", Command.PUT, file=str(tmp_path / "gone"), file_bytes=5))
    journal.trim(1)
    assert journal.nbytes == 0


def test_the_size_counts_headers_payloads_and_files(journal):
    journal.add(command(b"12345"))
    small = journal.nbytes
    journal.add(command(b"12345", payload=bytes(1000), file="/nowhere/at/all", file_bytes=1 << 20))
    assert journal.nbytes == 2 * small + 1000 + (1 << 20)
    journal.trim(1)
    assert journal.nbytes == small + 1000 + (1 << 20)
    journal.trim(2)
    assert journal.nbytes == 0


@dataclass(eq=False)
class Kept:
    """What the twin knows of an entry."""

    entry: Entry
    position: int
    open: bool
    question: bool


class JournalIsItsSlowTwin(RuleBasedStateMachine):
    """Against a list of all that was ever added, from which everything is found by looking through it."""

    open_ones = Bundle("open_ones")

    def __init__(self):
        super().__init__()
        self.journal = Journal()
        self.twin = []
        self.trimmed = 0

    def add(self, entry, *, question):
        kept = Kept(entry, len(self.twin), entry.answer is not None, question)
        assert self.journal.end == kept.position
        self.journal.add(entry)
        self.twin.append(kept)
        return kept

    @rule(number=st.sampled_from(STATES), payload=st.binary(max_size=20), file_bytes=st.integers(0, 9))
    def tell(self, number, payload, file_bytes):
        name = str(len(self.twin)).encode()
        entry = Entry((0,), number, name, payload, file="/nowhere/at/all", file_bytes=file_bytes)
        self.add(entry, question=False)

    @rule(target=open_ones, number=st.sampled_from(QUESTIONS + STATES))
    def ask(self, number):
        name = str(len(self.twin)).encode()
        entry = Entry((0,), number, name, request=1 + len(self.twin), answer=lambda *_: None)
        return self.add(entry, question=number in QUESTIONS)

    @rule(kept=consumes(open_ones))
    def answer(self, kept):
        kept.entry.answer = None
        kept.open = False

    @precondition(lambda self: self.twin)
    @rule(data=st.data())
    def trim(self, data):
        position = data.draw(st.integers(0, len(self.twin)))
        self.journal.trim(position)
        self.trimmed = max(self.trimmed, position)

    @property
    def left(self):
        return [kept for kept in self.twin if kept.position >= self.trimmed]

    @invariant()
    def positions_count_all_that_was_ever_told(self):
        assert (self.journal.start, self.journal.end) == (self.trimmed, len(self.twin))

    @invariant()
    def another_world_is_told_what_is_left_but_answered_questions(self):
        expected = [kept.entry for kept in self.left if kept.open or not kept.question]
        assert [entry for entry in self.journal.entries if not entry.settled] == expected

    @invariant()
    def who_waits_is_found_before_each_position(self):
        for position in range(len(self.twin) + 1):
            expected = [kept.entry for kept in self.left if kept.open and kept.position < position]
            assert self.journal.waiting_before(position) == expected

    @invariant()
    def the_size_is_that_of_what_is_left(self):
        assert self.journal.nbytes == sum(kept.entry.nbytes for kept in self.left)


TestJournalIsItsSlowTwin = JournalIsItsSlowTwin.TestCase


def upload(path, data):
    path.write_bytes(data)
    arguments = [7, "uint8", [len(data)], None, [0], None, None, str(path)]
    header = wire.frame_header((Command.PUT, *arguments), 0)
    return Entry((0,), Command.PUT, header, file=str(path), file_bytes=len(data))


def test_an_upload_goes_to_another_machine_as_bytes_with_their_digest(tmp_path):
    header, payload = upload(tmp_path / "upload", b"abc").without_file()
    *arguments, path, digest = wire.unpack_header(header)
    assert arguments == [Command.PUT, 7, "uint8", [3], None, [0], None, None]
    assert (path, digest, bytes(payload)) == (None, digest_of(b"abc"), b"abc")


def test_a_read_names_no_file_on_another_machine():
    header = wire.frame_header((Command.READ, 9, 7, 0, None, "/dev/shm/x"), 0)
    far, payload = Entry((0,), Command.READ, header, request=9).without_file()
    assert wire.unpack_header(far) == [Command.READ, 9, 7, 0, None, None]
    assert payload == b""


def test_what_names_no_file_is_the_same_everywhere():
    header = wire.frame_header((Command.PUT, 7, "uint8", [3], None, [0], None, None, None), 3)
    assert Entry((0,), Command.PUT, header, b"abc").without_file() == (header, b"abc")
