"""When leases are renewed and when they are lost, with a clock that is only a number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from membership.lease_book import LeaseBook


def book(ttl: float = 9.0, asked: float = 100.0) -> LeaseBook:
    made = LeaseBook()
    made.add(1, ttl, asked)
    return made


def test_a_lease_is_renewed_three_times_in_its_ttl() -> None:
    assert book().next_due() == 103.0
    assert book().due(102.9) == []
    assert book().due(103.0) == [1]


def test_the_deadline_counts_from_when_the_answered_renewal_was_sent() -> None:
    at = book()
    at.sent(1, 103.0)
    assert at.deadline(1) == 109.0
    assert at.answered(1, 9.0)  # However late that is.
    assert at.deadline(1) == 112.0
    assert at.next_due() == 106.0


def test_a_renewal_is_not_sent_twice_on_one_stream() -> None:
    at = book()
    at.sent(1, 103.0)
    assert at.due(108.0) == []


def test_a_missing_answer_is_noticed_with_time_left_for_another_way() -> None:
    at = book()
    at.sent(1, 103.0)
    assert not at.silent(105.9)
    assert at.silent(106.0)
    assert at.next_due() == 106.0
    at.begin_again(106.0)
    assert at.due(106.0) == [1]
    assert at.deadline(1) == 109.0


def test_an_answer_without_time_to_live_means_that_the_lease_is_lost() -> None:
    at = book()
    at.sent(1, 103.0)
    assert not at.answered(1, 0)
    assert 1 not in at


def test_an_answer_for_a_lease_that_is_gone_means_nothing() -> None:
    at = book()
    at.sent(1, 103.0)
    at.remove(1)
    assert at.answered(1, 0)
    assert at.next_due() is None
    assert at.next_deadline() is None


def test_a_lease_is_lost_at_its_deadline_without_any_answer() -> None:
    at = book()
    at.sent(1, 103.0)
    assert at.next_deadline() == 109.0
    assert at.overdue(108.9) == []
    assert at.overdue(109.0) == [1]
    assert at.overdue(109.0) == []


seconds = st.floats(0.0, 2.0)


@given(st.lists(st.tuples(seconds, seconds, seconds), max_size=30), seconds)
def test_a_lease_is_lost_here_no_later_than_at_its_server(
    rounds: list[tuple[float, float, float]], there: float
) -> None:
    """Each round: the wait before the next renewal, its way there, and the answer's way back."""
    ttl, now = 5.0, 0.0
    at = LeaseBook()
    at.add(1, ttl, asked=now)
    server_deadline = now + there + ttl
    for wait, there, back in rounds:
        now += wait
        at.sent(1, now)
        if now + there > server_deadline:
            break
        server_deadline = now + there + ttl
        now += there + back
        if at.overdue(now):
            break
        at.answered(1, ttl)
        assert at.deadline(1) <= server_deadline
