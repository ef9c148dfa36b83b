"""What each fault of storage does to a disk, to files and to the memory of hosts, and how it is taken back."""

import pytest

from chaos import AtTime, DiskError, Injection
from elastic import fault_points
from elastic.chaos_run.verbs import Verbs
from tests.elastic.chaos_run.fake_run import FakeRun

COPY, PARITY = "a" * 32, "b" * 32


@pytest.fixture
def run(tmp_path):
    points = tmp_path / "points"
    points.mkdir()
    return FakeRun(points)


@pytest.fixture
def verbs(run):
    return Verbs(run)


@pytest.fixture
def memory(run, tmp_path):
    """That of h1, with a copy and a block of parity."""
    memory = tmp_path / "h1"
    memory.mkdir()
    (memory / COPY).write_bytes(bytes(100))
    (memory / PARITY).write_bytes(bytes(100))
    (memory / "held").mkdir()
    run.memories["h1"] = memory
    run.tell("holds", holders=[["h1"]], parity=[PARITY])
    return memory


def fault(name, *hosts, lasts=None):
    return Injection(1, name, AtTime(0.0), hosts, lasts)


def ones(path):
    return path.read_bytes().translate(None, b"\0")


@pytest.mark.parametrize(("name", "becomes"), [("disk-full", "full"), ("disk-read-only", "read-only")])
def test_a_disk_is_kept_as_it_became_until_the_time_is_over(run, verbs, name, becomes):
    verbs.do(fault(name, lasts=1.0))
    run.pass_time(3)
    *during, last = [what for _, what in run.signals]
    assert set(during) == {becomes}
    assert len(during) >= 9
    assert last == "healed"
    assert run.signals[-1][0] == pytest.approx(1.0)


def test_a_disk_that_is_being_written_is_hit_as_soon_as_that_is_over(run, verbs, monkeypatch):
    busy = iter([True, True, False])

    def protect():
        if next(busy, False):
            raise DiskError("it is busy")
        run.signals.append((run.now, "read-only"))

    monkeypatch.setattr(run.disk, "protect", protect)
    verbs.do(fault("disk-read-only", lasts=1.0))
    run.pass_time(0.5)
    assert run.signals[0] == (pytest.approx(0.2), "read-only")


@pytest.mark.parametrize(
    ("name", "point"), [("disk-slow", fault_points.SLOW_DISK), ("memory-pressure", fault_points.FULL_MEMORY)]
)
def test_what_is_wrong_with_a_host_is_so_for_a_while(run, verbs, name, point):
    verbs.do(fault(name, "h0", "h1", lasts=2.0))
    assert [fault_points.is_armed(run.points, point, host) for host in ("h0", "h1", "h2")] == [True, True, False]
    run.pass_time(3)
    assert not list(run.points.iterdir())
    assert [event.at for event in run.of("reverted")] == [2.0]


def test_one_bit_of_each_copy_in_a_hosts_memory_rots_and_none_of_its_parity(verbs, memory):
    verbs.do(fault("rot-copy", "h1"))
    [changed] = ones(memory / COPY)
    assert changed.bit_count() == 1
    assert ones(memory / PARITY) == b""


def test_one_bit_of_each_block_of_parity_rots_and_no_copy(verbs, memory):
    verbs.do(fault("rot-parity", "h1"))
    assert (len(ones(memory / COPY)), len(ones(memory / PARITY))) == (0, 1)


def test_the_newest_checkpoint_rots(run, verbs, tmp_path):
    run.files = [tmp_path / "values"]
    run.files[0].write_bytes(bytes(10))
    verbs.do(fault("rot-checkpoint"))
    assert len(ones(run.files[0])) == 1
    assert len(run.of("injected")) == 1


@pytest.mark.parametrize("name", ["rot-copy", "rot-parity", "rot-checkpoint"])
def test_where_there_is_nothing_that_could_rot_that_is_told(run, verbs, name):
    verbs.do(fault(name, *(["h1"] if name != "rot-checkpoint" else [])))
    assert run.of("injected") == []
    assert [event["why"] for event in run.of("skipped")] == ["there was nothing of the kind"]
