"""What requests that make arrays from other arrays have the hosts do, and what they refuse."""

import pytest

from elastic.commands import Command
from elastic.controller import shardings
from elastic.controller.session import SERVER_HANDLES
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError
from tests.elastic.controller.recording import copied, cut, f32

MISSING = 999
NEW = 50


def shape(*dims):
    return pb.ShapeProto(dims=dims)


def delete(client, *handles):
    client.call(pb.DeleteArrayRequest(array_handle=handles))
    client.world.heard()


def assemble(sharding, *pieces, result=NEW):
    return pb.AssembleArrayFromSingleDeviceArraysRequest(
        shape=shape(4, 6), sharding=sharding.proto, single_device_array_handles=pieces, result_handle=result
    )


def disassemble(whole, *results):
    return pb.DisassembleIntoSingleDeviceArraysRequest(array_handle=whole, result_handles=results)


def copy(*arrays, results=(NEW,), **fields):
    return pb.CopyArraysRequest(array_handles=arrays, result_handles=results, **fields)


# Assembling


def test_an_assembled_array_is_made_of_the_shards_of_its_pieces(client, world):
    first, second = client.make(5, 3, (2, 6)), client.make(6, 0, (2, 6))
    assert client.call(assemble(cut(3, 0), 5, 6)).array_handle == NEW
    assert world.heard() == [(Command.ALIAS, (3, 0), client.number(NEW), [[first, 3], [second, 0]])]
    whole = client.session.arrays.get(NEW)
    assert (whole.shape, whole.devices) == ((4, 6), (3, 0))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_as_many_pieces_are_needed_as_there_are_devices(client, world, count):
    for handle, device in ((5, 0), (6, 2), (7, 3)):
        client.make(handle, device, (2, 6))
    client.refused(Code.INVALID_ARGUMENT, assemble(cut(0, 2), *(5, 6, 7)[:count]))
    assert world.heard() == []


@pytest.mark.parametrize("place", [1, cut(0, 2)], ids=["another-device", "two-devices"])
def test_a_piece_must_be_on_its_device_alone(client, world, place):
    client.make(5, place)
    message = client.refused(Code.INVALID_ARGUMENT, assemble(copied(0), 5))
    assert "virtual device 0" in message
    assert world.heard() == []


def test_pieces_that_are_not_there_cannot_be_assembled(client, world):
    client.make(5, 0, (2, 6))
    client.make(6, 2, (2, 6))
    client.refused(Code.NOT_FOUND, assemble(cut(0, 2), 5, MISSING, result=51))
    delete(client, 6)
    assert "deleted" in client.refused(Code.INVALID_ARGUMENT, assemble(cut(0, 2), 5, 6, result=52))
    assert world.heard() == []


# Disassembling


def test_each_piece_is_a_shard_on_its_device(client, world):
    number = client.make(5, cut(3, 0))
    assert list(client.call(disassemble(5, 7, 8)).array_handles) == [7, 8]
    assert world.heard() == [
        (Command.ALIAS, (3,), client.number(7), [[number, 3]]),
        (Command.ALIAS, (0,), client.number(8), [[number, 0]]),
    ]
    pieces = [client.session.arrays.get(handle) for handle in (7, 8)]
    assert [(piece.shape, piece.devices) for piece in pieces] == [((2, 6), (3,)), ((2, 6), (0,))]


def test_the_server_names_pieces_that_the_client_did_not(client):
    client.make(5, copied(0, 1, 2))
    handles = list(client.call(disassemble(5)).array_handles)
    assert len(set(handles)) == 3
    assert min(handles) >= SERVER_HANDLES


@pytest.mark.parametrize("handles", [(7,), (7, 8, 9)])
def test_a_wrong_number_of_names_for_pieces_is_refused_and_they_hold_the_error(client, handles):
    client.make(5, cut(0, 2))
    client.refused(Code.INVALID_ARGUMENT, disassemble(5, *handles))
    for handle in handles:
        with pytest.raises(StatusError):
            client.session.arrays.usable(handle)


def test_an_array_whose_sharding_does_not_tell_its_shards_cannot_be_taken_apart(client):
    client.make(5, cut(0, 2))
    opaque = pb.OpaqueShardingProto(devices=pb.DeviceListProto(device_ids=[0, 2])).SerializeToString()
    proto = pb.ShardingProto(serialized_sharding=pb.Serialized(type_name="xla::ifrt::OpaqueSharding", data=opaque))
    client.session.add_array(6, 11, (4, 6), shardings.parse(proto))
    client.refused(Code.UNIMPLEMENTED, disassemble(6, 7, 8))


