"""The JAX plugin: makes a running controller the JAX backend ``elastic``.

JAX calls `initialize` in every JAX process on a machine where elastic-jax is installed, the pool's own executors
included. So it does nothing there unless ``ELASTIC_CONTROLLER`` is set or ``JAX_PLATFORMS`` names ``elastic``, and it
connects only when JAX asks for the backend. Not for: starting a pool (`elastic.init`, `elastic run`).

jaxlib's client also offers to call back when the connection is lost. It does so from a thread of C++ and even while
Python is shutting down, which aborts the process (jaxlib 0.10.2); hence the look-out over a connection of our own.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from elastic import callbacks, cross_backend, numpy_uploads, platform_names
from elastic import client_environment as variables
from elastic.errors import PoolError
from elastic.timer_slack import threads_that_may_wake_late
from elastic.upload_limit import UploadLimit, limit_of

# Above every accelerator's plugin: who sets ELASTIC_CONTROLLER wants the pool, even without JAX_PLATFORMS.
_PRIORITY = 1000
# A controller answers in milliseconds, over a network in less than a second.
_ANSWER_S = 5.0
_CONNECT_S = 10
# jaxlib's client looks every 50 microseconds whether arrays were dropped that no later request has told of: 8,000
# wake-ups a second and 15% of a core, for as long as it lives (jaxlib 0.10.2). This late it may be.
_DROPS_MAY_WAIT_S = 0.002
# HTTP/2 (RFC 9113, 3.4 and 6.5): what a client says first, with an empty SETTINGS frame, and the type of the frame
# that a server answers with.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_SETTINGS = 4
_FRAME_HEADER_BYTES = 9


def initialize() -> None:
    """Called by JAX before it makes its first backend."""
    if variables.CONTROLLER not in os.environ and "elastic" not in _platforms():
        return
    if platform_names.is_the_script(os.environ):
        platform_names.lead_to_pool()
    from jax.extend import backend

    backend.register_backend_factory("elastic", make_client, priority=_PRIORITY, fail_quietly=False)
    callbacks.install(_connect_callbacks)
    cross_backend.install()
    numpy_uploads.install(lambda: UploadLimit(limit_of(os.environ.get(variables.UPLOAD_DIRECTORY))))
    _prepare_environment(os.environ.get(variables.CONTROLLER, ""))


def make_client() -> Any:
    """Connects to the controller; the result is what JAX knows as a backend.

    Raises:
        PoolError: no controller answers, or it refuses; names the address and what to do.
    """
    address = os.environ.get(variables.CONTROLLER, "")
    if not address:
        raise PoolError(
            f"JAX_PLATFORMS names elastic, but {variables.CONTROLLER} is not set; set it to the controller's address "
            "(grpc://HOST:PORT or grpc://unix:/PATH), or start the script with `elastic run SCRIPT`"
        )
    greeting = greet(address)
    _prepare_environment(address)
    _quieten()
    from jax.extend.backend import ifrt_proxy

    options = ifrt_proxy.ClientConnectionOptions()
    options.connection_timeout_in_seconds = _CONNECT_S
    shown = token(address)
    if shown:
        options.initialization_data = {"elastic_token": shown}
    try:
        with threads_that_may_wake_late(_DROPS_MAY_WAIT_S):
            client = ifrt_proxy.get_client(address, options)
    except Exception as error:
        greeting.close()
        raise PoolError(
            f"the controller at {address} refused the connection: {error}; check that it belongs to this user and "
            f"runs the same version of elastic-jax, and that {variables.TOKEN_FILE} names its token"
        ) from error
    if variables.LAUNCHER in os.environ:
        greeting.close()  # The launcher watches, and two voices would say the same.
    else:
        threading.Thread(target=_look_out, args=(address, greeting), name="elastic-look-out", daemon=True).start()
    return client


def _connect_callbacks() -> callbacks.CallbackClient:
    address = os.environ[variables.CONTROLLER]
    secret = bytes.fromhex(token(address).decode())
    return callbacks.CallbackClient(address.removeprefix("grpc://"), secret)


def greet(address: str, timeout_s: float = _ANSWER_S) -> socket.socket:
    """Opens an HTTP/2 connection and waits for the other side's greeting, to fail early and in plain words.

    jaxlib's client would retry for its whole timeout, and wait 20 s for a controller that is stopped.

    Raises:
        PoolError: nobody listens, nobody answers within ``timeout_s`` seconds, or it is no gRPC server.
    """
    try:
        connection = _connect(address, timeout_s)
        try:
            connection.sendall(_PREFACE)
            header = b""
            while len(header) < _FRAME_HEADER_BYTES and (more := connection.recv(_FRAME_HEADER_BYTES - len(header))):
                header += more
        except OSError:
            connection.close()
            raise
    except TimeoutError:
        problem = f"the controller at {address} does not answer (waited {timeout_s:g} s)"
        raise PoolError(f"{problem}; it may be stopped or overloaded: look at its log, or start it again") from None
    except OSError as error:
        problem = f"no controller listens at {address} ({error.strerror or error})"
        remedy = f"start one and set {variables.CONTROLLER} to its address, or use `elastic run SCRIPT`"
        raise PoolError(f"{problem}; {remedy}") from None
    if header[3:4] != bytes([_SETTINGS]):
        connection.close()
        raise PoolError(f"what listens at {address} is no controller; check {variables.CONTROLLER}")
    connection.settimeout(None)
    return connection


def _connect(address: str, timeout_s: float) -> socket.socket:
    target = address.removeprefix("grpc://")
    if target.startswith("unix:"):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout_s)
        try:
            connection.connect(target.removeprefix("unix:"))
        except OSError:
            connection.close()
            raise
        return connection
    host, _, port = target.rpartition(":")
    if not address.startswith("grpc://") or not host or not port.isdecimal() or int(port) > 65535:
        raise PoolError(
            f"{variables.CONTROLLER}={address!r} is no address of a controller; give grpc://HOST:PORT or "
            "grpc://unix:/PATH"
        )
    return socket.create_connection((host.strip("[]"), int(port)), timeout_s)


def _prepare_environment(address: str) -> None:
    """Sets what jaxlib's client reads from the environment, if `elastic run` or the user has not."""
    os.environ.setdefault(variables.INSECURE, "true")
    uploads = _neighbour(address, "uploads")
    if uploads is not None and uploads.is_dir():
        os.environ.setdefault(variables.UPLOAD_DIRECTORY, str(uploads))
        os.environ.setdefault(variables.UPLOAD_THRESHOLD, str(variables.UPLOAD_THRESHOLD_BYTES))


