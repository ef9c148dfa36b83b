"""Bugs that are planted into a real run are caught, each by the check whose matter it is."""

import os
import textwrap

import pytest

from chaos import Report, parse
from elastic.chaos_run.proof import disturbed, undisturbed
from tests.elastic.chaos_run.planted_bugs import BUGS, SCRIPT

_PLAN = """
    seed: 1
    patience: 30
    hosts: 2
    devices_per_host: 1
    snapshot_budget: BUDGET
    faults:
      - {fault: FAULT, host: h1, at: {AT}}
    """

# In place of a module that Python loads at its start if it is there: it changes what the process is about to run.
PLANT = """
import sys
if {module!r} in sys.orig_argv:
{code}
"""


def plan(fault, at, budget):
    return parse(textwrap.dedent(_PLAN).replace("FAULT", fault).replace("AT", at).replace("BUDGET", str(budget)))


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return undisturbed(plan("kill-executor", "step: 4", 0), SCRIPT, tmp_path_factory.mktemp("clean"), "clean")


def broken(clean, directory, plan):
    chaos, _ = disturbed(plan, SCRIPT, directory, "chaos", lambda _: None)
    assert len(chaos.of("injected")) == 1, chaos.of("skipped")
    return {
        verdict.name: verdict.problems for verdict in Report.of(plan, clean, chaos, SCRIPT).verdicts if not verdict.held
    }


@pytest.mark.parametrize(("fault", "at", "budget"), sorted({(bug.fault, bug.at, bug.budget) for bug in BUGS.values()}))
def test_without_a_bug_every_check_holds(fault, at, budget, clean, tmp_path):
    assert broken(clean, tmp_path, plan(fault, at, budget)) == {}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught(name, clean, tmp_path, monkeypatch):
    bug = BUGS[name]
    (tmp_path / "sitecustomize.py").write_text(PLANT.format(module=bug.module, code=textwrap.indent(bug.code, "    ")))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    problems = broken(clean, tmp_path, plan(bug.fault, bug.at, bug.budget))
    assert any(bug.words in problem for problem in problems.get(bug.caught_by, [])), problems
