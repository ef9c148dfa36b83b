"""A slow, obvious twin of `membership.hosts`: no queue, no running sums; questions go through the whole past.

It shares the state machine, which has tests of its own, and measures everything else in its own way.
"""

from __future__ import annotations

import itertools
import math

from membership.events import Heartbeat, QuarantineOver, Registered, Replaced, Resumed, SilenceConfirmed, Silent
from membership.host_state import State, register, step
from tests.membership.test_phi import SlowRhythm


class SlowHosts:
    """The states of hosts; no stalls of executors."""

    def __init__(self, settings):
        self.settings = settings
        self.looks = []
        self.hosts = {}
        self.entered = {}
        """id -> (observed, real) time of the last change"""
        self.rhythms = {}
        self.past = {}
        """id -> (time, "well" | "unwell" | weight of a failure), of all incarnations"""

    def observed(self):
        return self.looks[0] + sum(
            min(now - before, self.settings.allowance) for before, now in itertools.pairwise(self.looks)
        )

    def feed(self, event, now):
        self.looks.append(now)
        host = self.hosts.get(event.host)
        if type(event) is Registered:
            if host and event.incarnation <= host.incarnation:
                return []
            done = self.change(host, Replaced(host.id, host.incarnation, event.incarnation), now) if host else []
            history = self.hosts[host.id].history if host else ()
            self.past.setdefault(event.host, [])
            self.hosts[event.host] = register(event, now, self.until(event.host) > now, history)
            self.entered[event.host] = self.observed(), now
            self.rhythms[event.host] = SlowRhythm(self.settings.sensitivity, self.observed())
            return done
        if host is None or host.incarnation != event.incarnation or host.state is State.DEAD:
            return []
        if type(event) is not Heartbeat:
            return self.change(host, event, now)
        if host.state is State.JOINING:
            self.rhythms[host.id] = SlowRhythm(self.settings.sensitivity, self.observed())
        else:
            self.rhythms[host.id].beat(self.observed())
        if host.state in (State.SUSPECT, State.FROZEN):
            event = Resumed(host.id, host.incarnation, 0.0)
        return self.change(host, event, now)

    def tick(self, now):
        self.looks.append(now)
        done = []
        while due := sorted(pair for pair in self.deadlines() if pair[0] <= self.observed()):
            host = self.hosts[due[0][1]]
            event = {
                State.JOINING: Silent(host.id, host.incarnation, 0.0, ""),
                State.HEALTHY: Silent(host.id, host.incarnation, 0.0, ""),
                State.SUSPECT: SilenceConfirmed(host.id, host.incarnation, 0.0),
                State.DRAINING: SilenceConfirmed(host.id, host.incarnation, 0.0),
                State.QUARANTINED: QuarantineOver(host.id, host.incarnation),
                State.DEAD: None,
            }[host.state]
            if event is None:
                del self.hosts[host.id], self.past[host.id]
            else:
                done += self.change(host, event, now)
        return done

    def deadlines(self):
        for id, host in self.hosts.items():
            observed, real = self.entered[id]
            silent = self.rhythms[id].heard + self.rhythms[id].allowed
            yield (
                {
                    State.JOINING: observed + self.settings.join,
                    State.HEALTHY: silent,
                    State.SUSPECT: silent + self.settings.confirm,
                    State.DRAINING: silent + self.settings.confirm,
                    State.QUARANTINED: observed + max(0.0, self.until(id) - real),
                    State.DEAD: observed + self.settings.forget,
                    State.FROZEN: math.inf,
                }[host.state],
                id,
            )

    def change(self, host, event, now):
        after, actions = step(host, event, now)
        if after is host:
            return []
        self.hosts[host.id] = after
        self.entered[host.id] = self.observed(), now
        fenced = any(action.do == "fence" for action in actions)
        if fenced:
            self.past[host.id].append((now, 8.0 if type(event).__name__ == "WrongResult" else 1.0))
        self.past[host.id].append((now, "well" if after.state is State.HEALTHY else "unwell"))
        return [(action.cause.host, action.do) for action in actions]

    def until(self, id):
        account, until, since = 0.0, -math.inf, None
        rule = self.settings.back_off
        for now, what in self.past[id]:
            if since is not None:
                account *= 2 ** (-(now - since) / rule.half_life)
            since = now if what == "well" or (since is not None and what != "unwell") else None
            if isinstance(what, float):
                account += what
                until = now + min(rule.cap, rule.first * 2 ** (account - 1))
                since = None
        return until
