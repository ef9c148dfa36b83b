"""The agent's end of the template: what a real one does, and what is said of one that cannot start."""

import asyncio
import os
import signal

import psutil
import pytest

from elastic import fault_points, host_memory
from elastic.agent.agent import executor_environment
from elastic.agent.template import Exit, Template, describe_exit, ended_by_itself
from tests.elastic.connections import SECRET, run
from tests.elastic.processes import wait_gone


class Heard:
    """What a template told."""

    def __init__(self):
        self.standbys = asyncio.Queue()
        self.exits = asyncio.Queue()

    def start(self, log, environment):
        return Template(
            "127.0.0.1",
            log,
            environment,
            on_standby=lambda *standby: self.standbys.put_nowait(standby),
            on_exit=lambda *exit: self.exits.put_nowait(exit),
        )


@pytest.fixture
def log(tmp_path):
    return tmp_path / "executors.log"


@pytest.fixture
def environment(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(SECRET.hex())
    pool = {"ELASTIC_SECRET_FILE": str(secret), host_memory.DIRECTORY: str(tmp_path)}
    pool |= {fault_points.DIRECTORY: str(tmp_path), fault_points.HOST: "h1"}
    return executor_environment({**os.environ, **pool})


def test_standbys_come_are_killed_and_come_again(log, environment):
    async def main():
        heard = Heard()
        template = heard.start(log, environment)
        first, address = await heard.standbys.get()
        assert address.startswith("127.0.0.1:")
        # Nothing that it imported or prepared has started a thread, which a fork would leave behind.
        assert psutil.Process(first).parent().num_threads() == 1
        os.kill(first, signal.SIGKILL)
        assert await heard.exits.get() == (first, Exit("was killed by SIGKILL", by_itself=False))
        assert heard.standbys.empty()  # When to have another is for the agent to say.
        template.fork()
        template.fork()
        (second, _), (third, _) = await heard.standbys.get(), await heard.standbys.get()
        assert len({first, second, third}) == 3
        template.kill(second)
        assert await heard.exits.get() == (second, Exit("was killed by SIGKILL", by_itself=False))
        template.kill(second)  # Gone already; its pid may be another's by now.
        os.kill(third, signal.SIGSTOP)  # Even one that cannot do anything any more ...
        template.close()
        return third

    wait_gone([run(main())])  # ... dies with its template.


def test_a_template_that_cannot_start_is_tried_twice_and_its_last_words_are_kept(log, environment):
    async def main():
        del environment["ELASTIC_SECRET_FILE"]
        heard = Heard()
        template = heard.start(log, environment)
        pid, exit = await heard.exits.get()
        assert pid == 0
        assert "executors cannot start here" in exit.reason
        assert "exited with status 1" in exit.reason
        assert "ELASTIC_SECRET_FILE" in template.log_tail()
        assert log.read_text().count("Traceback") == 2
        template.fork()
        template.kill(1)
        template.close()
        assert heard.exits.empty()
        assert heard.standbys.empty()

    run(main())


class Listener:
    """To a check: what is said of each device, then how the check ended and what it cost."""

    def __init__(self):
        self.devices = []
        self.answered = asyncio.Event()
        self.over = asyncio.get_running_loop().create_future()

    def checked(self, device, problem):
        self.devices.append((device, problem))
        self.answered.set()

    def ended(self, exit, cpu_s):
        self.over.set_result((exit, cpu_s))


WELL = [(0, ""), (1, "")]


def fail(directory, fault):
    fault_points.arm(directory, fault_points.DEVICE_CHECK, "h1", fault)


def test_devices_are_checked_and_a_standby_does_not_notice(log, environment, tmp_path):
    async def main():
        heard = Heard()
        template = heard.start(log, environment)
        standby = psutil.Process((await heard.standbys.get())[0])

        async def check():
            listener = Listener()
            template.check(2, listener)
            exit, cpu_s = await listener.over
            assert 0 < cpu_s < 30
            return listener.devices, exit

        assert template.imported
        assert await check() == (WELL, Exit("exited with status 0"))
        fail(tmp_path, "wrong-result")
        devices, exit = await check()
        assert devices[0] == (0, "")
        assert devices[1][1].startswith("device 1 computed wrongly: 1 of 16384 numbers of a matrix product are wrong")
        assert exit == Exit("exited with status 0")
        fail(tmp_path, "error 0")
        assert (await check())[0] == [(0, "device 0 cannot compute: INTERNAL: it was told to fail"), (1, "")]
        fail(tmp_path, "crash")
        assert await check() == ([(0, "")], Exit("was killed by SIGABRT", by_itself=True))
        fault_points.disarm(tmp_path, fault_points.DEVICE_CHECK, "h1")
        assert (await check())[0] == WELL
        assert standby.num_threads() <= 3  # It waits, accepts and beats; a device client would have many more.
        assert standby.parent().num_threads() == 1
        assert heard.exits.empty()
        template.close()

    run(main())


def test_a_check_that_does_not_end_is_killed_and_one_that_goes_on_ends_with_its_template(log, environment, tmp_path):
    async def main():
        heard = Heard()
        fail(tmp_path, "stall")
        template = heard.start(log, environment)
        standby, _ = await heard.standbys.get()
        stalls = Listener()
        template.check(2, stalls)
        assert template.check_used_ns() == 0
        await stalls.answered.wait()
        assert template.check_used_ns() > 0
        template.end_check()
        assert (await stalls.over)[0] == Exit("was killed by SIGKILL")
        assert stalls.devices == [(0, "")]
        stalls = Listener()
        template.check(2, stalls)
        await stalls.answered.wait()
        psutil.Process(standby).parent().kill()
        assert "died with its template" in (await stalls.over)[0].reason
        assert not template.imported
        await heard.standbys.get()
        assert template.imported
        template.end_check()  # There is none.
        template.close()

    run(main())


def test_the_log_of_a_template_before_is_not_its_last_words(log, environment):
    async def main():
        log.write_text("an old story\n")
        template = Heard().start(log, environment)
        assert template.log_tail() == ""
        with log.open("a") as file:
            file.write("".join(f"line {number}\n" for number in range(100)))
        lines = template.log_tail().splitlines()
        assert lines[-1] == "line 99"
        assert 5 < len(lines) < 50
        template.close()

    run(main())


def status_of(work):
    """The wait status of a child that does this."""
    pid = os.posix_spawn("/bin/sh", ["/bin/sh", "-c", work], {})
    return os.waitpid(pid, 0)[1]


@pytest.mark.parametrize(
    ("work", "words", "by_itself"),
    [
        ("exit 0", "exited with status 0", False),
        ("exit 3", "exited with status 3", True),
        ("kill -KILL $$", "was killed by SIGKILL", False),
        ("kill -TERM $$", "was killed by SIGTERM", False),
        ("kill -ABRT $$", "was killed by SIGABRT", True),
        ("kill -SEGV $$", "was killed by SIGSEGV", True),
    ],
)
def test_the_end_of_a_process_is_said_in_words_and_whether_it_was_its_own_doing(work, words, by_itself):
    status = status_of(work)
    assert (describe_exit(status), ended_by_itself(status)) == (words, by_itself)


def test_a_signal_without_a_name_is_said_by_its_number():
    assert "40" in describe_exit(40)
