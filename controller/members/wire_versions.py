"""Which versions of the wire the leader and its members speak: what is said to all goes out in each of them. Pure.

Members of several versions are a fabric that is being upgraded, host by host. A host whose version the leader does not speak is
no member: it sends freely, and the operator hears what to upgrade.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from controller.members.part import SUMMARY_NS, Part
from controller.members.registry import Members
from protocol.bodies.groups import FIRST_VERSION, GroupsChange
from protocol.bodies.versions import NEWEST, SPOKEN, Unspoken, Versions
from protocol.messages import Heartbeat, Message

log = logging.getLogger("baton.coordinator")


class WireVersions(Part):
    """The versions of one leader and its members.

    Args:
        patience_ns: for how long agents and other controllers take a leader for alive that they do not hear.
        write: takes lines for the store bridge.
        spoken: the versions that the leader speaks.
    """

    def __init__(
        self, members: Members, patience_ns: int, write: Callable[[dict[str, Any]], object], spoken: Versions = SPOKEN
    ) -> None:
        self.periodic = ((SUMMARY_NS, self._forget),)
        self._members = members
        self._every_ns = patience_ns // 2
        self._write = write
        self._spoken = spoken
        self._unspoken = Unspoken("this controller", "the agent or controller", spoken)
        self._all_ns = -self._every_ns

    def to_all(self, message: Message, now_ns: int) -> tuple[int, ...]:
        """The versions in which to send a message to all, the newest first: each that a member speaks, and the newest always.

        A heartbeat goes out in every version now and then: hosts that are not members yet, and a controller that stands by,
        may speak an older one. An agent takes the newest that it hears.
        """
        if type(message) is Heartbeat and now_ns - self._all_ns >= self._every_ns:
            self._all_ns = now_ns
            return tuple(range(self._spoken.highest, self._spoken.lowest - 1, -1))
        wires, lowest = self._members.wires, self._spoken.lowest
        if type(message) is GroupsChange:
            lowest = max(lowest, FIRST_VERSION)
        return (NEWEST, *(version for version in range(NEWEST - 1, lowest - 1, -1) if wires[version]))

    def heard(self, version: int, source: bytes, now_ns: int) -> None:
        """A frame of a version that we do not speak has come from this address."""
        if line := self._unspoken.heard(version, source, now_ns):
            log.warning("%s", line)
            self._write({"event": ["version", "warning", line]})

    def _forget(self, now_ns: int) -> None:
        self._unspoken.forget(now_ns)

    def status(self) -> dict[str, Any]:
        """wire: the lowest and highest version that we speak, and how many members speak each."""
        counts = {str(version): count for version, count in sorted(self._members.wires.items()) if count}
        return {"wire": {"lowest": self._spoken.lowest, "highest": self._spoken.highest, "members": counts}}

    def warnings(self) -> list[str]:
        return self._unspoken.warnings()
