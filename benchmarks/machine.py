"""Facts about the machine and the software that a measurement belongs to."""

import importlib.metadata
import os
import platform
from pathlib import Path


def facts() -> dict[str, object]:
    """Cores that this process may use, memory in bytes, load, and versions."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _first_value("/proc/cpuinfo", "model name"),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_before": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: _version(name) for name in ("jax", "jaxlib", "numpy", "elastic-jax")},
    }


def _first_value(path: str, key: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), None)


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
