"""What requests about programs have the hosts do, and what they refuse."""

import pytest

from elastic.commands import Command
from elastic.controller.programs import Program, Result, Source
from elastic.controller.session import SERVER_HANDLES
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError
from tests.elastic.controller.recording import ABOUT, F32, copied, cut, f32

MISSING = 999
PROGRAM = 1


def add_program(client, devices=(0, 2), parameters=1, donated=(), results=1, number=7):
    """A program that is loaded under the handle `PROGRAM`."""
    about = {**ABOUT, "parameters": parameters}
    source = Source(b"portable", b"options", devices, 1)
    made = tuple(Result(F32, (4, 6), cut(*devices)) for _ in range(results))
    client.session.programs[PROGRAM] = Program(number, source, about, made, frozenset(donated))


def execute(*arguments, results=(), kept=(), **fields):
    options = pb.ExecuteOptionsProto(
        non_donatable_input_indices=kept, fill_status=bool(fields.get("result_status_handle"))
    )
    return pb.LoadedExecutableExecuteRequest(
        loaded_executable_handle=PROGRAM,
        args_handles=arguments,
        execute_options=options,
        result_array_handle=results,
        **fields,
    )


# Running


def test_a_program_runs_on_its_devices_and_its_results_have_the_names_the_client_chose(client, run):
    add_program(client, parameters=2, results=2)
    first, second = client.make(5, cut(0, 2)), client.make(6, copied(0, 2))
    response = client.call(execute(5, 6, results=[50, 51]))
    assert not response.outputs
    results = [client.number(50), client.number(51)]
    assert run.heard() == [(Command.EXECUTE, (0, 2), 7, [first, second], results, [], 0)]
    assert len({first, second, *results}) == 4
    assert client.session.arrays.get(50).sharding is cut(0, 2)


def test_results_that_the_client_does_not_know_yet_are_described(client):
    add_program(client)
    client.make(5, cut(0, 2))
    (output,) = client.call(execute(5)).outputs
    assert output.array_handle >= SERVER_HANDLES
    assert (output.dtype.kind, list(output.shape.dims)) == (F32, [4, 6])
    assert output.sharding == cut(0, 2).proto
    assert client.session.arrays.usable(output.array_handle).shape == (4, 6)


def test_donated_arguments_are_gone_and_others_are_not(client):
    add_program(client, parameters=3, donated=(0, 2))
    for handle in (5, 6, 7):
        client.make(handle, cut(0, 2))
    client.call(execute(5, 6, 7, results=[50]))
    assert [client.deleted(handle) for handle in (5, 6, 7, 50)] == [True, False, True, False]
    assert "deleted" in client.refused(Code.INVALID_ARGUMENT, execute(6, 5, 6, results=[51]))


def test_an_argument_that_must_not_be_donated_stays_and_the_hosts_are_told(client, run):
    add_program(client, parameters=2, donated=(0, 1))
    client.make(5, cut(0, 2))
    client.make(6, cut(0, 2))
    client.call(execute(5, 6, results=[50], kept=[1]))
    ((*_, kept, status),) = run.heard()
    assert (kept, status) == ([1], 0)
    assert [client.deleted(handle) for handle in (5, 6)] == [True, False]


def test_an_array_that_is_donated_cannot_be_another_argument_too(client, run):
    add_program(client, parameters=2, donated=(0,))
    client.make(5, cut(0, 2))
    client.refused(Code.INVALID_ARGUMENT, execute(5, 5, results=[50]))
    assert run.heard() == []
    assert not client.deleted(5)


def test_an_argument_must_be_on_the_devices_of_the_program_in_their_order(client, run):
    add_program(client)
    for handle, sharding in ((5, cut(0, 1)), (6, cut(2, 0)), (7, copied(0))):
        client.make(handle, sharding)
        message = client.refused(Code.INVALID_ARGUMENT, execute(handle, results=[50 + handle]))
        assert "argument 0" in message
    assert run.heard() == []


