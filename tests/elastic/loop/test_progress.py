import os
import pty
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from elastic.loop.progress import known


class Unready:
    """An array that is not computed yet, and must not be read."""

    shape = ()
    ndim = 0

    def is_ready(self):
        return False

    def __float__(self):
        raise AssertionError("it was waited for")


def test_single_numbers_that_are_computed_are_shown():
    metrics = {"loss": jnp.float32(0.25), "late": Unready(), "many": np.ones(3), "name": "a", "step": 3}
    assert known({**metrics, "loss": jnp.float32(0.25).block_until_ready()}) == {"metrics": "loss 0.25  step 3"}
    assert known(np.float32(1.5)) == {"metrics": "1.5"}
    assert known({"late": Unready()}) == {}


LOOP = """
import sys, elastic, numpy as np
loop = elastic.wrap(lambda state, batch: (state + batch, {"loss": 0.125}), checkpoint=sys.argv[1])
for step, _ in loop(np.zeros(2), [1, 2, 3]):
    print("in the body of step", step)
"""


def test_on_a_terminal_there_is_a_bar_and_elsewhere_a_line_a_save(tmp_path):
    command = [sys.executable, "-c", LOOP]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "JAX_PLATFORMS": "cpu", "TERM": "xterm"}
    plain = subprocess.run([*command, tmp_path / "a"], env=environment, capture_output=True, text=True, timeout=120)
    assert plain.stderr.count("\n") == 1
    assert plain.stderr.startswith(f"elastic: step 3 is saved: {tmp_path / 'a' / '3'}, 16 bytes in ")

    ours, theirs = pty.openpty()
    process = subprocess.Popen([*command, tmp_path / "b"], env=environment, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # The other side is closed.
            break
    os.close(ours)
    assert process.wait(60) == 0
    for text in (b"step 3", b"loss 0.125", b"is saved"):
        assert text in shown
