"""Stored copies that hosts read: what is made of those that cannot be."""

from pathlib import Path

import pytest

from elastic.controller.file_reading import Read, read_files
from elastic.controller.hosts import CopyError
from tests.elastic.connections import run

READ = Read("h1", b"digest", 5, Path("file"))


class Refusing:
    """A host that cannot read a file, or not keep what it has read."""

    def __init__(self, error):
        self._error = error

    async def fetch_file(self, digest, size, path):
        raise self._error


def read(error):
    return run(read_files({"h1": Refusing(error)}, [READ], lambda *_: None, lambda _: None))


def test_a_file_that_is_bad_is_told_and_the_others_are_read():
    assert read(CopyError("host h1: file was changed", [READ.digest])) == {READ.digest: "host h1: file was changed"}


def test_a_host_that_cannot_keep_what_it_read_says_nothing_of_the_file():
    with pytest.raises(CopyError, match="no space"):
        read(CopyError("host h1: there is no space"))
