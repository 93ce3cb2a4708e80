"""The settings of the policy `weekly`: the length of days, the number of days in a week, each flow's days. Pure, and light to
import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from protocol.pfc import CLASSES

DAY_NS_MIN, DAY_NS_MAX = 200_000, 40_000_000
DAYS_MAX = FLOWS_MAX = 64


class WeeklyFlow(NamedTuple):
    """A flow of host `source`, and the days of the week on which its gate is open. `flow`: the destination host, or a DSCP."""

    source: str
    flow: str | int
    days: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklySettings:
    """Days within weeks. All times are ns."""

    day_ns: int = 2_000_000
    """A day with its night."""
    night_ns: int = 0
    """The end of each day, in which no flow's gate is open."""
    days: int = 8
    lease_ns: int = 2_000_000_000
    """How long after a week's start hosts keep the gates of its flows closed when no further message comes."""
    transport: str = "schedule"
    key: str = "destination"
    flows: tuple[WeeklyFlow, ...] = ()
    """Empty: the flows that cross contended links take turns."""

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Reads what `dataclasses.asdict` gives, from JSON too. Raises TypeError or ValueError: it is not that."""
        flows = tuple(WeeklyFlow(source, flow, tuple(days)) for source, flow, days in fields.get("flows", ()))
        return cls(**{**fields, "flows": flows})

    def faults(self) -> list[tuple[str, str]]:
        """Contradictions, as (field, what is wrong and the remedy)."""
        found: list[tuple[str, str]] = []
        if not DAY_NS_MIN <= self.day_ns <= DAY_NS_MAX:
            found.append(("day", f"{self.day_ns} ns; write a duration from 200us to 40ms"))
        if self.night_ns >= self.day_ns:
            found.append(("night", "is not shorter than the day that it ends; write less than weekly.day"))
        if not 1 <= self.days <= DAYS_MAX:
            found.append(("days", f"{self.days}; write 1 to {DAYS_MAX}"))
        if self.days * self.day_ns > self.lease_ns:
            found.append(("lease", f"is shorter than the week of {self.days * self.day_ns / 1e6:g} ms; write as much or more"))
        if self.transport == "pfc" and self.days > CLASSES:
            found.append(("days", f"{self.days}; by PFC a week has at most {CLASSES} days, one for each class"))
        if self.transport == "pfc" and not self.night_ns:
            found.append(("night", "is missing; by PFC classes change hands in it, write more than the clocks' uncertainty"))
        if self.key == "tos" and not self.flows:
            found.append(("flows", "is missing; name the flows by ToS and their days"))
        return found + [("flows", fault) for fault in self._flow_faults()]

    def _flow_faults(self) -> list[str]:
        found: list[str] = []
        owners: dict[tuple[str, int], str | int] = {}
        counts: dict[str, set[str | int]] = {}
        for source, flow, days in self.flows:
            name = f"{source} -> {flow}"
            if flow == source:
                found.append(f"{name}: a host sends nothing to itself; name another")
            if self.key == "tos" and not (isinstance(flow, int) and 0 <= flow < 64):
                found.append(f"{name}: not a DSCP; write a number from 0 to 63")
            if not days:
                found.append(f"{name}: has no day; list one or more")
            counts.setdefault(source, set()).add(flow)
            for day in days:
                if not 0 <= day < self.days:
                    found.append(f"{name}: there is no day {day}; days are from 0 to {self.days - 1}")
                other = owners.setdefault((source, day), flow)
                if other != flow:
                    found.append(f"{name}: day {day} is also that of {source} -> {other}; overlapping days, give it another")
        for source, flows in counts.items():
            if len(flows) > FLOWS_MAX:
                found.append(f"{source}: {len(flows)} flows; at most {FLOWS_MAX}")
        return found
