"""A driver that carries out the group machine's actions in random order, in virtual time.

It checks, at every step, what must hold for any driver: each query is resolved exactly once, calls
are only answered while outstanding, and arrays would only be needed while they are kept.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from parm_ray.core import CallId, GroupId, Outcome, QueryId
from parm_ray.groups import GroupMachine, actions, events


@dataclass
class RandomDriver:
    machine: GroupMachine
    rng: random.Random
    now: float = 0.0
    queued: list[CallId] = field(default_factory=list)
    running: list[CallId] = field(default_factory=list)
    encoding: list[GroupId] = field(default_factory=list)
    decoding: list[actions.Reconstruct] = field(default_factory=list)
    timers: dict[events.Timer, float] = field(default_factory=dict)
    resolved: dict[QueryId, Outcome] = field(default_factory=dict)
    abandoned: set[QueryId] = field(default_factory=set)
    kept: set[GroupId] = field(default_factory=set)
    inputs: set[GroupId] = field(default_factory=set)
    sealed: list[actions.Sealed] = field(default_factory=list)
    log: list[object] = field(default_factory=list)

    def feed(self, event: events.Event) -> None:
        self.log.append(event)
        for action in self.machine.handle(event):
            self.log.append(action)
            self._do(action)

    def _do(self, action: actions.Action) -> None:
        match action:
            case actions.Dispatch(call, queries):
                assert queries
                assert call not in self.queued + self.running
                self.queued.append(call)
                self.kept.add(call.group)
                self.inputs.add(call.group)
            case actions.DispatchCopy(call):
                assert call.group in self.inputs
                assert call not in self.queued + self.running
                self.queued.append(call)
            case actions.DispatchParity(call):
                assert call.group in self.inputs
                self.queued.append(call)
            case actions.Encode(group, slots):
                assert slots
                assert group in self.inputs
                self.encoding.append(group)
            case actions.Reconstruct(group, slots):
                assert slots
                assert group in self.kept
                self.decoding.append(action)
            case actions.Resolve(query=query, outcome=outcome, error=error):
                assert query not in self.resolved, f"{query} resolved twice"
                assert query not in self.abandoned
                assert (outcome is Outcome.FAILED) == (error is not None)
                self.resolved[query] = outcome
            case actions.Abandon(query):
                self.abandoned.add(query)
            case actions.Compare(group):
                assert group in self.kept
            case actions.Withdraw(call):
                if call in self.queued:
                    self.queued.remove(call)
                    self.feed(events.Withdrawn(call, self.now))
            case actions.Sealed():
                self.sealed.append(action)
            case actions.DropInputs(group):
                self.inputs.discard(group)
            case actions.Forget(group):
                assert group in self.kept, "forgotten twice"
                self.kept.discard(group)
                self.inputs.discard(group)
                assert not [c for c in self.queued + self.running if c.group == group]
            case actions.StartTimer(timer, at):
                self.timers[timer] = at
            case actions.CancelTimer(timer):
                self.timers.pop(timer, None)

    def moves(self) -> list[str]:
        """What could happen next, apart from new queries."""
        kinds = ["start"] * bool(self.queued) + ["finish"] * 2 * bool(self.running)
        kinds += ["encode"] * bool(self.encoding) + ["decode"] * 2 * bool(self.decoding)
        return kinds + ["time"] * bool(self.timers)

    def move(self, kind: str, *, crash: float = 0.0, error: float = 0.0) -> None:
        self.now += self.rng.random() * 0.01
        if kind == "start":
            call = self.queued.pop(self.rng.randrange(len(self.queued)))
            self.running.append(call)
            if self.machine.wants_start(call.group):
                self.feed(events.Started(call, self.now))
        elif kind == "finish":
            call = self.running.pop(self.rng.randrange(len(self.running)))
            draw = self.rng.random()
            if draw < crash + error:
                self.feed(events.CallFailed(call, self.now, "boom", crashed=draw < crash))
            else:
                self.feed(events.Answered(call, self.now))
        elif kind == "encode":
            group = self.encoding.pop(self.rng.randrange(len(self.encoding)))
            if self.rng.random() < error:
                self.feed(events.EncodeFailed(group, self.now, "boom"))
            else:
                self.feed(events.Encoded(group, self.now))
        elif kind == "decode":
            work = self.decoding.pop(self.rng.randrange(len(self.decoding)))
            if self.rng.random() < error:
                self.feed(events.ReconstructFailed(work.group, work.slots, self.now, "boom"))
            else:
                self.feed(events.Reconstructed(work.group, work.slots, self.now))
        else:
            timer = min(self.timers, key=lambda t: self.timers[t])
            self.now = max(self.now, self.timers.pop(timer))
            self.feed(events.TimerFired(timer, self.now))

    def drain(self, **odds: float) -> None:
        """Let everything outstanding end."""
        while moves := self.moves():
            self.move(self.rng.choice(moves), **odds)