def token(address: str) -> bytes:
    """What the controller at an address wants to see, as text in bytes; empty if that is not known."""
    file = os.environ.get(variables.TOKEN_FILE)
    path = Path(file) if file else _neighbour(address, "secret")
    if path is None:
        return b""
    try:
        return path.read_bytes().strip()
    except OSError as error:
        if not file:
            return b""
        raise PoolError(f"cannot read {variables.TOKEN_FILE}={file}: {error.strerror}; name a readable file") from error


def _neighbour(address: str, name: str) -> Path | None:
    """The file ``name`` of the run directory, known when the controller is reached by its Unix socket."""
    path = address.removeprefix("grpc://unix:")
    return None if path == address else Path(path).parent / name


def _quieten() -> None:
    """Keeps C++ warnings (insecure credentials, a lost connection's stack) off the terminal, as far as possible.

    The environment variable is read when jaxlib is loaded, which has happened; this is the call that JAX's own
    ``jax_logging_level`` uses. JAX itself sets the variable to 1, so only other values can be a wish of the user's.
    """
    import jax

    if os.environ.get(variables.CPP_LOG_LEVEL, "1") not in ("1", "3"):
        return
    if getattr(jax.config, "jax_logging_level", None) not in (None, "NOTSET"):
        return
    try:
        from jaxlib import utils

        utils.absl_set_min_log_level(3)
    except (ImportError, AttributeError):
        pass  # Noise on the terminal is no reason to fail.


def _look_out(address: str, connection: socket.socket) -> None:
    """Says on stderr, once, that the controller is gone: the errors that JAX raises then do not name it."""
    while True:
        since = time.monotonic()
        try:
            while connection.recv(4096):
                pass
        except OSError:
            pass
        connection.close()
        try:
            connection = greet(address)  # A server may close an idle connection and still be well.
        except PoolError:
            text = f"the controller at {address} is gone, and all that this program had on its pool; start both again"
            print(f"elastic: error: {text}", file=sys.stderr, flush=True)
            return
        if time.monotonic() - since < 1:
            return  # It does not want to be looked at.


def _platforms() -> list[str]:
    """What JAX was told to use, by its configuration or by the environment."""
    import jax

    return str(jax.config.jax_platforms or "").split(",")
