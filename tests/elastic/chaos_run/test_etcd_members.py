"""The etcd of a pool whose members fail, for real."""

import contextlib
import os
import shutil

import pytest

from elastic.chaos_run import etcd_members
from elastic.chaos_run.etcd_members import EtcdMembers, own_address
from elastic.errors import UsageError

KINDS = ["embedded", pytest.param("3", marks=pytest.mark.skipif(shutil.which("etcd") is None, reason="no etcd here"))]


@contextlib.contextmanager
def members(kind, directory):
    (directory / "secret").write_text("a secret")
    with (directory / "log").open("ab") as log:
        made = EtcdMembers(kind, own_address(), directory, log, os.environ, lambda command: command)
        try:
            yield made
        finally:
            made.end()


@pytest.mark.parametrize("kind", KINDS)
def test_members_that_were_killed_are_the_same_etcd_again_when_they_are_started(kind, tmp_path):
    with members(kind, tmp_path) as etcd:
        etcd.kill_leader()
        etcd.start_again()
        etcd.kill()
        etcd.start_again()
        etcd.wait_until_served()
        etcd.compact()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_frozen_goes_on(kind, tmp_path):
    with members(kind, tmp_path) as etcd:
        etcd.freeze()
        etcd.thaw()
        etcd.wait_until_served()


def test_a_machine_without_etcd_is_told_what_to_do(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    etcd_members.check("embedded")
    with pytest.raises(UsageError, match="apt-get install etcd-server, or say --etcd embedded"):
        etcd_members.check("3")
