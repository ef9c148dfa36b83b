"""What a request to compile has the hosts do, and how it fails."""

import asyncio

import pytest

from elastic.commands import Command
from elastic.controller import history
from elastic.controller.session import SERVER_HANDLES
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError
from tests.elastic.connections import until_done
from tests.elastic.controller.recording import ABOUT


def compile_request(devices=(0, 2), program=b"portable", **fields):
    options = pb.XlaCompileOptionsProto()
    assignment = options.compile_options.executable_build_options.device_assignment
    assignment.replica_count = 1
    assignment.computation_count = len(devices)
    for device in devices:
        assignment.computation_devices.add(replica_device_ids=[device])
    return pb.CompileRequest(
        program=pb.Serialized(type_name="xla::ifrt::XlaProgram", data=program),
        compile_options=pb.Serialized(type_name="xla::ifrt::XlaCompileOptions", data=options.SerializeToString()),
        **fields,
    )


def hosts_that_compile(message):
    if message[0] == Command.COMPILE:
        return None, ABOUT, b"blob"
    return (None, None, b"") if message[0] in (Command.LOAD, Command.TEXT, Command.COST) else None


def sent_and_done(client, *requests):
    """Sends requests and waits for all that they started; returns their op_ids."""

    async def main():
        op_ids = [client.send(request) for request in requests]
        await until_done()
        return op_ids

    return asyncio.run(main())


def test_the_first_host_compiles_and_the_others_load_what_it_made(client, run):
    run.reply = hosts_that_compile
    (op_id,) = sent_and_done(client, compile_request((1, 0, 2)))
    payloads = run.payloads
    compiled, loaded = run.heard()
    number = compiled[3]
    assert (compiled[:2], compiled[5:7], compiled[-1]) == ((Command.COMPILE, (1,)), ([1, 0, 2], 1), True)
    assert loaded[:2] == (Command.LOAD, (2,))
    assert loaded[3:] == compiled[3:-1]  # The same program, options, devices, replicas, callbacks.
    assert payloads == [b"portable", b"blob"]
    response = client.outcome(op_id)
    assert response.loaded_executable_handle >= SERVER_HANDLES
    assert (response.name, response.fingerprint_value) == ("jit_step", b"print")
    assert list(response.device_ids) == list(response.addressable_device_ids) == [1, 0, 2]
    assert client.session.programs[response.loaded_executable_handle].number == number


def test_the_devices_of_a_program_are_listed_replica_by_replica(client, run):
    run.reply = hosts_that_compile
    options = pb.XlaCompileOptionsProto()
    assignment = options.compile_options.executable_build_options.device_assignment
    assignment.replica_count, assignment.computation_count = 2, 2
    assignment.computation_devices.add(replica_device_ids=[0, 2])
    assignment.computation_devices.add(replica_device_ids=[1, 3])
    request = compile_request()
    request.compile_options.data = options.SerializeToString()
    sent_and_done(client, request)
    told = run.heard()[0]
    assert told[5:7] == ([0, 1, 2, 3], 2)


def test_the_same_program_is_compiled_once_whatever_its_devices(client, run):
    run.reply = hosts_that_compile
    op_ids = sent_and_done(client, compile_request((0, 1)), compile_request((0, 1)), compile_request((2, 3)))
    told = run.heard()
    assert [(command, devices) for command, devices, *_ in told] == [
        (Command.COMPILE, (0,)),
        (Command.LOAD, (0,)),
        (Command.LOAD, (2,)),
    ]
    assert len({numbered[3] for numbered in told}) == 3
    assert len({client.outcome(op_id).loaded_executable_handle for op_id in op_ids}) == 3


def test_programs_that_differ_are_compiled_each(client, run):
    run.reply = hosts_that_compile
    sent_and_done(client, compile_request((0,)), compile_request((0, 1)), compile_request((0,), program=b"other"))
    assert [told[0] for told in run.heard() if told[0] == Command.COMPILE] == [Command.COMPILE] * 3


def test_a_program_that_does_not_compile_is_refused_and_may_be_tried_again(client, run):
    run.reply = lambda message: (StatusError(Code.INVALID_ARGUMENT, "no such operation"), None, b"")
    for op_id in sent_and_done(client, compile_request(), compile_request()):
        with pytest.raises(StatusError, match="no such operation"):
            client.outcome(op_id)
    run.reply = hosts_that_compile
    (op_id,) = sent_and_done(client, compile_request())
    client.outcome(op_id)


def test_the_end_of_a_compilation_is_told_also_of_one_that_failed(client, run):
    told = []
    stop = history.listen(told.append, ["compiling", "compiled"])
    run.reply = lambda message: (StatusError(Code.INVALID_ARGUMENT, "no such operation"), None, b"")
    sent_and_done(client, compile_request())
    stop()
    assert [event.kind for event in told] == ["compiling", "compiled"]


def test_a_program_that_a_host_cannot_load_is_refused(client, run):
    run.reply = lambda message: (
        (StatusError(Code.RESOURCE_EXHAUSTED, "full"), None, b"")
        if message[0] == Command.LOAD
        else hosts_that_compile(message)
    )
    (op_id,) = sent_and_done(client, compile_request())
    with pytest.raises(StatusError, match="full"):
        client.outcome(op_id)
    assert not client.session.programs


@pytest.mark.parametrize("devices", [(0, 9), (9,)])
def test_a_program_for_a_device_that_does_not_exist_is_refused(client, run, devices):
    run.reply = hosts_that_compile
    (op_id,) = sent_and_done(client, compile_request(devices))
    with pytest.raises(StatusError) as raised:
        client.outcome(op_id)
    assert raised.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize("error", [IndexError("a bug"), KeyError("results"), RuntimeError("a bug")], ids=repr)
def test_whatever_goes_wrong_while_it_compiles_is_an_answer(client, monkeypatch, error):
    """The client waits for it; without an answer it waits for ever."""

    async def load(*_):
        raise error

    monkeypatch.setattr(client.run.programs, "load", load)
    (op_id,) = sent_and_done(client, compile_request())
    assert op_id in client.responses, "the request was never answered"
    with pytest.raises(StatusError):
        client.outcome(op_id)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (pb.CompileRequest(program=pb.Serialized(type_name="xla::ifrt::MpmdProgram")), Code.UNIMPLEMENTED),
        (compile_request(host_callbacks=[b"callback"]), Code.UNIMPLEMENTED),
        (
            pb.CompileRequest(
                program=pb.Serialized(type_name="xla::ifrt::XlaProgram"),
                compile_options=pb.Serialized(data=b"\xff\xff"),
            ),
            Code.INVALID_ARGUMENT,
        ),
    ],
    ids=["unknown-kind", "host-callbacks", "options-garbage"],
)
def test_a_program_that_is_not_supported_is_refused(client, run, request_, code):
    client.refused(code, request_)
    assert run.heard() == []


def test_a_program_whose_session_ended_while_it_compiled_is_unloaded(client, run):
    run.reply = hosts_that_compile
    release = asyncio.Event()
    plainly = client.run.programs.load

    async def slowly(*arguments):
        await release.wait()
        return await plainly(*arguments)

    async def main():
        client.run.programs.load = slowly
        client.send(compile_request((0,)))
        client.session.close()
        release.set()
        await until_done()

    asyncio.run(main())
    told = run.heard()
    loaded = {one[3] for one in told if one[0] == Command.COMPILE}
    unloaded = {one[3] for one in told if one[0] == Command.UNLOAD}
    assert loaded == unloaded
