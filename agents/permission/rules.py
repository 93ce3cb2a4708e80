"""The rules that block or limit queues, and their combined effect on each destination's gate. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from enum import Enum, auto
from typing import Protocol

from agents.permission.conditions import BLOCKED
from protocol.pfc import CLASSES

DEFAULT_CLASS = 0
"""The class of destinations without a mapping: untagged traffic has priority 0 (IEEE 802.1Q, 6.9.4)."""


class Rule(Enum):
    """A reason to block or limit a queue. A slot's permission is not one: a slot opens only what no rule blocks."""

    QUEUE = auto()
    """The operator's conditions."""
    WEEK = auto()
    """The week: it is not a day of this flow."""
    PAUSE = auto()
    """A PFC or PAUSE frame."""


class GateControl(Protocol):
    """The operations on the host's gates. A destination is the node id of the host that the gate leads to."""

    def grant(self, destination: int, credit_bytes: int) -> int | None:
        """Lets this many bytes pass, in place of the credit that was left. Returns None if the gate closes itself after exactly
        these bytes, else the ns after which the caller must close it."""

    def rate(self, destination: int, rate_bps: int) -> None:
        """Lets traffic pass at a rate, after what `bucket_bytes` says."""

    def bucket_bytes(self, destination: int, rate_bps: int) -> int:
        """What passes at once when a gate is set to a rate, each time anew."""

    def open_gate(self, destination: int) -> None:
        """Lets everything pass."""

    def close_gate(self, destination: int) -> None:
        """Lets nothing pass, except one packet that a token bucket may hold."""

    def state(self, destination: int) -> tuple[int, int]:
        """(bytes that have passed the gate since its creation, bytes that wait at it)."""

    def urgent(self, destination: int) -> int:
        """The waiting bytes of flows with a deadline; 0 if flows have no priorities."""

    def arm(self, destination: int, *, urgent: bool = False) -> None:
        """Requests an event for the next packet to the destination; with `urgent`, the next one of a flow with a deadline."""

    def free_senders(self, destination: int, outstanding_bytes: int) -> None:
        """Frees packets to the destination from their socket when they reach the gate, while their TCP connection has fewer
        bytes than this unacknowledged; 0: leaves all to their socket until they have left the host (agents/bpf/released.h)."""

    def wake_queues(self) -> None:
        """Wakes the interface's queues: the kernel does not look at a changed gate before the next packet."""


