"""Host callbacks on the client's side: Python functions that a program calls while it runs on the hosts.

jaxlib's proxy client cannot ship a callable, and ours never leaves the client either. The plugin takes the callables
of a program out before it is compiled, gives each a number, and names the numbers in a compile option. The executors
compile with stubs in their place; a stub that is called sends its arguments over a connection of our own, through the
controller, to this process, where the function runs, and waits for the results.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from elastic import calling, ffi_buffers, wire
from elastic.callback_values import pack, unpack
from elastic.daemon_threads import DaemonThreads
from elastic.inspection import Inspections
from elastic.status import Code

OPTION = "elastic_host_callbacks"
"""The compile option that names a program's callbacks: their numbers, with commas, in the order of their indices."""

_THREADS = 64
"""Callbacks that may wait for one another at once."""

Function = Callable[..., Sequence[Any]]


class CallbackClient:
    """Runs callbacks for the controller at an address; connects when the first program with callbacks is compiled."""

    def __init__(self, address: str, secret: bytes) -> None:
        """`address` is HOST:PORT or unix:PATH of the controller."""
        self._address = address
        self._secret = secret
        self._functions: dict[int, Function] = {}
        # No client gives the numbers of another: what is left of that one must not call this one's functions.
        self._numbers = itertools.count(secrets.randbits(40) << 20 | 1)
        self._channel: wire.Channel | None = None
        self._lock = threading.Lock()
        self._threads = DaemonThreads(_THREADS, "elastic-callback")

    def add(self, functions: Sequence[Function]) -> list[int]:
        """Gives functions numbers by which the hosts can call them.

        Raises as `calling.dial` does if there is no controller.
        """
        with self._lock:
            if self._channel is None:
                self._channel = calling.dial(self._address, self._secret, {"role": "callbacks"}, to_controller=True)
                threading.Thread(
                    target=self._serve, args=(self._channel,), name="elastic-callbacks", daemon=True
                ).start()
        numbers = [next(self._numbers) for _ in functions]
        self._functions.update(zip(numbers, functions, strict=True))
        return numbers

    def _serve(self, channel: wire.Channel) -> None:
        try:
            while True:
                (call, number, description, writeable), payload = channel.receive()
                if not call:  # The last execution of the only program that calls these has ended.
                    for forgotten in description:
                        self._functions.pop(forgotten, None)
                    continue
                self._threads.submit(self._run, channel, call, number, description, writeable, payload)
        except (OSError, EOFError, wire.FrameError, RuntimeError):  # RuntimeError: no thread can be started.
            with self._lock:
                self._channel = None
            channel.close()

    def _run(
        self,
        channel: wire.Channel,
        call: int,
        number: int,
        description: list[Any],
        writeable: list[bool] | None,
        payload: memoryview,
    ) -> None:
        try:
            function = self._functions[number]
            values = unpack(description, payload)
            # Which arguments may be written is known for a buffer callback, and only for that.
            results = function(*values) if writeable is None else ffi_buffers.call(function, values, writeable)
            described, data = pack(results)
            answer: list[Any] = [call, 0, described]
        except BaseException:
            # What plain JAX puts into its error too, so that the script can see which line of which function failed.
            text = traceback.format_exc().encode(errors="backslashreplace").decode()
            answer, data = [call, int(Code.INTERNAL), text], b""
        try:
            channel.send(answer, data)
        except OSError:
            channel.close()


def install(connect: Callable[[], CallbackClient]) -> None:
    """Makes JAX hand the callbacks of programs for a pool to a `CallbackClient`; other backends are left alone.

    `connect()` is called once, at the first such program.
    """
    from jax._src import compiler

    if getattr(compiler.backend_compile_and_load, "_elastic", False):
        return
    compile_and_load = compiler.backend_compile_and_load
    clients: list[CallbackClient] = []
    inspections = Inspections()
    inspections.install()

    def client() -> CallbackClient:
        if not clients:
            clients.append(connect())
        return clients[0]

    @wraps(compile_and_load)
    def with_callbacks(
        backend: Any, module: Any, executable_devices: Any, options: Any, host_callbacks: Sequence[Function]
    ) -> Any:
        if not backend.platform_version.startswith("elastic"):
            return compile_and_load(backend, module, executable_devices, options, host_callbacks)
        inspections.replace(module, lambda inspect: client().add([inspect])[0])
        if not host_callbacks:
            return compile_and_load(backend, module, executable_devices, options, [])
        numbers = client().add(host_callbacks)
        overrides = list(options.env_option_overrides)
        options.env_option_overrides = [*overrides, (OPTION, ",".join(map(str, numbers)))]
        try:
            return compile_and_load(backend, module, executable_devices, options, [])
        finally:
            options.env_option_overrides = overrides

    with_callbacks._elastic = True  # type: ignore[attr-defined]
    compiler.backend_compile_and_load = with_callbacks
