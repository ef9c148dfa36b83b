"""What a package shows of itself, and what others take from it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
PACKAGES = ("elastic", "membership", "checkpoint", "chaos")


def public_names(package: ModuleType) -> list[str]:
    """What `package` has under names that are meant for others, its modules apart, in order."""
    return sorted(
        name for name, value in vars(package).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    )


def imports_by_others(package: str) -> Iterator[tuple[str, str, str]]:
    """(file, module, name) of all that the other packages and the benchmarks import from `package`; "" for modules."""
    for folder in {*PACKAGES, "benchmarks", "examples", "tools"} - {package}:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                file = str(path.relative_to(ROOT))
                if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == package:
                    yield from ((file, node.module or "", alias.name) for alias in node.names)
                elif isinstance(node, ast.Import):
                    names = (alias.name for alias in node.names)
                    yield from ((file, name, "") for name in names if name.partition(".")[0] == package)
