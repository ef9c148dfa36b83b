"""Carries out a plan on a run: does what is due, holds back what would take too much, until the script ends."""

from __future__ import annotations

from chaos import Agenda, Event, History, Injection, Plan
from elastic.chaos_run.live_run import LiveRun
from elastic.chaos_run.verbs import Verbs

_HOLD_S = 30.0
"""How long a fault waits until all arrays are in the memory of hosts that it leaves alone."""


class Conductor:
    """A plan and a run on which it is carried out. `injections` are those that were due so far."""

    def __init__(self, plan: Plan, seed: int, run: LiveRun) -> None:
        self.injections: list[Injection] = []
        self._plan = plan
        self._run = run
        self._agenda = Agenda(plan, seed)
        self._verbs = Verbs(run)
        self._held: list[tuple[Injection, float]] = []
        self._first_value: float | None = None

    def conduct(self) -> History:
        """Goes on until the script has ended; what happened."""
        while self._run.alive:
            events = self._run.look()
            self._verbs.look()
            for injection in self._due(events):
                self.injections.append(injection)
                self._held.append((injection, self._run.now))
            self._do_what_may_be_done()
            self._end_what_hangs()
        self._run.finish()
        self._verbs.give_up()
        for injection, _ in self._held:
            self._verbs.skip(injection, "the script ended before")
        for words in self._agenda.not_reached:
            fault, _, why = words.partition(": ")
            self._run.tell("skipped", number=0, fault=fault, hosts=(), why=why)
        return self._run.history

    def _due(self, events: list[Event]) -> list[Injection]:
        due = []
        for event in sorted(events, key=lambda event: event.at):
            if event.kind == "output" and event["step"] is not None:
                due += self._agenda.step(event["step"])
            elif self._first_value is not None:
                due += self._agenda.event(event.kind)
            elif event.kind == "read":
                self._first_value = event.at
        if self._first_value is not None:
            due += self._agenda.time(self._run.now - self._first_value)
        return due

    def _end_what_hangs(self) -> None:
        if self._run.now - self._run.events[-1].at > self._plan.patience:
            self._run.tell("hung", seconds=self._plan.patience)
            self._run.kill()

    def _do_what_may_be_done(self) -> None:
        """A fault that would take the last copy of something waits until there is another one, or is left out."""
        held, self._held = self._held, []
        for injection, since in held:
            if self._plan.allow_data_loss or self._run.copies.survive(injection):
                self._verbs.do(injection)
            elif self._run.now - since > _HOLD_S:
                who = "+".join(injection.hosts) or "whoever comes there"
                self._verbs.skip(injection, f"for {_HOLD_S:g} s no other host held all that {who} did")
            else:
                self._held.append((injection, since))
