"""What hosts report of themselves, for operators: kernel, key, clock, and the settings that the agent had to put back. Pure but
for the clock.

HostHealth compares wall clocks, which logs, certificates and operators go by; slots go by the leader's monotonic clock, which
each agent estimates.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from controller.members.event_budget import EventBudget
from controller.members.part import Part
from controller.members.registry import Member
from protocol.bodies.host_state import NEVER_MS, WARNING, HostState
from protocol.messages import ClockReport

REMEMBERED_NS = 600_000_000_000
"""How long a member's document shows what was put back."""
NEWS_MS = 5_000


@dataclass(slots=True)
class _Known:
    state: HostState
    offset_ns: int | None


class HostHealth(Part):
    """The last state of each member."""

    def __init__(
        self,
        write: Callable[[dict[str, Any]], object],
        wall_minus_monotonic_ns: Callable[[], int] = lambda: time.time_ns() - time.monotonic_ns(),
    ) -> None:
        """`write` takes lines for the store bridge."""
        self.handlers = {HostState: self._on_state}
        self._write = write
        self._wall_minus_monotonic_ns = wall_minus_monotonic_ns
        self._known: dict[int, _Known] = {}
        self._events = EventBudget()

    def _on_state(self, member: Member, message: HostState, now_ns: int) -> None:
        before = self._known.get(member.node)
        offset = None
        if message.leader_ns:
            offset = message.wall_ns - (message.leader_ns + self._wall_minus_monotonic_ns())
        self._known[member.node] = _Known(message, offset)
        counted = before.state.put_back if before is not None else 0
        new = message.put_back - counted if message.put_back >= counted else message.put_back
        if before is None and message.ago_ms > NEWS_MS:
            new = 0  # an earlier leader has reported it
        for line in _put_back(message)[-new:] if new else ():
            if (told := self._events.text(member.name, f"{member.name}: put back: {line}", now_ns)) is not None:
                self._write({"event": ["drift", "warning", told]})

    def left(self, node: int, now_ns: int) -> None:
        self._known.pop(node, None)

    def of_member(self, node: int) -> dict[str, Any]:
        """kernel, key (a fingerprint), offset_us and uncertainty_us of the wall clock, put_back (a count), drift (lines)."""
        known = self._known.get(node)
        if known is None:
            return {}
        state = known.state
        recent = state.ago_ms != NEVER_MS and state.ago_ms * 1_000_000 < REMEMBERED_NS
        clock: dict[str, Any] = {}
        if known.offset_ns is not None:
            clock = {"offset_us": known.offset_ns // 1000, "uncertainty_us": state.uncertainty_ns // 1000}
        return clock | {
            "kernel": state.kernel,
            "key": f"{state.fingerprint:016x}",
            "put_back": state.put_back,
            "drift": [f"put back: {line}" for line in _put_back(state)] if recent else [],
        }

    def warnings_of(self, node: int) -> list[str]:
        known = self._known.get(node)
        lines = known.state.lines if known is not None else ()
        return [line.removeprefix(WARNING) for line in lines if line.startswith(WARNING)]


def _put_back(state: HostState) -> list[str]:
    return [line for line in state.lines if not line.startswith(WARNING)]


class Clocks(Part):
    """The last report of each member."""

    def __init__(self) -> None:
        self._reports: dict[int, ClockReport] = {}
        self.handlers = {ClockReport: self._on_report}

    def _on_report(self, member: Member, message: ClockReport, _: int) -> None:
        self._reports[member.node] = message

    def left(self, node: int, now_ns: int) -> None:
        self._reports.pop(node, None)

    def of_member(self, node: int) -> dict[str, Any]:
        """The leader's clock minus the member's, and how wrong that may be; nothing before the first report.

        These are monotonic clocks, which begin when a machine starts; the wall clocks' offset is `host_health`'s.
        """
        report = self._reports.get(node)
        if report is None:
            return {}
        return {"schedule_offset_us": report.offset_ns / 1000, "schedule_uncertainty_us": report.uncertainty_ns / 1000}
