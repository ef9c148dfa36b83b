"""The stream of a session: in order, whatever fails."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastic.commands import Command
from elastic.controller import shardings
from elastic.controller.requests import HANDLERS, LATER
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError
from tests.elastic.controller.recording import FIELD_OF, Client, cut, f32

MISSING = 999


def from_buffer(handle, buffer, device=0, kind=pb.DTypeProto.KIND_F32):
    return pb.MakeArrayFromHostBufferRequest(
        dtype=pb.DTypeProto(kind=kind),
        shape=pb.ShapeProto(dims=[2]),
        sharding=shardings.single(device).proto,
        host_buffer_handle=buffer,
        array_handle=handle,
    )


def read(handle, buffer=77):
    return pb.CopyToHostBufferRequest(array_handle=handle, host_buffer_handle=buffer)


def looked_at(client, handle):
    """What whoever uses a handle gets: nothing, or the code and text of an error."""
    with pytest.raises(StatusError) as raised:
        client.session.arrays.usable(handle)
    return raised.value.code, raised.value.message


def test_each_answer_carries_the_number_of_its_request(client):
    for op_id in (client.send(pb.InitRequest()), client.send(pb.IsArrayDeletedRequest(array_handle=MISSING))):
        assert client.responses[op_id].response_metadata.op_id == op_id


def test_every_request_that_is_known_has_a_response_that_exists():
    responses = {field.name for field in pb.IfrtResponse.DESCRIPTOR.oneofs[0].fields}
    assert set(HANDLERS) <= set(FIELD_OF.values())
    assert {kind.replace("_request", "_response") for kind in HANDLERS} <= responses


def test_while_the_client_is_on_hold_its_requests_wait_in_their_order(client, run):
    client.session.hold(True)
    made = client.send(from_buffer(5, buffer=1))
    read_it = client.send(read(5))
    client.session.buffers.store(1, bytes(8))
    assert not client.responses
    assert not run.heard()
    client.session.hold(False)
    assert list(client.responses) == [made]
    assert [told[0] for told in run.heard()] == [Command.PUT, Command.READ]
    run.answer(run.waiting[0], None, None, b"12345678")
    assert list(client.responses) == [made, read_it]


def test_a_request_that_lets_those_behind_it_go_on_is_handled_to_its_end_before(client, run):
    client.make(5, 0)
    client.session.hold(True)
    for _ in range(1000):
        client.send(read(5))
    under_way, ask = [], run.ask

    def ask_and_let_go_on(*arguments, **more):
        assert not under_way
        under_way.append(arguments)
        client.session.hold(False)
        ask(*arguments, **more)
        under_way.clear()

    run.ask = ask_and_let_go_on
    client.session.hold(False)
    assert len(run.heard()) == 1000


def test_a_request_may_put_those_behind_it_on_hold(client, run):
    client.make(5, 0)
    client.session.hold(True)
    for _ in range(3):
        client.send(read(5))
    asked, ask = [], run.ask

    def ask_and_hold(*arguments, **more):
        asked.append(arguments[1])
        ask(*arguments, **more)
        client.session.hold(True)

    run.ask = ask_and_hold
    for count in (1, 2, 3):
        client.session.hold(False)
        assert asked == [Command.READ] * count


def test_a_request_waits_for_its_bytes_and_all_behind_it_wait_with_it(client, run):
    made = client.send(from_buffer(5, buffer=1))
    read_it = client.send(read(5))
    asked = client.send(pb.InitRequest())
    assert not client.responses
    assert not run.heard()
    client.session.buffers.store(2, b"others do not help")
    assert not client.responses
    client.session.buffers.store(1, bytes(8))
    assert list(client.responses) == [made, asked]
    assert [told[0] for told in run.heard()] == [Command.PUT, Command.READ]
    run.answer(run.waiting[0], None, None, b"12345678")
    assert client.outcome(read_it) == pb.CopyToHostBufferResponse()


def test_a_request_for_several_buffers_waits_for_the_last(client, run):
    specs = pb.MakeArraysFromHostBufferShardsRequest.MakeArraysFromHostBufferShardsSpec(
        array_spec=pb.ArraySpecProto(dtype=f32(), shape=pb.ShapeProto(dims=[2, 2]), sharding=cut(0, 2).proto)
    )
    for index in range(2):
        specs.addressable_shard_indices.add(indices=[index])
        specs.host_buffers.add(dtype=f32(), shape=pb.ShapeProto(dims=[1, 2]), host_buffer_handle=index)
    op_id = client.send(pb.MakeArraysFromHostBufferShardsRequest(specs=[specs], array_handles=[5]))
    client.session.buffers.store(1, b"1" * 8)
    assert not client.responses
    client.session.buffers.store(0, b"0" * 8)
    assert list(client.outcome(op_id).array_handles) == [5]
    assert run.payloads == [b"0" * 8, b"1" * 8]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations([("request", n) for n in range(5)] + [("bytes", n) for n in range(5)]))
def test_requests_take_effect_in_their_order_whenever_their_bytes_come(tmp_path, events):
    client = Client(tmp_path)
    requested, arrived = [], set()
    for what, number in events:
        if what == "request":
            requested.append(number)
            client.send(from_buffer(10 + number, buffer=number))
        else:
            arrived.add(number)
            client.session.buffers.store(number, bytes([number]) * 8)
        # The slow twin: all requests so far, up to the first whose bytes are missing.
        done = []
        for one in requested:
            if one not in arrived:
                break
            done.append(one)
        client.settle()
        assert [payload[0] for payload in client.run.payloads] == done
        assert len(client.responses) == len(done)


REQUESTS_WITH_RESULTS = [
    pb.AssembleArrayFromSingleDeviceArraysRequest(
        shape=pb.ShapeProto(dims=[4, 6]),
        sharding=cut(0, 2).proto,
        single_device_array_handles=[MISSING, MISSING],
        result_handle=1,
    ),
    pb.DisassembleIntoSingleDeviceArraysRequest(array_handle=MISSING, result_handles=[1, 2]),
    pb.FullyReplicatedShardRequest(array_handle=MISSING, result_handle=1),
    pb.CopyArraysRequest(array_handles=[MISSING, MISSING], result_handles=[1, 2]),
    pb.RemapArraysRequest(array_handles=[MISSING], result_handles=[1, 2]),
    pb.LoadedExecutableExecuteRequest(loaded_executable_handle=MISSING, result_array_handle=[1, 2]),
]


@pytest.mark.parametrize("request_", REQUESTS_WITH_RESULTS, ids=lambda request: FIELD_OF[type(request)])
def test_the_handles_of_a_failed_request_hold_its_error(client, run, request_):
    """The client chose them and goes on without waiting; it learns of the error where it uses one."""
    message = client.refused(Code.NOT_FOUND, request_)
    handles = [handle for handle in (1, 2) if handle in client.session.arrays]
    assert handles
    for handle in handles:
        assert looked_at(client, handle) == (Code.NOT_FOUND, message)
        assert client.refused(Code.NOT_FOUND, read(handle)) == message
        assert client.refused(Code.NOT_FOUND, pb.CheckValueReadyRequest(value_handles=[handle])) == message
    assert not run.heard()


def test_the_handles_of_a_request_that_is_not_supported_hold_its_error(client):
    request = pb.BitcastArraysRequest(array_handles=[MISSING], result_handles=[1])
    message = client.refused(Code.UNIMPLEMENTED, request)
    assert "bitcast_arrays_request" in message
    assert looked_at(client, 1) == (Code.UNIMPLEMENTED, message)


def test_an_error_goes_on_to_the_results_of_whoever_uses_it(client):
    first = client.refused(Code.NOT_FOUND, pb.CopyArraysRequest(array_handles=[MISSING], result_handles=[1]))
    client.refused(Code.NOT_FOUND, pb.FullyReplicatedShardRequest(array_handle=1, result_handle=2))
    client.refused(Code.NOT_FOUND, pb.CopyArraysRequest(array_handles=[2], result_handles=[3]))
    assert looked_at(client, 3) == (Code.NOT_FOUND, first)


def test_a_request_that_fails_after_it_made_its_array_leaves_the_error_and_no_array(client, run):
    client.session.buffers.store(1, bytes(8))
    message = client.refused(Code.UNIMPLEMENTED, from_buffer(5, 1, kind=pb.DTypeProto.KIND_STRING))
    assert looked_at(client, 5) == (Code.UNIMPLEMENTED, message)


def test_a_request_for_a_device_that_does_not_exist_leaves_the_error_and_no_array(client, run):
    client.session.buffers.store(1, bytes(8))
    message = client.refused(Code.INVALID_ARGUMENT, from_buffer(5, 1, device=9))
    assert looked_at(client, 5) == (Code.INVALID_ARGUMENT, message)


def test_all_results_of_a_request_that_fails_midway_hold_its_error(client):
    client.make(8, 0)
    message = client.refused(Code.NOT_FOUND, pb.CopyArraysRequest(array_handles=[8, MISSING], result_handles=[1, 2]))
    assert looked_at(client, 2) == (Code.NOT_FOUND, message)
    assert looked_at(client, 1) == (Code.NOT_FOUND, message)


def test_what_a_request_made_before_it_failed_is_given_back(client, run):
    client.make(8, 0)
    client.refused(Code.NOT_FOUND, pb.CopyArraysRequest(array_handles=[8, MISSING], result_handles=[1, 2]))
    client.call(pb.DestructArrayRequest(array_handle=[1, 2]))
    client.session.close()
    told = run.heard()
    made = {arguments[0] for command, _, *arguments in told if command == Command.COPY}
    freed = {number for command, _, *arguments in told if command == Command.FREE for number in arguments[0]}
    assert made <= freed


def test_a_failed_request_takes_nothing_from_arrays_that_were_there(client, run):
    number = client.make(8, 0)
    client.refused(Code.NOT_FOUND, pb.CopyArraysRequest(array_handles=[MISSING, 8], result_handles=[1, 2]))
    assert not run.heard()
    assert client.session.arrays.usable(8).number == number


@pytest.mark.parametrize("kind", sorted(set(FIELD_OF.values()) - set(HANDLERS)))
def test_a_request_that_is_not_supported_is_unimplemented_and_the_stream_lives_on(client, kind):
    (request,) = (request for request, field in FIELD_OF.items() if field == kind)
    assert kind in client.refused(Code.UNIMPLEMENTED, request())
    client.call(pb.InitRequest())


@pytest.mark.parametrize("unknown", [b"", b"\xc2\x3e\x02\x08\x01"], ids=["no-request", "field-1000"])
def test_a_request_of_a_kind_that_nobody_knows_is_unimplemented(client, unknown):
    client.stream.receive(pb.IfrtRequest(request_metadata=pb.RequestMetadata(op_id=70)).SerializeToString() + unknown)
    with pytest.raises(StatusError, match="does not know") as raised:
        client.outcome(70)
    assert raised.value.code is Code.UNIMPLEMENTED
    client.call(pb.InitRequest())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StatusError(Code.DATA_LOSS, "as it is"), Code.DATA_LOSS),
        (ValueError("shapes do not fit"), Code.INVALID_ARGUMENT),
        (KeyError("a bug"), Code.INTERNAL),
        (ZeroDivisionError("a bug"), Code.INTERNAL),
        (RecursionError("a bug"), Code.INTERNAL),
        (AssertionError(), Code.INTERNAL),
        (MemoryError(), Code.RESOURCE_EXHAUSTED),
        (OSError(28, "No space left"), Code.INTERNAL),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_whatever_a_handler_raises_is_an_answer_and_the_stream_lives_on(client, monkeypatch, error, code):
    def raise_it(session, request, respond):
        raise error

    monkeypatch.setitem(HANDLERS, "copy_arrays_request", raise_it)
    message = client.refused(code, pb.CopyArraysRequest(array_handles=[1], result_handles=[3]))
    assert message
    assert looked_at(client, 3) == (code, message)
    client.call(pb.InitRequest())


def test_a_queued_request_that_fails_does_not_hold_up_those_behind_it(client, monkeypatch):
    def raise_it(session, request, respond):
        raise RuntimeError("a bug")

    monkeypatch.setitem(HANDLERS, "make_array_from_host_buffer_request", raise_it)
    failing, behind = client.send(from_buffer(5, 1)), client.send(pb.InitRequest())
    client.session.buffers.store(1, b"")
    with pytest.raises(StatusError, match="a bug"):
        client.outcome(failing)
    assert client.outcome(behind).session_id == 1


def test_an_answer_may_come_later_and_after_others(client, monkeypatch):
    responds = []

    def later(session, request, respond):
        responds.append(respond)
        return LATER

    monkeypatch.setitem(HANDLERS, "check_future_request", later)
    first, second = (client.send(pb.CheckFutureRequest(future_handle=handle)) for handle in (1, 2))
    assert not client.responses
    responds[1](pb.CheckFutureResponse())
    responds[0](StatusError(Code.ABORTED, "no"))
    assert client.outcome(second) == pb.CheckFutureResponse()
    with pytest.raises(StatusError, match="no"):
        client.outcome(first)


def test_bytes_that_come_after_the_session_has_ended_start_nothing(client, run):
    """What they would start, nobody would end."""
    client.send(from_buffer(6, buffer=1))
    client.session.close()
    client.session.buffers.store(1, bytes(8))
    assert run.heard() == []
