"""Prepares for the reflex how the leader's dequeue conditions would change each destination's gate. An edge: fills its state.

The reflex applies a CONDITIONS message only as a whole: it must be authentic and the leader's newest, name only known
destinations, and limit no rate. The rules handle all other messages (classes, rates, several pages, a new leader, another key).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Container, Iterable
from typing import Protocol

from agents.loop.clock import Clock
from agents.permission.rules import Rule, Rules
from agents.reflex.state import LIBRARY, QUEUES, Batch, Queue, State
from protocol.auth import Guard
from protocol.key import PERSON, Key
from protocol.link import ControlSocket
from protocol.pfc import CLASSES

GateMessages = Callable[[Iterable[int], bool], bytes]
"""Returns the kernel messages that close (False) or open (True) the gates of destinations."""
MayOpen = Callable[[int, Rule], bool]
"""Whether a destination's gate opens fully once a rule ends."""


class Leader(Protocol):
    """The leader whose conditions count, as the agent knows it."""

    guard: Guard
    clock: Clock
    link: ControlSocket
    leader_mac: bytes

    @property
    def nodes(self) -> Container[int]:
        """The destination nodes that there are, as the directory says."""

    @property
    def enforcing(self) -> bool:
        """Whether its word counts."""


class LeaderConditions:
    """The leader's conditions in the `state` of one agent's reflex."""

    def __init__(
        self,
        state: State,
        leader: Leader,
        rules: Rules,
        messages: GateMessages,
        may_open: MayOpen,
        has_conditions: Callable[[], bool] = lambda: False,
    ) -> None:
        self._state, self._leader, self._rules, self._messages, self._may_open = state, leader, rules, messages, may_open
        self._key: Key | None = None
        self._nodes: Container[int] | None = None
        self._index: dict[int, int] = {}
        """The index of each destination in the state."""
        self._plans: list[tuple[bool, bool, bytes, bytes]] = []
        """Of each destination: whether it is closed and opened, and the messages; the C structure points to these."""
        self.has_conditions = has_conditions
        """Whether the leader has said conditions: only then it is listened for them."""

    def enabled(self) -> bool:
        """Whether the reflex listens for conditions."""
        return self._leader.enforcing and self.has_conditions()

    def prepare(self, changed: Iterable[int], known: Callable[[], Iterable[int]], *, rebuilt: bool) -> None:
        """Fills the state for the next wait.

        Args:
            changed: queues whose rules changed.
            known: the destinations that have a gate.
            rebuilt: whether the gates, or the destinations that need permission, changed.
        """
        state, leader = self._state, self._leader
        key, guard = leader.guard.ring.sending.from_leader, leader.guard
        if key is not self._key:
            self._key = key
            LIBRARY.loaded().reflex_key(ctypes.byref(state), key.secret, PERSON)
        state.own_address[:], state.leader_address[:] = leader.link.address, leader.leader_mac
        state.epoch, state.offset_ns, state.version = guard.epoch, leader.clock.offset_ns, guard.speaks
        newest = guard.newest(leader.leader_mac)
        if rebuilt or leader.nodes is not self._nodes:
            self._nodes = leader.nodes
            there = sorted(destination for destination in known() if destination in leader.nodes)
            self._index = {destination: at for at, destination in enumerate(there)}
            self._plans = [(False, False, b"", b"")] * len(there)
            self._update(there[:QUEUES])
        else:
            self._update(self._affected(changed))
        state.queue_count = min(len(self._index), QUEUES)
        state.sequence = max(0, newest)
        state.control_fd = leader.link.fileno() if newest >= 0 and len(self._index) <= QUEUES else -1

    def disable(self) -> None:
        """Leaves conditions to the rules in the next wait."""
        self._state.control_fd = -1
        self._nodes = None

    def _affected(self, changed: Iterable[int]) -> set[int]:
        found = set[int]()
        for queue in changed:
            found.update((queue,) if queue >= CLASSES else self._rules.destinations_of(queue))
        return found & self._index.keys()

    def _update(self, destinations: Iterable[int]) -> None:
        rules, messages = self._rules, self._messages
        for destination in destinations:
            at, blocked = self._index[destination], rules.blocked_by(destination, Rule.QUEUE)
            closed = rules.unblocked_by_others(destination, Rule.QUEUE)
            opened = blocked and self._may_open(destination, Rule.QUEUE)
            these = (destination,)
            plan = closed, opened, messages(these, False) if closed else b"", messages(these, True) if opened else b""
            self._plans[at] = plan
            batches = (Batch(messages, len(messages)) for messages in plan[2:])
            self._state.queue[at] = Queue(destination, blocked, 0, 0, *batches)

    def applied(self) -> tuple[list[int], list[int]]:
        """The destinations that the last wait closed and opened."""
        closed, opened = list[int](), list[int]()
        if self._state.queues_changed:
            for destination, at in self._index.items():
                its = self._state.queue[at]
                if its.was_closed and self._plans[at][0]:
                    closed.append(destination)
                elif its.was_opened and self._plans[at][1]:
                    opened.append(destination)
        return closed, opened
