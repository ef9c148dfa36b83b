import signal
import threading

import pytest

from elastic.loop.stopping import Stopping


@pytest.fixture
def terminated():
    """The SIGTERMs that reached the handler of before."""
    seen = []
    previous = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    yield seen
    signal.signal(signal.SIGTERM, previous)


@pytest.fixture
def interruptible():
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.fixture
def stopping(terminated, interruptible):
    made = Stopping()
    made.open()
    yield made
    made.close()


def test_a_sigterm_is_noted_and_has_its_effect_when_it_is_let_through(stopping, terminated):
    signal.raise_signal(signal.SIGTERM)
    assert (stopping.asked, terminated) == (True, [])
    stopping.end_process()
    assert terminated == [signal.SIGTERM]


def test_a_second_one_has_its_effect_at_once(stopping, terminated):
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    assert terminated == [signal.SIGTERM]


def test_ctrl_c_waits_for_the_end_of_what_must_not_be_broken_off(stopping):
    done = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        with stopping.held():
            signal.raise_signal(signal.SIGINT)
            done.append(1)
        done.append(2)
    assert done == [1]


def test_a_second_ctrl_c_does_not_wait(stopping):
    with pytest.raises(KeyboardInterrupt), stopping.held():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it waited")


def test_elsewhere_ctrl_c_is_what_it_was(stopping):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_handlers_are_put_back(terminated, interruptible):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    stopping = Stopping()
    stopping.open()
    assert signal.getsignal(signal.SIGTERM) != before[0]
    stopping.close()
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_an_ignored_signal_stays_ignored(interruptible):
    previous = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stopping = Stopping()
    stopping.open()
    signal.raise_signal(signal.SIGTERM)
    assert not stopping.asked
    stopping.close()
    signal.signal(signal.SIGTERM, previous)


def test_in_another_thread_it_does_nothing(terminated):
    before = signal.getsignal(signal.SIGTERM)
    stopping = Stopping()
    thread = threading.Thread(target=stopping.open)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) == before
