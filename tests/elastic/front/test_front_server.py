"""The server with real sockets, against the client of grpcio."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import os
import threading
import tracemalloc

import grpc
import pytest

from elastic.front import GrpcServer, Limits

MIB = 1 << 20
PATIENCE = 60  # seconds until a test gives up; no test waits for time to pass
SERVICE = "/test.Service/"


@contextlib.contextmanager
def channel_to(server: GrpcServer):
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    # Channels of one process share connections to the same address; a test wants its own.
    options.append(("grpc.use_local_subchannel_pool", 1))
    with grpc.insecure_channel(server.target, options=options) as channel:
        yield channel


@pytest.fixture
def client(serving, address):
    """Runs a blocking client in a thread, against a server in this one; returns its result and the application."""

    def client(talk, limits: Limits | None = None):
        async def main():
            async with serving(address, limits) as (server, app):

                def run():
                    with channel_to(server) as channel:
                        return talk(channel)

                return await asyncio.to_thread(run), app

        return asyncio.run(main())

    return client


def test_unary(client):
    def talk(channel):
        call = channel.unary_unary(SERVICE + "Unary")
        return [call(b"x" * size, timeout=PATIENCE) for size in (0, 1, 100, 70_000)]

    answers, app = client(talk)
    assert answers == [b"got " + b"x" * size for size in (0, 1, 100, 70_000)]
    assert app.cancelled == []
    assert all(call.closed for call in app.calls)


def test_client_stream(client):
    def talk(channel):
        return channel.stream_unary(SERVICE + "Upload")((bytes(n) for n in (1, 0, 500_000, 7)), timeout=PATIENCE)

    assert client(talk)[0] == b"4 500008"


def test_server_stream(client, make_app):
    def talk(channel):
        return list(channel.unary_stream(SERVICE + "Download")(b"3", timeout=PATIENCE))

    assert client(talk)[0] == [make_app.PIECE] * 3


def test_bidirectional_stream(client):
    """Each message is sent when the answer to the one before has come."""

    def talk(channel):
        turn = threading.Semaphore(1)
        sent = [b"%d" % k * 50 for k in range(300)]

        def requests():
            for data in sent:
                turn.acquire()
                yield data

        answers = []
        for answer in channel.stream_stream(SERVICE + "Echo")(requests(), timeout=PATIENCE):
            answers.append(answer)
            turn.release()
        return answers == sent

    assert client(talk)[0]


def test_64_mib_up(client):
    def talk(channel):
        return channel.stream_unary(SERVICE + "Upload")((bytes(MIB) for _ in range(64)), timeout=PATIENCE)

    assert client(talk)[0] == b"64 %d" % (64 * MIB)


def test_64_mib_down(client, make_app):
    def talk(channel):
        return sum(
            data == make_app.PIECE for data in channel.unary_stream(SERVICE + "Download")(b"64", timeout=PATIENCE)
        )

    assert client(talk)[0] == 64


def test_64_mib_there_and_back_with_small_windows(client):
    def talk(channel):
        sent = [os.urandom(MIB) for _ in range(64)]
        return list(channel.stream_stream(SERVICE + "Echo")(iter(sent), timeout=PATIENCE)) == sent

    small = Limits(stream_window=65_535, connection_window=65_535, max_frame_size=16_384)
    assert client(talk, small)[0]


def test_one_message_of_64_mib(client):
    def talk(channel):
        data = os.urandom(64 * MIB)
        return channel.unary_unary(SERVICE + "Unary")(data, timeout=PATIENCE) == b"got " + data

    assert client(talk)[0]


def test_many_calls_at_the_same_time(client):
    """More than the server allows at once: the client waits for its turn, nothing is lost."""

    def talk(channel):
        unary, upload = channel.unary_unary(SERVICE + "Unary"), channel.stream_unary(SERVICE + "Upload")
        calls = [unary.future(b"%d" % k, timeout=PATIENCE) for k in range(400)]
        uploads = [upload.future(iter([bytes(100_000)] * 3), timeout=PATIENCE) for k in range(20)]
        return [x.result() for x in calls], [x.result() for x in uploads]

    (answers, uploads), _ = client(talk, Limits(max_concurrent_streams=50))
    assert answers == [b"got %d" % k for k in range(400)]
    assert uploads == [b"3 300000"] * 20


def test_binary_metadata(client):
    values = [bytes(range(256)), b"", b"\0", b"a,b"]

    def talk(channel):
        call = channel.unary_unary(SERVICE + "Unary")
        return [call(b"", metadata=[("x-bin", value), ("y", "text")], timeout=PATIENCE) for value in values]

    answers, app = client(talk)
    assert answers == [b"got " + value for value in values]
    assert [call.metadata["y"] for call in app.calls] == [b"text"] * 4


def error_of(call, *args, **kwargs):
    with pytest.raises(grpc.RpcError) as caught:
        call(*args, timeout=PATIENCE, **kwargs)
    return caught.value.code(), caught.value.details()


def test_statuses(caplog, client):
    def talk(channel):
        fail = channel.unary_unary(SERVICE + "Fail")
        return [
            error_of(fail, b""),
            error_of(fail, b"crash"),
            error_of(channel.unary_unary(SERVICE + "Nothing"), b""),
            error_of(channel.unary_unary(SERVICE + "Upload"), b"x" * 2000),
            error_of(fail, b"z" * 500, compression=grpc.Compression.Gzip),
            channel.unary_unary(SERVICE + "Unary")(b"fine", timeout=PATIENCE),
        ]

    answers, app = client(talk, Limits(max_message=1000))
    assert answers == [
        (grpc.StatusCode.FAILED_PRECONDITION, "nö: 100%"),
        (grpc.StatusCode.INTERNAL, "ZeroDivisionError in the server"),
        (grpc.StatusCode.UNIMPLEMENTED, "no method Nothing"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "message of 2000 bytes, limit 1000"),
        (grpc.StatusCode.UNIMPLEMENTED, "compressed messages are not supported"),
        b"got fine",
    ]
    assert app.cancelled == ["Fail", "Upload", "Fail"]
    assert "ZeroDivisionError: as asked" in caplog.text


def test_cancellation_by_the_client(address, serving):
    async def main():
        async with serving(address) as (server, app):
            with channel_to(server) as channel:
                waiting = channel.unary_unary(SERVICE + "Wait").future(b"")
                await app.until(lambda: app.waiting == 1)
                assert waiting.cancel()
                await app.until(lambda: app.cancelled == ["Wait"])
                app.calls[0].write(b"to nobody")
                app.calls[0].finish()
                answer = await asyncio.to_thread(channel.unary_unary(SERVICE + "Unary"), b"x", PATIENCE)
                assert answer == b"got x"

    asyncio.run(main())


def test_loss_of_the_connection_cancels_its_calls(address, serving):
    async def main():
        async with serving(address) as (server, app):
            with channel_to(server) as channel:
                calls = [channel.unary_unary(SERVICE + "Wait").future(b"") for _ in range(3)]
                await app.until(lambda: app.waiting == 3)
            await app.until(lambda: app.cancelled == ["Wait"] * 3)
            assert all(call.done() for call in calls)
            assert all(call.closed for call in app.calls)

    asyncio.run(main())


def test_a_client_that_does_not_read_holds_up_nobody(address, serving, make_app):
    """64 MiB wait for a client that takes nothing: no copies of them are made, and other calls go on, on its own
    connection too. In the end it gets them all."""

    async def main():
        async with serving(address) as (server, app):
            with channel_to(server) as channel, channel_to(server) as other:
                unary, beside = channel.unary_unary(SERVICE + "Unary"), other.unary_unary(SERVICE + "Unary")
                await asyncio.to_thread(unary, b"warm", PATIENCE)
                gc.collect()
                tracemalloc.start()
                try:
                    slow = channel.unary_stream(SERVICE + "Download")(b"64", timeout=PATIENCE)
                    for k in range(20):
                        assert await asyncio.to_thread(unary, b"%d" % k, PATIENCE) == b"got %d" % k
                        assert await asyncio.to_thread(beside, b"%d" % k, PATIENCE) == b"got %d" % k
                    held = tracemalloc.get_traced_memory()[0]
                finally:
                    tracemalloc.stop()
                (call,) = (call for call in app.calls if call.method == "Download")
                assert call.buffered > 32 * MIB
                assert held < 4 * MIB
                assert await asyncio.to_thread(lambda: sum(data == make_app.PIECE for data in slow)) == 64
                assert call.buffered == 0

    asyncio.run(main())


def test_close_ends_open_calls_as_unavailable(address, make_app):
    async def main():
        app = make_app()
        async with asyncio.timeout(PATIENCE):
            server = await GrpcServer.start(app, **address)
            with channel_to(server) as channel:
                waiting = channel.unary_unary(SERVICE + "Wait").future(b"", timeout=PATIENCE)
                await app.until(lambda: app.waiting == 1)
                await server.close()
                assert app.cancelled == ["Wait"]
                error = await asyncio.to_thread(waiting.exception)
            assert (error.code(), error.details()) == (grpc.StatusCode.UNAVAILABLE, "the server is shutting down")
            if "path" in address:
                assert not address["path"].exists()
            with channel_to(server) as channel:
                late = channel.unary_unary(SERVICE + "Unary").future(b"", timeout=PATIENCE)
                assert (await asyncio.to_thread(late.exception)).code() == grpc.StatusCode.UNAVAILABLE

    asyncio.run(main())


def test_close_lets_calls_end_if_told_to(address, make_app):
    async def main():
        app = make_app()
        async with asyncio.timeout(PATIENCE):
            server = await GrpcServer.start(app, **address)
            with channel_to(server) as channel:
                waiting = channel.unary_unary(SERVICE + "Wait").future(b"", timeout=PATIENCE)
                await app.until(lambda: app.waiting == 1)
                closing = asyncio.create_task(server.close(grace=PATIENCE))
                await asyncio.sleep(0)
                app.calls[0].write(b"just in time")
                app.calls[0].finish()
                await closing
                assert await asyncio.to_thread(waiting.result) == b"just in time"
        assert app.cancelled == []

    asyncio.run(main())


def test_grpc_clients_in_many_threads(address, serving):
    async def main():
        async with serving(address) as (server, _):

            def talk(k: int) -> int:
                with channel_to(server) as channel:
                    sent = [b"%d %d" % (k, n) for n in range(30)]
                    return list(channel.stream_stream(SERVICE + "Echo")(iter(sent), timeout=PATIENCE)) == sent

            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                loop = asyncio.get_running_loop()
                assert all(await asyncio.gather(*(loop.run_in_executor(pool, talk, k) for k in range(8))))

    asyncio.run(main())
