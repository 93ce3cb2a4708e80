"""What can be added to a coordinator: a part with messages, documents and times of its own. Pure: an interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from controller.members.registry import Member
from protocol.timers import REFRESH_NS

NOTHING: Mapping[Any, Any] = MappingProxyType({})


class Part(Protocol):
    """What a coordinator calls of a part. A class that inherits from this need only say what it does differently."""

    handlers: Mapping[type, Callable[[Member, Any, int], None]] = NOTHING
    """By type of message: of a member's, and verified; called with the time (ns)."""
    documents: Mapping[str, Callable[[Any, int], None]] = NOTHING
    """By name of what the courier tells (see there): called with it and the time (ns)."""
    period_ns: int = REFRESH_NS
    """How often `advance` is called."""

    def advance(self, now_ns: int) -> None:
        """Does what is due."""
        return

    def reported(self, node: int, sent: Mapping[int, int]) -> None:
        """What a member's large flows sent since its last report: bytes by destination."""
        return

    def left(self, node: int) -> None:
        """A member left, or fell silent."""
        return

    def status(self) -> dict[str, Any]:
        """Fields for the coordinator's status, as JSON values."""
        return {}

    def of_member(self, node: int) -> dict[str, Any]:
        """Fields for a member's document, as JSON values."""
        return {}
