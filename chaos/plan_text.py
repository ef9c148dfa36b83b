"""Plans as YAML: read, checked, written. Text in, text out.

Every mistake is a `PlanError` that says where it is and what could stand there instead.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import yaml

from chaos.errors import PlanError
from chaos.faults import FAULTS, POINTS, Target
from chaos.plan import (
    ETCDS,
    EVENTS,
    LONGEST_DELAY_S,
    AtEvent,
    AtStep,
    AtTime,
    Every,
    Injection,
    Plan,
    PlannedFault,
    Poisson,
    When,
)

ON_LOSS = ("stack", "spare", "wait")
PROTECTION = r"^(copies=[1-9]\d*|parity=[1-9]\d*\+[1-9]\d*)$"
"""How arrays can be protected, as a pattern that JSON schemas understand, too."""
RANDOM = "random"
_PLAN_KEYS = tuple(field.name for field in dataclasses.fields(Plan))
_FAULT_KEYS = ("fault", "host", "count", "point", "for", "share", "by", "device", "at", "every", "mtbf", "times")
_WHENS = ("at", "every", "mtbf")


def parse(text: str) -> Plan:
    """The plan that YAML describes. Raises `PlanError`."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise PlanError(f"the plan is no YAML: {error}") from error
    if not isinstance(data, dict):
        raise PlanError("the plan is no map of settings; it begins with lines such as `hosts: 4` and `faults:`")
    _check_keys(data, _PLAN_KEYS, "the plan")
    defaults = Plan()
    plan = Plan(
        name=_text(data, "name", defaults.name),
        description=_text(data, "description", ""),
        hosts=_whole(data, "hosts", defaults.hosts, least=1),
        devices_per_host=_whole(data, "devices_per_host", defaults.devices_per_host, least=1),
        spares=_whole(data, "spares", defaults.spares, least=0),
        on_loss=_one_of(data.get("on_loss", defaults.on_loss), ON_LOSS, "on_loss"),
        snapshot_budget=_seconds(data, "snapshot_budget", defaults.snapshot_budget, "the plan", least=0.0),
        etcd=_one_of(str(data.get("etcd", defaults.etcd)), ETCDS, "etcd"),
        protect=_protection(_text(data, "protect", defaults.protect)),
        checkpoint_every=_seconds(data, "checkpoint_every", defaults.checkpoint_every, "the plan", least=0.0),
        verify_every=_whole(data, "verify_every", defaults.verify_every, least=0),
        seed=_whole(data, "seed", None, least=0),
        until=_seconds(data, "until", None, "the plan"),
        allow_data_loss=_flag(data, "allow_data_loss"),
        step=_pattern(data.get("step", defaults.step)),
        notice_within=_seconds(data, "notice_within", defaults.notice_within, "the plan"),
        recover_within=_seconds(data, "recover_within", defaults.recover_within, "the plan"),
        patience=_seconds(data, "patience", defaults.patience, "the plan"),
    )
    listed = data.get("faults", [])
    if not isinstance(listed, list):
        raise PlanError("faults: is no list; each fault begins with a dash, such as `- fault: kill-host`")
    plan = dataclasses.replace(plan, faults=tuple(_fault(one, f"fault {i}", plan) for i, one in enumerate(listed, 1)))
    check(plan)
    return plan


def check(plan: Plan) -> None:
    """Raises `PlanError` if a plan would end the run, or take all that is saved, and does not say that it may."""
    if plan.snapshot_budget >= 1:
        raise PlanError(f"snapshot_budget: is a share of the time, below 1; it is {plan.snapshot_budget}")
    for number, planned in enumerate(plan.faults, 1):
        if FAULTS[planned.fault].stored and not plan.checkpoint_every:
            raise PlanError(f"fault {number}: {planned.fault} hits checkpoints on disk; say `checkpoint_every: 5`")
        if planned.fault == "rot-parity" and not plan.protect.startswith("parity"):
            raise PlanError(f"fault {number}: only parity can be hit by {planned.fault}; say `protect: parity=3+1`")
        if planned.point == "parity" and not plan.protect.startswith("parity"):
            raise PlanError(f"fault {number}: nobody makes parity; say `protect: parity=3+1`")
        if planned.point == "store" and not plan.checkpoint_every:
            raise PlanError(f"fault {number}: nobody writes checkpoints; say `checkpoint_every: 5`")
    if plan.allow_data_loss:
        return
    may = "the run cannot survive that; say `allow_data_loss: true` if it may fail"
    together: dict[When, set[str]] = {}
    for number, planned in enumerate(plan.faults, 1):
        kind = FAULTS[planned.fault]
        if kind.ends_run:
            raise PlanError(f"fault {number}: {planned.fault} ends the run; {may}")
        if kind.silent and not plan.verify_every:
            raise PlanError(f"fault {number}: only a run that verifies finds {planned.fault}; say `verify_every: 1`")
        if kind.target is Target.HOST and kind.takes_memory and not plan.checkpoint_every:
            hit = set(planned.hosts) or set(plan.host_names[: planned.count])
            at_once = together.setdefault(planned.when, set())
            at_once |= hit
            if at_once == set(plan.host_names):
                raise PlanError(f"fault {number}: all {len(at_once)} hosts lose their memory at the same moment; {may}")


