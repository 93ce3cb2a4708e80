"""CONDITIONS, WEEK and CLOCK_REPORT: the messages for fine-grained control of a host's queues, with layouts and codecs. Pure.

The source is "Fine-Grained End-Host Traffic Control": dequeue conditions (SDD), and days within weeks (REACToR's schedules).
Times are integer nanoseconds of the leader's clock, rates bit/s.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, unique
from functools import reduce
from operator import or_

from protocol.pfc import CLASSES
from protocol.wire import Layout, check_page

CONDITIONS = Layout(version="Q", page="H", pages="H")
CONDITION = Layout(queue="I", number="I", open_from_ns="Q", open_until_ns="Q", rate_bps="Q")
WEEK = Layout(
    week="Q", start_ns="Q", day_ns="I", night_ns="I", lease_ns="Q", key="B", transport="B", flow_count="B", day_count="B"
)  # fmt: skip
FLOW = Layout(flow="I")
DAY = Layout(mask="Q")
CLOCK_REPORT = Layout(offset_ns="Q", uncertainty_ns="Q")

FIRST_NODE = 16
"""Queue numbers from here on are destination nodes; 0 to 7 are classes of IEEE 802.1Qbb."""
FLOWS_MAX = 64
DAYS_MAX = 64
DAY_NS_MIN, DAY_NS_MAX = 200_000, 40_000_000
FOREVER_NS = (1 << 63) - 1
_SIGN = 1 << 63


@dataclass(frozen=True, slots=True)
class QueueCondition:
    """A queue may send from `open_from_ns` until before `open_until_ns`, at `rate_bps` (0: as fast as the link).

    `queue` is a class (0 to 7) or a destination node. A queue whose conditions were all removed is paused: it is listed with
    one condition that is never met, whose from and until are 0.
    """

    queue: int
    number: int
    open_from_ns: int = 0
    open_until_ns: int = FOREVER_NS
    rate_bps: int = 0


@dataclass(frozen=True, slots=True)
class Conditions:
    """Leader to member: the conditions of all its queues that have any; full state, in pages. Queues not listed are free."""

    version: int
    page: int
    pages: int
    entries: tuple[QueueCondition, ...]


@unique
class WeekKey(IntEnum):
    """The property that distinguishes a week's flows."""

    DESTINATION = 0
    """The destination's node id."""
    TOS = 1
    """The six DSCP bits of the IP header's ToS byte."""


@unique
class Transport(IntEnum):
    """What opens and closes a week's days."""

    SCHEDULE = 0
    """The agent, by its own clock."""
    PFC = 1
    """PFC frames. The flows that have a day get classes 0, 1 ... in their order; all others stay closed all week."""


@dataclass(frozen=True, slots=True)
class Week:
    """Leader to member, ahead of `start_ns`: the member's flows of one week, and which of them are open on which day.

    Day d lasts from start + d * day until `night_ns` before the next begins; its mask has bit f set if flow f of `flows` is
    open then. The other flows are closed. All flows are closed in the nights, and from the last day until the next week or
    until `lease_ns` after the start: then all are free. A week without flows frees all flows at its start. A week with the
    number of one that has not begun replaces it.
    """

    week: int
    start_ns: int
    day_ns: int
    night_ns: int
    lease_ns: int
    key: WeekKey
    transport: Transport
    flows: tuple[int, ...]
    days: tuple[int, ...]

    @property
    def end_ns(self) -> int:
        """The end of the last day's night."""
        return self.start_ns + len(self.days) * self.day_ns

    @property
    def active(self) -> int:
        """The mask of the flows that have a day."""
        return reduce(or_, self.days, 0)


@dataclass(frozen=True, slots=True)
class ClockReport:
    """Member to leader: the leader's clock minus its own, and the uncertainty of that (`agents/loop/clock.py`)."""

    offset_ns: int
    uncertainty_ns: int


