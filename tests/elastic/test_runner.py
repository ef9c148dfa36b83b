import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.elastic import fake_pool
from tests.elastic.processes import wait_gone

ROOT = Path(__file__).parents[2]
LAUNCHER = Path(fake_pool.__file__)


class Launcher:
    """`elastic run SCRIPT` on a pool of small programs. The script tells its news on stdout, a line each."""

    def __init__(self, base, script, *, options=(), arguments=(), faults=None, **settings):
        self.known = {}
        self.base = base / "shm"
        self.base.mkdir()
        path = base / "script.py"
        path.write_text(textwrap.dedent(script))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), fake_pool.BASE: str(self.base)}
        environment[fake_pool.FAULTS] = json.dumps(faults or {})
        settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
        self.process = subprocess.Popen(
            [sys.executable, LAUNCHER, "run", "--hosts", "2", *options, str(path), *arguments],
            text=True,
            env=environment | settings.pop("env", {}),
            **settings,
        )

    def line(self):
        line = self.process.stdout.readline()
        assert line, f"the script said nothing: {self.process.communicate()[1]}"
        self.known |= self.pids()  # The script speaks, so the pool is up; at its end it may be half gone.
        return line.rstrip("\n")

    def pids(self):
        """The processes of the pool, by name, as far as it is still up."""
        pids = {}
        for path in self.base.glob("*/*.json"):
            with contextlib.suppress(FileNotFoundError):
                pids[path.stem] = json.loads(path.read_text())["pid"]
        return pids

    def finish(self, timeout_s=30):
        """Returns exit code, stdout and stderr; checks that nothing is left."""
        pids = (self.known | self.pids()).values()
        out, err = self.process.communicate(timeout=timeout_s)
        wait_gone(pids)
        assert not list(self.base.iterdir())
        return self.process.returncode, out, err


@pytest.fixture
def launch(short_directory):
    launched = []

    def start(script, **settings):
        launched.append(Launcher(short_directory, script, **settings))
        return launched[-1]

    yield start
    for launcher in launched:
        with contextlib.suppress(ProcessLookupError):
            launcher.process.kill()
        launcher.process.communicate()


READY = "import os, signal, sys, time; print('pid', os.getpid(), flush=True)\n"
WAIT = READY + "signal.pause()\n"
# A signal between a look and signal.pause() would be slept over, so handlers write to a pipe.
PIPE = """
import os, signal, sys
pipe, end = os.pipe()
def on(number, text):
    # Not print: a handler may come in the midst of another one's.
    signal.signal(number, lambda *_: (os.write(1, text.encode() + b"\\n"), os.write(end, b"x")))
def wait():
    os.read(pipe, 1)
"""


def script_pid(launcher):
    word, pid = launcher.line().split()
    assert word == "pid"
    return int(pid)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("", 0),
        ("import sys; sys.exit(7)", 7),
        ("raise SystemExit('bye')", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139),
        ("raise KeyboardInterrupt", 130),
    ],
)
def test_the_exit_code_is_the_scripts(launch, script, code):
    assert launch(script).finish()[0] == code


def test_arguments_environment_and_streams_are_the_scripts(launch):
    script = """
        import json, os, sys
        print(json.dumps([sys.argv[1:], os.environ["JAX_PLATFORMS"], os.environ["ELASTIC_LAUNCHER"], sys.stdin.read()]))
        print("to stderr", file=sys.stderr)
    """
    launcher = launch(script, arguments=["--hosts", "9", "-q", "--", "-m"], stdin=subprocess.PIPE)
    out, err = launcher.process.communicate("from stdin", timeout=30)
    assert json.loads(out) == [
        ["--hosts", "9", "-q", "--", "-m"],
        "elastic,cpu",
        str(launcher.process.pid),
        "from stdin",
    ]
    assert err == "to stderr\n"  # Nothing of ours where nobody asked and nobody looks.