def test_a_whole_and_its_pieces_are_deleted_as_their_buffers_are(client):
    client.make(5, cut(0, 2))
    client.call(disassemble(5, 7, 8))
    delete(client, 7)
    assert [client.deleted(handle) for handle in (5, 7, 8)] == [True, True, False]
    client.make(6, cut(0, 2))
    client.call(disassemble(6, 9, 10))
    delete(client, 6)
    assert [client.deleted(handle) for handle in (6, 9, 10)] == [True, True, True]


def test_a_piece_of_an_assembled_array_is_the_piece_it_was_made_of(client):
    """Deleting it deletes that buffer, and leaves the others alone."""
    client.make(5, 0, (2, 6))
    client.make(6, 2, (2, 6))
    client.call(assemble(cut(0, 2), 5, 6))
    client.call(disassemble(NEW, 7, 8))
    delete(client, 7)
    assert [client.deleted(handle) for handle in (NEW, 7, 5)] == [True, True, True]
    assert [client.deleted(handle) for handle in (8, 6)] == [False, False]


def test_deleting_an_assembled_array_deletes_its_pieces_and_the_other_way_round(client):
    client.make(5, 0, (2, 6))
    client.make(6, 2, (2, 6))
    client.call(assemble(cut(0, 2), 5, 6))
    delete(client, 5)
    assert [client.deleted(handle) for handle in (NEW, 6)] == [True, False]
    client.make(7, 0, (2, 6))
    client.call(assemble(cut(0, 2), 7, 6, result=51))
    delete(client, 51)
    assert [client.deleted(handle) for handle in (7, 6)] == [True, True]


def test_a_fully_replicated_shard_is_the_first_shard(client, world):
    number = client.make(5, copied(2, 1))
    assert client.call(pb.FullyReplicatedShardRequest(array_handle=5, result_handle=NEW)).array_handle == NEW
    assert world.heard() == [(Command.ALIAS, (2,), client.number(NEW), [[number, 2]])]
    piece = client.session.arrays.get(NEW)
    assert (piece.shape, piece.devices) == ((4, 6), (2,))
    delete(client, 5)
    assert client.deleted(NEW)


@pytest.mark.parametrize(
    "request_",
    [
        disassemble(5, 7, 8),
        pb.FullyReplicatedShardRequest(array_handle=5, result_handle=7),
        copy(5, results=(7,)),
    ],
    ids=["disassemble", "first-shard", "copy"],
)
def test_a_deleted_array_gives_nothing(client, world, request_):
    client.make(5, cut(0, 2))
    delete(client, 5)
    assert "deleted" in client.refused(Code.INVALID_ARGUMENT, request_)
    assert world.heard() == []


# Cuts

HALVES = [[[0, 2], [0, 6]], [[2, 4], [0, 6]]]


def reshard(array, sharding, *, result=NEW, dims=(4, 6), donate=True):
    spec = pb.ArraySpecProto(dtype=f32(), shape=shape(*dims), sharding=sharding.proto)
    semantics = pb.ARRAY_COPY_SEMANTICS_DONATE_INPUT if donate else pb.ARRAY_COPY_SEMANTICS_ALWAYS_COPY
    return pb.ReshardArraysRequest(
        array_handles=[array], array_specs=[spec], result_handles=[result], copy_semantics=semantics
    )


def upload(client, handle, device, data=b"bytes"):
    client.session.buffers.store(1, data)
    fields = {"dtype": f32(), "shape": shape(4, 6), "sharding": shardings.single(device).proto}
    client.call(pb.MakeArrayFromHostBufferRequest(host_buffer_handle=1, array_handle=handle, **fields))


def test_an_upload_that_is_cut_at_once_goes_to_its_hosts_in_one_message(client, world):
    upload(client, 5, 0)
    assert list(client.call(reshard(5, cut(3, 0))).array_handles) == [NEW]
    assert world.payloads == [b"bytes"]
    arguments = (0, client.number(NEW), "float32", [4, 6], None, [3, 0], HALVES, None, None)
    assert world.heard() == [(Command.PUT, (3, 0), *arguments)]
    assert client.deleted(5)
    client.call(pb.DestructArrayRequest(array_handle=[5]))
    assert world.heard() == []  # No host has ever had it.


def test_an_upload_that_something_else_follows_goes_where_it_was_uploaded_to(client, world):
    upload(client, 5, 0)
    assert world.heard() == []
    client.call(pb.IsArrayDeletedRequest(array_handle=5))
    assert [told[:2] for told in world.heard()] == [(Command.PUT, (0,))]
    client.call(reshard(5, cut(3, 0)))
    number = client.session.arrays.get(NEW).number
    ((command, devices, *arguments),) = world.heard()
    assert (command, set(devices)) == (Command.COPY, {0, 3})
    assert arguments == [number, client.number(5), [[0, 3], [0, 0]], HALVES, None]


