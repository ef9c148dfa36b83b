"""Bugs that are planted into a real run are caught, each by the check whose matter it is."""

import os
import textwrap

import pytest

from chaos import Report
from elastic.chaos_run.proof import disturbed, undisturbed
from tests.elastic.chaos_run.planted_bugs import BUGS, KILL, PLANS, SCRIPT

# In place of a module that Python loads at its start if it is there: it changes what the process is about to run.
PLANT = """
import sys
if {module!r} in sys.orig_argv:
{code}
"""


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return undisturbed(KILL, SCRIPT, tmp_path_factory.mktemp("clean"), "clean")


def broken(clean, directory, plan):
    chaos, _ = disturbed(plan, SCRIPT, directory, "chaos", lambda _: None)
    assert len(chaos.of("injected")) == 1, chaos.of("skipped")
    return {
        verdict.name: verdict.problems for verdict in Report.of(plan, clean, chaos, SCRIPT).verdicts if not verdict.held
    }


@pytest.mark.parametrize("plan", PLANS)
def test_without_a_bug_every_check_holds(plan, clean, tmp_path):
    assert broken(clean, tmp_path, PLANS[plan]) == {}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught(name, clean, tmp_path, monkeypatch):
    bug = BUGS[name]
    (tmp_path / "sitecustomize.py").write_text(PLANT.format(module=bug.module, code=textwrap.indent(bug.code, "    ")))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    problems = broken(clean, tmp_path, bug.plan)
    assert any(bug.words in problem for problem in problems.get(bug.caught_by, [])), problems
