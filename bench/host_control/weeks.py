"""Weeks that an agent carries out and its partner announces: the thesis's Figures 2.4 to 2.7. An edge: runs them.

By Baton's own schedule the partner announces each week ahead, and the agent keeps it by its clock. By PFC the partner announces
which flow is of which class, and itself sends the frames when a day begins and ends, as a top-of-rack switch would.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.host_control.controls import free_week, pfc_settings, realtime_ahead_ns
from bench.host_control.days import Plan, days_of, residual
from bench.host_control.delays import statistics
from bench.host_control.ends import Ends
from bench.host_control.load import PARTNER_PRIORITY, Commander, Processors, load
from bench.host_control.partner import FIRST_NODE, Partner
from emulation.measuring.confidence import Disturbance
from emulation.measuring.measure import percentile
from protocol.bodies.host_control import ClockReport, Transport, Week, WeekKey
from protocol.bodies.pfc import PfcSettings
from protocol.pfc import CLASSES, MAX_QUANTA, PfcFrame, longest_ns

SIZE_BYTES = 1000
RATE_BPS = 500_000_000
OFFERED = 1.06
"""Offered load over the link's rate: a flow always has something to send, and hardly any packet is dropped."""
AHEAD_NS = 20_000_000
"""How long before its start the partner announces a week."""
SETTLE_NS = 150_000_000
STAIRCASE_WEEKS = 3
STAIRCASE_PACKETS = 6_000
"""At most so many packets are drawn."""


Announcement = bytes | Week | PfcSettings
"""A complete frame, or a message."""


class WeeksResult(NamedTuple):
    """A run's record, and its staircase: time (us after the start), flow, whether it was that flow's day."""

    record: dict[str, Any]
    stairs: list[tuple[float, int, bool]]


