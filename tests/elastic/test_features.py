"""Every kind of JAX program computes through the platform what it computes on plain JAX."""

import json
from pathlib import Path

import pytest

from tests.elastic.programs import features
from tests.elastic.runs import run_plainly, run_to_end

SCRIPT = Path(features.__file__)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """(plain, ours) by the name of the case."""
    directory = tmp_path_factory.mktemp("features")
    plain = run_plainly(SCRIPT, str(directory / "plain.json"))
    assert plain.returncode == 0, plain.stderr
    ours = run_to_end(SCRIPT, str(directory / "ours.json"), hosts=4, devices=2)
    assert ours.process.returncode == 0, ours.text
    return [json.loads((directory / f"{name}.json").read_text()) for name in ("plain", "ours")]


@pytest.mark.parametrize("name", list(features.CASES))
def test_computes_the_same_as_plain_jax(outcomes, name):
    plain, ours = outcomes
    assert not plain[name].startswith("FAILED")
    assert ours[name] == plain[name]
