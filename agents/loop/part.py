"""What can be added to an agent: a part with messages, descriptors and times of its own. Pure: interfaces.

`Agent.add(part)` joins one to the agent's loop. A part that rules over queues does it through the agent's `rules`
(agents/permission/rules.py), which let a queue send only while no rule keeps it shut: so parts need not know of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from agents.loop.clock import Clock
from agents.permission.rules import Rules
from protocol.messages import Cause, Message

Handler = Callable[[Any, int], None]
"""Called with a message of the leader's and the time (ns)."""
NO_HANDLERS: Mapping[type, Handler] = MappingProxyType({})
NO_DESCRIPTORS: Mapping[int, Callable[[int], None]] = MappingProxyType({})


class Surroundings(Protocol):
    """What a part may use of the agent that it belongs to. Times are this host's monotonic clock, in ns."""

    clock: Clock
    rules: Rules

    @property
    def nodes(self) -> Container[int]:
        """The destination nodes that there are, as the directory says."""

    @property
    def member(self) -> bool:
        """Whether the leader knows this agent: only then is a message of any use."""

    @property
    def enforcing(self) -> bool:
        """Whether the leader's messages count: the agent is a member, and the operator's override is off."""

    def needs_permission(self, node: int) -> bool:
        """Whether large flows to a node wait at its gate for permission."""

    @property
    def idle(self) -> bool:
        """Whether no slot is open or about to open: a moment for slow work."""

    def send(self, message: Message) -> None:
        """Sends to the leader. The frame passes the interface's queues, and so wakes gates that were changed."""

    def send_stamped(self, message: Callable[[int], Message]) -> None:
        """Sends the message that is made of the instant at which it leaves; see ControlSocket.send_stamped."""

    def refuse(self, cause: Cause) -> None:
        """Counts a message that the agent did not follow; `baton status` shows it."""


class Part(Protocol):
    """What an agent calls of a part. A subclass overrides only what it does differently."""

    handlers: Mapping[type, Handler] = NO_HANDLERS
    """By type of message, of the leader's and verified. A type that several parts handle is handled by all of them."""
    descriptors: Mapping[int, Callable[[int], None]] = NO_DESCRIPTORS
    """By file descriptor: what to call, with the time (ns), when it is readable."""

    def next_due_ns(self) -> int | None:
        """When `advance` must be called next; None: not before something else happens.

        Asked after any call of any part, and after the membership changed.
        """
        return None

    def advance(self, now_ns: int) -> None:
        """Does the work whose time has come. Called when any part is due or was called, so it checks the time first."""
        return

    def new_leader(self, now_ns: int) -> None:
        """A leader with a higher epoch was heard: its version numbers begin anew."""
        return

    def released(self, now_ns: int) -> None:
        """Everything that was held shut is open: the leader is silent, the operator's override is on, or the agent leaves."""
        return

    def repair(self) -> list[str]:
        """Restores what another program removed; a line to log for each thing. Called once a second."""
        return []

    def warnings(self) -> list[str]:
        """What stands in the way of this part now, and what to do: a line each, which fits into a HostState with its `WARNING`
        in front. Called after `repair`; a line is told as long as it stands."""
        return []

    def close(self) -> None:
        """Undoes everything; called once, also after a failure."""
        return
