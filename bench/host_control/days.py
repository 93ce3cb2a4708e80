"""Days within weeks: which flow each day belongs to, and which packets came on another flow's day. Pure.

The thesis's Figures 2.4 to 2.7: flows send one at a time, a day each; a packet of another flow on a day is residual. A night
belongs to no flow: it absorbs what the day's own flow still sends and what the next day's flow already sends. Eight classes of
PFC serve eight flows a week, so with more flows each week begins by remapping the classes; Baton's own schedule has up to 64
flows in one week. Times are ns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.host_control.capture import Arrivals
from bench.host_control.delays import packets, statistics
from protocol.bodies.host_control import Transport
from protocol.pfc import CLASSES


@dataclass(frozen=True, slots=True)
class Plan:
    """So many flows, one after the other, a day each; in the last `night_ns` of a day no flow may send."""

    transport: Transport
    flows: int
    day_ns: int
    night_ns: int
    days: int
    """All of them, over all weeks."""

    @property
    def days_a_week(self) -> int:
        """As many as the flows of a week, for each has one day."""
        return min(self.flows, CLASSES) if self.transport is Transport.PFC else self.flows

    @property
    def week_ns(self) -> int:
        """The length of a week."""
        return self.days_a_week * self.day_ns

    @property
    def weeks(self) -> int:
        """How many there are, all whole."""
        return -(-self.days // self.days_a_week)

    @property
    def length_ns(self) -> int:
        """The length of all weeks."""
        return self.weeks * self.week_ns

    def flows_of(self, week: int) -> tuple[int, ...]:
        """A week's flows, in the order of its days."""
        first = week * self.days_a_week % self.flows
        return tuple(range(first, first + self.days_a_week))

    def owners(self) -> NDArray[np.int64]:
        """The flow of each day."""
        return np.array([flow for week in range(self.weeks) for flow in self.flows_of(week)], np.int64)

    def remaps(self) -> NDArray[np.bool_]:
        """For each day, whether the classes were remapped just before it."""
        first = np.zeros(self.weeks * self.days_a_week, np.bool_)
        first[self.days_a_week :: self.days_a_week] = self.days_a_week < self.flows
        return first

    def turns(self) -> Iterator[tuple[int, int, int]]:
        """(class that may send, from, until) of each day, relative to the first day's start: for the sender of PFC frames."""
        for day in range(self.weeks * self.days_a_week):
            begin = day * self.day_ns
            yield day % self.days_a_week, begin, begin + self.day_ns - self.night_ns


class Residual(NamedTuple):
    """The packets that came on days of other flows, and how late days began and ended."""

    after_off: tuple[int, ...]
    """Packets of other flows on each day that does not follow a remapping."""
    after_remap: tuple[int, ...]
    """The same for the days that follow a remapping."""
    on_ns: tuple[int, ...]
    """From a day's start to its flow's first packet; negative if that came in the night before."""
    off_ns: tuple[int, ...]
    """From the beginning of a day's night to its flow's last packet, on this day or the next."""
    own_packets: int
    idle_days: int
    """Days on which no flow sent."""

    def to_dict(self) -> dict[str, Any]:
        """For a record; delays in microseconds."""
        return {
            "residual_after_off": packets(self.after_off),
            "residual_after_remap": packets(self.after_remap),
            "residual_packets": sum(self.after_off) + sum(self.after_remap),
            "own_packets": self.own_packets,
            "idle_days": self.idle_days,
            "on_us": statistics(self.on_ns),
            "off_us": statistics(self.off_ns),
        }


def days_of(plan: Plan, start_ns: int, at_ns: NDArray[np.int64], flow: NDArray[np.int64]) -> NDArray[np.int64]:
    """The day for which each packet counts: one of the next day's flow that comes in the night before is only early."""
    owners = plan.owners()
    days: NDArray[np.int64] = (at_ns - start_ns) // plan.day_ns
    nights = (at_ns - start_ns) % plan.day_ns >= plan.day_ns - plan.night_ns
    nexts = owners[np.minimum(days + 1, owners.size - 1)]
    days += nights & (nexts == flow) & (owners[days] != flow)
    return days


def residual(plan: Plan, start_ns: int, arrivals: Arrivals) -> Residual:
    """Counts the packets that came on another flow's day. `start_ns`: of the first day, by the clock of the arrivals."""
    owners, remaps = plan.owners(), plan.remaps()
    days = (arrivals.at_ns - start_ns) // plan.day_ns
    inside = (days >= 0) & (days < owners.size)
    flow, at_ns = arrivals.flow[inside], arrivals.at_ns[inside]
    days = days_of(plan, start_ns, at_ns, flow)
    own = owners[days] == flow
    wrong = np.bincount(days[~own], minlength=owners.size)
    on, off = list[int](), list[int]()
    for day in np.unique(days[own]):
        times = at_ns[own & (days == day)]
        begin_ns = start_ns + int(day) * plan.day_ns
        on.append(int(times.min()) - begin_ns)
        late = at_ns[(days == day + 1) & (flow == owners[day])] if wrong[min(day + 1, owners.size - 1)] else at_ns[:0]
        last = int(late.max()) if late.size else int(times.max())
        off.append(last - (begin_ns + plan.day_ns - plan.night_ns))
    return Residual(
        tuple(wrong[~remaps].tolist()),
        tuple(wrong[remaps].tolist()),
        tuple(on),
        tuple(off),
        int(own.sum()),
        int(owners.size - np.unique(days).size),
    )
