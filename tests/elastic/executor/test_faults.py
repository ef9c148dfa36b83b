"""Which device a fault on demand is of."""

import pytest

from elastic.executor.faults import VARIABLE, Fault, Kind, fault_of, parse


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("wrong-result:h1", Fault(Kind.WRONG_RESULT, "h1")),
        ("stall:a-host.of:0", Fault(Kind.STALL, "a-host.of", 0)),
        (" error:h2:3\n", Fault(Kind.ERROR, "h2", 3)),
    ],
)
def test_a_fault_names_a_kind_and_a_host_and_perhaps_a_device(text, fault):
    assert parse(text) == fault


@pytest.mark.parametrize("text", ["wrong-result", "wrong-result:", "flood:h1", "stall:h1:first"])
def test_what_names_no_fault_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse(text)


def test_without_a_device_it_is_the_last_one_and_of_no_other_host():
    environment = {VARIABLE: "stall:h1"}
    assert [fault_of("h1", device, 3, environment) for device in range(3)] == [None, None, Kind.STALL]
    assert [fault_of("h2", device, 3, environment) for device in range(3)] == [None] * 3
    assert fault_of("h1", 0, 3, {}) is None


def test_a_fault_in_a_file_comes_and_goes_with_it(tmp_path):
    path = tmp_path / "fault"
    environment = {VARIABLE: f"@{path}"}
    assert fault_of("h1", 0, 2, environment) is None
    path.write_text("crash:h1:0\n")
    assert fault_of("h1", 0, 2, environment) is Kind.CRASH
    path.unlink()
    assert fault_of("h1", 0, 2, environment) is None
