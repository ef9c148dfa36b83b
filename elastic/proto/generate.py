"""Makes `ifrt_pb2.py` and `ifrt_pb2.pyi` from `ifrt.proto`: ``python -m elastic.proto.generate``.

With ``--check`` it writes nothing and exits with 1 if the committed files are not what `ifrt.proto` gives now.

protoc stamps its version into the code it generates, and a protobuf runtime older than that stamp refuses to import it.
The code must load under every runtime the package allows, so it comes from the one protoc release whose stamp is the
oldest of them, which also makes the output repeatable.
"""

import argparse
import importlib
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

GENCODE_VERSION = "6.33.5"
"""The protobuf release the generated code is stamped with: the lower bound on protobuf in pyproject.toml."""

GRPCIO_TOOLS = "grpcio-tools>=1.81,<1.82"
"""The releases of grpcio-tools that bring that protoc: the same text as in the `dev` extra in pyproject.toml."""

PACKAGE_ROOT = Path(__file__).resolve().parents[2]
PROTO = "elastic/proto/ifrt.proto"
GENERATED = ("elastic/proto/ifrt_pb2.py", "elastic/proto/ifrt_pb2.pyi")

# protoc writes Mapping without parameters into its stubs, which strict checking refuses in every module importing them.
_STUB_HEADER = '# mypy: disable-error-code="type-arg"\n'

_INSTALL = f'python -m pip install "{GRPCIO_TOOLS}"  (part of the extra "dev")'


class GenerateError(Exception):
    """The code could not be generated; the text says what to install or repair."""


def generate() -> dict[str, str]:
    """The generated files as {path below the package root: text}; nothing in the tree is touched.

    Raises `GenerateError` if grpcio-tools is missing or brings another protoc, or if protoc refuses `ifrt.proto`.
    """
    try:
        protoc = importlib.import_module("grpc_tools.protoc")
        tools = importlib.import_module("grpc_tools")
    except ImportError as error:
        raise GenerateError(f"protoc is not installed ({error}). Install it: {_INSTALL}") from None
    well_known_types = Path(str(tools.__file__)).parent / "_proto"
    with tempfile.TemporaryDirectory() as out:
        # The path below the root becomes the file's name in protobuf's registry, so it must be unique on a machine.
        status = protoc.main(
            ["protoc", f"-I{PACKAGE_ROOT}", f"-I{well_known_types}", f"--python_out={out}", f"--pyi_out={out}", PROTO]
        )
        if status != 0:
            raise GenerateError(f"protoc refused {PROTO} (exit status {status}); its complaint stands above")
        files = {name: (Path(out) / name).read_text(encoding="utf-8") for name in GENERATED}
    files[GENERATED[1]] = _STUB_HEADER + files[GENERATED[1]]
    stamp = gencode_version(files[GENERATED[0]])
    if stamp != GENCODE_VERSION:
        raise GenerateError(
            f"the installed grpcio-tools generates code for protobuf {stamp}, but the committed code is for "
            f"{GENCODE_VERSION}, the oldest runtime this package supports. Install the right one: {_INSTALL}"
        )
    return files


def gencode_version(text: str) -> str:
    """The protobuf version that protoc stamped into the generated module `text`, or "unknown"."""
    found = re.search(r"^# Protobuf Python Version: (\S+)$", text, re.MULTILINE)
    return found.group(1) if found else "unknown"


def stale(files: dict[str, str], root: Path = PACKAGE_ROOT) -> list[str]:
    """The paths among `files` that are missing below `root` or differ from what was generated."""
    return [
        name
        for name, text in files.items()
        if not (root / name).is_file() or (root / name).read_text(encoding="utf-8") != text
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status: 0 done or up to date, 1 stale, 2 could not generate."""
    parser = argparse.ArgumentParser(
        prog="python -m elastic.proto.generate", description="Generates ifrt_pb2.py and ifrt_pb2.pyi from ifrt.proto."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the files are stale")
    check: bool = parser.parse_args(arguments).check
    try:
        files = generate()
    except GenerateError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    changed = stale(files)
    if check:
        for name in changed:
            print(f"{name} is stale: run python -m elastic.proto.generate", file=sys.stderr)
        return 1 if changed else 0
    for name in changed:
        (PACKAGE_ROOT / name).write_text(files[name], encoding="utf-8")
        print(f"wrote {name}")
    if not changed:
        print("nothing to do: the generated files are up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
