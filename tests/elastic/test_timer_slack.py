import threading

import pytest

from elastic.timer_slack import slack_s, threads_that_may_wake_late


def in_a_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_threads_made_within_may_wake_late_and_no_others():
    before = slack_s()
    with threads_that_may_wake_late(0.003):
        assert in_a_thread(slack_s) == pytest.approx(0.003)
        assert in_a_thread(lambda: in_a_thread(slack_s)) == pytest.approx(0.003)
    assert slack_s() == in_a_thread(slack_s) == before < 0.003


def test_an_error_within_changes_nothing_behind():
    before = slack_s()
    with pytest.raises(KeyError), threads_that_may_wake_late(0.003):
        raise KeyError
    assert slack_s() == before
