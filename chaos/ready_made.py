"""Plans that come with the package."""

from __future__ import annotations

from importlib import resources

from chaos.plan import Plan
from chaos.plan_text import parse

_FOLDER = resources.files("chaos") / "plans"


def ready_made() -> dict[str, Plan]:
    """All of them by name."""
    files = (file for file in _FOLDER.iterdir() if file.name.endswith(".yaml"))
    plans = [parse(file.read_text(encoding="utf-8")) for file in files]
    return {plan.name: plan for plan in sorted(plans, key=lambda plan: plan.name)}
