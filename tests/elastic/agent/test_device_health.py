"""When devices are checked, and what follows; the checks are played."""

import asyncio
import contextlib

import pytest

from elastic.agent import device_health
from elastic.agent.device_health import EVERY_S, DeviceHealth, Patience, Round, every_of, pause
from elastic.agent.template import Exit
from membership import BackOff
from tests.elastic.connections import run

WELL = Exit("exited with status 0")
KILLED = Exit("was killed by SIGKILL")
ABORTED = Exit("was killed by SIGABRT", by_itself=True)


# How often


@pytest.mark.parametrize(("text", "seconds"), [(None, None), ("", None), ("0", 0.0), ("2.5", 2.5)])
def test_how_often_is_read_from_the_environment(text, seconds):
    assert every_of({} if text is None else {"ELASTIC_CHECK_EVERY": text}) == seconds


@pytest.mark.parametrize("text", ["often", "-1", "inf", "nan"])
def test_what_is_no_number_of_seconds_is_refused_with_what_to_write(text):
    with pytest.raises(ValueError, match=r"ELASTIC_CHECK_EVERY=.* give 0 for no health checks"):
        every_of({"ELASTIC_CHECK_EVERY": text})


@pytest.mark.parametrize("cpu_s", [0.001, 0.02, 0.04, 0.5, 10])
def test_checks_cost_less_than_a_thousandth_of_a_core_unless_somebody_wants_more(cpu_s):
    assert cpu_s / pause(None, cpu_s) < 0.001
    assert pause(None, cpu_s) >= EVERY_S
    assert pause(0.1, cpu_s) == 0.1


# What a check says


def check(*heard, devices=2):
    round = Round(devices)
    for step in heard:
        round.checked(*step) if isinstance(step[0], int) else round.ended(*step)
    return round


def test_a_host_is_well_when_all_its_devices_are():
    assert check((0, "")).verdict is None
    assert check((0, ""), (1, "")).verdict == ""
    over = check((0, ""), (1, ""), (WELL, 0.03))
    assert (over.verdict, over.over, over.cpu_s) == ("", True, 0.03)


def test_the_first_problem_is_the_verdict_whatever_follows():
    assert check((0, ""), (1, "device 1 computed wrongly"), (KILLED, 0.03)).verdict == "device 1 computed wrongly"
    assert check((0, "device 0 cannot compute"), (1, ""), (ABORTED, 0)).verdict == "device 0 cannot compute"


def test_a_device_that_takes_the_process_along_is_named():
    round = check((0, ""), (ABORTED, 0.03))
    assert round.verdict == "device 1 cannot compute: the process that checked it was killed by SIGABRT"


@pytest.mark.parametrize("exit", [KILLED, WELL, Exit("died with its template, which was killed by SIGKILL")])
def test_a_process_that_somebody_killed_says_nothing_about_devices(exit):
    round = check((0, ""), (exit, 0.0))
    assert (round.verdict, round.over) == (None, True)


@pytest.mark.parametrize(
    ("heard", "devices", "words"),
    [
        ([], 2, "its devices have not answered for 10 s"),
        ([], 1, "device 0 has not answered for 10 s"),
        ([(0, "")], 2, "device 1 has not answered for 10 s"),
    ],
)
def test_a_device_that_does_not_answer_is_named(heard, devices, words):
    round = check(*heard, devices=devices)
    round.silent(10.0)
    assert round.verdict == words


# A device that does not answer, and a machine that has too much to do


def beats(patience, used):
    """After how many beats it is enough, of those in which the process has used so much; None if it never is."""
    return next((number for number, ns in enumerate(used, 1) if patience.beat(ns)), None)


def test_who_uses_no_processor_is_given_the_time_that_was_said():
    assert beats(Patience(10.0), [0] * 500) == 100
    assert beats(Patience(10.0), [5, *[7] * 500]) == 102


