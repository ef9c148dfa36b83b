"""The engine's commands on CPU devices of this process, over a channel that the tests play."""

import queue
import threading

import numpy as np
import pytest

from elastic.commands import Command
from elastic.executor.callbacks import Callbacks
from elastic.executor.engine import Engine
from elastic.executor.peers import Mailbox
from elastic.status import Code, StatusError
from tests.elastic.connections import PATIENCE
from tests.elastic.executor.one_process import member_of_one, options, portable

DOUBLE = """
module @double { func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {
  %r = stablehlo.add %a, %a : tensor<3xf32> return %r : tensor<3xf32> } }"""

# Of so many operations in each turn that XLA does not run it in the thread that starts it.
LONG = """
module @long { func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %many = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<3xf32>) -> tensor<1000x3xf32>
  %r:2 = stablehlo.while(%x = %many, %i = %zero) : tensor<1000x3xf32>, tensor<i32>
    cond {
      %most = stablehlo.constant dense<10000> : tensor<i32>
      %more = stablehlo.compare LT, %i, %most : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %y = stablehlo.sine %x : tensor<1000x3xf32>
      %z = stablehlo.add %y, %x : tensor<1000x3xf32>
      stablehlo.return %z, %next : tensor<1000x3xf32>, tensor<i32>
    }
  %row = stablehlo.slice %r#0 [0:1, 0:3] : (tensor<1000x3xf32>) -> tensor<1x3xf32>
  %out = stablehlo.reshape %row : (tensor<1x3xf32>) -> tensor<3xf32>
  return %out : tensor<3xf32> } }"""


class Channel:
    """The controller's end: `tell` sends a command, `ask` one that is answered."""

    def __init__(self):
        self._commands = queue.SimpleQueue()
        self._answers = {}
        self._answered = threading.Condition()
        self._request = 0
        self._failure = None

    def receive(self):
        found = self._commands.get()
        if found is None:
            raise EOFError
        return found

    def send(self, message, payload=b""):
        request, code, result = message
        with self._answered:
            assert request not in self._answers, "a request is answered once"
            self._answers[request] = (code, result, bytes(payload))
            self._answered.notify_all()

    def fail(self, error):
        """The engine has ended: nothing will be answered any more."""
        with self._answered:
            self._failure = f"the engine ended: {error!r}"
            self._answered.notify_all()

    def end(self):
        self._commands.put(None)

    def tell(self, command, *arguments, payload=b""):
        self._commands.put(([command, *arguments], memoryview(payload)))

    def start(self, command, *arguments, payload=b""):
        self._request += 1
        self.tell(command, self._request, *arguments, payload=payload)
        return self._request

    def result(self, request):
        """The (result, payload) of a request. Raises `StatusError`."""
        with self._answered:
            self._answered.wait_for(lambda: request in self._answers or self._failure, PATIENCE)
        assert request in self._answers, f"no answer came; {self._failure}"
        code, result, payload = self._answers[request]
        if code:
            raise StatusError(code, result)
        return result, payload

    def answered(self, request):
        with self._answered:
            return request in self._answers

    def ask(self, command, *arguments, payload=b""):
        return self.result(self.start(command, *arguments, payload=payload))

    def put(self, array, values, *devices):
        """Puts values of float32 on devices."""
        values = np.asarray(values, np.float32)
        rest = list(values.shape), None, list(devices), None, None, None
        self.tell(Command.PUT, array, "float32", *rest, payload=values.tobytes())

    def read(self, array, device):
        return np.frombuffer(self.ask(Command.READ, array, device, None, None)[1], np.float32).tolist()

    def error(self, command, *arguments):
        """The status of a request that must fail."""
        with pytest.raises(StatusError) as raised:
            self.ask(command, *arguments)
        return raised.value


class Outbox:
    """Notes what would be sent to peers."""

    def __init__(self):
        self.sent = queue.SimpleQueue()

    def send(self, address, name, shard, memory_kind):
        self.sent.put((address, name, shard, memory_kind))


