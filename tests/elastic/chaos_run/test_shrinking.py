"""A plan that fails is shrunk to the faults that matter, by running it again and again; here without processes."""

import pytest

from chaos import parse
from elastic.chaos_run import proof
from tests.chaos.histories import ended, injected, read, started, story

PLAN = parse(
    "seed: 1\nfaults:\n" + "".join(f"  - {{fault: kill-agent, host: h1, at: {{step: {n}}}}}\n" for n in range(8))
)


@pytest.fixture
def runs(monkeypatch):
    """The steps at which faults were done in each run. A kill at step 3 has the script read another value."""
    found = []

    def disturbed(plan, script, directory, name, say):
        found.append([planned.when.step for planned in plan.faults])
        digest = "bad" if 3 in found[-1] else "good"
        nothing = (9, "leftovers", {"processes": [], "files": []})
        faults = [injected(1, n, "kill-agent", "h1", must_be_noticed=False) for n in found[-1]]
        world = (0, "generation", {"generation": 1, "owners": ["h1"], "executors": {"h1": 1}})
        return story(started(), world, read(1, 1, digest), *faults, ended(9), nothing), list(plan.faults)

    monkeypatch.setattr(proof, "disturbed", disturbed)
    return found


def test_the_plan_that_is_left_does_nothing_but_what_breaks_the_promise(runs, tmp_path):
    clean = proof.undisturbed(PLAN, ["x.py"], tmp_path, "clean")
    smallest = proof.smallest(PLAN, ["x.py"], tmp_path, clean, 20, lambda _: None)
    assert [planned.when.step for planned in smallest.faults] == [3]


def test_no_more_runs_are_made_than_allowed(runs, tmp_path):
    clean = proof.undisturbed(PLAN, ["x.py"], tmp_path, "clean")
    proof.smallest(PLAN, ["x.py"], tmp_path, clean, 2, lambda _: None)
    assert len(runs) == 3
