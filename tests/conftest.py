import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def short_directory():
    """An empty directory whose path leaves room for a Unix socket's; pytest's own can be too long."""
    with tempfile.TemporaryDirectory(prefix="e") as path:
        yield Path(path)
