"""A fixture of pytest for those who want to see that their own training survives; comes with the package.

def test_my_training_survives_the_loss_of_a_host(elastic_chaos):
    with elastic_chaos("train.py", "--steps", "20", hosts=3) as run:
        run.kill("h1", at=5)
        assert run.finish() == 0
    assert run.problems() == []
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from elastic.chaos_run.disturbed_run import DisturbedRun


class Start(Protocol):
    """Starts a script on a pool of its own; settings are those of a plan, such as hosts and devices_per_host.

    With `networks` hosts can be cut off, with `disk` what is stored is on a disk that can be full; both need root. With
    `machines` etcd can fail by itself.
    """

    def __call__(
        self,
        script: str | Path,
        *arguments: str,
        networks: bool = False,
        machines: bool = False,
        disk: bool = False,
        **settings: Any,
    ) -> DisturbedRun: ...


@pytest.fixture
def elastic_chaos(tmp_path: Path) -> Start:
    """Starts scripts on pools whose hosts can be killed, frozen and more; what they print is kept in `tmp_path`."""
    # Not sooner: whoever has elastic installed loads this with every pytest.
    from chaos import Plan
    from elastic.chaos_run.disturbed_run import DisturbedRun

    numbers = itertools.count(1)

    def start(
        script: str | Path,
        *arguments: str,
        networks: bool = False,
        machines: bool = False,
        disk: bool = False,
        **settings: Any,
    ) -> DisturbedRun:
        directory = tmp_path / f"run{next(numbers)}"
        needs = {"networks": networks, "machines": machines, "disk": disk}
        return DisturbedRun(Plan(**settings), [str(script), *arguments], directory, **needs)

    return start
