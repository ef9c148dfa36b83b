"""What each request about arrays has the hosts do, and what it refuses."""

import pytest

from elastic.commands import Command
from elastic.controller import shardings
from elastic.controller.session import SERVER_HANDLES
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError
from tests.elastic.controller.recording import F32, copied, cut, f32

MISSING = 999
NEW = 50


def shape(*dims):
    return pb.ShapeProto(dims=dims)


def from_buffer(sharding, buffer=1, dims=(2,), kind=F32, **fields):
    return pb.MakeArrayFromHostBufferRequest(
        dtype=pb.DTypeProto(kind=kind),
        shape=shape(*dims),
        sharding=sharding.proto,
        host_buffer_handle=buffer,
        **fields,
    )


def from_shards(sharding, indices, buffers, dims=(4, 6), handles=(NEW,)):
    spec = pb.ArraySpecProto(dtype=f32(), shape=shape(*dims), sharding=sharding.proto)
    shards = pb.MakeArraysFromHostBufferShardsRequest.MakeArraysFromHostBufferShardsSpec(array_spec=spec)
    for some in indices:
        shards.addressable_shard_indices.add(indices=some)
    for buffer in buffers:
        shards.host_buffers.add(dtype=f32(), shape=shape(2, 6), host_buffer_handle=buffer)
    return pb.MakeArraysFromHostBufferShardsRequest(specs=[shards], array_handles=handles)


@pytest.fixture
def uploaded(client, tmp_path):
    """Leaves an upload of 8 bytes as a file; returns the place where it will be kept."""

    def uploaded(handle=1):
        (tmp_path / f"lt_{handle}").write_bytes(b"on disk!")
        client.session.buffers.store_file(handle, 8)
        return client.session.buffers.get(handle).path

    return uploaded


# Arrays from the client's bytes


def test_init_describes_the_virtual_devices(client):
    response = client.call(pb.InitRequest())
    assert response.session_id == client.session.id
    assert [device.id for device in response.all_devices] == [0, 1, 2, 3]
    assert list(response.addressable_device_ids) == list(response.primary_device_ids) == [0, 1, 2, 3]
    memories = {memory.id: memory for memory in response.memories}
    assert len(memories) == len(response.memories) == 8
    for device in response.all_devices:
        kinds = [memories[id].memory_space_kind for id in device.memory_ids]
        assert kinds == ["device", "pinned_host"]
        assert all(list(memories[id].device_ids) == [device.id] for id in device.memory_ids)
        assert memories[device.default_memory_id].memory_space_kind == "device"
        assert device.platform_name == response.platform_name == "cpu"
        # Who does not ask for slices is better off without: jax.make_mesh refuses several.
        assert dict(device.attributes.attributes) == {}