def check_week(week: Week) -> None:
    """Checks a week's fields against each other; both ends call it. Raises ValueError naming the field and the remedy."""
    flows, days = week.flows, week.days
    if len(flows) > FLOWS_MAX:
        raise ValueError(f"Week.flows: {len(flows)} flows, at most {FLOWS_MAX}; spread them over several weeks")
    if len(days) > DAYS_MAX:
        raise ValueError(f"Week.days: {len(days)} days, at most {DAYS_MAX}; write several weeks")
    if len(set(flows)) != len(flows):
        raise ValueError(f"Week.flows: {flows} names a flow twice")
    if week.key is WeekKey.TOS and any(flow >= 1 << 6 for flow in flows):
        raise ValueError(f"Week.flows: {flows}; a DSCP is from 0 to 63")
    if week.key is WeekKey.DESTINATION and any(flow < FIRST_NODE for flow in flows):
        raise ValueError(f"Week.flows: {flows}; a destination node is {FIRST_NODE} or more")
    if week.transport is Transport.PFC and (count := week.active.bit_count()) > CLASSES:
        raise ValueError(f"Week.days: {count} flows have a day; by PFC at most {CLASSES}, one for each class")
    if any(mask >> len(flows) for mask in days):
        raise ValueError(f"Week.days: a mask opens a flow that is not among the week's {len(flows)}")
    if flows and not DAY_NS_MIN <= week.day_ns <= DAY_NS_MAX:
        raise ValueError(f"Week.day_ns: {week.day_ns}, must be from {DAY_NS_MIN} to {DAY_NS_MAX}")
    if week.night_ns and week.night_ns >= week.day_ns:
        raise ValueError(f"Week.night_ns: {week.night_ns}, must be shorter than the day of {week.day_ns} that it ends")
    if week.lease_ns < len(days) * week.day_ns:
        raise ValueError(
            f"Week.lease_ns: {week.lease_ns}, but the week is longer: {len(days)} days of {week.day_ns}; shorten the week"
        )


def pack_week(week: Week) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    check_week(week)
    values = (week.week, week.start_ns, week.day_ns, week.night_ns, week.lease_ns, int(week.key), int(week.transport))
    head = WEEK.pack("Week", *values, len(week.flows), len(week.days))
    flows = FLOW.pack_rows("Week.flows", ((flow,) for flow in week.flows))
    return head + flows + DAY.pack_rows("Week.days", ((mask,) for mask in week.days))


def unpack_week(body: bytes) -> Week:
    """Raises ValueError or struct.error: not such a body."""
    number, start_ns, day_ns, night_ns, lease_ns, key, transport, flow_count, day_count = WEEK.struct.unpack_from(body)
    middle = WEEK.size + flow_count * FLOW.size
    if len(body) != middle + day_count * DAY.size:
        raise ValueError("week")
    flows = tuple([flow for (flow,) in FLOW.struct.iter_unpack(body[WEEK.size : middle])])
    days = tuple([mask for (mask,) in DAY.struct.iter_unpack(body[middle:])])
    week = Week(number, start_ns, day_ns, night_ns, lease_ns, WeekKey(key), Transport(transport), flows, days)
    check_week(week)
    return week


def check_condition(condition: QueueCondition) -> None:
    """Raises ValueError naming the field and the remedy."""
    if CLASSES <= condition.queue < FIRST_NODE:
        raise ValueError(f"queue: {condition.queue}; a class is from 0 to {CLASSES - 1}, a node {FIRST_NODE} or more")
    if condition.open_until_ns < condition.open_from_ns:
        raise ValueError(f"open_until: {condition.open_until_ns} ns is before open_from, {condition.open_from_ns} ns")


def pack_conditions(message: Conditions) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    check_page("Conditions", message.page, message.pages)
    for condition in message.entries:
        check_condition(condition)
    head = CONDITIONS.pack("Conditions", *CONDITIONS.values(message))
    return head + CONDITION.pack_rows("Conditions.entries", map(CONDITION.values, message.entries))


def unpack_conditions(body: bytes) -> Conditions:
    """Raises ValueError or struct.error: not such a body."""
    version, page, pages = CONDITIONS.struct.unpack_from(body)
    check_page("", page, pages)
    entries = tuple([QueueCondition(*row) for row in CONDITION.struct.iter_unpack(body[CONDITIONS.size :])])
    for condition in entries:
        check_condition(condition)
    return Conditions(version, page, pages, entries)


def pack_clock_report(message: ClockReport) -> bytes:
    """Encodes the signed offset as two's complement. Raises ValueError naming the field that does not fit."""
    if not -_SIGN <= message.offset_ns < _SIGN:
        raise ValueError(f"ClockReport.offset_ns: {message.offset_ns} must fit 64 bits with a sign")
    return CLOCK_REPORT.pack("ClockReport", message.offset_ns % (2 * _SIGN), message.uncertainty_ns)


def unpack_clock_report(body: bytes) -> ClockReport:
    """Raises struct.error: not such a body."""
    offset_ns, uncertainty_ns = CLOCK_REPORT.struct.unpack(body)
    return ClockReport(offset_ns - 2 * _SIGN if offset_ns >= _SIGN else offset_ns, uncertainty_ns)
