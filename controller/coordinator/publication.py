"""What operators see of a leader: its status, and a document of each member, a few at a time. Sends only through what it is
given."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from controller.members.part import STATUS_NS, Part, Parts
from controller.members.registry import Members
from protocol.timers import Mishaps, Timers
from protocol.units import MILLISECOND_NS, SECOND_NS

AT_ONCE, PAUSE_NS, JOINING_NS = 16, 16 * MILLISECOND_NS, 32 * MILLISECOND_NS
"""How many members' documents are written at once, in one line, which takes up to 1.2 ms, and for how long the loop then does
other work: at most 1,000 a second. While hosts join, these come first, and the pause is the longer one."""
ROUND_NS = 5 * SECOND_NS
"""In this time each member's document is written, however many there are: the store keeps each for twice as long."""


class Publication(Part):
    """The status every `period_ns`; members' documents after it, each once before the next round begins.

    Args:
        parts: what adds to a member's document.
        write: takes lines for the store bridge.
        head: the lines of the leader itself, at a time (ns).
        mishaps: notes what can't be written; all else is.
    """

    def __init__(
        self,
        period_ns: int,
        timers: Timers,
        members: Members,
        parts: Parts,
        write: Callable[[dict[str, Any]], object],
        head: Callable[[int], list[dict[str, Any]]],
        mishaps: Mishaps,
    ) -> None:
        self.documents = dict.fromkeys(("policy", "override", "rotation", "fabric"), lambda *_: self.soon())
        self._period_ns = period_ns
        self._timers = timers
        self._members = members
        self._parts = parts
        self._write = write
        self._head = head
        self._mishaps = mishaps
        self._told_ns, self._telling = 0, False
        self._untold: deque[int] = deque()
        """The members whose documents are still to be written in this round."""
        self._joining = False
        """Whether a host has joined since the last of them."""

    def joined(self, node: int) -> None:
        self._joining = True
        self.soon()

    def left(self, node: int, now_ns: int) -> None:
        self.soon()

    def soon(self) -> None:
        """Publishes the status as soon as if that were often done: an operator looks whether a change is in force."""
        if not self._telling and self._period_ns > STATUS_NS:
            self._telling = True
            self._timers.at(self._told_ns + STATUS_NS, self.publish)

    def publish(self, now_ns: int) -> None:
        """Writes the status, and begins a round of the members unless one is under way."""
        self._told_ns, self._telling = now_ns, False
        with self._mishaps.surviving("the leader's status", now_ns):
            for line in self._head(now_ns):
                self._write(line)
        if not self._untold:
            self._untold.extend(member.node for member in self._members.present())
            self._tell_members(now_ns)

    def _tell_members(self, now_ns: int) -> None:
        nodes = [self._untold.popleft() for _ in range(min(AT_ONCE, len(self._untold)))]
        if self._untold:
            pause_ns = min(PAUSE_NS, ROUND_NS * AT_ONCE // (1 + len(self._members)))
            self._timers.at(now_ns + (JOINING_NS if self._joining else pause_ns), self._tell_members)
        self._joining = False
        try:
            self._tell(nodes, now_ns)
        except Exception:  # one of them can't be written: each goes by itself
            for node in nodes:
                with self._mishaps.surviving(f"the document of node {node}", now_ns):
                    self._tell([node], now_ns)

    def _tell(self, nodes: list[int], now_ns: int) -> None:
        present = [member for node in nodes if (member := self._members.get(node)) is not None]
        told = [(member.node, member.record(now_ns) | self._parts.of_member(member.node)) for member in present]
        if told:
            self._write({"members": told})
