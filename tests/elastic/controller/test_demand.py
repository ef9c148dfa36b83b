"""Whether the client asks for anything, by questions and answers."""

import pytest

from elastic.commands import Command
from elastic.controller import history
from elastic.controller.demand import Demand
from elastic.controller.journal import Entry, Journal


class Client:
    """Asks and is answered, as the line would have it."""

    def __init__(self):
        self.journal = Journal()
        self.demand = Demand(self.journal)

    def send(self, command=Command.EXECUTE):
        if self.demand.none_since is not None and command is not Command.FREE:
            self.demand.comes()
        self.journal.add(Entry((0,), command, b""))

    def ask(self, command=Command.READ):
        question = Entry((0,), command, b"", answer=lambda *_: None)
        self.demand.asked(question)
        if self.demand.none_since is not None:
            self.demand.comes()
        self.journal.add(question)
        return question

    def answer(self, question):
        question.answer = None
        self.demand.answered(question)

    @property
    def wants(self):
        return self.demand.none_since is None


@pytest.fixture
def client():
    return Client()


def test_a_client_that_has_what_it_asked_for_wants_nothing_until_it_asks_again(client):
    client.send()
    assert client.wants
    client.answer(client.ask())
    assert not client.wants
    client.send()
    assert client.wants


def test_freeing_arrays_is_no_work(client):
    client.send()
    question = client.ask(Command.WAIT)
    client.send(Command.FREE)
    client.answer(question)
    client.send(Command.FREE)
    assert not client.wants


def test_while_another_question_is_open_or_more_was_sent_there_is_work(client):
    first, second = client.ask(), client.ask()
    client.answer(second)
    assert client.wants
    client.send()
    client.answer(first)
    assert client.wants


def test_the_questions_of_a_client_that_has_left_are_forgotten(client):
    client.ask()
    client.demand.forget()
    client.answer(client.ask())
    assert not client.wants


def test_how_long_it_waited_is_told_unless_it_was_a_moment(client, monkeypatch):
    told = []
    stop = history.listen(told.append, ["waited"])
    clock = iter([10.0, 10.0005, 20.0, 20.5])
    monkeypatch.setattr("elastic.controller.demand.time.monotonic", lambda: next(clock, 21.0))
    for _ in range(2):
        client.answer(client.ask())
        client.send()
    stop()
    assert [event["seconds"] for event in told] == [0.5]
