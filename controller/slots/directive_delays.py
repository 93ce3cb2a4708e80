"""How long directives take to each member, smoothed, as the policy knows it. Pure.

controller/frames/frames.c smooths in the same way what it hears of members that it was told of.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.members.registry import Member

DELAY_STEP_NS = 50_000
"""Changes of a member's delay below this are noise to a policy: about what an agent's timers are late by."""
MAX_DELAY_NS = 20_000_000
"""What lies above counts as this much: one host far away must not have all slots planned long ahead."""


class DirectiveDelays:
    """Tells the policy of each change that matters; `longest_ns` is the longest delay of all members."""

    def __init__(self, tell_policy: Callable[[int, int], None]) -> None:
        """`tell_policy`: called with a node and its delay (ns)."""
        self._tell_policy = tell_policy
        self.told: dict[int, int] = {}
        """By node: the delay that the policy knows."""
        self.longest_ns = 0

    def took(self, member: Member, delay_ns: int) -> None:
        """Takes how long one directive took to a member."""
        delay_ns, figures = min(max(0, delay_ns), MAX_DELAY_NS), member.figures
        told_ns = figures.told_ns
        figures.delay_ns += (delay_ns - figures.delay_ns) // (1 if told_ns < 0 else 8)
        if told_ns < 0 or abs(figures.delay_ns - told_ns) > max(DELAY_STEP_NS, told_ns // 8):
            figures.told_ns = figures.delay_ns
            self.tell(member.node, figures.delay_ns)

    def tell(self, node: int, delay_ns: int) -> None:
        """Tells the policy a member's smoothed delay."""
        before_ns, self.told[node] = self.told.get(node, 0), delay_ns
        if delay_ns >= self.longest_ns:
            self.longest_ns = delay_ns
        elif before_ns == self.longest_ns:
            self.longest_ns = max(self.told.values())
        self._tell_policy(node, delay_ns)

    def tell_again(self) -> None:
        """Tells a fresh policy all delays."""
        for node, delay_ns in self.told.items():
            self._tell_policy(node, delay_ns)

    def forget(self, node: int) -> None:
        """Forgets a member that has left."""
        self.told.pop(node, None)
        self.longest_ns = max(self.told.values(), default=0)
