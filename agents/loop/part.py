"""What can be added to an agent: a part with messages, descriptors and times of its own. Pure: interfaces.

`Agent.add(part)` joins one to the agent's loop. A part that rules over queues does it through the agent's `rules`
(agents/permission/conditions.py), which lets a queue send only while nobody keeps it shut: so parts need not know of each
other.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from protocol.messages import Cause, Message

if TYPE_CHECKING:
    from agents.loop.clock import Clock
    from agents.permission.rules import Rules

Handler = Callable[[Any, int], None]
"""Called with a message of the leader's and the time (ns)."""
NO_HANDLERS: Mapping[type, Handler] = MappingProxyType({})
NO_DESCRIPTORS: Mapping[int, Callable[[int], None]] = MappingProxyType({})


class Surroundings(Protocol):
    """What a part may use of the agent that it belongs to. Times are this host's monotonic clock, in ns."""

    clock: Clock
    rules: Rules
    nodes: Container[int]
    """The destination nodes that there are, as the directory says."""

    @property
    def member(self) -> bool:
        """Whether the leader knows us: only then is there anyone to tell anything."""

    @property
    def obeying(self) -> bool:
        """Whether the leader's word counts: we are a member, and the operator's override is off."""

    @property
    def idle(self) -> bool:
        """Whether no slot is open or about to open: a moment for what is slow."""

    def send(self, message: Message) -> None:
        """Sends to the leader. It passes the interface's queues, and so wakes gates that were changed."""

    def send_stamped(self, message: Callable[[int], Message]) -> None:
        """Sends the message that is made of the instant at which it leaves; see ControlSocket.send_stamped."""

    def refuse(self, cause: Cause) -> None:
        """Counts something that was not obeyed; `baton status` shows it."""


class Part(Protocol):
    """What an agent calls of a part. A class that inherits from this need only say what it does differently."""

    handlers: Mapping[type, Handler] = NO_HANDLERS
    """By type of message: of the leader's, and verified. A type that others handle too is handled by all."""
    descriptors: Mapping[int, Callable[[int], None]] = NO_DESCRIPTORS
    """By file descriptor: what to call, with the time (ns), when it is readable."""

    def next_due_ns(self) -> int | None:
        """When `advance` must be called next; None: not before something else happens.

        Asked after anything of any part was called, and after the membership changed.
        """
        return None

    def advance(self, now_ns: int) -> None:
        """Does what is due. Called when any part is due or was called, so it looks first whether anything is."""
        return

    def new_leader(self, now_ns: int) -> None:
        """A leader with a higher epoch was heard: numbers of versions begin anew."""
        return

    def released(self, now_ns: int) -> None:
        """The leader is silent, the operator's override is on, or we leave: everything that is held shut is open now."""
        return

    def repair(self) -> list[str]:
        """Puts back what somebody took away; a line to log for each thing. Called once a second."""
        return []

    def close(self) -> None:
        """Undoes everything; called once, also after a failure."""
        return
