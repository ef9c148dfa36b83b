import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from elastic import client_environment as variables
from elastic import plugin
from elastic.errors import PoolError

SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


class Server:
    """Listens on a Unix socket; the n-th connection that says something gets the n-th answer, later ones are closed."""

    def __init__(self, path, *answers):
        self.address = f"grpc://unix:{path}"
        self.heard = []
        self.connections = []
        self._answers = list(answers)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while True:
            connection, _ = self._listener.accept()
            data = connection.recv(4096)
            if not data:
                return
            self.heard.append(data)
            self.connections.append(connection)
            if self._answers:
                connection.sendall(self._answers.pop(0))
            else:
                connection.close()

    def close(self):
        """Stops listening; open connections stay."""
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(self._listener.getsockname())
        self._thread.join()
        self._listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        for connection in self.connections:
            connection.close()


@pytest.fixture
def path(short_directory):
    return short_directory / "client.sock"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("ELASTIC_", "IFRT_PROXY_", "JAX_", "TF_CPP_")):
            monkeypatch.delenv(name)


def test_a_controller_greets_and_the_connection_stays_open(path):
    with Server(path, SETTINGS) as server, plugin.greet(server.address) as connection:
        assert server.heard[0].startswith(b"PRI * HTTP/2.0")
        server.connections[0].sendall(b"more")
        assert connection.recv(4) == b"more"


def test_nobody_listens(path):
    with pytest.raises(PoolError, match=rf"no controller listens at grpc://unix:{path} \(No such file.*elastic run"):
        plugin.greet(f"grpc://unix:{path}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(PoolError, match=rf"no controller listens at grpc://127.0.0.1:{port} \(Connection refused"):
        plugin.greet(f"grpc://127.0.0.1:{port}")


def test_somebody_listens_and_says_nothing():
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(PoolError, match=r"does not answer \(waited 0.05 s\); it may be stopped"),
    ):
        plugin.greet(f"grpc://127.0.0.1:{server.getsockname()[1]}", timeout_s=0.05)


@pytest.mark.parametrize("answers", [[b"HTTP/1.1 400 Bad Request\r\n\r\n"], []])
def test_somebody_else_listens(path, answers):
    with Server(path, *answers) as server, pytest.raises(PoolError, match="is no controller"):
        plugin.greet(server.address)


@pytest.mark.parametrize(
    "address", ["here", "http://h:1", "grpc://h", "grpc://:1", "grpc://h:x", "grpc://h:70000", "h:1"]
)
def test_what_is_no_address(address):
    with pytest.raises(PoolError, match=r"is no address of a controller; give grpc://HOST:PORT"):
        plugin.greet(address)


def test_the_address_is_missing():
    with pytest.raises(PoolError, match=r"ELASTIC_CONTROLLER is not set; .*elastic run SCRIPT"):
        plugin.make_client()


def test_a_lost_controller_is_told_once(path, capsys):
    server = Server(path, SETTINGS)
    connection = plugin.greet(server.address)
    server.close()
    watch = threading.Thread(target=plugin._look_out, args=(server.address, connection))
    watch.start()
    server.connections[0].close()
    watch.join(20)
    assert not watch.is_alive()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"elastic: error: the controller at {server.address} is gone")


def test_a_controller_that_only_closes_idle_connections_is_not_lost(path, capsys):
    with Server(path, SETTINGS, SETTINGS) as server:
        connection = plugin.greet(server.address)
        watch = threading.Thread(target=plugin._look_out, args=(server.address, connection))
        watch.start()
        server.connections[0].close()
        watch.join(20)
        assert not watch.is_alive()
        assert len(server.connections) == 2
    assert capsys.readouterr().err == ""


def test_tokens(short_directory, path, monkeypatch):
    assert plugin.token("grpc://127.0.0.1:1") == b""
    assert plugin.token(f"grpc://unix:{path}") == b""
    (short_directory / "secret").write_text("beside\n")
    assert plugin.token(f"grpc://unix:{path}") == b"beside"
    monkeypatch.setenv(variables.TOKEN_FILE, str(short_directory / "mine"))
    with pytest.raises(PoolError, match=r"cannot read ELASTIC_TOKEN_FILE=.*No such file"):
        plugin.token(f"grpc://unix:{path}")
    (short_directory / "mine").write_text("mine")
    assert plugin.token(f"grpc://unix:{path}") == b"mine"


def test_what_the_user_set_is_kept(short_directory, path, monkeypatch):
    (short_directory / "uploads").mkdir()
    monkeypatch.setenv(variables.INSECURE, "false")
    monkeypatch.setenv(variables.UPLOAD_THRESHOLD, "1")
    monkeypatch.setattr(os, "environ", dict(os.environ))
    plugin._prepare_environment(f"grpc://unix:{path}")
    assert os.environ[variables.INSECURE] == "false"
    assert os.environ[variables.UPLOAD_THRESHOLD] == "1"
    assert os.environ[variables.UPLOAD_DIRECTORY] == str(short_directory / "uploads")


def test_no_uploads_by_file_to_another_machine(monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    plugin._prepare_environment("grpc://10.0.0.1:7777")
    assert os.environ[variables.INSECURE] == "true"
    assert variables.UPLOAD_DIRECTORY not in os.environ


def run_jax(code, **environment):
    began = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    return process, time.monotonic() - began


def test_jax_without_a_pool_is_left_alone():
    code = """
import os
before = dict(os.environ)
import jax
jax.devices()
from jax._src import xla_bridge
assert "elastic" not in xla_bridge._backend_factories
print(sorted(name for name in set(os.environ) - set(before) if name.startswith(("IFRT", "ELASTIC"))))
"""
    process, _ = run_jax(code, JAX_PLATFORMS="cpu")
    assert (process.returncode, process.stdout, process.stderr) == (0, "[]\n", "")


USE = "import jax; jax.devices()"


def test_a_controller_that_is_not_there_is_an_error_in_words():
    process, _ = run_jax(USE, JAX_PLATFORMS="elastic,cpu", ELASTIC_CONTROLLER="grpc://127.0.0.1:1")
    assert process.returncode == 1
    last = process.stderr.splitlines()[-1]
    assert "Unable to initialize backend 'elastic': no controller listens at grpc://127.0.0.1:1 (" in last
    assert "set ELASTIC_CONTROLLER" in last


def test_the_address_alone_means_the_pool_and_never_the_local_cpu():
    process, _ = run_jax(USE, ELASTIC_CONTROLLER="grpc://127.0.0.1:1")
    assert process.returncode == 1
    assert "no controller listens at grpc://127.0.0.1:1" in process.stderr


def test_the_platform_alone_says_what_is_missing():
    process, _ = run_jax(USE, JAX_PLATFORMS="elastic")
    assert process.returncode == 1
    assert "ELASTIC_CONTROLLER is not set" in process.stderr


def test_a_server_that_is_no_controller_leaves_no_noise(path):
    with Server(path, SETTINGS) as server:
        code = "import jax; from elastic import plugin; plugin._CONNECT_S = 1; jax.devices()"
        process, _ = run_jax(code, JAX_PLATFORMS="elastic,cpu", ELASTIC_CONTROLLER=server.address)
    assert process.returncode == 1, process.stderr
    assert f"the controller at {server.address} refused the connection: " in process.stderr.splitlines()[-1]
    assert "insecure" not in process.stderr
