import pytest

from tests.elastic.executor.one_process import member_of_one


@pytest.fixture(scope="session")
def member():
    """A world of this process alone: virtual devices 0 to 3, of which this host owns all."""
    return member_of_one(devices=4)
