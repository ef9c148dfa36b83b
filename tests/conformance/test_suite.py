"""Reading how JAX's tests ended."""

import pytest

from tests.conformance import suite
from tests.conformance.suite import FILES, QUICK, Outcome, read_report

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="2" skipped="2" tests="8" time="12.5">
<testcase classname="tests.array_test.JaxArrayTest" name="test_passes" time="0.1" />
<testcase classname="tests.array_test.JaxArrayTest" name="test_passes[1]" time="0.1">
  <system-out>talks of failure</system-out></testcase>
<testcase classname="tests.array_test.ShardingTest" name="test_passes" time="0.1" />
<testcase classname="tests.array_test.JaxArrayTest" name="test_fails" time="0.1">
  <failure message="ValueError: the first line&#10;the second">text</failure></testcase>
<testcase classname="tests.array_test.JaxArrayTest" name="test_says_nothing"><failure>text</failure></testcase>
<testcase classname="tests.array_test.JaxArrayTest" name="test_breaks">
  <error message="failed on setup with &quot;OSError&quot;">text</error></testcase>
<testcase classname="tests.array_test.JaxArrayTest" name="test_skips">
  <skipped type="pytest.skip" message="no TPU">text</skipped></testcase>
<testcase classname="tests.array_test" name="test_xfails"><skipped type="pytest.xfail" message="" /></testcase>
</testsuite></testsuites>
"""


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "report.xml"
        path.write_text(text, encoding="utf-8")
        return read_report(path)

    return read


def test_a_report_tells_how_each_test_ended(read):
    assert read(REPORT) == Outcome(
        passed={"JaxArrayTest.test_passes", "JaxArrayTest.test_passes[1]", "ShardingTest.test_passes"},
        failed={
            "JaxArrayTest.test_fails": "ValueError: the first line",
            "JaxArrayTest.test_says_nothing": "",
            "JaxArrayTest.test_breaks": 'failed on setup with "OSError"',
        },
        skipped={"JaxArrayTest.test_skips", "array_test.test_xfails"},
        seconds=12.5,
    )


def test_a_report_without_tests_is_an_empty_outcome(read):
    assert read('<testsuites><testsuite name="pytest" tests="0" time="0.1"/></testsuites>') == Outcome(seconds=0.1)


def test_a_suite_alone_is_a_report_too(read):
    assert read('<testsuite><testcase classname="a.B" name="c"/></testsuite>') == Outcome(passed={"B.c"})


def test_a_test_that_passes_and_whose_end_fails_has_failed(read):
    cases = '<testcase classname="a.B" name="c"><error message="failed on teardown"/></testcase>'
    assert read(f"<testsuite>{cases}</testsuite>").failed == {"B.c": "failed on teardown"}


def test_long_messages_are_cut(read):
    case = f'<testcase classname="a.B" name="c"><failure message="{"x" * 1000}"/></testcase>'
    assert read(f"<testsuite>{case}</testsuite>").failed == {"B.c": "x" * 200}


def test_the_quick_files_are_among_all_files():
    assert set(QUICK) <= set(FILES)
    assert len(set(FILES)) == len(FILES)


class PlayedPytest:
    """In place of `Popen`: writes the report that it is told to, or dies before."""

    def __init__(self, report):
        self._report = report
        self.ended = []

    def __call__(self, command, *, cwd, env, **_):
        self.command, self.directory, self.environment = command, cwd, env
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def wait(self, limit_s):
        if self._report is None:
            raise suite.subprocess.TimeoutExpired(self.command, limit_s)
        (option,) = [word for word in self.command if word.startswith("--junitxml=")]
        with open(option.removeprefix("--junitxml="), "w", encoding="utf-8") as file:
            file.write(self._report)

    def terminate(self):
        self.ended.append("terminated")


@pytest.fixture
def play(monkeypatch):
    def play(report):
        played = PlayedPytest(report)
        monkeypatch.setattr(suite.subprocess, "Popen", played)
        return played

    return play


def test_a_file_is_run_on_plain_cpus_with_as_many_devices(play, tmp_path):
    pytest_played = play(REPORT)
    outcome = suite.run_file(tmp_path, "array", None, 10)
    assert (len(outcome.passed), outcome.crashed) == (3, False)
    assert pytest_played.directory == tmp_path
    assert pytest_played.command[1] == "tests/array_test.py"
    assert pytest_played.environment["JAX_PLATFORMS"] == "cpu"
    assert pytest_played.environment["JAX_NUM_CPU_DEVICES"] == "8"


def test_a_file_is_run_on_a_pool_through_the_launcher(play, tmp_path):
    pytest_played = play(REPORT)
    suite.run_file(tmp_path, "array", (4, 2), 10)
    assert pytest_played.command[1:6] == ["-m", "elastic.cli", "run", "--hosts=4", "--devices-per-host=2"]
    assert "tests/array_test.py" in pytest_played.command
    assert pytest_played.environment["JAX_PLATFORMS"] == "elastic,cpu"
    assert "JAX_NUM_CPU_DEVICES" not in pytest_played.environment


def test_a_file_that_takes_too_long_is_ended_and_has_crashed(play, tmp_path):
    pytest_played = play(None)
    assert suite.run_file(tmp_path, "array", None, 10) == Outcome(crashed=True)
    assert pytest_played.ended == ["terminated"]