@pytest.mark.parametrize("results", [(50,), (50, 51, 52)])
def test_a_wrong_number_of_names_for_results_is_refused_and_they_hold_the_error(client, run, results):
    add_program(client, results=2)
    client.make(5, cut(0, 2))
    client.refused(Code.INVALID_ARGUMENT, execute(5, results=results))
    assert run.heard() == []
    for handle in results:
        with pytest.raises(StatusError):
            client.session.arrays.usable(handle)


def test_an_unknown_program_or_argument_is_refused(client, run):
    client.refused(Code.NOT_FOUND, execute(results=[50]))
    add_program(client)
    client.refused(Code.NOT_FOUND, execute(MISSING, results=[51]))
    client.refused(Code.NOT_FOUND, execute(50, results=[52]))
    assert run.heard() == []


def test_too_few_arguments_are_an_error_of_the_request_and_not_of_the_server(client):
    add_program(client, parameters=2, donated=(1,))
    client.make(5, cut(0, 2))
    client.refused(Code.INVALID_ARGUMENT, execute(5, results=[50]))
    with pytest.raises(StatusError):
        client.session.arrays.usable(50)


# How an execution ended


@pytest.fixture(params=["fetch", "future"])
def ask_status(request):
    """Both ways, of newer and of older clients, to ask how an execution ended."""
    if request.param == "fetch":
        return lambda handle: pb.LoadedExecutableFetchExecuteResultRequest(result_status_handle=handle)
    return lambda handle: pb.CheckFutureRequest(future_handle=handle)


@pytest.mark.parametrize("error", [None, StatusError(Code.INTERNAL, "it broke")], ids=["well", "badly"])
def test_an_execution_ends_when_its_hosts_say_so(client, run, ask_status, error):
    add_program(client)
    client.make(5, cut(0, 2))
    assert client.call(execute(5, results=[50], result_status_handle=60)).status_handle == 60
    ((*_, status),) = run.heard()
    assert status
    op_id = client.send(ask_status(60))
    (request,) = run.waiting
    assert run.heard() == [(Command.WAIT, (0, 2), request, [status]), (Command.FREE, (0, 2), [status])]
    assert op_id not in client.responses
    run.answer(request, error)
    if error is None:
        client.outcome(op_id)
    else:
        with pytest.raises(StatusError, match="it broke"):
            client.outcome(op_id)


def test_the_status_of_an_execution_that_could_not_start_is_its_error(client, ask_status):
    """The client chose the handle and goes on without waiting, as it does with arrays."""
    add_program(client)
    message = client.refused(Code.NOT_FOUND, execute(MISSING, results=[50], result_status_handle=60))
    assert client.refused(Code.NOT_FOUND, ask_status(60)) == message


def test_a_status_that_nobody_asked_for_is_freed_with_the_session(client, run):
    add_program(client)
    client.make(5, cut(0, 2))
    client.call(execute(5, results=[50], result_status_handle=60))
    ((*_, status),) = run.heard()
    client.session.close()
    assert (Command.FREE, (0, 2), [status]) in run.heard()


# Questions and the end


def test_a_program_tells_its_metadata(client):
    add_program(client)
    response = client.call(pb.LoadedExecutableMetadataRequest(loaded_executable_handle=PROGRAM))
    assert not response.HasField("parameter_shardings")
    assert list(response.parameter_layouts_list.layouts[0].minor_to_major) == [1, 0]
    assert list(response.output_memory_kinds.memory_kind_lists[0].memory_kinds) == ["device"]
    assert response.WhichOneof("donated_input_indices_oneof") == "donated_input_indices"
    assert response.compiled_memory_stats.temp_size_in_bytes == 34
    assert response.size_of_generated_code_in_bytes == 12


