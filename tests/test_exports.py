"""Packages are used by what their `__init__` exports, and by nothing else."""

import importlib

import pytest

from tests.exports import PACKAGES, imports_by_others, public_names

INNER = {("membership.forking", "")}
"""Modules that others may import by name: this one has to come before anything that imports gRPC."""


@pytest.mark.parametrize("name", ["membership", "checkpoint", "chaos"])
def test_exported_members(name):
    package = importlib.import_module(name)
    assert sorted(package.__all__) == public_names(package)


@pytest.mark.parametrize("name", ["membership", "checkpoint", "chaos"])
def test_others_import_what_is_exported(name):
    package = importlib.import_module(name)
    imports = [found for found in imports_by_others(name) if found[1:] not in INNER]
    assert imports
    assert [found for found in imports if found[1] != name or found[2] not in package.__all__] == []


@pytest.mark.parametrize("name", ["membership", "checkpoint", "chaos"])
def test_none_but_elastic_imports_other_packages(name):
    prefix = f"{name}/"
    assert [
        found
        for other in PACKAGES
        if other != name
        for found in imports_by_others(other)
        if found[0].startswith(prefix)
    ] == []
