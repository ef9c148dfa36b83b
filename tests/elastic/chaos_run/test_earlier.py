"""A run without faults that an earlier report has is used again, if it is of the same."""

import json

import pytest

from chaos import Plan, dump
from elastic.chaos_run import proof
from elastic.errors import UsageError
from tests.chaos.histories import story

SCRIPT = ["train.py", "--steps", "9"]
PLAN = Plan(hosts=2, devices_per_host=2)
CLEAN = story((0, "started", {}), (5, "output", {"line": "step 1", "step": 1}), (6, "ended", {"code": 0}))


@pytest.fixture
def report(tmp_path):
    """The directory of a report."""
    directory = tmp_path / "earlier"
    directory.mkdir()
    (directory / "report.json").write_text(json.dumps({"script": SCRIPT}))
    (directory / "plan.yaml").write_text(dump(PLAN))
    (directory / "clean.jsonl").write_text(CLEAN.text())
    return directory


@pytest.fixture
def prove(tmp_path, monkeypatch, report):
    """Proves a plan with the report, and notes which runs are made."""
    made = []

    def disturbed(plan, script, directory, name, say):
        made.append(name)
        return CLEAN, []

    def prove(plan=PLAN, script=SCRIPT, earlier=report):
        return proof.prove(plan, script, tmp_path / "out", lambda _: None, earlier=earlier), made

    monkeypatch.setattr(proof, "disturbed", disturbed)
    return prove


def test_only_the_run_under_the_plan_is_made(prove):
    found, made = prove()
    assert made == ["chaos"]
    assert found.clean.events == CLEAN.events


def test_what_was_used_again_can_be_used_again(prove, tmp_path):
    prove()
    found, _ = prove(earlier=tmp_path / "out")
    assert found.clean.events == CLEAN.events


@pytest.mark.parametrize("ending", [(), ((6, "ended", {"code": 1}),)])
def test_a_run_that_has_not_ended_well_is_refused(prove, report, ending):
    (report / "clean.jsonl").write_text(story((0, "started", {}), *ending).text())
    with pytest.raises(UsageError, match="has not ended well"):
        prove()


def test_as_many_devices_may_be_on_other_hosts(prove):
    _, made = prove(Plan(hosts=4, devices_per_host=1))
    assert made == ["chaos"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"script": ["other.py"]}, "is of another script: train.py --steps 9"),
        ({"plan": Plan(hosts=4, devices_per_host=2)}, "of a run on 4 devices, not 8"),
    ],
)
def test_what_is_of_something_else_is_refused(prove, settings, words):
    with pytest.raises(UsageError, match=words):
        prove(**settings)


@pytest.mark.parametrize("name", ["report.json", "plan.yaml", "clean.jsonl"])
def test_what_is_no_report_is_refused(prove, report, name):
    (report / name).write_text("{\n")
    with pytest.raises(UsageError, match="earlier is no directory of a report"):
        prove()
    (report / name).unlink()
    with pytest.raises(UsageError, match="earlier is no directory of a report"):
        proof.prove(PLAN, SCRIPT, report, lambda _: None, earlier=report)