def test_the_script_starts_with_the_signals_of_a_plain_python(launch):
    script = """
        import signal
        print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())), signal.getsignal(signal.SIGINT).__name__)
    """
    assert launch(script).finish()[1] == "[] default_int_handler\n"


def test_descriptors_that_the_shell_opened_reach_the_script(launch):
    read, write = os.pipe()
    launcher = launch(f"import os; os.write({write}, b'through')", pass_fds=[write])
    os.close(write)
    with open(read) as file:
        assert file.read() == "through"  # And end of file, so no process of the pool holds it.
    assert launcher.finish()[0] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_to_the_launcher_is_passed_on(launch, number):
    launcher = launch("import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n" + WAIT)
    script_pid(launcher)
    launcher.process.send_signal(number)
    assert launcher.finish()[0] == 128 + number


def test_a_script_that_handles_a_signal_decides(launch):
    script = READY + "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5)); print('ready', flush=True); signal.pause()"
    launcher = launch(script)
    script_pid(launcher)
    assert launcher.line() == "ready"
    launcher.process.terminate()
    assert launcher.finish()[0] == 5


def test_every_interrupt_from_another_process_is_passed_on(launch):
    script = PIPE + "on(signal.SIGINT, 'interrupted'); print('ready', flush=True); wait(); wait(); wait()"
    launcher = launch(script)
    assert launcher.line() == "ready"
    for _ in range(3):
        launcher.process.send_signal(signal.SIGINT)
        assert launcher.line() == "interrupted"
    assert launcher.finish()[0] == 0


def test_ignored_signals_stay_ignored(launch):
    launcher = launch(
        "import os, signal\nos.kill(os.getppid(), signal.SIGHUP)\nprint(signal.getsignal(signal.SIGHUP).name)",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),  # What nohup does.
    )
    assert launcher.finish()[:2] == (0, "SIG_IGN\n")


def test_a_signal_while_the_pool_starts(launch):
    launcher = launch("", faults={"controller": "silent"})
    while "controller" not in launcher.pids():  # There is no event for this: the launcher is silent as it should be.
        assert launcher.process.poll() is None
    launcher.process.terminate()
    assert launcher.finish()[0] == 143


class Terminal:
    """A launcher as the foreground job of a terminal of its own."""

    def __init__(self, base, script, options=()):
        (base / "shm").mkdir()
        (base / "script.py").write_text(textwrap.dedent(script))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), fake_pool.BASE: str(base / "shm"), "TERM": "xterm"}
        environment.pop("NO_COLOR", None)
        command = [sys.executable, str(LAUNCHER), "run", "--hosts", "2", *options, str(base / "script.py")]
        self.known = {}
        self.base = base / "shm"
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, command, environment)
        self.text = ""

    def expect(self, text, timeout_s=30):
        while text not in self.text:
            assert select.select([self.fd], [], [], timeout_s)[0], f"{text!r} did not come: {self.text!r}"
            try:
                self.text += os.read(self.fd, 4096).decode()
            except OSError:  # The other side is gone.
                raise AssertionError(f"{text!r} did not come: {self.text!r}") from None

    def type(self, keys):
        os.write(self.fd, keys)

    def exit_code(self):
        with contextlib.suppress(OSError):  # EIO: the other side is gone.
            while True:
                assert select.select([self.fd], [], [], 30)[0], f"it does not end: {self.text!r}"
                self.text += os.read(self.fd, 4096).decode()
        os.close(self.fd)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        assert not list(self.base.iterdir())
        return code


CTRL_C = b"\x03"