class Host:
    """An engine at work."""

    def __init__(self, member, memory):
        self.channel = Channel()
        self.mailbox = Mailbox()
        self.outbox = Outbox()
        self.failure = None
        engine = Engine(member, self.channel, self.mailbox, self.outbox, Callbacks(), memory)
        self.place = engine.place
        self.store = engine._store

        def run():
            try:
                engine.run()
            except EOFError:
                pass
            except BaseException as error:
                self.failure = error
                self.channel.fail(error)

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def end(self):
        self.channel.end()
        self._thread.join(PATIENCE)
        assert self.failure is None, f"the engine ended: {self.failure!r}"


@pytest.fixture(scope="session")
def half():
    """A member of a world of two hosts that owns the virtual devices 0 and 1 of four."""
    return member_of_one(devices=4, local=(0, 1))


@pytest.fixture
def host(half, tmp_path):
    memory = tmp_path / "memory"
    memory.mkdir()
    made = Host(half, memory)
    yield made
    made.end()


@pytest.fixture
def channel(host):
    return host.channel


def test_a_ping_is_answered(channel):
    assert channel.ask(Command.PING) == (None, b"")


def test_bytes_become_a_shard_on_each_device_of_this_host(channel):
    channel.put(7, [1, 2, 3], 0, 1, 2)
    assert channel.read(7, 0) == channel.read(7, 1) == [1, 2, 3]
    assert channel.error(Command.READ, 7, 2, None, None).code is not Code.OK


def test_bytes_may_come_with_strides_and_be_read_with_others(channel):
    data = np.arange(6, dtype=np.int16)
    channel.tell(Command.PUT, 7, "int16", [2, 3], [2, 4], [0], None, None, None, payload=data.tobytes())
    _, dense = channel.ask(Command.READ, 7, 0, None, None)
    assert np.frombuffer(dense, np.int16).tolist() == [0, 2, 4, 1, 3, 5]
    _, turned = channel.ask(Command.READ, 7, 0, [2, 4], None)
    assert np.frombuffer(turned, np.int16).tolist() == [0, 1, 2, 3, 4, 5]


def test_bytes_may_come_from_a_file(channel, tmp_path):
    path = tmp_path / "upload"
    path.write_bytes(np.arange(3, dtype=np.float32).tobytes())
    channel.tell(Command.PUT, 7, "float32", [3], None, [0], None, None, str(path))
    channel.ask(Command.PING)
    path.unlink()
    assert channel.read(7, 0) == [0, 1, 2]


def test_an_empty_file_is_an_array_without_elements(channel, tmp_path):
    path = tmp_path / "upload"
    path.touch()
    channel.tell(Command.PUT, 7, "float32", [0, 2], None, [0], None, None, str(path))
    assert channel.read(7, 0) == []


@pytest.mark.parametrize(
    ("dtype", "shape", "strides", "path"),
    [
        ("float32", [4], None, None),
        ("nonsense", [3], None, None),
        ("float32", [3], [100], None),
        ("float32", [3], None, "/nowhere/at/all"),
    ],
    ids=["too-few-bytes", "unknown-type", "strides-outside", "no-file"],
)
def test_bytes_that_are_no_array_are_an_error_where_the_array_is_used(channel, dtype, shape, strides, path):
    channel.tell(Command.PUT, 7, dtype, shape, strides, [0], None, None, path, payload=bytes(12))
    error = channel.error(Command.WAIT, [7])
    assert channel.error(Command.READ, 7, 0, None, None).message == error.message


def test_an_alias_is_made_of_shards_of_others(channel):
    channel.put(7, [1, 2, 3], 0)
    channel.put(8, [4, 5, 6], 1)
    channel.tell(Command.ALIAS, 9, [[7, 0], [8, 1], [6, 3]])
    assert (channel.read(9, 0), channel.read(9, 1)) == ([1, 2, 3], [4, 5, 6])
    channel.tell(Command.FREE, [7, 8])
    assert (channel.read(9, 0), channel.read(9, 1)) == ([1, 2, 3], [4, 5, 6])


@pytest.mark.parametrize("source", [99, 7], ids=["unknown-array", "no-shard-there"])
def test_an_alias_of_what_is_not_here_is_an_error_and_not_the_end(channel, source):
    channel.put(7, [1, 2, 3], 0)
    channel.tell(Command.ALIAS, 9, [[source, 1]])
    assert channel.error(Command.WAIT, [9]).code is not Code.OK
    assert channel.read(7, 0) == [1, 2, 3]


