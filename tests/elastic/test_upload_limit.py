import pytest

from elastic.upload_limit import UploadLimit, limit_of


class Markers:
    """Markers in the order in which they were made, and which of them were waited for."""

    def __init__(self):
        self.made = 0
        self.waited = []

    def __call__(self):
        number, self.made = self.made, self.made + 1
        waited = self.waited

        class Marker:
            def block_until_ready(self):
                waited.append(number)

        return Marker()


@pytest.fixture
def markers():
    return Markers()


def test_below_the_stride_nothing_is_marked(markers):
    limit = UploadLimit(limit=100, stride=10)
    for _ in range(3):
        limit.uploaded(3, markers)
    assert markers.made == 0


def test_a_marker_follows_every_stride(markers):
    limit = UploadLimit(limit=100, stride=10)
    for _ in range(10):
        limit.uploaded(5, markers)
    assert markers.made == 5
    assert markers.waited == []


def test_beyond_the_limit_the_oldest_is_waited_for_and_no_more(markers):
    limit = UploadLimit(limit=40, stride=10)
    for _ in range(6):
        limit.uploaded(10, markers)
    assert markers.waited == [0, 1]


def test_an_upload_larger_than_the_limit_waits_for_itself(markers):
    limit = UploadLimit(limit=40, stride=10)
    limit.uploaded(1000, markers)
    assert markers.waited == [0]


def test_a_small_limit_has_markers_often_enough(markers):
    limit = UploadLimit(limit=8, stride=1000)
    for _ in range(8):
        limit.uploaded(2, markers)
    assert markers.waited == [0, 1, 2, 3]


def test_the_limit_leaves_most_of_the_shared_memory(tmp_path):
    assert 0 < limit_of(str(tmp_path)) <= 512 << 20
    assert limit_of(None) == limit_of("/no/such/directory") == 512 << 20