def test_ctrl_c_reaches_the_script_once_and_the_pool_not_at_all(short_directory):
    script = """
        on(signal.SIGINT, "interrupted;")
        on(signal.SIGTERM, "asked to end;")
        print("ready", flush=True)
        wait()
        import glob, json
        notes = glob.glob(os.path.dirname(os.environ["ELASTIC_TOKEN_FILE"]) + "/*.json")
        pids = [json.load(open(note))["pid"] for note in notes]
        assert len(pids) == 4
        for pid in pids:
            os.kill(pid, 0)
        os.kill(os.getppid(), signal.SIGTERM)  # Comes back after anything the launcher might pass on before.
        wait()
        sys.exit(9)
    """
    terminal = Terminal(short_directory, PIPE + textwrap.dedent(script))
    terminal.expect("ready")
    terminal.type(CTRL_C)
    terminal.expect("asked to end;")
    assert terminal.exit_code() == 9
    assert terminal.text.count("interrupted;") == 1


def test_ctrl_c_ends_an_ordinary_script(short_directory):
    terminal = Terminal(short_directory, WAIT)
    terminal.expect("pid")
    terminal.type(CTRL_C)
    assert terminal.exit_code() == 130
    assert "KeyboardInterrupt" in terminal.text


def test_a_second_ctrl_c_kills_the_script(short_directory):
    script = PIPE + "on(signal.SIGINT, 'not yet'); print('ready', flush=True)\nwhile True: wait()"
    terminal = Terminal(short_directory, script)
    terminal.expect("ready")
    terminal.type(CTRL_C)
    terminal.expect("not yet")
    terminal.expect("still running; Ctrl-C again kills it")
    terminal.type(CTRL_C)
    assert terminal.exit_code() == 137


def test_a_terminal_that_hangs_up_ends_everything(short_directory):
    # The launcher leads the session here, as after `ssh -t host elastic run ...`: the kernel tells nobody else.
    terminal = Terminal(short_directory, "import os, signal; print('pid', os.getpid(), 'up'); signal.pause()")
    terminal.expect("up\r")
    pid = int(terminal.text.split("pid ")[1].split()[0])
    os.close(terminal.fd)
    wait_gone([pid])
    os.waitpid(terminal.pid, 0)
    assert not list(terminal.base.iterdir())


def test_a_terminal_sees_how_the_start_went(short_directory):
    terminal = Terminal(short_directory, "print('hello')")
    terminal.expect("hello")
    assert terminal.exit_code() == 0
    assert "2 hosts x 2 devices up in" in terminal.text
    assert terminal.text.index("up in") < terminal.text.index("hello")


def test_quiet_is_quiet(short_directory):
    terminal = Terminal(short_directory, "print('hello')", ["-q"])
    assert terminal.exit_code() == 0
    assert terminal.text == "hello\r\n"


def test_verbose_says_where_things_are(launch):
    code, out, err = launch("print('hello')", options=["-v"]).finish()
    assert (code, out) == (0, "hello\n")
    assert "elastic: 2 hosts x 2 devices up in" in err
    assert "controller at grpc://unix:" in err
    assert "\033" not in err


def test_a_host_that_dies_is_told_and_the_script_goes_on(launch):
    script = READY + "print('got', sys.stdin.readline(), flush=True); sys.exit(4)"
    launcher = launch(script, stdin=subprocess.PIPE)
    script_pid(launcher)
    pids = launcher.pids()
    os.kill(pids["h1"], signal.SIGKILL)
    assert launcher.process.stderr.readline() == (
        f"elastic: host h1 was lost: its agent (pid {pids['h1']}) was killed by SIGKILL; the run went on after 0.25 s: "
        "the others take over\n"
    )
    os.kill(pids["h0"], 0)
    launcher.process.stdin.write("on\n")
    launcher.process.stdin.flush()
    assert launcher.line() == "got on"
    code, _, err = launcher.finish()
    assert (code, err) == (4, "")


def test_a_quiet_run_says_nothing_of_a_host_that_it_could_do_without(launch):
    launcher = launch(WAIT, options=["-q"])
    script = script_pid(launcher)
    pids = launcher.pids()
    os.kill(pids["h1"], signal.SIGKILL)
    wait_gone([pids["h1"]])
    os.kill(script, signal.SIGTERM)
    assert launcher.finish() == (143, "", "")