def test_init_tells_slices_where_the_client_is_told_of_losses(client, run):
    run.devices = [{**device, "slice": number // 2} for number, device in enumerate(run.devices)]
    response = client.call(pb.InitRequest())
    slices = [device.attributes.attributes["slice_index"].int64_value for device in response.all_devices]
    assert slices == [0, 0, 1, 1]


@pytest.mark.parametrize("sharding", [shardings.single(2), copied(0, 1, 3)], ids=["one-device", "copies"])
def test_bytes_go_to_every_host_of_the_array(client, run, sharding):
    client.session.buffers.store(1, b"12345678")
    response = client.call(from_buffer(sharding, array_handle=NEW))
    assert response.array_handle == NEW
    client.settle()
    assert run.payloads == [b"12345678"]
    devices = sharding.devices
    assert run.heard() == [
        (Command.PUT, devices, client.number(NEW), "float32", [2], None, list(devices), None, None, None)
    ]
    assert 1 not in client.session.buffers


def test_strides_memory_and_type_travel_with_the_bytes(client, run):
    client.session.buffers.store(1, bytes(12))
    sharding = shardings.single(3, "pinned_host")
    strides = pb.ByteStrides(strides=[2, -4])
    client.call(
        from_buffer(sharding, dims=(2, 3), kind=pb.DTypeProto.KIND_BF16, byte_strides=strides, array_handle=NEW)
    )
    client.settle()
    ((*_, dtype, dims, sent, devices, parts, memory, path),) = run.heard()
    assert (dtype, dims, sent, devices) == ("bfloat16", [2, 3], [2, -4], [3])
    assert (parts, memory, path) == (None, "pinned_host", None)


def test_the_server_names_an_array_that_the_client_did_not(client):
    client.session.buffers.store(1, bytes(8))
    client.session.buffers.store(2, bytes(8))
    handles = [client.call(from_buffer(shardings.single(0), buffer)).array_handle for buffer in (1, 2)]
    assert min(handles) >= SERVER_HANDLES
    assert len({client.number(handle) for handle in handles}) == 2


def test_an_upload_by_file_is_told_by_its_path_and_kept_for_those_who_are_told_again(client, run, uploaded, tmp_path):
    path = uploaded()
    client.call(from_buffer(copied(0, 2), array_handle=NEW))
    assert run.payloads == [b""]
    ((command, devices, *_, told),) = run.heard()
    assert (command, devices, told) == (Command.PUT, (0, 2), path)
    assert run.kept == [(path, 8)]
    assert [str(left) for left in tmp_path.iterdir()] == [path]


def test_bytes_that_came_as_messages_need_no_file_to_be_kept(client, run):
    client.session.buffers.store(1, bytes(8))
    client.call(from_buffer(copied(0, 2)))
    assert run.kept == []


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (from_buffer(cut(0, 2), dims=(4, 6)), Code.UNIMPLEMENTED),
        (from_buffer(shardings.single(0), kind=pb.DTypeProto.KIND_TOKEN), Code.UNIMPLEMENTED),
        (from_buffer(shardings.single(0), kind=1234), Code.UNIMPLEMENTED),
        (from_buffer(shardings.single(9)), Code.INVALID_ARGUMENT),
        (pb.MakeArrayFromHostBufferRequest(host_buffer_handle=1), Code.UNIMPLEMENTED),
    ],
    ids=["cut-array", "token", "unknown-type", "unknown-device", "unknown-sharding"],
)
def test_bytes_that_cannot_become_an_array_are_refused_and_leave_nothing(
    client, run, uploaded, tmp_path, request_, code
):
    uploaded()
    client.refused(code, request_)
    assert run.heard() == []
    client.session.close()
    assert list(tmp_path.iterdir()) == []


def test_each_shard_goes_to_its_own_devices(client, run):
    client.session.buffers.store(1, b"upper")
    client.session.buffers.store(2, b"lower")
    response = client.call(from_shards(cut(3, 0), [[0], [1]], [1, 2]))
    assert list(response.array_handles) == [NEW]
    assert run.payloads == [b"upper", b"lower"]
    number = client.number(NEW)
    assert run.heard() == [
        (Command.PUT, (3,), number, "float32", [2, 6], None, [3], None, None, None),
        (Command.PUT, (0,), number, "float32", [2, 6], None, [0], None, None, None),
    ]


def test_a_shard_that_several_devices_hold_is_sent_once(client, run):
    client.session.buffers.store(1, b"same")
    client.call(from_shards(copied(0, 1, 2), [[0, 1, 2]], [1]))
    assert [told[:2] for told in run.heard()] == [(Command.PUT, (0, 1, 2))]


@pytest.mark.parametrize(
    ("indices", "buffers", "handles"),
    [
        ([[0], [2]], [1, 2], [NEW]),
        ([[0], [-1]], [1, 2], [NEW]),
        ([[0]], [1, 2], [NEW]),
        ([[0], [1]], [1], [NEW]),
        ([[0], [1]], [1, 2], [NEW, NEW + 1]),
    ],
    ids=["index-too-high", "index-negative", "buffer-without-place", "place-without-buffer", "handle-without-array"],
)
def test_shards_that_do_not_fit_are_refused_and_their_handles_hold_the_error(client, indices, buffers, handles):
    for buffer in (1, 2):
        client.session.buffers.store(buffer, bytes(48))
    message = client.refused(Code.INVALID_ARGUMENT, from_shards(cut(0, 2), indices, buffers, handles=handles))
    for handle in handles:
        with pytest.raises(StatusError) as raised:
            client.session.arrays.usable(handle)
        assert raised.value.message == message


