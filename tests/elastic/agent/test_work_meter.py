"""The meter of an agent's work: processor time, while anybody works."""

import time

from elastic.agent.work_meter import WorkMeter


def use(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_it_counts_while_somebody_works():
    meter = WorkMeter()
    with meter:
        use(0.02)
    assert 0.02 <= meter.take() < 0.2
    assert meter.take() == 0


def test_what_is_done_beside_is_not_counted():
    meter = WorkMeter()
    use(0.02)
    with meter:
        pass
    assert meter.take() < 0.02


def test_two_at_once_are_counted_once():
    meter = WorkMeter()
    with meter, meter:
        use(0.02)
        assert meter.take() == 0
    assert 0.02 <= meter.take() < 0.04
