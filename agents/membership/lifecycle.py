"""An agent's life as a table: states, what can happen, and where it leads. Pure; drawn in protocol/PROTOCOL.md."""

from __future__ import annotations

from enum import Enum, auto


class State(Enum):
    """Where an agent stands towards its coordinator."""

    LISTENING = auto()
    """No leader heard. All gates are open."""
    REGISTERING = auto()
    """A leader's heartbeat was heard and a REGISTER sent; no WELCOME yet. All gates are open."""
    MEMBER = auto()
    """Welcomed: gates open and close as the coordinator directs."""
    FAIL_OPEN = auto()
    """A member whose leader fell silent: all gates are open until the leader is heard again."""
    STOPPED = auto()
    """The agent is leaving, and putting the interface back as it was found."""


class Event(Enum):
    """What can happen to an agent."""

    HEARTBEAT = auto()
    """A verified heartbeat of the leader that we know, or of the first one heard."""
    NEW_LEADER = auto()
    """A verified frame of a leader with a higher epoch."""
    WELCOME = auto()
    """The leader answered our registration (its nonce is ours)."""
    UNKNOWN = auto()
    """The leader does not know us (any more)."""
    SILENCE = auto()
    """Nothing was heard from the leader for `fail_open_ns`."""
    STOP = auto()


class InvalidTransition(Exception):
    """An event that cannot happen in this state; the agent's own error."""


_NEXT: dict[State, dict[Event, State]] = {
    State.LISTENING: {
        Event.HEARTBEAT: State.REGISTERING,
        Event.NEW_LEADER: State.REGISTERING,
        Event.SILENCE: State.LISTENING,
        Event.UNKNOWN: State.LISTENING,
        Event.STOP: State.STOPPED,
    },
    State.REGISTERING: {
        Event.HEARTBEAT: State.REGISTERING,
        Event.NEW_LEADER: State.REGISTERING,
        Event.WELCOME: State.MEMBER,
        Event.UNKNOWN: State.REGISTERING,
        Event.SILENCE: State.LISTENING,
        Event.STOP: State.STOPPED,
    },
    State.MEMBER: {
        Event.HEARTBEAT: State.MEMBER,
        Event.WELCOME: State.MEMBER,
        Event.NEW_LEADER: State.REGISTERING,
        Event.UNKNOWN: State.REGISTERING,
        Event.SILENCE: State.FAIL_OPEN,
        Event.STOP: State.STOPPED,
    },
    State.FAIL_OPEN: {
        Event.HEARTBEAT: State.MEMBER,
        Event.WELCOME: State.MEMBER,
        Event.NEW_LEADER: State.REGISTERING,
        Event.UNKNOWN: State.REGISTERING,
        Event.SILENCE: State.FAIL_OPEN,
        Event.STOP: State.STOPPED,
    },
    State.STOPPED: {},
}


class Lifecycle:
    """The present state. Rule in words: only a MEMBER's gates may be closed; every event that ends membership opens them."""

    def __init__(self) -> None:
        self.state = State.LISTENING

    def on(self, event: Event) -> bool:
        """Handles an event; returns whether the state changed.

        Raises:
            InvalidTransition: the table has no such event in this state.
        """
        try:
            after = _NEXT[self.state][event]
        except KeyError:
            raise InvalidTransition(f"{event.name} cannot happen to an agent that is {self.state.name}") from None
        changed = after is not self.state
        self.state = after
        return changed