def test_text_and_cost_are_asked_of_one_host(client, run):
    add_program(client, devices=(2, 0))
    text = client.send(pb.LoadedExecutableHumanReadableProgramTextRequest(loaded_executable_handle=PROGRAM))
    costs = client.send(pb.LoadedExecutableCostAnalysisRequest(loaded_executable_handle=PROGRAM))
    one, two = run.waiting
    assert run.heard() == [(Command.TEXT, (2,), one, 7), (Command.COST, (2,), two, 7)]
    run.answer(one, result="HloModule jit_step")
    run.answer(two, result={"flops": 24.0, "bytes accessed": 7})
    assert client.outcome(text).human_readable_program_text == "HloModule jit_step"
    attributes = client.outcome(costs).attributes.attributes
    assert {name: attributes[name].float_value for name in attributes} == {"flops": 24.0, "bytes accessed": 7.0}


def test_text_and_cost_that_cannot_be_told_are_errors(client, run):
    add_program(client)
    run.reply = lambda message: (StatusError(Code.UNIMPLEMENTED, "not here"), None, b"")
    for kind in (pb.LoadedExecutableHumanReadableProgramTextRequest, pb.LoadedExecutableCostAnalysisRequest):
        assert "not here" in client.refused(Code.UNIMPLEMENTED, kind(loaded_executable_handle=PROGRAM))


@pytest.mark.parametrize("kind", [pb.LoadedExecutableDeleteRequest, pb.LoadedExecutableDestructRequest])
def test_a_program_that_is_given_back_is_unloaded_once_and_unknown(client, run, kind):
    add_program(client)
    is_deleted = pb.LoadedExecutableIsDeletedRequest(loaded_executable_handle=PROGRAM)
    assert not client.call(is_deleted).is_deleted
    for _ in range(2):
        client.call(kind(loaded_executable_handle=PROGRAM))
    assert run.heard() == [(Command.UNLOAD, (0, 2), 0, 7)]
    assert client.call(is_deleted).is_deleted
    client.refused(Code.NOT_FOUND, execute(results=[50]))


@pytest.mark.parametrize(
    "kind",
    [
        pb.LoadedExecutableMetadataRequest,
        pb.LoadedExecutableCostAnalysisRequest,
        pb.LoadedExecutableHumanReadableProgramTextRequest,
    ],
)
def test_an_unknown_program_tells_nothing(client, kind):
    client.refused(Code.NOT_FOUND, kind(loaded_executable_handle=MISSING))


def test_a_session_that_ends_unloads_its_programs(client, run):
    add_program(client)
    client.session.close()
    assert run.heard() == [(Command.UNLOAD, (0, 2), 0, 7)]
    assert run.forgotten  # Nothing that it had needs to be told another world.


@pytest.mark.parametrize(("dims", "layout"), [([], b"{}"), ([5], b"{0}"), ([2, 3, 4], b"{2,1,0}")])
def test_the_default_layout_is_dense_with_the_last_dimension_first(client, dims, layout):
    assert client.call(pb.GetDefaultLayoutRequest(dtype=f32(), dims=dims)).serialized_pjrt_layout == layout


@pytest.mark.parametrize(
    ("replicas", "partitions", "devices"), [(1, 4, [[0], [1], [2], [3]]), (2, 2, [[0, 2], [1, 3]])]
)
def test_the_default_assignment_numbers_devices_replica_by_replica(client, replicas, partitions, devices):
    request = pb.GetDefaultDeviceAssignmentRequest(num_replicas=replicas, num_partitions=partitions)
    assignment = client.call(request).device_assignment
    assert (assignment.replica_count, assignment.computation_count) == (replicas, partitions)
    assert [list(one.replica_device_ids) for one in assignment.computation_devices] == devices


def test_more_devices_than_there_are_cannot_be_assigned(client):
    request = pb.GetDefaultDeviceAssignmentRequest(num_replicas=5, num_partitions=1)
    assert "4 devices" in client.refused(Code.INVALID_ARGUMENT, request)
