"""The parts of one agent, called together, and only when one of them has something to do. Pure: the time is an argument.

Most turns of an agent's loop serve a slot or a heartbeat, which concern no part. An agent sleeps between two turns, and its
code and data leave the caches meanwhile, so every call saved counts: asking every part took a tenth of such a turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack

from agents.loop.part import Handler, Part
from protocol.messages import Message
from protocol.timers import Mishaps

NEVER_NS = 1 << 62
REST_NS = 1_000_000_000
"""How long a part rests that failed at what was due: it would fail at once again, and all others wait meanwhile."""


class Parts:
    """Calls its parts in the order in which they were added. An error of one is noted, and the others are called."""

    def __init__(self, clock: Callable[[], int], mishaps: Mishaps) -> None:
        """`clock`: the time (ns), read anew for each part."""
        self._clock = clock
        self._mishaps = mishaps
        self._resting: dict[Part, int] = {}
        """Parts that failed, and until when they rest."""
        self._parts: list[Part] = []
        self._handlers: defaultdict[type, list[Handler]] = defaultdict(list)
        self.descriptors: dict[int, Callable[[int], None]] = {}
        self._due_ns = 0
        self._touched = True

    def add(self, part: Part) -> None:
        """Joins one; its messages and descriptors are served from now on."""
        self._parts.append(part)
        self.descriptors.update(part.descriptors)
        for kind, handler in part.handlers.items():
            self._handlers[kind].append(handler)
        self._touched = True

    def touch(self) -> None:
        """Has every part asked again when it is due: something happened that may have changed it."""
        self._touched = True

    def next_due_ns(self) -> int:
        """When `advance` must be called next."""
        if self._touched:
            self._touched = False
            due = (part.next_due_ns() for part in self._parts if part not in self._resting)
            self._due_ns = min((when for when in due if when is not None), default=NEVER_NS)
            if self._resting:
                self._due_ns = min(self._due_ns, *self._resting.values())
        return self._due_ns

    def advance(self, now_ns: int) -> None:
        """Advances every part, if any part is due or was called."""
        if self._touched or now_ns >= self._due_ns:
            self._touched = True
            for part in self._parts:
                now_ns = self._clock()
                if self._resting and self._rests(part, now_ns):
                    continue
                try:
                    part.advance(now_ns)
                except Exception as error:
                    self._mishaps.note(type(part).__name__, error, now_ns)
                    self._resting[part] = now_ns + REST_NS

    def _rests(self, part: Part, now_ns: int) -> bool:
        until_ns = self._resting.get(part)
        if until_ns is None or now_ns < until_ns:
            return until_ns is not None
        del self._resting[part]
        return False

    def handles(self, kind: type) -> bool:
        """Whether a part handles messages of this type."""
        return kind in self._handlers

    def handle(self, message: Message, now_ns: int) -> None:
        """Gives a message of the leader's to the parts that handle its type."""
        if (kind := type(message)) in self._handlers:
            self._touched = True
            for handler in self._handlers[kind]:
                try:
                    handler(message, now_ns)
                except Exception as error:
                    self._mishaps.note(kind.__name__, error, now_ns)

    def serve(self, readable: Iterable[int]) -> None:
        """Calls the parts whose descriptors are readable."""
        for descriptor in readable:
            if (serve := self.descriptors.get(descriptor)) is not None:
                self._touched = True
                now_ns = self._clock()
                try:
                    serve(now_ns)
                except Exception as error:
                    self._mishaps.note("a part's descriptor", error, now_ns)

    def new_leader(self, now_ns: int) -> None:
        """Tells every part that a leader with a higher epoch was heard. Raises an expected error once all were told."""
        self._touched = True
        with ExitStack() as telling:
            for part in reversed(self._parts):
                telling.callback(self._tell, part, part.new_leader, now_ns)

    def released(self, now_ns: int) -> None:
        """Tells every part that everything is open. Raises an expected error once all were told."""
        self._touched = True
        with ExitStack() as telling:
            for part in reversed(self._parts):
                telling.callback(self._tell, part, part.released, now_ns)

    def _tell(self, part: Part, told: Callable[[int], None], now_ns: int) -> None:
        with self._mishaps.surviving(type(part).__name__, now_ns):
            told(now_ns)

    def repair(self) -> list[str]:
        """Has every part restore what another program removed; the lines to log."""
        return [line for part in self._parts for line in part.repair()]

    def warnings(self) -> list[str]:
        """What stands in the way of parts now; the lines to tell."""
        return [line for part in self._parts for line in part.warnings()]

    def close(self) -> None:
        """Closes every part, the last added first, whatever else fails. Raises the last error."""
        with ExitStack() as closing:
            for part in self._parts:
                closing.callback(part.close)
            self._parts.clear()
