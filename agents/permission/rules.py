"""Why a destination is held, and what that makes of its gate: the rules. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Protocol

from agents.permission.conditions import SHUT
from protocol.pfc import CLASSES

DEFAULT_CLASS = 0
"""Of destinations that nobody mapped: untagged traffic has priority 0 (IEEE 802.1Q, 6.9.4)."""


class Rule(Enum):
    """By whose rule a queue is kept shut or limited. A slot's permission is none of these: it opens what no rule shuts."""

    QUEUE = auto()
    """The operator's conditions."""
    WEEK = auto()
    """It is not its flow's day."""
    PAUSE = auto()
    """A PFC or PAUSE frame."""


class Gates(Protocol):
    """What is acted on and asked of the host's queues; a destination is the node id of the host it leads to."""

    def grant(self, destination: int, credit_bytes: int) -> int | None:
        """Lets so many bytes pass, in place of whatever credit was left. None: the gate closes itself after exactly these;
        else it must be closed after so many ns."""

    def rate(self, destination: int, rate_bps: int) -> None:
        """Lets traffic pass at a rate."""

    def open(self, destination: int) -> None:
        """Lets everything pass."""

    def close_gate(self, destination: int) -> None:
        """Lets nothing pass (but the packet that a token bucket may hold)."""

    def state(self, destination: int) -> tuple[int, int]:
        """(bytes that have passed the gate since it was made, bytes that wait at it)."""

    def urgent(self, destination: int) -> int:
        """How many of the bytes that wait are of flows with a deadline; 0 where flows have no priorities."""

    def arm(self, destination: int, *, urgent: bool = False) -> None:
        """Asks to be told of the next packet for the destination; with `urgent` of the next of a flow with a deadline."""

    def kick(self) -> None:
        """Wakes the interface's queues: a changed gate is not looked at before the next packet."""