def test_an_upload_that_is_to_stay_is_cut_on_its_device(client, world):
    upload(client, 5, 0)
    client.call(reshard(5, cut(3, 0), donate=False))
    assert [told[0] for told in world.heard()] == [Command.PUT, Command.COPY]
    assert not client.deleted(5)


def test_uploads_in_a_row_go_in_their_order(client, world):
    for handle in (5, 6, 7):
        upload(client, handle, 0, bytes([handle]))
    client.call(reshard(6, cut(3, 0)))
    client.call(pb.IsArrayDeletedRequest(array_handle=5))
    assert world.payloads == [b"\6", b"\5", b"\7"]


def test_an_upload_that_nobody_came_for_goes_with_its_session(client, world, tmp_path):
    (tmp_path / "lt_1").write_bytes(b"bytes")
    client.session.buffers.store_file(1, 5)
    fields = {"dtype": f32(), "shape": shape(4, 6), "sharding": shardings.single(0).proto}
    client.call(pb.MakeArrayFromHostBufferRequest(host_buffer_handle=1, array_handle=5, **fields))
    assert len(list(tmp_path.iterdir())) == 1
    client.session.close()
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_parts_cannot_be_cut_again(client, world):
    client.make(5, cut(0, 2))
    client.refused(Code.UNIMPLEMENTED, reshard(5, cut(2, 0)))
    assert not client.deleted(5)


def test_a_cut_keeps_the_shape(client, world):
    client.make(5, 0)
    client.refused(Code.INVALID_ARGUMENT, reshard(5, cut(0, 2), dims=(8, 3)))
    assert world.heard() == []


# Copies


def test_a_copy_goes_from_each_device_to_its_counterpart(client, world):
    number = client.make(5, cut(0, 2))
    assert list(client.call(copy(5, device_ids=[3, 0])).array_handles) == [NEW]
    ((command, devices, *arguments),) = world.heard()
    assert (command, arguments) == (Command.COPY, [client.number(NEW), number, [[0, 3], [2, 0]], None, None])
    assert set(devices) == {0, 2, 3}
    assert client.session.arrays.get(NEW).devices == (3, 0)
    assert client.session.arrays.get(NEW).sharding.shard_shapes((4, 6)) == [(2, 6)] * 2
    assert not client.deleted(5)


def test_a_copy_may_stay_on_its_devices_and_change_its_memory(client, world):
    number = client.make(5, cut(0, 2))
    client.call(copy(5, memory_kind="pinned_host"))
    assert world.heard() == [(Command.COPY, (0, 2), client.number(NEW), number, [[0, 0], [2, 2]], None, "pinned_host")]
    assert client.session.arrays.get(NEW).sharding.memory_kind == "pinned_host"


def test_a_copy_may_take_its_source_with_it(client):
    client.make(5, 0)
    client.make(6, 0)
    client.call(copy(5, device_ids=[1], copy_semantics=pb.ARRAY_COPY_SEMANTICS_DONATE_INPUT))
    client.call(copy(6, results=(51,), device_ids=[1], copy_semantics=pb.ARRAY_COPY_SEMANTICS_ALWAYS_COPY))
    assert [client.deleted(handle) for handle in (5, 6)] == [True, False]
    assert [client.deleted(handle) for handle in (NEW, 51)] == [False, False]


def test_a_copy_outlives_its_source(client):
    client.make(5, 0)
    client.call(copy(5, device_ids=[1]))
    delete(client, 5)
    assert not client.deleted(NEW)


@pytest.mark.parametrize("devices", [[1], [1, 2, 3]])
def test_a_copy_needs_as_many_devices_as_there_are_shards(client, world, devices):
    client.make(5, cut(0, 2))
    client.refused(Code.INVALID_ARGUMENT, copy(5, device_ids=devices))
    assert world.heard() == []


def test_a_copy_to_a_device_that_does_not_exist_is_refused_and_takes_nothing(client, world):
    client.make(5, 0)
    request = copy(5, device_ids=[9], copy_semantics=pb.ARRAY_COPY_SEMANTICS_DONATE_INPUT)
    client.refused(Code.INVALID_ARGUMENT, request)
    assert not client.deleted(5)
    with pytest.raises(StatusError):
        client.session.arrays.usable(NEW)


@pytest.mark.parametrize("results", [(50,), (50, 51, 52)])
def test_a_wrong_number_of_names_for_copies_is_refused_and_they_hold_the_error(client, results):
    client.make(5, 0)
    client.make(6, 0)
    client.refused(Code.INVALID_ARGUMENT, copy(5, 6, results=results, device_ids=[1]))
    for handle in results:
        with pytest.raises(StatusError):
            client.session.arrays.usable(handle)


# Remaps