def test_an_array_that_was_made_as_an_error_gives_it_to_whoever_uses_it(client, run):
    spec = pb.ArraySpecProto(dtype=f32(), shape=shape(4, 6), sharding=cut(0, 2).proto)
    error = pb.StatusProto(code=pb.StatusProto.DATA_LOSS, message="the user's own")
    request = pb.MakeErrorArraysRequest(error=error, array_specs=[spec, spec], array_handles=[7, 8])
    assert list(client.call(request).array_handles) == [7, 8]
    assert run.heard() == []
    assert client.refused(Code.DATA_LOSS, pb.CheckValueReadyRequest(value_handles=[7])) == "the user's own"
    copy = pb.CopyArraysRequest(array_handles=[8], result_handles=[9])
    assert client.refused(Code.DATA_LOSS, copy) == "the user's own"
    assert not client.deleted(7)
    client.call(pb.DestructArrayRequest(array_handle=[7, 8, 9]))


# The end of arrays


def test_a_deleted_array_is_freed_and_known_to_be_deleted(client, run):
    first, second, third = client.make(5, 0), client.make(6, cut(1, 2)), client.make(7, 0)
    assert not client.deleted(5)
    assert client.call(pb.DeleteArrayRequest(array_handle=[5, 6, 7])).deletion_future_handle
    assert run.heard() == [(Command.FREE, (0,), [first, third]), (Command.FREE, (1, 2), [second])]
    assert client.deleted(5)
    assert client.deleted(6)
    assert "deleted" in client.refused(Code.INVALID_ARGUMENT, pb.CheckValueReadyRequest(value_handles=[5]))


def test_an_array_whose_handle_is_destructed_is_freed_and_unknown(client, run):
    number = client.make(5, cut(0, 2))
    client.call(pb.DestructArrayRequest(array_handle=[5, MISSING]))
    assert run.heard() == [(Command.FREE, (0, 2), [number])]
    client.refused(Code.NOT_FOUND, pb.IsArrayDeletedRequest(array_handle=5))


def test_an_unknown_array_can_be_neither_deleted_nor_looked_at(client, run):
    client.refused(Code.NOT_FOUND, pb.DeleteArrayRequest(array_handle=[MISSING]))
    client.refused(Code.NOT_FOUND, pb.IsArrayDeletedRequest(array_handle=MISSING))
    assert run.heard() == []


def test_deleting_goes_on_past_a_handle_that_names_no_array(client, run):
    """The client deletes in batches and looks at no answer: one bad handle must not keep the others alive."""
    client.refused(Code.NOT_FOUND, pb.CopyArraysRequest(array_handles=[MISSING], result_handles=[6]))
    number = client.make(5, 0)
    client.send(pb.DeleteArrayRequest(array_handle=[6, 5]))
    assert client.deleted(5)
    assert run.heard() == [(Command.FREE, (0,), [number])]


def test_deleting_twice_is_no_error(client):
    client.make(5, 0)
    for _ in range(2):
        client.call(pb.DeleteArrayRequest(array_handle=[5]))
    assert client.deleted(5)


# What the client waits for


def test_a_read_asks_the_first_device_and_leaves_the_bytes_for_the_client(client, run):
    number = client.make(5, copied(2, 3))
    read = pb.CopyToHostBufferRequest(array_handle=5, host_buffer_handle=9)
    op_id = client.send(read)
    (request,) = run.waiting
    assert run.heard() == [(Command.READ, (2,), request, number, 2, None, None)]
    assert op_id not in client.responses
    run.answer(request, payload=b"values")
    client.outcome(op_id)
    assert client.session.buffers.get(9).read() == b"values"


def test_a_read_may_ask_for_strides(client, run):
    client.make(5, 1)
    strides = pb.ByteStrides(strides=[4, -16])
    client.send(pb.CopyToHostBufferRequest(array_handle=5, host_buffer_handle=9, byte_strides=strides))
    ((*_, sent, _),) = run.heard()
    assert sent == [4, -16]


