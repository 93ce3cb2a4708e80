"""What the leader's dequeue conditions would take of each destination's gate, for the reflex. An edge: fills its state.

The reflex takes a CONDITIONS message only whole: if it is the leader's newest and authentic, and says of known destinations
when they may send, and at no rate. All else (classes, rates, several pages, a new leader, another key) is left to the rules.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Container, Iterable
from typing import Protocol

from agents.loop.clock import Clock
from agents.permission.rules import Rule, Rules
from agents.reflex.state import QUEUES, Batch, Queue, State, library
from protocol.auth import Guard
from protocol.key import PERSON, Key
from protocol.link import ControlSocket
from protocol.pfc import CLASSES

Texts = Callable[[Iterable[int], bool], bytes]
"""The messages that shut (False) or open (True) destinations."""
MayOpen = Callable[[int, Rule], bool]
"""Whether a destination is wide open once a rule says no more of it."""


class Leader(Protocol):
    """Whose conditions count, as an agent knows it."""

    guard: Guard
    clock: Clock
    link: ControlSocket
    leader_mac: bytes
    nodes: Container[int]

    @property
    def obeying(self) -> bool:
        """Whether its word counts."""


class LeadersConditions:
    """Of one agent's reflex, in its `state`."""

    def __init__(self, state: State, leader: Leader, rules: Rules, texts: Texts, may_open: MayOpen) -> None:
        self._state, self._leader, self._rules, self._texts, self._may_open = state, leader, rules, texts, may_open
        self._key: Key | None = None
        self._nodes: Container[int] | None = None
        self._at: dict[int, int] = {}
        """Where each destination stands in the state."""
        self._plans: list[tuple[bool, bool, bytes, bytes]] = []
        """Of each: whether it is shut and opened by the messages; C points to these."""
        state.own[:] = leader.link.address
        self.ruled: Callable[[], bool] = lambda: False
        """Whether the leader has said conditions: only then it is listened for them."""

    def wanted(self) -> bool:
        """Whether to listen."""
        return self._leader.obeying and self.ruled()

    def prepare(self, changed: Iterable[int], known: Callable[[], Iterable[int]], *, anew: bool) -> None:
        """Tells the state all that it must know in the next wait.

        Args:
            changed: queues of which a rule has said something.
            known: the destinations that have a gate.
            anew: there are other gates, or others need permission.
        """
        state, leader = self._state, self._leader
        key, guard = leader.guard.ring.sending, leader.guard
        if key is not self._key:
            self._key = key
            library().reflex_key(ctypes.byref(state), key.secret, PERSON)
        state.leader[:] = leader.leader_mac
        state.epoch, state.offset_ns = guard.epoch, leader.clock.offset_ns
        newest = guard.newest(leader.leader_mac)
        if anew or leader.nodes is not self._nodes:
            self._nodes = leader.nodes
            there = sorted(destination for destination in known() if destination in leader.nodes)
            self._at = {destination: at for at, destination in enumerate(there)}
            self._plans = [(False, False, b"", b"")] * len(there)
            self._update(there[:QUEUES])
        else:
            self._update(self._named(changed))
        state.queues = min(len(self._at), QUEUES)
        state.sequence = max(0, newest)
        state.control = leader.link.fileno() if newest >= 0 and len(self._at) <= QUEUES else -1

    def leave(self) -> None:
        """Conditions are left to the rules in the next wait."""
        self._state.control = -1
        self._nodes = None

    def _named(self, changed: Iterable[int]) -> set[int]:
        found = set[int]()
        for queue in changed:
            found.update((queue,) if queue >= CLASSES else self._rules.members(queue))
        return found & self._at.keys()

    def _update(self, destinations: Iterable[int]) -> None:
        rules, texts = self._rules, self._texts
        for destination in destinations:
            at, held = self._at[destination], rules.holds(destination, Rule.QUEUE)
            shut = rules.unshut(destination, Rule.QUEUE)
            opened = held and self._may_open(destination, Rule.QUEUE)
            these = (destination,)
            plan = shut, opened, texts(these, False) if shut else b"", texts(these, True) if opened else b""
            self._plans[at] = plan
            batches = (Batch(messages, len(messages)) for messages in plan[2:])
            self._state.queue[at] = Queue(destination, held, 0, 0, *batches)

    def did(self) -> tuple[list[int], list[int]]:
        """The destinations that the last wait shut and opened."""
        shut, opened = list[int](), list[int]()
        if self._state.ruled:
            for destination, at in self._at.items():
                its = self._state.queue[at]
                if its.was_shut and self._plans[at][0]:
                    shut.append(destination)
                elif its.was_opened and self._plans[at][1]:
                    opened.append(destination)
        return shut, opened
