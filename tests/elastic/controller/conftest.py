import pytest

from tests.elastic.controller.recording import Client


@pytest.fixture
def client(tmp_path):
    """A session over four virtual devices on two hosts, (0, 1) and (2, 3)."""
    return Client(tmp_path)


@pytest.fixture
def world(client):
    return client.world