def remap(sources, outputs, mappings=(), chosen=(), results=(NEW,)):
    """`outputs` are shardings; mappings (in, out, start, end, step, to, to step), chosen (out, [(in, devices)])."""
    plan = pb.RemapPlanProto()
    for sharding in outputs:
        plan.output_specs.add(dtype=f32(), shape=shape(4, 6), sharding=sharding.proto)
    for source, output, start, end, step, to, to_step in mappings:
        plan.mappings.add(
            in_array=source,
            out_array=output,
            from_start=[start],
            from_end=[end],
            from_step=[step],
            to_start=[to],
            to_step=[to_step],
            to_end=[to + to_step * len(range(start, end, step or 1))],
        )
    for output, inputs in chosen:
        entry = plan.input_devices_for_output.add(out_array=output)
        for source, devices in inputs:
            entry.input_devices.add(in_array=source, device_list=pb.DeviceListProto(device_ids=devices))
    return pb.RemapArraysRequest(plan=plan, array_handles=sources, result_handles=results)


def test_a_remap_makes_an_array_of_shards_of_several(client, world):
    first, second = client.make(5, cut(0, 1)), client.make(6, cut(2, 3))
    mappings = [(0, 0, 1, 2, 1, 0, 1), (1, 0, 0, 1, 1, 1, 1)]
    client.call(remap([5, 6], [cut(1, 2)], mappings))
    assert world.heard() == [(Command.ALIAS, (1, 2), client.number(NEW), [[first, 1], [second, 2]])]


def test_a_remap_may_interleave(client, world):
    first, second = client.make(5, cut(0, 2)), client.make(6, cut(1, 3))
    mappings = [(0, 0, 0, 2, 1, 0, 2), (1, 0, 0, 2, 1, 1, 2)]
    client.call(remap([5, 6], [cut(0, 1, 2, 3)], mappings))
    assert world.heard() == [
        (Command.ALIAS, (0, 1, 2, 3), client.number(NEW), [[first, 0], [second, 1], [first, 2], [second, 3]])
    ]


def test_a_remap_may_split_one_array_into_several(client, world):
    number = client.make(5, cut(0, 1, 2, 3))
    mappings = [(0, 0, 0, 2, 1, 0, 1), (0, 1, 2, 4, 1, 0, 1)]
    client.call(remap([5], [cut(0, 1), cut(2, 3)], mappings, results=(50, 51)))
    assert world.heard() == [
        (Command.ALIAS, (0, 1), client.number(50), [[number, 0], [number, 1]]),
        (Command.ALIAS, (2, 3), client.number(51), [[number, 2], [number, 3]]),
    ]


def test_a_remap_may_name_devices_instead_of_shards(client, world):
    first, second = client.make(5, cut(0, 1)), client.make(6, cut(2, 3))
    client.call(remap([5, 6], [cut(0, 3)], chosen=[(0, [(0, [0]), (1, [3])])]))
    assert world.heard() == [(Command.ALIAS, (0, 3), client.number(NEW), [[first, 0], [second, 3]])]


@pytest.mark.parametrize(
    "plan",
    [
        {"mappings": [(0, 0, 0, 1, 1, 0, 1)]},
        {"mappings": [(2, 0, 0, 2, 1, 0, 1)]},
        {"mappings": [(0, 1, 0, 2, 1, 0, 1)]},
        {"mappings": [(0, 0, 0, 3, 1, 0, 1)]},
        {"mappings": [(0, 0, 0, 2, 0, 0, 1)]},
        {"mappings": [(1, 0, 0, 2, 1, 0, 1)]},
        {"chosen": [(0, [(0, [0])])]},
        {"chosen": [(1, [(0, [0, 1])])]},
        {},
    ],
    ids=[
        "a-shard-missing",
        "no-such-input",
        "no-such-output",
        "no-such-shard",
        "no-step",
        "another-device",
        "a-device-missing",
        "no-such-output-by-device",
        "nothing",
    ],
)
def test_a_remap_plan_that_does_not_fit_is_refused(client, world, plan):
    client.make(5, cut(0, 1))
    client.make(6, cut(2, 3))
    client.refused(Code.INVALID_ARGUMENT, remap([5, 6], [cut(0, 1)], **plan))
    assert world.heard() == []
    with pytest.raises(StatusError):
        client.session.arrays.usable(NEW)


def test_a_remap_of_what_is_not_there_is_refused(client, world):
    client.make(5, cut(0, 1))
    mappings = [(0, 0, 0, 2, 1, 0, 1)]
    client.refused(Code.NOT_FOUND, remap([MISSING], [cut(0, 1)], mappings, results=(51,)))
    delete(client, 5)
    client.refused(Code.INVALID_ARGUMENT, remap([5], [cut(0, 1)], mappings, results=(52,)))
    assert world.heard() == []
