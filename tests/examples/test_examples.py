"""The examples on plain JAX: they learn, and two runs end in the same bits."""

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import checkpoint

EXAMPLES = Path(__file__).parents[2] / "examples"


def start(script: str, *args: str, devices: int = 8) -> subprocess.Popen[str]:
    env = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    env |= {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices)}
    # The size of XLA's thread pools. With fewer than two threads for each device of a process, jaxlib 0.10 can hang for
    # ever in collectives that follow larger matrix products.
    env["NPROC"] = str(2 * devices + 2)
    return subprocess.Popen(
        [sys.executable, EXAMPLES / script, *args],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outputs(*processes: subprocess.Popen[str]) -> list[str]:
    """What the scripts print, once all have ended well."""
    try:
        results = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, (out, err) in zip(processes, results, strict=True):
        assert process.returncode == 0, f"{process.args} ended with {process.returncode}:\n{out}\n{err}"
    return [out for out, _ in results]


def last_number(pattern: str, text: str) -> float:
    return float(re.findall(pattern + r"\s*([\d.]+)", text)[-1])


def digest(text: str) -> str:
    return re.findall(r"^digest: ([0-9a-f]{64})$", text, re.MULTILINE)[0]


def test_digits_learns_on_8_devices_and_on_1_and_repeats_itself() -> None:
    first, second, one = outputs(
        start("digits.py", "--digest"), start("digits.py", "--digest"), start("digits.py", devices=1)
    )
    assert last_number("test accuracy:", first) >= 97
    assert last_number("test accuracy:", one) >= 97
    assert digest(first) == digest(second)


def test_transformer_learns_and_repeats_itself_on_8_devices() -> None:
    args = ("--steps", "24", "--every", "8", "--digest")
    first, second = outputs(start("transformer.py", *args), start("transformer.py", *args))
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", first)]
    assert len(losses) == 4
    assert all(0 < loss < 6 for loss in losses)
    assert losses[-1] < losses[0] - 0.5
    assert digest(first) == digest(second)


def test_checkpointed_goes_on_where_it_was_and_on_a_mesh_of_another_shape(tmp_path: Path) -> None:
    args = ("--every", "5", "--steps")
    whole, first, _ = outputs(
        start("checkpointed.py", str(tmp_path / "whole"), *args, "20"),
        start("checkpointed.py", str(tmp_path / "parts"), *args, "10"),
        start("checkpointed.py", str(tmp_path / "other"), *args, "10", "--tensor", "1"),
    )
    assert digest(first) != digest(whole)
    second, reshaped = outputs(
        start("checkpointed.py", str(tmp_path / "parts"), *args, "20"),
        start("checkpointed.py", str(tmp_path / "other"), *args, "20", "--tensor", "4"),
    )
    assert "from step 10" in second
    assert digest(second) == digest(whole)
    assert "from step 10, mesh {'fsdp': 2, 'tensor': 4}" in reshaped
    assert last_number("loss", reshaped) == pytest.approx(last_number("loss", whole), rel=1e-3)
    assert last_number("loss", whole) < 0.2


def test_resumable_is_killed_and_ends_in_the_same_bits_on_other_devices_too(tmp_path: Path) -> None:
    killed = start("resumable.py", str(tmp_path / "parts"), "--steps", "20000", devices=4)
    assert killed.stderr is not None
    next(line for line in killed.stderr if "is saved" in line)
    killed.kill()
    killed.communicate()
    saved = checkpoint.steps(tmp_path / "parts")[0].number
    steps = str(saved + 200)
    whole, parts = outputs(
        start("resumable.py", str(tmp_path / "whole"), "--steps", steps, devices=4),
        start("resumable.py", str(tmp_path / "parts"), "--steps", steps, devices=4),
    )
    assert digest(parts) == digest(whole)
    assert parts.count("step") < whole.count("step")
    more = outputs(start("resumable.py", str(tmp_path / "whole"), "--steps", str(saved + 300), devices=8))[0]
    assert re.findall(r"step +(\d+)", more) == [str(saved + 250), str(saved + 300)]
    assert last_number("loss", more) < last_number("loss", whole) + 0.1 < 0.4


def test_digits_are_written_as_the_files_of_mnist_and_never_replace_others(tmp_path: Path) -> None:
    out = outputs(start("digits_as_mnist.py", str(tmp_path), "--copies", "2"))[0]
    assert "2816x28x28" in out
    images = gzip.decompress((tmp_path / "train-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((tmp_path / "train-labels-idx1-ubyte.gz").read_bytes())
    assert [int.from_bytes(images[at : at + 4]) for at in (0, 4, 8, 12)] == [0x803, 2816, 28, 28]
    assert len(images) == 16 + 2816 * 28 * 28
    assert [int.from_bytes(labels[at : at + 4]) for at in (0, 4)] == [0x801, 2816]
    assert set(labels[8:]) == set(range(10))

    with pytest.raises(AssertionError, match="--force"):
        outputs(start("digits_as_mnist.py", str(tmp_path)))
