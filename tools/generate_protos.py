"""Makes the protobuf modules `*_pb2.py` and `*_pb2.pyi` from our `.proto` files: ``python -m tools.generate_protos``.

With ``--check`` it writes nothing and exits with 1 if the committed files are not what the `.proto` files give now.

protoc stamps its version into the code it generates, and a protobuf runtime older than that stamp refuses to import it.
The code must load under every runtime the project allows, so it comes from the one protoc release whose stamp is the
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

PROJECT_ROOT = Path(__file__).resolve().parents[1]

PROTOS = ("elastic/proto/ifrt.proto", "membership/proto/etcd.proto")
"""Our messages. A path below the root becomes the file's name in protobuf's registry, so it is unique on a machine."""

# protoc writes Mapping without parameters into its stubs, which strict checking refuses in every module importing them.
_STUB_HEADER = '# mypy: disable-error-code="type-arg"\n'

_INSTALL = f'python -m pip install "{GRPCIO_TOOLS}"  (part of the extra "dev")'


class GenerateError(Exception):
    """The code could not be generated; the text says what to install or repair."""


def generated_from(proto: str) -> tuple[str, str]:
    """The paths of the module and of the stub that are made from the file ``proto``."""
    stem = proto.removesuffix(".proto")
    return f"{stem}_pb2.py", f"{stem}_pb2.pyi"


def generate() -> dict[str, str]:
    """The generated files as {path below the project's root: text}; nothing in the tree is touched.

    Raises `GenerateError` if grpcio-tools is missing or brings another protoc, or if protoc refuses a file.
    """
    try:
        protoc = importlib.import_module("grpc_tools.protoc")
        tools = importlib.import_module("grpc_tools")
    except ImportError as error:
        raise GenerateError(f"protoc is not installed ({error}). Install it: {_INSTALL}") from None
    well_known_types = Path(str(tools.__file__)).parent / "_proto"
    with tempfile.TemporaryDirectory() as out:
        status = protoc.main(
            ["protoc", f"-I{PROJECT_ROOT}", f"-I{well_known_types}", f"--python_out={out}", f"--pyi_out={out}", *PROTOS]
        )
        if status != 0:
            raise GenerateError(f"protoc refused the files (exit status {status}); its complaint stands above")
        files = {
            name: (Path(out) / name).read_text(encoding="utf-8") for proto in PROTOS for name in generated_from(proto)
        }
    for proto in PROTOS:
        module, stub = generated_from(proto)
        files[stub] = _STUB_HEADER + files[stub]
        stamp = gencode_version(files[module])
        if stamp != GENCODE_VERSION:
            raise GenerateError(
                f"the installed grpcio-tools generates code for protobuf {stamp}, but the committed code is for "
                f"{GENCODE_VERSION}, the oldest runtime this project supports. Install the right one: {_INSTALL}"
            )
    return files


def gencode_version(text: str) -> str:
    """The protobuf version that protoc stamped into the generated module `text`, or "unknown"."""
    found = re.search(r"^# Protobuf Python Version: (\S+)$", text, re.MULTILINE)
    return found.group(1) if found else "unknown"


def stale(files: dict[str, str], root: Path = PROJECT_ROOT) -> list[str]:
    """The paths among `files` that are missing below `root` or differ from what was generated."""
    return [
        name
        for name, text in files.items()
        if not (root / name).is_file() or (root / name).read_text(encoding="utf-8") != text
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status: 0 done or up to date, 1 stale, 2 could not generate."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.generate_protos", description=f"Generates the modules of {', '.join(PROTOS)}."
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
            print(f"{name} is stale: run python -m tools.generate_protos", file=sys.stderr)
        return 1 if changed else 0
    for name in changed:
        (PROJECT_ROOT / name).write_text(files[name], encoding="utf-8")
        print(f"wrote {name}")
    if not changed:
        print("nothing to do: the generated files are up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
