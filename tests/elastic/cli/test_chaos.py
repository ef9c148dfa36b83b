"""The command `elastic chaos`: what is the command's, what is the script's, and what it says."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaos import FAULTS, Plan, ready_made
from elastic import cli
from elastic.chaos_run import proof

SCRIPT = str(Path(__file__))


@pytest.fixture
def proved(monkeypatch):
    """What would have been proved: (plan, script, directory, settings)."""
    calls = []

    def prove(plan, script, directory, say, **settings):
        calls.append((plan, script, directory, settings))
        return SimpleNamespace(held=plan.hosts != 3, json=lambda: "{}\n")

    monkeypatch.setattr(proof, "prove", prove)
    return calls


def test_the_options_stand_on_both_sides_of_the_plan_and_the_rest_is_the_scripts(proved, tmp_path):
    out = str(tmp_path)
    assert cli.main(["chaos", "run", "--json", "smoke", "--out", out, "--", SCRIPT, "--out", "x", "--json"]) == 0
    [(plan, script, directory, settings)] = proved
    assert plan == ready_made()["smoke"]
    assert script == [SCRIPT, "--out", "x", "--json"]
    assert (directory, settings) == (tmp_path, {"earlier": None, "shrink_runs": 0})


def test_a_script_needs_no_dashes_before_it(proved):
    cli.main(["chaos", "run", "smoke", "--json", SCRIPT, "--", "x"])
    assert proved[0][1] == [SCRIPT, "--", "x"]


def test_a_plan_of_ones_own_is_a_file_and_options_go_before_what_it_says(proved, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text("hosts: 2\nseed: 1\n")
    cli.main(["chaos", "run", str(plan), "--json", "--seed", "7", "--hosts=5", "--devices-per-host", "1", SCRIPT])
    assert proved[0][0] == Plan(hosts=5, seed=7, devices_per_host=1)


def test_the_exit_code_tells_whether_every_check_held(proved):
    assert cli.main(["chaos", "run", "smoke", "--json", "--hosts=3", SCRIPT]) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["nothing", SCRIPT],
            "there is no plan 'nothing': it is no file, and none of partitions, preemptions, silent-corruption, smoke, "
            "soak",
        ),
        (["smoke"], "no script to run"),
        (["smoke", "--hosts=1", SCRIPT], "there is no host 'h1'; the pool has h0"),
        (["smoke", "nothing.py"], "there is no script 'nothing.py'"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_starts(proved, capsys, arguments, words):
    assert cli.main(["chaos", "run", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert proved == []


def test_the_list_explains_every_fault_and_plan(capsys):
    assert cli.main(["chaos", "list"]) == 0
    shown = capsys.readouterr().out
    assert all(fault.explanation in shown for fault in FAULTS.values())
    assert all(plan.description in shown for plan in ready_made().values())


def test_the_schema_is_json(capsys):
    assert cli.main(["chaos", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["type"] == "object"