class Rules:
    """Stands between the gatekeeper and the gates: what it wants of one is done as soon as no rule is against it.

    The gatekeeper's `Gates` are these; `on_freed` is its `resume`, called for each destination that may send again or at
    another rate, to do anew what should be in force there now. A rule's queues may be classes (0 to 7) or destinations.
    """

    def __init__(self, gates: Gates, *, known: Callable[[], Iterable[int]] = tuple) -> None:
        """`known`: the destinations that have a gate, asked when a class is shut or freed."""
        self._gates = gates
        self._known = known
        self.on_freed: Callable[[int], None] = gates.open
        self.on_mapped: Callable[[Mapping[int, int]], None] = lambda classes: None
        """Told all classes when they are others."""
        self.on_last_night: Callable[[], None] = lambda: None
        """Called when a week by PFC is over: whoever keeps pauses takes every class for paused until a frame opens it."""
        self.restrained: dict[int, int] = {}
        """Destinations that a rule is against, and what they may send at (bit/s) or `SHUT`."""
        self._terms: dict[int, dict[Rule, int]] = {}
        self._class_of: dict[int, int] = {}
        self._maps: dict[Rule, dict[int, int]] = {}
        self.changed: set[int] = set()
        """Queues of which a rule has said something; whoever wants to know empties it."""
        self.acted_ns = 0
        """When the reflex had made a step in this turn; 0: it made none."""
        self._acted: dict[int, bool | None] = {}
        # What no rule changes goes straight to the gates.
        self.state, self.urgent, self.arm, self.kick = gates.state, gates.urgent, gates.arm, gates.kick

    # -- what rules say -------------------------------------------------------------------------------------------------

    def shut(self, rule: Rule, queues: Iterable[int]) -> None:
        """Keeps queues shut until the same rule frees them."""
        restrained = self.restrained
        for queue in queues:
            self.changed.add(queue)
            self._terms.setdefault(queue, {})[rule] = SHUT
            for destination in (queue,) if queue >= CLASSES else self.members(queue):
                if restrained.get(destination) != SHUT:  # whatever others say: nothing is less
                    restrained[destination] = SHUT
                    self._close(destination)

    def limit(self, rule: Rule, queue: int, rate_bps: int) -> None:
        """Lets a queue send at no more than a rate."""
        self.changed.add(queue)
        self._terms.setdefault(queue, {})[rule] = rate_bps
        if self._evaluate(queue):
            self.kick()

    def free(self, rule: Rule, queues: Iterable[int]) -> None:
        """This rule says no more of these queues. What is open now is woken, once."""
        freed = False
        for queue in queues:
            self.changed.add(queue)
            terms = self._terms.get(queue)
            if terms is not None and terms.pop(rule, None) is not None:
                if not terms:
                    del self._terms[queue]
                freed |= self._evaluate(queue)
        if freed:
            self.kick()

    def clear(self, rule: Rule) -> None:
        """This rule says no more of any queue."""
        self.free(rule, [queue for queue, terms in self._terms.items() if rule in terms])

    def release(self) -> None:
        """No rule says anything any more: everything that they held opens, at once."""
        self.changed.update(range(CLASSES))
        self._terms.clear()
        freed = list(self.restrained)
        self.restrained.clear()
        for destination in freed:
            self.on_freed(destination)
        if freed:
            self.kick()

    def map(self, classes: Mapping[int, int], rule: Rule = Rule.PAUSE) -> None:
        """Gives destinations their classes, in full; the others have the default class. What is mapped for a week
        (`Rule.WEEK`) has that class, whatever it has otherwise.

        What is shut before and after stays shut in between: a destination that must not be sent as another while classes
        change is to be shut by the caller first.
        """
        if self._maps.get(rule, {}) == classes:
            return
        self.changed.update(range(CLASSES))
        self._maps[rule] = dict(classes)
        wanted = self._maps.get(Rule.PAUSE, {}) | self._maps.get(Rule.WEEK, {})
        changed = [d for d in self._class_of.keys() | wanted.keys() if self.class_of(d) != wanted.get(d, DEFAULT_CLASS)]
        self._class_of = wanted
        self.on_mapped(wanted)
        freed = [self._decide(destination) for destination in changed]
        if any(freed):
            self.kick()

    def class_of(self, destination: int) -> int:
        """The class that a destination is mapped to."""
        return self._class_of.get(destination, DEFAULT_CLASS)

    def members(self, priority: int) -> list[int]:
        """The destinations of a class that are mapped to it or have a gate."""
        found = [destination for destination, its in self._class_of.items() if its == priority]
        if priority == DEFAULT_CLASS:
            found += [destination for destination in self._known() if destination not in self._class_of]
        return found

    def enforce(self, destination: int | None = None) -> None:
        """Gates were made anew, all of them or one destination's, and are open: shuts what is to be shut."""
        self.changed.update(range(CLASSES))
        for known in list(self._known()) if destination is None else [destination]:
            self.restrained.pop(known, None)
            self._acted.pop(known, None)
            self._decide(known)

    # -- deciding -------------------------------------------------------------------------------------------------------

    def _evaluate(self, queue: int) -> bool:
        """Acts on what a queue stands for; whether anything may send that could not before."""
        if queue >= CLASSES:
            return self._decide(queue)
        return sum(self._decide(destination) for destination in self.members(queue)) > 0

    def _decide(self, destination: int) -> bool:
        terms, by_class = self._terms.get(destination), self._terms.get(self._class_of.get(destination, DEFAULT_CLASS))
        rates = [*(terms.values() if terms else ()), *(by_class.values() if by_class else ())]
        before = self.restrained.get(destination)
        if not rates:
            if before is None:
                return False
            del self.restrained[destination]
            if self._acted.pop(destination, None):
                return False  # it is open, and was woken
        else:
            rate = min(rates)
            if rate == before:
                return False
            self.restrained[destination] = rate
            if rate == SHUT:
                self._close(destination)
                return False
        self.on_freed(destination)
        return True

    def _close(self, destination: int) -> None:
        if self._acted.pop(destination, None) is not False:
            self._gates.close_gate(destination)

    # -- the reflex -----------------------------------------------------------------------------------------------------

    def says(self, rule: Rule) -> bool:
        """Whether a rule says anything of any queue."""
        return any(rule in terms for terms in self._terms.values())

    def holds(self, destination: int, rule: Rule) -> bool:
        """Whether a rule keeps this destination shut by its own name."""
        return self._terms.get(destination, {}).get(rule) == SHUT

    def unshut(self, destination: int, rule: Rule) -> bool:
        """Whether nobody but this rule keeps a destination shut, if anybody does."""
        return all(rate != SHUT for other, rate in self._standing(destination) if other is not rule)

    def only(self, destination: int, rule: Rule) -> bool:
        """Whether no other rule than this says anything of a destination."""
        return all(other is rule for other, _ in self._standing(destination))

    def _standing(self, destination: int) -> list[tuple[Rule, int]]:
        own, by_class = self._terms.get(destination, {}), self._terms.get(self.class_of(destination), {})
        return [*own.items(), *by_class.items()]

    def did(self, shut: Iterable[int], opened: Iterable[int], at_ns: int, *, trusted: bool = True) -> None:
        """The reflex has shut and opened these gates, just now and before any rule was asked; it opened what stands in both.
        What rules say in this turn need not be done again. Not `trusted`: the kernel may have refused.

        `at_ns`: when it had made a `Step`; 0: it was something else.
        """
        self.acted_ns = at_ns
        self._acted.update(dict.fromkeys(shut, False))
        self._acted.update(dict.fromkeys(opened, True))
        if not trusted:
            self._acted = dict.fromkeys(self._acted)

    def settle(self) -> None:
        """The turn is over: what the reflex did, and no rule said since, is set right."""
        self.acted_ns = 0
        if not self._acted:
            return
        acted, self._acted = self._acted, {}
        woken = False
        for destination, opened in acted.items():
            if self.restrained.get(destination) == SHUT:
                if opened is not False:
                    self._gates.close_gate(destination)
            else:
                self.on_freed(destination)
                woken = True
        if woken:
            self.kick()

    # -- what the gatekeeper wants --------------------------------------------------------------------------------------

    def grant(self, destination: int, credit_bytes: int) -> int | None:
        """See Gates. At a limited rate the gate must be closed after the time that the bytes take."""
        self._acted.pop(destination, None)
        rate = self.restrained.get(destination)
        if rate is None:
            return self._gates.grant(destination, credit_bytes)
        if rate == SHUT:
            return None
        self._gates.rate(destination, rate)
        return credit_bytes * 8 * 10**9 // rate

    def rate(self, destination: int, rate_bps: int) -> None:
        """See Gates."""
        self._acted.pop(destination, None)
        limit = self.restrained.get(destination)
        if limit != SHUT:
            self._gates.rate(destination, rate_bps if limit is None else min(limit, rate_bps))

    def open(self, destination: int) -> None:
        """See Gates."""
        self._acted.pop(destination, None)
        rate = self.restrained.get(destination)
        if rate is None:
            self._gates.open(destination)
        elif rate != SHUT:
            self._gates.rate(destination, rate)

    def close_gate(self, destination: int) -> None:
        """See Gates."""
        self._acted.pop(destination, None)
        self._gates.close_gate(destination)
