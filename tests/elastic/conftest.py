import tempfile
from pathlib import Path

import pytest

from tests.elastic.up import Up


@pytest.fixture
def elastic():
    """Commands on a place for pools of its own; its pool is taken down at the end."""
    with tempfile.TemporaryDirectory(prefix="e", dir="/dev/shm") as path:
        made = Up(Path(path))
        yield made
        made("down")
