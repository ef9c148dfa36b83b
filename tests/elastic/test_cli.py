import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest

import elastic
from elastic import cli, runner
from elastic.errors import PoolError


@pytest.fixture
def started(monkeypatch):
    """What `run` would have started: (pool, arguments of the script)."""
    calls = []

    def run(pool, arguments, reporter):
        calls.append((pool, arguments))
        return 42

    monkeypatch.setattr(runner, "run", run)
    return calls


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "__main__.py").write_text("")
    (tmp_path / "module.py").write_text("")
    (tmp_path / "empty").mkdir()
    return "train.py"


def fail(capsys, *arguments):
    """Runs a command line that is wrong; returns its one line on stderr."""
    try:
        code = cli.main(arguments)
    except SystemExit as exit:
        code = exit.code
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith("elastic: error: ")
    assert err.count("\n") == 1
    return err.removeprefix("elastic: error: ").rstrip("\n")


def test_the_version_is_the_distributions(capsys):
    with pytest.raises(SystemExit) as raised:
        cli.main(["--version"])
    assert raised.value.code == 0
    assert capsys.readouterr().out == f"elastic-jax {elastic.__version__}\n"
    assert elastic.__version__ == version("elastic-jax")


def test_public_names():
    assert elastic.__all__ == sorted(elastic.__all__, key=lambda name: (name[0].islower(), name))
    assert all(hasattr(elastic, name) for name in elastic.__all__)


def test_defaults(started, script):
    assert cli.main(["run", script]) == 42
    ((pool, arguments),) = started
    assert (pool.hosts, pool.devices_per_host, pool.listen, pool.log_dir) == (4, 2, None, None)
    assert arguments == ["train.py"]


def test_options(started, script):
    line = "run --hosts 3 --devices-per-host=5 --listen 127.0.0.1:7777 --log-dir logs -q train.py"
    cli.main(line.split())
    ((pool, _),) = started
    assert (pool.hosts, pool.devices_per_host, pool.listen, str(pool.log_dir)) == (3, 5, "127.0.0.1:7777", "logs")


@pytest.mark.parametrize(
    ("given", "address"),
    [("9100", "127.0.0.1:9100"), (":0", "127.0.0.1:0"), ("0.0.0.0:9100", "0.0.0.0:9100"), ("[::1]:0", "[::1]:0")],
)
def test_metrics_are_on_loopback_unless_a_host_is_given(started, script, given, address):
    cli.main(["run", "--metrics", given, script])
    assert started[0][0].metrics == address


def test_a_trace_is_found_from_anywhere(started, script, tmp_path):
    cli.main(["run", "--trace", "run.json", script])
    assert started[0][0].trace == tmp_path / "run.json"


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("train.py --hosts 3 -q --unknown", "train.py --hosts 3 -q --unknown"),
        ("--hosts 2 train.py -- -m x", "train.py -- -m x"),
        ("-- train.py --help", "train.py --help"),
        ("-q -m module --hosts 3 -- -m", "-m module --hosts 3 -- -m"),
        ("-m module", "-m module"),
        ("-m json.tool", "-m json.tool"),
        ("train.py -h --version", "train.py -h --version"),
        ("project x", "project x"),
        ("- x", "- x"),
    ],
)
def test_what_follows_the_script_is_the_scripts(started, script, line, arguments):
    cli.main(["run", *line.split()])
    assert started[0][1] == arguments.split()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("", "required: COMMAND; see `elastic --help`"),
        ("rnu", "invalid choice: 'rnu' (choose from 'run', "),
        ("run", "no script to run; give one: elastic run SCRIPT [ARGS...]"),
        ("run -m", "no script to run"),
        ("run --hosts 2", "no script to run"),
        ("run --hosts", "--hosts: expected one argument"),
        ("run --hots 2 train.py", "unknown option --hots (did you mean --hosts?); see `elastic run --help`"),
        ("run --xyz train.py", "unknown option --xyz; see `elastic run --help`"),
        ("run --host 2 train.py", "unknown option --host (did you mean --hosts?)"),
        ("run --hosts many train.py", "--hosts: 'many' is no whole number"),
        ("run -q -v train.py", "not allowed with"),
        ("run nope.py", "there is no script 'nope.py'; check the path"),
        ("run json", "there is no script 'json'; check the path, or run the module with `elastic run -m json`"),
        ("run empty", "empty is a directory without a __main__.py; give a script"),
        ("run -m no_such_module.train", "there is no module 'no_such_module' here or in "),
        ("run --hosts 0 train.py", "a pool of 0 hosts cannot run anything; ask for at least 1"),
        ("run --hosts 1000 train.py", "1,000 hosts make no sense on this one machine: "),
        ("run --hosts 8 --devices-per-host 65 train.py", "ask for at most 64 a host"),
        ("run --listen 7777 train.py", "'7777' is no address to listen on; give HOST:PORT"),
        ("run --metrics host:x train.py", "'host:x' is no address to listen on; give HOST:PORT"),
    ],
)
def test_bad_command_lines(capsys, script, line, text):
    assert text in fail(capsys, *line.split())


def test_other_failures_have_exit_code_1(capsys, script, monkeypatch):
    def run(*_):
        raise PoolError("it broke; mend it")

    monkeypatch.setattr(runner, "run", run)
    assert cli.main(["run", script]) == 1
    assert capsys.readouterr().err == "elastic: error: it broke; mend it\n"


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["run", "-h", "train.py"]])
def test_help_shows_examples(capsys, arguments):
    with pytest.raises(SystemExit) as raised:
        cli.main(arguments)
    assert raised.value.code == 0
    out = capsys.readouterr().out
    assert "examples:\n  elastic run train.py " in out
    assert all(len(line) <= 120 for line in out.splitlines())


def test_as_a_program_and_without_jax():
    code = "import sys; from elastic import cli\ntry: cli.main(['-h'])\nfinally: assert 'jax' not in sys.modules"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert process.returncode == 0, process.stderr
    process = subprocess.run(
        [sys.executable, "-m", "elastic.cli", "run", "nope.py"], capture_output=True, text=True, timeout=60
    )
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr == "elastic: error: there is no script 'nope.py'; check the path\n"


def test_closed_streams_are_no_reason_to_fail():
    process = subprocess.run(
        [sys.executable, "-m", "elastic.cli", "run", "nope.py"],
        preexec_fn=lambda: [os.close(descriptor) for descriptor in (0, 1, 2)],
        timeout=60,
    )
    assert process.returncode == 2


def test_output_that_nobody_reads_to_its_end_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-u", "-m", "elastic.cli", "chaos", "list"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")