def test_who_is_kept_waiting_for_a_processor_is_given_as_long_as_it_takes():
    assert beats(Patience(10.0), [ns // 50 * 1000 for ns in range(10_000)]) is None


def test_who_uses_a_processor_all_the_time_comes_to_an_end_too():
    assert beats(Patience(10.0), [number * 100_000_000 for number in range(1, 500)]) == 101


def test_each_answer_gives_time_again():
    patience = Patience(1.0)
    for _ in range(5):
        assert beats(patience, [7] * 9) is None
        patience.answered()
    assert beats(patience, [7] * 500) == 10
    patience.answered()
    assert beats(patience, [2_000_000_000]) == 1


# What follows


class Checker:
    """A template whose checks the test plays."""

    def __init__(self):
        self.imported = True
        self.rounds = asyncio.Queue()
        self.killed = asyncio.Event()

    def check(self, devices, listener):
        self.rounds.put_nowait(listener)

    def end_check(self):
        self.killed.set()

    def check_used_ns(self):
        return 0


class Story:
    def __init__(self, **settings):
        self.checker = Checker()
        self.said = asyncio.Queue()
        self.health = DeviceHealth(
            1,
            self.checker,
            1e-3,
            passed=lambda: self.said.put_nowait(("passed", self.health.unfit)),
            failed=lambda: self.said.put_nowait(("failed", self.health.unfit)),
            **settings,
        )

    async def answer(self, problem=""):
        round = await self.checker.rounds.get()
        round.checked(0, problem)
        said = await self.said.get()
        round.ended(KILLED if problem else WELL, 0.0)
        return said


def told(play, **settings):
    async def main():
        story = Story(**settings)
        keeping = asyncio.create_task(story.health.keep())
        try:
            await play(story)
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping

    run(main())


def test_a_host_that_fails_a_check_is_unfit_until_its_back_off_is_over_and_it_passes_one():
    async def play(story):
        assert story.health.age() is None
        assert await story.answer() == ("passed", "")
        assert story.health.age() < 30
        assert await story.answer("device 0 computed wrongly") == ("failed", "device 0 computed wrongly")
        assert story.checker.killed.is_set()
        while (said := await story.answer()) != ("passed", ""):
            assert said == ("passed", "device 0 computed wrongly")
        assert await story.answer("device 0 cannot compute") == ("failed", "device 0 cannot compute")

    told(play, back_off=BackOff(first=1e-3, cap=0.05))


def test_one_wrong_result_keeps_a_host_away_for_minutes():
    async def play(story):
        await story.answer("device 0 computed wrongly")
        for _ in range(10):
            assert await story.answer() == ("passed", "device 0 computed wrongly")
        assert story.health._conduct.until - asyncio.get_running_loop().time() > 200

    told(play)


def test_what_somebody_else_found_wrong_keeps_a_host_away_as_well():
    async def play(story):
        await story.answer()
        story.health.found_wrong("it computed wrongly")
        assert await story.said.get() == ("failed", "it computed wrongly")
        assert await story.answer() == ("passed", "it computed wrongly")

    told(play)


def test_a_device_that_never_answers_is_noticed_and_its_check_killed():
    async def play(story):
        round = await story.checker.rounds.get()
        assert await story.said.get() == ("failed", "device 0 has not answered for 0.2 s")
        await story.checker.killed.wait()
        assert story.checker.rounds.empty()  # Not before that one is gone.
        round.ended(KILLED, 0.0)
        await story.checker.rounds.get()

    told(play, patience=0.2)


def test_nothing_is_checked_before_executors_can_be_forked(monkeypatch):
    async def play(story):
        waiting = asyncio.Event()
        story.checker.imported = False
        monkeypatch.setattr(device_health, "pause", lambda *_: waiting.set() or 0.0)
        await waiting.wait()
        assert story.checker.rounds.empty()
        story.checker.imported = True
        await story.checker.rounds.get()

    told(play)


def test_with_none_wanted_there_are_none():
    async def main():
        checker = Checker()
        nothing = {"passed": lambda: None, "failed": lambda: None}
        await DeviceHealth(1, checker, 0.0, **nothing).keep()
        assert checker.rounds.empty()

    run(main())
