"""The controller's history, as a process of its own writes it."""

import os
import subprocess
import sys

from chaos.history import parse
from elastic.controller import history

TELLS = """
from checkpoint import Block, Stripe
from elastic.controller import history
history.tell("read", number=3, digest=b"\\x01\\xff", time="yesterday")
stripe = Stripe((Block(b"d", 5, "h0"), Block(b"e", 5, "h1")), (Block(b"p", 5, "h2"),))
homes = {b"a": {"h1", "h0"}, b"b": {"h0", "h1"}, b"c": {"h2"}, b"d": {"h0"}, b"e": {"h1", "h3"}, b"p": {"h2"}}
history.tell_holders(homes, [stripe])
"""


def tell(environment):
    subprocess.run([sys.executable, "-c", TELLS], env=environment, check=True, timeout=60)


def test_events_are_lines_that_the_checkers_can_read(tmp_path):
    tell({**os.environ, history.FILE: str(tmp_path / "history")})
    read, holds = parse((tmp_path / "history").read_text())
    assert (read.kind, read["number"], read["digest"]) == ("read", 3, "01ff")
    assert read.time != "yesterday"  # Of the event, whatever its facts are called.
    assert holds["holders"] == [["h0", "h1"], ["h2"]]
    assert holds["stripes"] == [[2, [["h0"], ["h1", "h3"], ["h2"]]]]
    assert holds["parity"] == [b"p".hex()]
    assert read.at <= holds.at


def test_without_the_variable_nothing_is_written(tmp_path):
    tell({name: value for name, value in os.environ.items() if name != history.FILE})
    assert list(tmp_path.iterdir()) == []


def test_who_listens_hears_of_the_kinds_that_it_asked_for_until_it_stops():
    heard = []
    stop = history.listen(heard.append, ["gone", "left"])
    history.tell("gone", host="h1")
    history.tell("joined", host="h2")
    stop()
    history.tell("left", host="h3")
    assert [(event.kind, event.host) for event in heard] == [("gone", "h1")]
