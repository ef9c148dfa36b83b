"""The environment variables between a launcher, its pool and the JAX client, and what each is for.

Read by the client plugin in every JAX process, so it imports next to nothing. Not for: settings of the pool itself,
which travel on command lines.

    ELASTIC_CONTROLLER   address of the controller: grpc://HOST:PORT or grpc://unix:/PATH
    ELASTIC_TOKEN_FILE   file with the token that the controller asks for
    ELASTIC_LAUNCHER     pid of the launcher that watches the controller and tells the user when it is lost
    ELASTIC_SCRIPT_OF    pid of the `elastic run` that started the script; the script's children have another parent
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastic.run_directory import RunDirectory

CONTROLLER = "ELASTIC_CONTROLLER"
TOKEN_FILE = "ELASTIC_TOKEN_FILE"
LAUNCHER = "ELASTIC_LAUNCHER"
SCRIPT_OF = "ELASTIC_SCRIPT_OF"
PLATFORMS = "JAX_PLATFORMS"
# Google's pathwaysutils connects to this address when JAX_PLATFORMS names `proxy`. JAX reads it in lower case, so a
# run directory's path must not hold capital letters.
BACKEND_TARGET = "JAX_BACKEND_TARGET"
# jaxlib's proxy client insists on Google's ALTS credentials unless this is exactly "true".
INSECURE = "IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS"
# Host buffers of at least so many bytes go through files in this directory instead of the socket.
UPLOAD_DIRECTORY = "IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION_DIRECTORY"
UPLOAD_THRESHOLD = "IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION_THRESHOLD_BYTES"
UPLOAD_THRESHOLD_BYTES = 65536
# 3 leaves only fatal messages. jaxlib reads it once, when it is loaded.
CPP_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"

# A pool's own processes have its secret from the run directory.
SECRET = "ELASTIC_SECRET"

_CLIENT_ONLY = (
    CONTROLLER,
    TOKEN_FILE,
    LAUNCHER,
    SCRIPT_OF,
    BACKEND_TARGET,
    INSECURE,
    UPLOAD_DIRECTORY,
    UPLOAD_THRESHOLD,
    SECRET,
)


def client_variables(address: str, directory: RunDirectory, environment: Mapping[str, str]) -> dict[str, str]:
    """What to set for a client process of the run in ``directory``.

    Whatever decides where the client connects is set, even over a value the user has: asked to run on this pool, it
    must not end up on another, or silently on the local CPU because of a stray ``JAX_PLATFORMS=cpu``. Two wishes are
    kept: platforms that name ``elastic`` or ``proxy`` (a script that uses pathwaysutils), and a log level.
    """
    return {
        PLATFORMS: choose_platforms(environment.get(PLATFORMS, "")),
        CONTROLLER: address,
        TOKEN_FILE: str(directory.secret),
        BACKEND_TARGET: address,
        INSECURE: "true",
        UPLOAD_DIRECTORY: str(directory.uploads),
        UPLOAD_THRESHOLD: environment.get(UPLOAD_THRESHOLD, str(UPLOAD_THRESHOLD_BYTES)),
        CPP_LOG_LEVEL: environment.get(CPP_LOG_LEVEL, "3"),
    }


def pool_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of the pool's own processes: the launcher's without what is meant for clients."""
    chosen = {name: value for name, value in environment.items() if name not in _CLIENT_ONLY}
    if names_a_pool(chosen.get(PLATFORMS, "")):
        del chosen[PLATFORMS]  # An executor computes; it must not become a client of the pool it is part of.
    chosen["PYTHONSAFEPATH"] = "1"  # A jax.py in the user's working directory must not become the pool's jax.
    return chosen


def choose_platforms(current: str) -> str:
    """The value of JAX_PLATFORMS: the user's if it leads to a pool, else the pool and, for debug callbacks, the CPU."""
    return current if names_a_pool(current) else "elastic,cpu"


def names_a_pool(platforms: str) -> bool:
    return not {"elastic", "proxy"}.isdisjoint(platforms.split(","))