def dump(plan: Plan) -> str:
    """The plan as YAML, without what is as by default."""
    defaults = Plan()
    data = {
        key: getattr(plan, key)
        for key in _PLAN_KEYS
        if key != "faults" and getattr(plan, key) != getattr(defaults, key)
    }
    data["faults"] = [_dump_fault(planned) for planned in plan.faults]
    return yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=110)


def settled(plan: Plan, injections: Sequence[Injection]) -> Plan:
    """The plan that does exactly this, and draws nothing."""
    faults = tuple(
        PlannedFault(
            one.fault,
            one.when,
            one.hosts,
            lasts=one.lasts,
            point=one.point,
            share=one.share,
            by=one.by,
            device=one.device,
        )
        for one in injections
    )
    return dataclasses.replace(plan, faults=faults)


def _fault(data: Any, where: str, plan: Plan) -> PlannedFault:
    if not isinstance(data, dict):
        raise PlanError(f"{where}: is no map; write it as `- {{fault: kill-host, host: h1, at: {{step: 10}}}}`")
    _check_keys(data, _FAULT_KEYS, where)
    name = _one_of(data.get("fault"), FAULTS, f"{where}: fault")
    kind, where = FAULTS[name], f"{where} ({name})"
    hosts: tuple[str, ...] = ()
    if kind.target is Target.HOST:
        hosts = _hosts(data.get("host", RANDOM), plan, where)
    elif "host" in data or "count" in data:
        raise PlanError(f"{where}: it is not addressed to a host; leave `host` and `count` out")
    if kind.target is not Target.POINT and "point" in data:
        raise PlanError(f"{where}: only `die` has a point; leave it out")
    if kind.lasts is None and "for" in data:
        raise PlanError(f"{where}: it is not taken back, so it has no `for`")
    for key, owner in (("share", "slow"), ("by", "delay"), ("device", "flip-bit")):
        if name != owner and key in data:
            raise PlanError(f"{where}: only `{owner}` has `{key}`; leave it out")
    count = _whole(data, "count", 1, where, least=1)
    if count > len(plan.host_names) or (hosts and "count" in data):
        raise PlanError(f"{where}: `count` says how many hosts are drawn, of {len(plan.host_names)}")
    share = _seconds(data, "share", PlannedFault.share, where)
    if share >= 1:
        raise PlanError(f"{where}: share: is the part of its time that the host keeps, below 1; it is {share}")
    by = _seconds(data, "by", PlannedFault.by, where)
    if by > LONGEST_DELAY_S:
        raise PlanError(f"{where}: by: is at most {LONGEST_DELAY_S:g}: what takes longer is as good as lost; see `cut`")
    return PlannedFault(
        name,
        _when(data, where),
        hosts,
        count,
        lasts=_seconds(data, "for", kind.lasts, where),
        point=_one_of(data.get("point"), POINTS, f"{where}: point") if kind.target is Target.POINT else None,
        share=share,
        by=by,
        device=_whole(data, "device", None, where, least=0),
    )


def _hosts(value: Any, plan: Plan, where: str) -> tuple[str, ...]:
    if value == RANDOM:
        return ()
    names = value if isinstance(value, list) and value else [value]
    for name in names:
        if name not in plan.host_names:
            known = f"the pool has {', '.join(plan.host_names)}; or write `{RANDOM}`"
            raise PlanError(f"{where}: there is no host {name!r}; {known}")
    return tuple(dict.fromkeys(names))


def _when(data: Mapping[str, Any], where: str) -> When:
    given = [key for key in _WHENS if key in data]
    if len(given) != 1:
        raise PlanError(f"{where}: say when, by one of `at`, `every` and `mtbf`")
    if given == ["at"]:
        if "times" in data:
            raise PlanError(f"{where}: `at` is one moment; `times` goes with `every` and `mtbf`")
        return _moment(data["at"], where)
    times = _whole(data, "times", None, where, least=1)
    seconds = _seconds(data, given[0], None, where)
    return Every(seconds, times) if given == ["every"] else Poisson(seconds, times)


