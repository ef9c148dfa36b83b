"""Ten thousand hosts in virtual time."""

import math
import random

import pytest

from membership.events import Do, Heartbeat, Registered, StreamClosed
from membership.host_state import State
from membership.hosts import Hosts, Settings

HOSTS = 10_000
SECONDS = 6.0
LATENESS = 0.02
"""The observer's loop comes round this often."""


def stall(dice):
    """How late a heartbeat is on a loaded machine: mostly little, often up to 300 ms, now and then up to 500 ms."""
    luck = dice.random()
    return dice.uniform(0, 0.02) if luck < 0.9 else dice.uniform(0, 0.3) if luck < 0.99 else dice.uniform(0.3, 0.5)


def beats(dice, first, last):
    """The times of a host's heartbeats: every 100 ms, or when a stall ends."""
    now = first
    while now < last:
        yield now
        now += 0.1 + stall(dice)


@pytest.mark.parametrize("seed", [1])
def test_every_death_is_noticed_in_time_and_nobody_else_is_accused(seed):
    dice = random.Random(seed)
    ends = {}
    """host -> when it falls silent"""
    kills = {}
    schedule = [[] for _ in range(round(SECONDS / LATENESS))]
    for number in range(HOSTS):
        id, last = f"h{number}", SECONDS
        fate = dice.random()
        if fate < 0.02:
            ends[id] = last = dice.uniform(1, SECONDS - 2)
        elif fate < 0.03:
            kills[id] = last = dice.uniform(1, SECONDS - 2)
        for at in beats(dice, dice.uniform(0, 0.1), last):
            if id in ends:
                ends[id] = at
            schedule[int(at / LATENESS)].append(id)
    flapping = [id for id in ends if dice.random() < 0.3]
    for id in flapping:
        for at in beats(dice, ends[id] + 1.6, SECONDS):
            schedule[int(at / LATENESS)].append(id)

    hosts = Hosts()
    signs = {id: Heartbeat(id, 1) for id in (f"h{number}" for number in range(HOSTS))}
    for id in signs:
        hosts.feed(Registered(id, 1), 0.0)
    noticed, fenced, pending = {}, {}, dict(kills)
    for slot, ids in enumerate(schedule):
        now = (slot + 1) * LATENESS
        actions = list(hosts.tick(now))
        for id in ids:
            actions += hosts.feed(signs[id], now)
        for id in [id for id, at in pending.items() if at <= now]:
            del pending[id]
            actions += hosts.feed(StreamClosed(id, 1, "reset"), now)
        for action in actions:
            if action.do is Do.PROBE:
                noticed[action.cause.host] = now
            elif action.do is Do.FENCE:
                fenced[action.cause.host] = now

    hosts.validate()
    bound = Settings().sensitivity.longest + 2 * LATENESS
    assert set(noticed) == set(ends)
    assert set(fenced) == set(ends) | set(kills)
    assert max(noticed[id] - ends[id] for id in ends) <= bound
    assert max(fenced[id] - ends[id] for id in ends) <= bound + Settings().confirm
    assert max(fenced[id] - kills[id] for id in kills) <= LATENESS
    states = {id: hosts[id].state for id in signs}
    assert all(states[id] is State.HEALTHY for id in signs if id not in ends and id not in kills)
    assert all(states[id] in (State.QUARANTINED, State.JOINING, State.HEALTHY) for id in flapping)
    assert math.isfinite(hosts.due())
