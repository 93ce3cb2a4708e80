"""Whether the leader answers this host: a host that only hears it must not hold packets back. Pure.

A heartbeat goes to all hosts. It shows that the leader lives, and not that the leader hears this host, or that frames to this
host alone arrive. What the leader sends to one host alone shows both: it answers hosts that it hears. So an agent that holds
packets back needs such a frame every `fail_open`, and asks for one (a PING of the time 0) when none has come for a third of
that. While it holds nothing back it asks nothing.
"""

from __future__ import annotations

from enum import Enum, auto

QUESTIONS = 3
"""A question is due when no answer has come for one of so many parts of `fail_open`."""
REGISTERS_NS, MEMBER_NS = 10_000_000_000, 30_000_000_000
"""After how long without an answer the operator is told, of a host that registers and of a member, which asks for the time
every 10 s at least."""
LOOK_NS = 5_000_000
"""At most so often an agent looks, unless a question is due."""


class Need(Enum):
    """What an agent has to do."""

    NOTHING = auto()
    ASK = auto()
    OPEN = auto()
    """No answer came: the gates must open."""


class Unanswered:
    """When the operator is to be told that a leader is heard and does not answer, and that it does again. Times are ns.

    A leader does not answer a host whose key was revoked, so that is how such a host sees it.
    """

    def __init__(self) -> None:
        self._since_ns: int | None = None
        """Since when it could have answered; None: it is not heard."""
        self._told = False

    def look(self, now_ns: int, *, heard: bool, member: bool, answered_ns: int) -> bool | None:
        """True: tell that no answer came; False: tell that one came after all; None: nothing is to be told."""
        if not heard:
            self._since_ns, self._told = None, False
            return None
        if self._since_ns is None:
            self._since_ns = now_ns
        if answered_ns > self._since_ns:
            self._since_ns = answered_ns
            if self._told:
                self._told = False
                return False
        if not self._told and now_ns - self._since_ns >= (MEMBER_NS if member else REGISTERS_NS):
            self._told = True
            return True
        return None


class Answers:
    """Of one agent. Times are ns of its monotonic clock."""

    def __init__(self) -> None:
        self.due_ns: int | None = None
        """When to look next; None: whenever the agent is awake."""
        self.free_ns = 0
        """When nothing was held back last."""
        self.asked_ns = 0

    def freed(self, free_ns: int) -> None:
        """Notes that nothing was held back at a time."""
        self.free_ns = max(self.free_ns, free_ns)

    def look(self, now_ns: int, *, holds: bool, answered_ns: int, fail_open_ns: int) -> Need:
        """What is needed now.

        Args:
            holds: whether packets wait that the leader has not let through.
            answered_ns: when the newest frame of the leader's to this host alone came.
            fail_open_ns: how long packets may wait without an answer.
        """
        if not holds:
            self.free_ns, self.due_ns = now_ns, None
            return Need.NOTHING
        since_ns = max(answered_ns, self.free_ns)
        if now_ns - since_ns >= fail_open_ns:
            self.free_ns, self.due_ns = now_ns, None
            return Need.OPEN
        need = Need.NOTHING
        if now_ns - max(since_ns, self.asked_ns) >= fail_open_ns // QUESTIONS:
            need, self.asked_ns = Need.ASK, now_ns
        self.due_ns = min(max(since_ns, self.asked_ns) + fail_open_ns // QUESTIONS, since_ns + fail_open_ns)
        return need
