"""Random lives of a few hosts, compared with the slow twin after every step."""

import math
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from membership import events
from membership.backoff import BackOff
from membership.host_state import State
from membership.hosts import Hosts, Settings
from membership.phi import Sensitivity
from tests.membership.slow_hosts import SlowHosts

SETTINGS = Settings(
    sensitivity=Sensitivity(window=12), join=3.0, forget=20.0, back_off=BackOff(first=0.5, cap=8, half_life=4)
)
IDS = st.sampled_from(["a", "b", "c"])
# Fractions of a power of two, so that both sides add them up without rounding.
SPANS = st.integers(1, 1500).map(lambda step: step / 1024)
OUTSIDE = {
    "closed": lambda *id: events.StreamClosed(*id, "reset"),
    "drain": lambda *id: events.DrainRequested(*id, "SIGTERM"),
    "lease": lambda *id: events.LeaseLost(*id),
    "wrong": lambda *id: events.WrongResult(*id, "checksum"),
    "deregistered": lambda *id: events.Deregistered(*id),
}


class Lives(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.now = 64.0
        self.hosts, self.twin = Hosts(SETTINGS), SlowHosts(SETTINGS)
        self.beating = {}
        for id in ("a", "b"):
            self.register(id, 0)

    def feed(self, event):
        actions = self.hosts.feed(event, self.now)
        assert [(action.cause.host, action.do) for action in actions] == self.twin.feed(event, self.now)

    def tick(self):
        actions = self.hosts.tick(self.now)
        assert [(action.cause.host, action.do) for action in actions] == self.twin.tick(self.now)

    def incarnation(self, id):
        return self.hosts[id].incarnation if id in self.hosts else 0

    @rule(id=IDS, newer=st.integers(-1, 2))
    def register(self, id, newer):
        self.feed(events.Registered(id, max(1, self.incarnation(id) + newer)))
        self.beating[id] = True

    @rule(id=IDS, older=st.sampled_from([0, 0, 0, -1, 1]))
    def heartbeat(self, id, older):
        self.feed(events.Heartbeat(id, self.incarnation(id) + older))

    @rule(id=IDS)
    def freeze_or_thaw(self, id):
        self.beating[id] = not self.beating.get(id)

    @rule(id=IDS, what=st.sampled_from(sorted(OUTSIDE)))
    def happen(self, id, what):
        self.feed(OUTSIDE[what](id, self.incarnation(id)))

    @rule(span=SPANS)
    def advance(self, span):
        """The observer ticks in time; hosts that beat do so every 128/1024 s."""
        end = self.now + span
        while self.now < end:
            self.now = min(end, math.floor(self.now * 8 + 1) / 8)
            self.tick()
            for id, beats in self.beating.items():
                if beats and id in self.hosts:
                    self.feed(events.Heartbeat(id, self.incarnation(id)))

    @rule(span=SPANS)
    def stall_the_observer(self, span):
        self.now += span
        self.tick()

    @precondition(lambda self: self.hosts.due() < math.inf)
    @rule()
    def sleep_until_due(self):
        """To the next 1024th after it."""
        self.now = max(self.now, math.ceil(self.hosts.due() * 1024) / 1024)
        self.tick()

    @invariant()
    def both_say_the_same(self):
        if not hasattr(self, "hosts"):
            return
        self.hosts.validate()
        same = {host.id: replace(host, reason="", history=()) for host in self.hosts}
        assert same == {id: replace(host, reason="", history=()) for id, host in self.twin.hosts.items()}
        deadline = min((at for at, _ in self.twin.deadlines()), default=math.inf)
        if self.hosts._watched:
            deadline = min(deadline, self.hosts._observed + SETTINGS.tick)
        assert self.hosts.due() - self.hosts._time.missed == pytest.approx(deadline, abs=1e-5)

    @invariant()
    def nobody_is_healthy_who_was_silent_for_long(self):
        if hasattr(self, "hosts"):
            self.tick()
            for host in self.hosts:
                silence, phi = self.hosts.silence(host.id, self.now)
                assert silence >= 0
                assert 0 <= phi < math.inf
                assert host.state is not State.HEALTHY or silence <= SETTINGS.sensitivity.longest


Lives.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLives = Lives.TestCase