def run(
    ends: Ends, processors: Processors, partner: Partner, plan: Plan, numbers: Iterator[int], *, busy: bool = False
) -> WeeksResult:
    """Runs a plan, then frees every flow. `numbers`: of the weeks, rising, since an agent accepts each number once."""
    packets_a_second = round(OFFERED * RATE_BPS / 8 / SIZE_BYTES)
    seconds = (2 * SETTLE_NS + plan.length_ns) / 1e9 + 0.1
    commander = Commander(processors.partner, PARTNER_PRIORITY)
    with load(
        ends, processors, commander, flows=plan.flows, size=SIZE_BYTES, seconds=seconds, pps=packets_a_second
    ) as made:
        start_ns = time.monotonic_ns() + SETTLE_NS
        to_realtime_ns = realtime_ahead_ns()
        late_ns = list[int]()
        for due_ns, said in _timetable(plan, partner, numbers, start_ns):
            partner.serve_until(due_ns)
            late_ns.append(time.monotonic_ns() - due_ns)
            if isinstance(said, bytes):
                partner.send_frame(said)
            else:
                partner.send(said)
        partner.serve_until(start_ns + plan.length_ns)
        partner.send(free_week(next(numbers)))
        partner.send_frame(PfcFrame(partner.address, dict.fromkeys(range(CLASSES), 0)).encode())
        partner.serve_until(time.monotonic_ns() + SETTLE_NS // 2)
        arrivals = made.capture.arrivals()
    begin_ns = start_ns + to_realtime_ns
    found = residual(plan, begin_ns, arrivals)
    disturbed = []
    # A partner later than a night is long spoils a run by PFC; by schedule it only announces, long before.
    partner_late_ns = percentile(late_ns, 99) or 0
    if plan.transport is not Transport.SCHEDULE and partner_late_ns >= plan.night_ns:
        text = f"the partner sent its frames {partner_late_ns / 1e3:.0f} us late (p99), more than a night is long"
        disturbed.append(Disturbance(text, 0.0, partner_late_ns, figures=("delay",)))
    if not found.own_packets:
        disturbed.append(Disturbance("no packet came on a day of its flow", 1.0))
    if arrivals.lost:
        disturbed.append(Disturbance(f"the capture lost {arrivals.lost} packets", 0.0))
    record = {
        "transport": plan.transport.name.lower(),
        "flows": plan.flows,
        "day_us": plan.day_ns / 1e3,
        "night_us": plan.night_ns / 1e3,
        "days": plan.weeks * plan.days_a_week,
        "weeks": plan.weeks,
        "remappings": int(plan.remaps().sum()),
        **found.to_dict(),
        "partner_late_us": statistics(late_ns),
        "clock": _clock(partner),
        "days_mbps": round(found.own_packets * SIZE_BYTES * 8e3 / plan.length_ns, 1),
        "trust": made.trust(*disturbed, busy=busy),
    }
    return WeeksResult(record, _stairs(plan, begin_ns, arrivals.at_ns, arrivals.flow))


def _clock(partner: Partner) -> dict[str, float] | None:
    """What the agent last reported of its clock. The true offset is 0: both ends have the same clock."""
    said = next((message for message in reversed(partner.received) if isinstance(message, ClockReport)), None)
    return None if said is None else {"offset_us": said.offset_ns / 1e3, "uncertainty_us": said.uncertainty_ns / 1e3}


def _timetable(plan: Plan, partner: Partner, numbers: Iterator[int], start_ns: int) -> Iterator[tuple[int, Announcement]]:
    """What the partner sends, and when, in order of time."""
    weeks = [_week(plan, number, next(numbers), start_ns) for number in range(plan.weeks)]
    said: list[Iterator[tuple[int, Announcement]]] = [
        iter([(week.start_ns - max(AHEAD_NS, plan.week_ns), week) for week in weeks])
    ]
    if plan.transport is Transport.PFC:
        said += [iter([(start_ns - SETTLE_NS, pfc_settings())]), _frames(plan, partner.address, start_ns)]
    return heapq.merge(*said, key=lambda entry: entry[0])


def _week(plan: Plan, at: int, number: int, start_ns: int) -> Week:
    """All flows are listed in the week, so that the agent closes those without a day in it."""
    flows = tuple(FIRST_NODE + flow for flow in range(plan.flows))
    masks = tuple(1 << flow for flow in plan.flows_of(at))
    begin_ns = start_ns + at * plan.week_ns
    return Week(number, begin_ns, plan.day_ns, plan.night_ns, plan.week_ns + AHEAD_NS, WeekKey.DESTINATION, plan.transport,
                flows, masks)  # fmt: skip


def _frames(plan: Plan, address: bytes, start_ns: int) -> Iterator[tuple[int, bytes]]:
    """Frames that pause every class but the day's; each pause is renewed well before it ends."""
    renew_ns = longest_ns(RATE_BPS) // 3
    everyone = frozenset(range(plan.days_a_week))
    yield start_ns - plan.day_ns // 2, _pause(address, everyone)
    for number, begin, end in plan.turns():
        yield start_ns + begin, PfcFrame(address, {number: 0}).encode()
        for again in range(begin + renew_ns, end, renew_ns):
            yield start_ns + again, _pause(address, everyone - {number})
        yield start_ns + end, _pause(address, everyone)


def _pause(address: bytes, classes: frozenset[int]) -> bytes:
    return PfcFrame(address, dict.fromkeys(sorted(classes), MAX_QUANTA)).encode()


def _stairs(
    plan: Plan, begin_ns: int, at_ns: NDArray[np.int64], flow: NDArray[np.int64]
) -> list[tuple[float, int, bool]]:
    owners = plan.owners()
    until_ns = begin_ns + min(plan.length_ns, STAIRCASE_WEEKS * plan.week_ns)
    inside = (at_ns >= begin_ns) & (at_ns < until_ns)
    own = owners[days_of(plan, begin_ns, at_ns[inside], flow[inside])] == flow[inside]
    keep = np.flatnonzero(~own)
    step = max(1, int(own.sum()) // STAIRCASE_PACKETS)
    keep = np.sort(np.concatenate([keep, np.flatnonzero(own)[::step]]))
    times = (at_ns[inside] - begin_ns) / 1e3
    return [(round(float(times[at]), 1), int(flow[inside][at]), bool(own[at])) for at in keep]
