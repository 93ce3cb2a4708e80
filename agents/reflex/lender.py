"""What the reflex for slots asks of the agent that it serves. Pure: interfaces."""

from __future__ import annotations

from typing import Protocol

from agents.config import AgentConfig
from agents.loop.clock import Clock
from agents.permission.gatekeeper import Gatekeeper
from agents.permission.rules import Rules
from protocol.auth import Guard


class Heard(Protocol):
    """When the leader was heard; see agents/membership/heartbeat_monitor.py."""

    last_heartbeat_ns: int
    last_answer_ns: int
    looked_ns: int
    within_ns: int

    def answered(self, came_ns: int) -> None:
        """Notes verified frames to this host alone, the newest of which came at `came_ns`."""


class Asked(Protocol):
    """When the leader was asked for an answer; see agents/membership/answers.py."""

    free_ns: int
    asked_ns: int

    def freed(self, free_ns: int) -> None:
        """Notes that nothing was held back at a time."""


class Standing(Protocol):
    """Where the agent stands towards its leader; see agents/membership/membership.py."""

    node: int
    fail_open_ns: int

    @property
    def heartbeats(self) -> Heard:
        """When the leader was heard."""

    @property
    def answers(self) -> Asked:
        """When it was asked."""

    @property
    def question_ns(self) -> int:
        """After how long without an answer a question is due."""


class Lender(Protocol):
    """The agent. What it lends the reflex for a wait, nothing else changes meanwhile."""

    config: AgentConfig
    guard: Guard
    clock: Clock
    rules: Rules
    keeper: Gatekeeper
    leader_mac: bytes
    sequence: int
    """Of its last frame."""
    poll_until_ns: int
    """It awaits the answer to a BACKLOG so long without sleeping."""

    @property
    def membership(self) -> Standing:
        """Where it stands towards its leader."""

    @property
    def unwanted(self) -> int:
        """The types of messages that it only verifies, as a mask of bits."""

    @property
    def poll_ns(self) -> int:
        """How long it polls for the answer to a BACKLOG."""

    @property
    def member(self) -> bool:
        """Whether the leader has welcomed it and has not fallen silent since."""

    def obeyed(self, frame: bytes) -> None:
        """Notes that the reflex has obeyed a directive."""
