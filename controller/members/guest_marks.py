"""What hosts report of their guests' marks, for operators. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from controller.members.part import Part
from controller.members.registry import Member
from protocol.bodies.flows.guest_marks import GuestMarks


class GuestCounts(Part):
    """The last counts of each member."""

    def __init__(self) -> None:
        self._known: dict[int, GuestMarks] = {}
        self.handlers = {GuestMarks: self._on_counts}

    def _on_counts(self, member: Member, message: GuestMarks, _: int) -> None:
        self._known[member.node] = message

    def left(self, node: int, now_ns: int) -> None:
        self._known.pop(node, None)

    def of_member(self, node: int) -> dict[str, Any]:
        """guest_marks: held, marked, expired, removed and refused; none of a host that hears no guests."""
        known = self._known.get(node)
        return {} if known is None else {"guest_marks": asdict(known)}
