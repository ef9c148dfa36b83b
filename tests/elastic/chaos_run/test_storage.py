"""Storage that fails under a real run: what it costs, what is found, and that the numbers stay."""

import os
import textwrap
from pathlib import Path

import pytest

from chaos import Report, parse
from elastic.chaos_run.proof import disturbed, undisturbed

SCRIPT = [str(Path(__file__).with_name("steps.py")), "110", "0.1", "60000"]

PLAN = parse(
    textwrap.dedent("""
    seed: 1
    hosts: 3
    devices_per_host: 1
    on_loss: wait
    snapshot_budget: 0.3
    protect: parity=2+1
    checkpoint_every: 0.5
    notice_within: 3
    faults:
      - {fault: disk-full, for: 4, at: {step: 5}}
      - {fault: rot-copy, host: h1, at: {step: 55}}
      - {fault: kill-executor, host: h1, at: {step: 55}}
      - {fault: rot-parity, host: [h1, h2], at: {step: 70}}
      - {fault: kill-host, host: h0, at: {step: 70}}
      - {fault: kill-host, host: [h0, h1, h2], at: {step: 90}}
    """)
)


@pytest.mark.skipif(os.geteuid() != 0, reason="a disk of its own needs root")
def test_what_rots_is_found_and_the_next_source_used_until_only_the_disk_is_left(tmp_path):
    clean = undisturbed(PLAN, SCRIPT, tmp_path, "clean")
    chaos, _ = disturbed(PLAN, SCRIPT, tmp_path, "chaos", lambda _: None)
    report = Report.of(PLAN, clean, chaos, SCRIPT)
    assert {check.name: check.problems for check in report.verdicts if not check.held} == {}
    assert len(chaos.of("injected")) == len(PLAN.faults)
    assert "No space left on device" in chaos.of("not_stored")[0]["why"]
    assert chaos.of("bad_copy")
    assert len(chaos.of("stored")) > len(PLAN.faults)