def test_a_copy_within_the_host_is_an_array_of_its_own(channel):
    channel.put(7, [1, 2, 3], 0)
    channel.tell(Command.COPY, 8, 7, [[0, 1]], None, None)
    channel.tell(Command.FREE, [7])
    assert channel.read(8, 1) == [1, 2, 3]


def test_a_copy_to_another_host_is_sent_to_the_owner_of_the_device(host, channel):
    channel.put(7, [1, 2, 3], 1)
    channel.tell(Command.COPY, 8, 7, [[1, 3]], None, "pinned_host")
    channel.tell(Command.FREE, [7])
    address, name, shard, memory_kind = host.outbox.sent.get(timeout=PATIENCE)
    assert (address, name, memory_kind) == ("there:2", (8, 3), "pinned_host")
    assert np.asarray(shard()).tolist() == [1, 2, 3]


def test_a_copy_from_another_host_is_there_when_it_has_come(host, channel):
    channel.tell(Command.COPY, 8, 7, [[2, 0]], None, None)
    reading = channel.start(Command.READ, 8, 0, None, None)
    waiting = channel.start(Command.WAIT, [8])
    channel.ask(Command.PING)
    host.mailbox.deliver((8, 0), host.place(np.float32([1, 2, 3]), 0, None))
    assert np.frombuffer(channel.result(reading)[1], np.float32).tolist() == [1, 2, 3]
    channel.result(waiting)


@pytest.mark.parametrize("outcome", ["a shard", "an error"])
def test_a_host_has_caught_up_when_all_that_it_was_told_has_come_out_well_or_not(host, channel, outcome):
    channel.put(6, [1], 0)
    channel.tell(Command.FAIL, [7], int(Code.ABORTED), "an error that was there before")
    channel.tell(Command.COPY, 8, 6, [[2, 0]], None, None)
    catching_up = channel.start(Command.CATCH_UP)
    assert channel.read(6, 0) == [1]
    assert not channel.answered(catching_up)
    shard = host.place(np.float32([1]), 0, None)
    host.mailbox.deliver((8, 0), shard if outcome == "a shard" else StatusError(Code.DATA_LOSS, "the cause"))
    assert channel.result(catching_up) == (None, b"")


def test_a_copy_that_the_other_host_cannot_send_is_its_error(host, channel):
    channel.tell(Command.COPY, 8, 7, [[2, 0]], None, None)
    reading = channel.start(Command.READ, 8, 0, None, None)
    host.mailbox.deliver((8, 0), StatusError(Code.DATA_LOSS, "the cause"))
    with pytest.raises(StatusError, match="the cause") as raised:
        channel.result(reading)
    assert raised.value.code is Code.DATA_LOSS


@pytest.mark.parametrize("there", [1, 3], ids=["here", "elsewhere"])
def test_a_copy_of_what_is_not_here_is_an_error_and_not_the_end(host, channel, there):
    channel.tell(Command.COPY, 8, 7, [[0, there]], None, None)
    if there == 1:
        assert channel.error(Command.READ, 8, 1, None, None).code is Code.NOT_FOUND
    else:
        _, _, shard, _ = host.outbox.sent.get(timeout=PATIENCE)
        with pytest.raises(StatusError):
            shard()
    channel.ask(Command.PING)


def test_a_freed_array_is_not_found(channel):
    channel.put(7, [1], 0)
    channel.tell(Command.FREE, [7, 99])
    assert channel.error(Command.READ, 7, 0, None, None).code is Code.NOT_FOUND
    assert channel.error(Command.WAIT, [7]).code is Code.NOT_FOUND


def test_programs_are_compiled_loaded_run_and_told_about(channel):
    (about, blob) = channel.ask(Command.COMPILE, 1, options(), [0], 1, [], True, payload=portable(DOUBLE))
    assert about["name"] == "double"
    assert channel.ask(Command.LOAD, 2, options(), [1], 1, [], payload=blob) == (None, b"")
    channel.put(7, [1, 2, 3], 0, 1)
    channel.tell(Command.EXECUTE, 1, [7], [8], [], 0)
    channel.tell(Command.EXECUTE, 2, [7], [9], [], 10)
    channel.ask(Command.WAIT, [8, 9, 10])
    assert channel.read(8, 0) == channel.read(9, 1) == [2, 4, 6]
    assert channel.ask(Command.TEXT, 1)[0].startswith("HloModule double")
    assert channel.ask(Command.COST, 2)[0]["flops"] == 3
    channel.tell(Command.UNLOAD, 0, 1)
    assert channel.error(Command.TEXT, 1).code is not Code.OK


