"""Runs whose etcd fails; `python -m tests.elastic.etcd_outages` is the long form."""

import tempfile
from pathlib import Path

import pytest

from tests.elastic.etcd_outages import Events, Outages
from tests.membership.servers import NotInstalled, etcd_program


def test_a_run_does_not_notice_that_leaders_of_etcd_die_nor_that_all_nodes_do():
    try:
        etcd_program()
    except NotInstalled as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="e", dir="/dev/shm") as directory, Outages(Path(directory)) as outages:
        events = Events(outages.etcd.address())
        for _ in range(3):
            outages.kill_leader()
        events.stop()
        outages.etcd.kill()
        outages.steps_of(5.0)
        outages.etcd.start()
        outages.kill_a_host()
        outages.finish()