class Rules:
    """Applies the rules between the gatekeeper and the gates: no gate opens further than the rules allow.

    The gatekeeper uses it as its `GateControl`. `on_freed` is the gatekeeper's `resume`, which applies the current permission
    to a destination that may send again or at another rate. The queues of a rule are classes (0 to 7) or destinations.
    """

    def __init__(
        self,
        gates: GateControl,
        *,
        known: Callable[[], Iterable[int]] = tuple,
        on_freed: Callable[[int], None] | None = None,
    ) -> None:
        """Closes no gate before a rule asks for it.

        Args:
            known: the destinations that have a gate; read when a rule blocks or unblocks a class.
            on_freed: called for each destination that may send again or at another rate; opens its gate if not given.
        """
        self._gates = gates
        self._known = known
        self._on_freed: Callable[[int], None] = on_freed or gates.open_gate
        self._on_mapping: list[Callable[[Mapping[int, int]], None]] = []
        self._on_last_night: list[Callable[[], None]] = []
        self.restricted: dict[int, int] = {}
        """The destinations that rules restrict, with their rate (bit/s) or `BLOCKED`."""
        self._limits: dict[int, dict[Rule, int]] = {}
        self._class_of: dict[int, int] = {}
        self._maps: dict[Rule, dict[int, int]] = {}
        self.changed: set[int] = set()
        """Queues whose rules changed. The reader (the reflex) empties it."""
        self.step_done_ns = 0
        """When the reflex had made its last step in this turn; 0 if it made none."""
        self._reflex_changes: dict[int, bool | None] = {}
        """Gates that the reflex changed in this turn: whether it opened them; None if the kernel may have refused."""
        # No rule changes these: call the gates directly.
        self.state, self.urgent, self.arm, self.wake_queues = gates.state, gates.urgent, gates.arm, gates.wake_queues
        self.free_senders = gates.free_senders

    def subscribe(
        self,
        *,
        mapping: Callable[[Mapping[int, int]], None] | None = None,
        last_night: Callable[[], None] | None = None,
    ) -> None:
        """Registers callbacks for two events.

        Args:
            mapping: called with the classes of all mapped destinations when any of them changed.
            last_night: called when a week by PFC is over. From then on the part that receives pauses treats every class as
                paused until a frame opens it.
        """
        if mapping is not None:
            self._on_mapping.append(mapping)
        if last_night is not None:
            self._on_last_night.append(last_night)

    def announce_last_night(self) -> None:
        """Tells the subscribers that a week by PFC is over."""
        for callback in self._on_last_night:
            callback()

    # -- rules ---------------------------------------------------------------------------------------------------------

    def block(self, rule: Rule, queues: Iterable[int]) -> None:
        """Keeps queues closed until the same rule unblocks them."""
        restricted = self.restricted
        for queue in queues:
            self.changed.add(queue)
            self._limits.setdefault(queue, {})[rule] = BLOCKED
            for destination in (queue,) if queue >= CLASSES else self.destinations_of(queue):
                if restricted.get(destination) != BLOCKED:  # other rules cannot restrict it further
                    restricted[destination] = BLOCKED
                    self._close(destination)

    def limit(self, rule: Rule, queue: int, rate_bps: int) -> None:
        """Limits the rate of a queue."""
        self.changed.add(queue)
        self._limits.setdefault(queue, {})[rule] = rate_bps
        if self._evaluate(queue):
            self.wake_queues()

    def unblock(self, rule: Rule, queues: Iterable[int]) -> None:
        """Removes this rule from queues, and wakes the interface once if any gate opened."""
        freed = False
        for queue in queues:
            self.changed.add(queue)
            limits = self._limits.get(queue)
            if limits is not None and limits.pop(rule, None) is not None:
                if not limits:
                    del self._limits[queue]
                freed |= self._evaluate(queue)
        if freed:
            self.wake_queues()

    def clear(self, rule: Rule) -> None:
        """Removes this rule from all queues."""
        self.unblock(rule, [queue for queue, limits in self._limits.items() if rule in limits])

    def release(self) -> None:
        """Removes all rules: every queue that they restricted opens at once. Raises what the kernel refused, once all the rest
        is done."""
        self.changed.update(range(CLASSES))
        self._limits.clear()
        freed = list(self.restricted)
        self.restricted.clear()
        with ExitStack() as opening:
            if freed:
                opening.callback(self.wake_queues)
            for destination in reversed(freed):
                opening.callback(self._on_freed, destination)

    def map_classes(self, classes: Mapping[int, int], rule: Rule = Rule.PAUSE) -> None:
        """Replaces the classes that one rule gives destinations; others have the default class. A week's class (`Rule.WEEK`)
        overrides the class of a pause.

        A destination that is closed before and after the change stays closed in between. The caller first blocks a destination
        whose packets must not pass under another's class while classes change.
        """
        if self._maps.get(rule, {}) == classes:
            return
        self.changed.update(range(CLASSES))
        self._maps[rule] = dict(classes)
        wanted = self._maps.get(Rule.PAUSE, {}) | self._maps.get(Rule.WEEK, {})
        changed = [d for d in self._class_of.keys() | wanted.keys() if self.class_of(d) != wanted.get(d, DEFAULT_CLASS)]
        self._class_of = wanted
        for callback in self._on_mapping:
            callback(wanted)
        freed = [self._decide(destination) for destination in changed]
        if any(freed):
            self.wake_queues()

    def class_of(self, destination: int) -> int:
        """The class of a destination."""
        return self._class_of.get(destination, DEFAULT_CLASS)

    def destinations_of(self, priority: int) -> list[int]:
        """The destinations of a class: those mapped to it, and for the default class those that have a gate and no mapping."""
        found = [destination for destination, its in self._class_of.items() if its == priority]
        if priority == DEFAULT_CLASS:
            found += [destination for destination in self._known() if destination not in self._class_of]
        return found

    def reapply(self, destination: int | None = None) -> None:
        """Applies all rules to gates that were just created and are open: to all gates, or to that of one destination."""
        self.changed.update(range(CLASSES))
        for known in list(self._known()) if destination is None else [destination]:
            self.restricted.pop(known, None)
            self._reflex_changes.pop(known, None)
            self._decide(known)

    # -- decisions -----------------------------------------------------------------------------------------------------

    def _evaluate(self, queue: int) -> bool:
        """Applies the rules to the destinations of a queue; returns whether any of them was freed."""
        if queue >= CLASSES:
            return self._decide(queue)
        return sum(self._decide(destination) for destination in self.destinations_of(queue)) > 0

    def _decide(self, destination: int) -> bool:
        limits, by_class = self._limits.get(destination), self._limits.get(self._class_of.get(destination, DEFAULT_CLASS))
        rates = [*(limits.values() if limits else ()), *(by_class.values() if by_class else ())]
        before = self.restricted.get(destination)
        if not rates:
            if before is None:
                return False
            del self.restricted[destination]
            if self._reflex_changes.pop(destination, None):
                return False  # the reflex has opened it and woken the queues
        else:
            rate = min(rates)
            if rate == before:
                return False
            self.restricted[destination] = rate
            if rate == BLOCKED:
                self._close(destination)
                return False
        self._on_freed(destination)
        return True

    def _close(self, destination: int) -> None:
        if self._reflex_changes.pop(destination, None) is not False:
            self._gates.close_gate(destination)

    # -- the reflex ----------------------------------------------------------------------------------------------------

    def holds(self) -> bool:
        """Whether any rule keeps a queue shut or limits its rate."""
        return bool(self.restricted)

    def has_rule(self, rule: Rule) -> bool:
        """Whether a rule blocks or limits any queue."""
        return any(rule in limits for limits in self._limits.values())

    def blocked_by(self, destination: int, rule: Rule) -> bool:
        """Whether a rule blocks this destination itself; a rule about its class does not count."""
        return self._limits.get(destination, {}).get(rule) == BLOCKED

    def unblocked_by_others(self, destination: int, rule: Rule) -> bool:
        """Whether no other rule blocks a destination or its class."""
        return all(rate != BLOCKED for other, rate in self._limits_of(destination) if other is not rule)

    def sole_rule(self, destination: int, rule: Rule) -> bool:
        """Whether no other rule blocks or limits a destination or its class."""
        return all(other is rule for other, _ in self._limits_of(destination))

    def _limits_of(self, destination: int) -> list[tuple[Rule, int]]:
        own, by_class = self._limits.get(destination, {}), self._limits.get(self.class_of(destination), {})
        return [*own.items(), *by_class.items()]

    def reflex_applied(self, closed: Iterable[int], opened: Iterable[int], at_ns: int, *, trusted: bool = True) -> None:
        """Notes that the reflex has just changed gates, so that the rules need not change them again in this turn.

        Args:
            closed: the destinations that it closed.
            opened: the destinations that it opened; one that is in both was opened last.
            at_ns: when it had made a `Step`; 0 if it reacted to a frame.
            trusted: false if the kernel may have refused a change.
        """
        self.step_done_ns = at_ns
        self._reflex_changes.update(dict.fromkeys(closed, False))
        self._reflex_changes.update(dict.fromkeys(opened, True))
        if not trusted:
            self._reflex_changes = dict.fromkeys(self._reflex_changes)

    def reconcile(self) -> None:
        """Ends the turn: undoes changes of the reflex that no rule has confirmed."""
        self.step_done_ns = 0
        if not self._reflex_changes:
            return
        changes, self._reflex_changes = self._reflex_changes, {}
        woken = False
        for destination, opened in changes.items():
            if self.restricted.get(destination) == BLOCKED:
                if opened is not False:
                    self._gates.close_gate(destination)
            else:
                self._on_freed(destination)
                woken = True
        if woken:
            self.wake_queues()

    # -- GateControl, for the gatekeeper -------------------------------------------------------------------------------

    def grant(self, destination: int, credit_bytes: int) -> int | None:
        """As GateControl. At a limited rate, returns the time that the bytes take."""
        self._reflex_changes.pop(destination, None)
        rate = self.restricted.get(destination)
        if rate is None:
            return self._gates.grant(destination, credit_bytes)
        if rate == BLOCKED:
            return None
        self._gates.rate(destination, rate)
        return credit_bytes * 8 * 10**9 // rate

    def rate(self, destination: int, rate_bps: int) -> None:
        self._reflex_changes.pop(destination, None)
        limit = self.restricted.get(destination)
        if limit != BLOCKED:
            self._gates.rate(destination, rate_bps if limit is None else min(limit, rate_bps))

    def bucket_bytes(self, destination: int, rate_bps: int) -> int:
        return self._gates.bucket_bytes(destination, rate_bps)

    def open_gate(self, destination: int) -> None:
        self._reflex_changes.pop(destination, None)
        rate = self.restricted.get(destination)
        if rate is None:
            self._gates.open_gate(destination)
        elif rate != BLOCKED:
            self._gates.rate(destination, rate)

    def close_gate(self, destination: int) -> None:
        self._reflex_changes.pop(destination, None)
        self._gates.close_gate(destination)
