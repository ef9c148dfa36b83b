"""The account of refused connections."""

from elastic.refusals import QUIET_S, Reason, Refusals, told


class Log:
    def __init__(self):
        self.lines = []
        self.now = 100.0
        self.refusals = Refusals(self.lines.append, lambda: self.now)


def test_each_is_counted_by_its_reason():
    log = Log()
    for reason in (Reason.GARBAGE, Reason.SILENT, Reason.GARBAGE):
        log.refusals.add(reason, "from somewhere")
    log.refusals.add("garbage", "told by another", 5)
    assert log.refusals.counts == {"garbage": 7, "silent": 1}


def test_of_a_flood_a_line_is_logged_now_and_then_and_says_how_many_there_were():
    log = Log()
    for _ in range(1000):
        log.refusals.add(Reason.GARBAGE, "from 10.0.0.9:1")
    log.refusals.add(Reason.SILENT, "from 10.0.0.9:2")
    log.now += QUIET_S
    log.refusals.add(Reason.GARBAGE, "from 10.0.0.9:3")
    assert log.lines == [
        "refused a connection (garbage): from 10.0.0.9:1",
        "refused a connection (silent): from 10.0.0.9:2",
        "refused a connection (garbage): from 10.0.0.9:3 (999 more of this kind since the last line)",
    ]


def test_counts_in_words_begin_with_the_most_frequent():
    assert told({"silent": 3, "wrong_secret": 1200, "garbage": 3}) == "1,200 wrong secret, 3 garbage, 3 silent"
    assert told({}) == ""