def test_a_run_without_hosts_is_told_and_the_script_goes_on(launch):
    script = READY + "print('got', sys.stdin.readline(), flush=True); sys.exit(4)"
    launcher = launch(script, faults={"controller": "accuse"}, stdin=subprocess.PIPE)
    script_pid(launcher)
    pids = launcher.pids()
    os.kill(pids["controller"], signal.SIGUSR1)
    line = launcher.process.stderr.readline()
    assert line.startswith("elastic: error: host h0 was lost: its executor was killed by SIGSEGV; the run cannot go on")
    wait_gone([pids["h0"], pids["h1"]])  # The pool goes ...
    launcher.process.stdin.write("on\n")
    launcher.process.stdin.flush()
    assert launcher.line() == "got on"  # ... and the script may finish what it does.
    code, _, err = launcher.finish()
    assert (code, err) == (4, "")


def test_a_killed_controller_is_told(launch):
    launcher = launch(WAIT)
    script = script_pid(launcher)
    pids = launcher.pids()
    os.kill(pids["controller"], signal.SIGKILL)
    assert f"elastic: error: the controller (pid {pids['controller']}) was killed by SIGKILL; " in (
        launcher.process.stderr.readline()
    )
    wait_gone([pids["h0"], pids["h1"]])
    os.kill(script, signal.SIGTERM)
    assert launcher.finish()[0] == 143


def test_a_script_that_dies_of_a_lost_host_does_not_hide_it(launch):
    script = """
        import json, os, signal
        directory = os.path.dirname(os.environ["ELASTIC_TOKEN_FILE"])
        os.kill(json.load(open(directory + "/controller.json"))["pid"], signal.SIGUSR1)
        while not os.path.exists(directory + "/said"):
            pass
        os.abort()
    """
    code, _, err = launch(script, faults={"controller": "doom"}).finish()
    assert code == 134
    recovered, lost = err.splitlines()
    assert recovered.startswith("elastic: host h1 was lost: its executor was killed by SIGKILL; the run went on")
    assert lost.startswith("elastic: error: host h0 was lost: its executor was killed by SIGSEGV; ")


def test_a_launcher_that_is_killed_takes_everything_along(launch):
    launcher = launch(WAIT)
    script = script_pid(launcher)
    pids = launcher.pids()
    assert sorted(pids) == ["controller", "h0", "h1", "membership"]
    launcher.process.kill()
    wait_gone([script, *pids.values()], 2)
    assert not list(launcher.base.iterdir())


def test_a_script_may_handle_the_launchers_death(launch):
    script = READY + (
        "def save(*_):\n    print('saved', flush=True)\n    sys.exit()\n"
        "signal.signal(signal.SIGTERM, save); print('ready', flush=True); signal.pause()"
    )
    launcher = launch(script)
    pid = script_pid(launcher)
    assert launcher.line() == "ready"
    launcher.process.kill()
    assert launcher.line() == "saved"
    wait_gone([pid])


def test_the_next_start_sweeps_what_a_killed_launcher_left(launch, short_directory):
    left = short_directory / "shm"
    launcher = launch(WAIT, faults={"controller": "stubborn"})
    script_pid(launcher)
    controller = launcher.pids()["controller"]
    os.kill(controller, signal.SIGKILL)  # Nobody removes the directory any more ...
    launcher.process.stderr.readline()
    launcher.process.kill()
    launcher.process.wait()
    assert len(list(left.iterdir())) == 1
    with fake_pool.FakePool(hosts=1, base_dir=left):  # ... until somebody else starts.
        assert len(list(left.iterdir())) == 1
    assert not list(left.iterdir())


def test_a_pool_that_cannot_start(launch):
    code, out, err = launch("print('never')", faults={"h0": "fail"}).finish()
    assert (code, out) == (1, "")
    assert err.startswith("elastic: error: the agent of host h0 could not start: the dog ate it; feed the dog\n")