def test_a_program_may_be_run_before_it_is_loaded(channel):
    (_, blob) = channel.ask(Command.COMPILE, 1, options(), [0], 1, [], True, payload=portable(DOUBLE))
    channel.put(7, [1, 2, 3], 0)
    channel.start(Command.LOAD, 2, options(), [0], 1, [], payload=blob)
    channel.tell(Command.EXECUTE, 2, [7], [8], [], 0)
    assert channel.read(8, 0) == [2, 4, 6]
    channel.start(Command.LOAD, 3, options(), [0], 1, [], payload=blob)
    channel.tell(Command.UNLOAD, 0, 3)
    assert channel.error(Command.TEXT, 3).code is not Code.OK


@pytest.mark.parametrize("command", [Command.COMPILE, Command.LOAD])
def test_a_program_that_is_none_is_an_error_and_not_the_end(channel, command):
    arguments = [1, options(), [0], 1, [], True][: 6 if command is Command.COMPILE else 5]
    request = channel.start(command, *arguments, payload=b"garbage")
    with pytest.raises(StatusError):
        channel.result(request)
    channel.ask(Command.PING)


def test_devices_have_finished_when_the_last_program_that_was_started_on_just_them_has_ended(host, channel):
    for program, text, device in ((1, LONG, 0), (2, DOUBLE, 1)):
        channel.ask(Command.COMPILE, program, options(), [device], 1, [], False, payload=portable(text))
    channel.put(10, [1, 2, 3], 0, 1)
    for array in range(10, 13):
        channel.tell(Command.EXECUTE, 1, [array], [array + 1], [], 0)
    finished = channel.start(Command.FINISHED, [0])
    channel.tell(Command.EXECUTE, 2, [10], [20], [], 0)
    channel.ask(Command.FINISHED, [1])
    assert not channel.answered(finished)
    assert channel.result(finished) == (None, b"")
    assert host.store.get(13).bound.is_ready()
    channel.ask(Command.FINISHED, [0, 1])


def test_a_program_that_failed_has_ended(channel):
    channel.ask(Command.COMPILE, 1, options(), [0], 1, [], False, payload=portable(DOUBLE))
    channel.tell(Command.EXECUTE, 1, [99], [8], [], 0)
    channel.ask(Command.FINISHED, [0])


def test_an_error_goes_through_a_chain_of_programs_to_whoever_waits(channel):
    channel.ask(Command.COMPILE, 1, options(), [0], 1, [], False, payload=portable(DOUBLE))
    for array in range(10, 15):
        channel.tell(Command.EXECUTE, 1, [array], [array + 1], [], 0)
    assert "array 10" in channel.error(Command.READ, 15, 0, None, None).message


def test_a_read_may_leave_its_bytes_in_a_file(channel, tmp_path):
    channel.put(7, [1, 2, 3], 0)
    path = tmp_path / "read"
    assert channel.ask(Command.READ, 7, 0, None, str(path))[1] == b""
    assert np.frombuffer(path.read_bytes(), np.float32).tolist() == [1, 2, 3]
    assert path.stat().st_mode & 0o777 == 0o600
    assert channel.error(Command.READ, 7, 0, None, str(tmp_path / "nowhere" / "read")).code is not Code.OK


def test_a_read_replaces_the_file_that_a_killed_executor_has_left(channel, tmp_path):
    """Who dies before it could answer is asked again in the next world."""
    channel.put(7, [1, 2, 3], 0)
    path = tmp_path / "read"
    path.write_bytes(b"half of wh")
    assert channel.ask(Command.READ, 7, 0, None, str(path))[1] == b""
    assert np.frombuffer(path.read_bytes(), np.float32).tolist() == [1, 2, 3]
