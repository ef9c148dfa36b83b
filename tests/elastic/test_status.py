import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError, status_of

FAILURES = [code for code in Code if code != Code.OK]


def test_the_codes_are_those_of_grpc_and_of_the_protocol():
    ours = {code.name: int(code) for code in Code}
    assert ours == {code.name: code.value[0] for code in grpc.StatusCode}
    assert ours == dict(pb.StatusProto.Code.items())


@pytest.mark.parametrize("code", Code)
def test_a_status_keeps_its_code_and_text(code):
    error = StatusError(int(code), "the text")
    assert (error.code, error.message, str(error)) == (code, "the text", "the text")
    assert code.name in repr(error)
    assert "the text" in repr(error)


@pytest.mark.parametrize("code", [-1, 17, 99, 1 << 40])
def test_a_code_that_nobody_knows_is_unknown(code):
    assert StatusError(code, "what").code is Code.UNKNOWN


@pytest.mark.parametrize("code", FAILURES)
def test_the_code_that_xla_writes_before_its_text_is_read(code):
    error = status_of(RuntimeError(f"{code.name}: the device said: no"))
    assert (error.code, error.message) == (code, "the device said: no")


def test_the_status_of_a_status_is_itself():
    error = StatusError(Code.DATA_LOSS, "gone")
    assert status_of(error) is error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("bad: shape"), Code.INVALID_ARGUMENT),
        (TypeError("no such type"), Code.INVALID_ARGUMENT),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd"), Code.INVALID_ARGUMENT),
        (MemoryError(), Code.RESOURCE_EXHAUSTED),
        (MemoryError("no room"), Code.RESOURCE_EXHAUSTED),
        (RuntimeError("it broke"), Code.INTERNAL),
        (RuntimeError("Invalid_argument: in small letters"), Code.INTERNAL),
        (KeyError(5), Code.INTERNAL),
        (OSError(28, "No space left on device"), Code.INTERNAL),
        (ValueError("NOT_FOUND: XLA's code goes before the type"), Code.NOT_FOUND),
    ],
)
def test_any_exception_has_a_code(error, code):
    assert status_of(error).code is code


def test_the_text_of_an_unexpected_exception_names_its_type():
    assert status_of(KeyError("handle")).message == "KeyError: 'handle'"
    assert status_of(ZeroDivisionError()).message.startswith("ZeroDivisionError")


def test_a_lack_of_memory_is_said_even_where_python_says_nothing():
    assert "memory" in status_of(MemoryError()).message


@settings(deadline=None)
@given(
    st.sampled_from([RuntimeError, ValueError, TypeError, MemoryError, OSError, KeyError]),
    st.one_of(st.text(), st.sampled_from(list(Code.__members__)).map(lambda name: f"{name}: text")),
)
def test_no_exception_is_a_success(kind, text):
    """An answer with the code 0 would be taken for the result."""
    assert status_of(kind(text)).code in FAILURES


def test_text_of_several_lines_is_kept():
    assert status_of(RuntimeError("INTERNAL: first\nsecond: third")).message == "first\nsecond: third"