def test_a_read_that_fails_answers_with_the_error_and_leaves_no_bytes(client, run):
    client.make(5, 0)
    run.reply = lambda message: (StatusError(Code.INTERNAL, "the program failed"), None, b"")
    assert "failed" in client.refused(Code.INTERNAL, pb.CopyToHostBufferRequest(array_handle=5, host_buffer_handle=9))
    assert 9 not in client.session.buffers


def test_a_value_is_ready_when_every_host_of_every_array_has_said_so(client, run):
    first, second = client.make(5, cut(0, 2)), client.make(6, 1)
    op_id = client.send(pb.CheckValueReadyRequest(value_handles=[5, 6]))
    (one, two) = run.waiting
    assert run.heard() == [(Command.WAIT, (0, 2), one, [first]), (Command.WAIT, (1,), two, [second])]
    run.answer(two)
    assert op_id not in client.responses
    run.answer(one)
    client.outcome(op_id)


def test_a_wait_is_answered_once_with_the_first_error(client, run):
    client.make(5, 0)
    client.make(6, 2)
    op_id = client.send(pb.CheckValueReadyRequest(value_handles=[5, 6]))
    one, two = run.waiting
    run.answer(two, StatusError(Code.ABORTED, "the first"))
    run.answer(one, StatusError(Code.INTERNAL, "the second"))
    with pytest.raises(StatusError, match="the first"):
        client.outcome(op_id)


def test_waiting_for_nothing_is_answered_at_once(client):
    client.call(pb.CheckValueReadyRequest())


@pytest.mark.parametrize("code", [Code.NOT_FOUND, Code.INVALID_ARGUMENT])
@pytest.mark.parametrize(
    "request_",
    [
        pb.CheckValueReadyRequest(value_handles=[5]),
        pb.CopyToHostBufferRequest(array_handle=5, host_buffer_handle=9),
    ],
    ids=["wait", "read"],
)
def test_what_is_not_there_cannot_be_waited_for(client, run, request_, code):
    if code is Code.INVALID_ARGUMENT:
        client.make(5, 0)
        client.call(pb.DeleteArrayRequest(array_handle=[5]))
        run.heard()
    client.refused(code, request_)
    assert run.heard() == []


def test_futures_of_what_was_done_at_once_are_ready(client):
    handle = client.call(pb.DeleteArrayRequest(array_handle=[])).deletion_future_handle
    assert client.call(pb.CheckFutureRequest(future_handle=handle)) == pb.CheckFutureResponse()


def test_when_the_world_is_lost_whatever_the_client_waits_for_says_so(client, run):
    client.make(5, cut(0, 2))
    run.failure = StatusError(Code.UNAVAILABLE, "host h1 was lost: its connection closed")
    wait = pb.CheckValueReadyRequest(value_handles=[5])
    read = pb.CopyToHostBufferRequest(array_handle=5, host_buffer_handle=9)
    assert "h1" in client.refused(Code.UNAVAILABLE, wait)
    assert "h1" in client.refused(Code.UNAVAILABLE, read)


# The end of the session


def test_a_session_that_ends_gives_back_all_it_had(client, run, uploaded, tmp_path):
    first, second = client.make(5, cut(0, 2)), client.make(6, 1)
    uploaded()
    client.session.close()
    assert run.heard() == [(Command.FREE, (0, 2), [first]), (Command.FREE, (1,), [second])]
    assert list(tmp_path.iterdir()) == []


def test_a_session_ends_whole_whatever_its_requests_asked_for(client, run, uploaded, tmp_path):
    number = client.make(5, 0)
    client.session.buffers.store(1, bytes(8))
    client.refused(Code.INVALID_ARGUMENT, from_buffer(shardings.single(9), array_handle=NEW))
    uploaded(2)
    client.session.close()
    assert (Command.FREE, (0,), [number]) in run.heard()
    assert list(tmp_path.iterdir()) == []
