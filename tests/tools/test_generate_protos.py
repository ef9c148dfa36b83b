"""The command that generates the message classes: what it says when it cannot, and that it notices stale files."""

import sys
from pathlib import Path

import pytest

from tools import generate_protos as module
from tools.generate_protos import (
    GENCODE_VERSION,
    GRPCIO_TOOLS,
    PROJECT_ROOT,
    PROTOS,
    gencode_version,
    generated_from,
    main,
    stale,
)

GENERATED = [name for proto in PROTOS for name in generated_from(proto)]


def committed() -> dict[str, str]:
    return {name: (PROJECT_ROOT / name).read_text(encoding="utf-8") for name in GENERATED}


def test_every_proto_file_of_the_project_is_generated() -> None:
    found = {
        str(path.relative_to(PROJECT_ROOT))
        for package in ("elastic", "membership", "checkpoint", "chaos")
        for path in (PROJECT_ROOT / package).rglob("*.proto")
    }
    assert found == set(PROTOS)


@pytest.mark.parametrize("proto", PROTOS)
def test_the_committed_code_is_stamped_with_the_oldest_protobuf_that_we_support(proto: str) -> None:
    assert gencode_version(committed()[generated_from(proto)[0]]) == GENCODE_VERSION


def test_the_versions_are_those_of_the_project_file() -> None:
    project = (PROJECT_ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'"protobuf>={GENCODE_VERSION},' in project
    assert f'"{GRPCIO_TOOLS}"' in project


def test_without_protoc_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    monkeypatch.setitem(sys.modules, "grpc_tools.protoc", None)
    assert main(["--check"]) == 2
    assert f'python -m pip install "{GRPCIO_TOOLS}"' in capsys.readouterr().err


def test_another_protoc_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("grpc_tools.protoc")
    monkeypatch.setattr(module, "GENCODE_VERSION", "5.0.0")
    assert main(["--check"]) == 2
    assert GRPCIO_TOOLS in capsys.readouterr().err


def test_check_accepts_up_to_date_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "generate", committed)
    assert main(["--check"]) == 0


def test_check_names_a_stale_file_and_leaves_it_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = committed()
    files = before | {GENERATED[1]: "something newer"}
    monkeypatch.setattr(module, "generate", lambda: files)
    assert main(["--check"]) == 1
    error = capsys.readouterr().err
    assert [line.split()[0] for line in error.splitlines()] == [GENERATED[1]]
    assert committed() == before


def test_a_missing_file_is_stale(tmp_path: Path) -> None:
    assert stale({GENERATED[0]: "text"}, root=tmp_path) == [GENERATED[0]]