def _moment(at: Any, where: str) -> AtStep | AtTime | AtEvent:
    where = f"{where}: at"
    if not isinstance(at, dict) or len({"step", "seconds", "event"} & at.keys()) != 1:
        raise PlanError(f"{where}: is one of {{step: 10}}, {{seconds: 5}} and {{event: lost}}")
    if "event" in at:
        _check_keys(at, ("event", "count"), where)
        return AtEvent(_one_of(at["event"], EVENTS, f"{where}: event"), _whole(at, "count", 1, where, least=1))
    _check_keys(at, ("step", "seconds"), where)
    if "step" in at:
        return AtStep(_whole(at, "step", 0, where, least=0))
    return AtTime(_seconds(at, "seconds", 0.0, where, least=0.0))


def _dump_fault(planned: PlannedFault) -> dict[str, Any]:
    data: dict[str, Any] = {"fault": planned.fault}
    if planned.hosts:
        data["host"] = planned.hosts[0] if len(planned.hosts) == 1 else list(planned.hosts)
    if planned.count > 1:
        data["count"] = planned.count
    if planned.point is not None:
        data["point"] = planned.point
    if planned.lasts is not None and planned.lasts != FAULTS[planned.fault].lasts:
        data["for"] = planned.lasts
    if planned.share != PlannedFault.share:
        data["share"] = planned.share
    if planned.by != PlannedFault.by:
        data["by"] = planned.by
    if planned.device is not None:
        data["device"] = planned.device
    when = planned.when
    if isinstance(when, (Every, Poisson)):
        data |= {"every": when.seconds} if isinstance(when, Every) else {"mtbf": when.mtbf}
        data |= {} if when.times is None else {"times": when.times}
    elif isinstance(when, AtEvent):
        data["at"] = {"event": when.event, **({"count": when.count} if when.count > 1 else {})}
    else:
        data["at"] = {"step": when.step} if isinstance(when, AtStep) else {"seconds": round(when.seconds, 3)}
    return data


def _check_keys(data: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in data:
        if key not in known:
            raise PlanError(f"{where}: there is no setting {key!r}{_hint(key, known)}")


def _one_of(value: Any, known: Collection[str], where: str) -> str:
    if not isinstance(value, str) or value not in known:
        raise PlanError(f"{where}: there is no {value!r}{_hint(value, known)}")
    return value


def _hint(value: Any, known: Collection[str]) -> str:
    alike = difflib.get_close_matches(str(value), known, 1)
    return f" (did you mean {alike[0]}?)" if alike else f"; there are {', '.join(known)}"


def _text(data: Mapping[str, Any], key: str, default: str) -> str:
    value = data.get(key, default)
    if not isinstance(value, str):
        raise PlanError(f"{key}: is no text: {value!r}")
    return value.strip()


def _flag(data: Mapping[str, Any], key: str) -> bool:
    value = data.get(key, False)
    if not isinstance(value, bool):
        raise PlanError(f"{key}: is true or false, not {value!r}")
    return value


def _whole(data: Mapping[str, Any], key: str, default: Any, where: str = "the plan", *, least: int) -> Any:
    value = data.get(key, default)
    if value is not default and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise PlanError(f"{where}: {key}: is a whole number, at least {least}; it is {value!r}")
    return value


def _seconds(data: Mapping[str, Any], key: str, default: Any, where: str, *, least: float | None = None) -> Any:
    """A number; above 0 unless there is a `least`."""
    value = data.get(key, default)
    if value is default:
        return value
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value < (least or 0):
        raise PlanError(f"{where}: {key}: is a number, {least or 0:g} or more; it is {value!r}")
    if least is None and value == 0:
        raise PlanError(f"{where}: {key}: is a number above 0")
    return float(value)


def _protection(text: str) -> str:
    if re.fullmatch(PROTECTION, text) is None:
        raise PlanError(f"protect: is copies=N or parity=K+M, such as parity=3+1; it is {text!r}")
    return text


def _pattern(value: Any) -> str:
    try:
        groups = re.compile(value).groups
    except (re.error, TypeError) as error:
        raise PlanError(f"step: is no regular expression: {error}") from error
    if groups != 1:
        raise PlanError(f"step: has one group, for the number of the step, as in {Plan.step!r}; it has {groups}")
    return str(value)
