import pytest

from membership import events
from membership.errors import CannotHappenError
from membership.events import Do
from membership.host_state import HISTORY, State, register, step
from membership.progress import Stall

ID = ("h1", 3)
EVENTS = {
    "heartbeat": events.Heartbeat(*ID),
    "resumed": events.Resumed(*ID, 1.5),
    "closed": events.StreamClosed(*ID, "reset"),
    "silent": events.Silent(*ID, 0.8, "usually heard"),
    "confirmed": events.SilenceConfirmed(*ID, 1.4),
    "stalled": events.ExecutorStalled(*ID, Stall(1.1, "h2")),
    "drain": events.DrainRequested(*ID, "SIGTERM"),
    "lease": events.LeaseLost(*ID),
    "wrong": events.WrongResult(*ID, "checksum"),
    "over": events.QuarantineOver(*ID),
    "deregistered": events.Deregistered(*ID),
    "replaced": events.Replaced(*ID, 4),
}
WAYS = {
    State.JOINING: [],
    State.HEALTHY: ["heartbeat"],
    State.SUSPECT: ["heartbeat", "silent"],
    State.FROZEN: ["heartbeat", "silent", "confirmed"],
    State.DRAINING: ["drain"],
    State.DEAD: ["closed"],
    State.QUARANTINED: ["wrong"],
}
OUTSIDE = {"closed", "drain", "lease", "wrong", "deregistered", "replaced"}
"""What may come at any time, whatever a host is."""


def host_in(state):
    host = register(events.Registered(*ID), 0.0, held=False)
    for now, name in enumerate(WAYS[state]):
        host, _ = step(host, EVENTS[name], now)
    assert host.state is state
    return host


def cannot_happen(state, name):
    try:
        step(host_in(state), EVENTS[name], 9.0)
    except CannotHappenError:
        return True
    return False


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("name", EVENTS)
def test_only_what_is_derived_from_a_state_can_be_impossible_in_another(state, name):
    possible_in = {
        "heartbeat": set(State) - {State.SUSPECT},
        "resumed": {State.SUSPECT, State.FROZEN},
        "silent": {State.JOINING, State.HEALTHY},
        "confirmed": {State.SUSPECT, State.DRAINING},
        "stalled": {State.HEALTHY, State.DRAINING},
        "over": {State.QUARANTINED},
    }.get(name, set(State))
    assert (name in OUTSIDE) <= (possible_in == set(State))
    assert cannot_happen(state, name) == (state not in possible_in)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("name", EVENTS)
def test_every_change_has_its_reason_and_is_in_the_history(state, name):
    before = host_in(state)
    if cannot_happen(state, name):
        return
    after, actions = step(before, EVENTS[name], 9.0)
    if after is before:
        assert not actions
        return
    assert after.reason == EVENTS[name].words()
    assert after.since == 9.0
    change = after.history[-1]
    assert (change.before, change.after, change.reason) == (before.state, after.state, after.reason)
    for action in actions:
        assert (action.cause, action.reason) == (EVENTS[name], after.reason)


@pytest.mark.parametrize("name", sorted(OUTSIDE))
def test_a_failed_host_is_fenced_once(name):
    """From a state in use to one that is not there is one fence or one farewell, and none after that."""
    for state in State:
        after, actions = step(host_in(state), EVENTS[name], 9.0)
        in_use = state in (State.JOINING, State.HEALTHY, State.SUSPECT, State.DRAINING)
        ends = after.state in (State.DEAD, State.QUARANTINED)
        assert [action.do in (Do.FENCE, Do.LEFT) for action in actions] == ([True] if in_use and ends else []) or (
            [action.do for action in actions] == [Do.EVACUATE] and after.state is State.DRAINING
        )


def test_the_dead_stay_dead():
    for name in [*OUTSIDE, "heartbeat"]:
        dead = host_in(State.DEAD)
        assert step(dead, EVENTS[name], 9.0) == (dead, ())


def test_an_impossible_event_prints_what_the_host_went_through():
    with pytest.raises(CannotHappenError) as raised:
        step(host_in(State.FROZEN), EVENTS["stalled"], 9.0)
    text = str(raised.value)
    assert "host h1, incarnation 3: ExecutorStalled (its executor has not moved for 1.10 s while h2 waits)" in text
    assert "0.000 unknown -> joining: registered as incarnation 3\n" in text
    assert text.endswith("2.000 suspect -> frozen: connected but silent for 1.40 s")


def test_the_history_is_bounded_and_goes_over_to_the_next_incarnation():
    host = host_in(State.HEALTHY)
    for now in range(100):
        host, _ = step(host, EVENTS["silent"], now)
        host, _ = step(host, EVENTS["resumed"], now)
    assert len(host.history) == HISTORY
    following = register(events.Registered("h1", 4), 101.0, held=True, history=host.history)
    assert following.state is State.QUARANTINED
    assert following.history[:-1] == host.history[1:]
    assert following.history[-1].before is State.HEALTHY
