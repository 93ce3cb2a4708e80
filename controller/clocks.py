"""How well the members know the leader's clock, as they report it; weeks and slots begin by it. Pure."""

from __future__ import annotations

from typing import Any

from controller.members.part import Part
from controller.members.registry import Member
from protocol.messages import ClockReport


class Clocks(Part):
    """The last report of each member."""

    def __init__(self) -> None:
        self._reports: dict[int, ClockReport] = {}
        self.handlers = {ClockReport: self._on_report}

    def _on_report(self, member: Member, message: ClockReport, _: int) -> None:
        self._reports[member.node] = message

    def advance(self, now_ns: int) -> None:
        """Nothing is due: members report by themselves."""

    def left(self, node: int) -> None:
        """See Part."""
        self._reports.pop(node, None)

    def of_member(self, node: int) -> dict[str, Any]:
        """The leader's clock minus the member's, and how wrong that may be; nothing before the first report.

        These are monotonic clocks, which begin when a machine starts; the wall clocks' offset is `host_health`'s.
        """
        report = self._reports.get(node)
        if report is None:
            return {}
        return {"schedule_offset_us": report.offset_ns / 1000, "schedule_uncertainty_us": report.uncertainty_ns / 1000}
