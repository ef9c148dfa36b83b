import tempfile
from pathlib import Path

import pytest

from tests.elastic.up import Up
from tests.membership.servers import NotInstalled, RealEtcd


@pytest.fixture
def elastic():
    """Commands on a place for pools of its own; its pool is taken down at the end."""
    with tempfile.TemporaryDirectory(prefix="e", dir="/dev/shm") as path:
        made = Up(Path(path))
        yield made
        made("down")


@pytest.fixture
def real_etcd():
    """A directory of shared memory and, with its data there, a real etcd of one node."""
    with tempfile.TemporaryDirectory(prefix="e", dir="/dev/shm") as path:
        etcd = RealEtcd(Path(path), 1)
        try:
            etcd.start()
        except NotInstalled as error:
            pytest.skip(str(error))
        yield Path(path), etcd
        etcd.kill()
