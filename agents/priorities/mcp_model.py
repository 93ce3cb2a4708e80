"""MCP (Karuna, SIGCOMM 2016, section 3): the rate of a flow with a deadline, in the arithmetic of agents/bpf/mcp.h. Pure.

MCP lets a flow end just in time, which leaves the rest of the link to flows without a deadline. Symbols, with their units:

    gamma  expected rate: bytes left / time left   bytes/s      Z    backlog, bytes behind what was expected
    x      sending rate                            bytes/s      F    fraction of the last round trip's segments with a mark
    tau    smoothed round trip time                s            K    marking threshold, bytes (packets * segment size)
    C      the link's rate                         bytes/s      P    the price, bytes

**What the paper prints** (equation 11) adds packets to rates: W += tau [ Z gamma / x^2 - (K + F W + lambda) ]. Consistent
units (all in packets, the bracket without one) give dW = kappa C tau [ Z gamma / (tau x^2) - (K + F W) / (C tau) ]. Its gain
still is 2 kappa (K + F W) / (gamma tau) per round trip, with gamma tau down to a part of a segment: no kappa suits both a
flow of 2 % and one of 50 % of the link.

**What is done here** keeps the balance of that form, Z gamma / x^2 = P / C, and goes to it at a speed of its own:

    Z  <- [ Z + gamma t - bytes acknowledged in t ]+         once a round trip, t its measured length
    P   = C tau + K + F x tau
    Z*  = P x^2 / (C gamma)                                  the backlog at which x would stay
    x  <- x + kappa x (Z - Z*) / Z*                          at most doubled, at most halved; floor <= x <= C

* A gradient step times a positive number still goes down the same objective (equation 7), so the rates at rest are the paper's.
* In P the pipe, C tau, stands beside the queue: the paper's link delay d(y), which for M/M/1 begins at the service time and not
  at 0. It also makes the loop stable on each link: acknowledgements being a round trip late, deviations from x = gamma obey
  e(n) = (2 - 2 kappa) e(n-1) - (1 - 2 kappa + kappa C tau / P) e(n-2), and C tau / P <= 1. With the form above they grow
  where C tau > 2 (K + F W).
* A flow starts at x = gamma and Z = Z*, in balance. From Z = 0 it would first fall behind by K gamma / C bytes.
* Rates, not windows: at 100 Mb/s and 0.2 ms, one segment a round trip is already 60 Mb/s. So the stack paces at x, and the
  window, 1.5 x tau plus 3 segments (1.5 C tau where x = C), only bounds the data in flight.
* A lost segment halves the rate; a timeout sets it to a segment a round trip. The stack spaces the next segment by the rate at
  which it sent the last, so a lower rate would hold the flow back for long after it has risen again.
* The floor is a segment a round trip, or gamma where that is less. lambda of equation 11 is left out: its rate estimate is the
  queue's growth, which F and tau already show.
* The kernel adds one segment to the remaining bytes: it sends whole segments, a gap of the pacing clock apart, and the last gap
  must end before the deadline (mcp.bpf.c, `expected_of`). Only a flow of a few segments ends noticeably earlier for it.
* gamma aims at a part of the deadline (`McpSettings.aim`) and two round trips before it at least, for a handshake's delay and
  the last round trips.

**Too much for the link.** Where flows with deadlines have the first queue for themselves, only they make it longer, so they see
it in their round trips: tau less the connection's least, and less the time between two of the flow's own segments, since Linux
acknowledges every second segment, and a lone one after 40 ms. So a flow does not see what is less than a segment of its own in
the queue. While it is longer than `crowd_packets` no flow speeds up. A flow with the time s until its deadline yields the part
y / 2 of its rate in a round trip, y = s / (s + 64 tau), and at least a 16th of the queue's length over the wanted one: later
deadlines yield to earlier ones. By the time that a flow could stand still instead, all that are too much become equally urgent,
and late together. Its window has no more than the wanted queue. A flow
for which the whole link would be too slow is late whatever it does: it waits, at 100 segments a second, until its deadline has
passed and it goes on among the flows without one.

**Termination** by schemes of the paper: 1, by backlog, Z > multiple * (C tau + K), the paper's Z > C having no unit (a flow
starts with Z <= C tau + K, so multiples below 2 give flows up that would be in time); 2, by rate, gamma > C; 3, never.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntEnum

ONE = 1 << 10
US_PER_S = 1_000_000
MOST_RTT_US = MOST_ELAPSED_US = US_PER_S
MOST_PRICE_BYTES, MOST_BEHIND_BYTES, MOST_EXPECTED = 1 << 29, 1 << 40, 1 << 36
MOST_RATIO = 1 << 20
SLOWEST_SEGMENTS_PER_S = 10
SPARE_SEGMENTS = 3
SPARE_RTTS = 2
LEAST_BITS = 4
PATIENCE_BITS = 6
MOST_HELD_US = 40_000
WAITING_SEGMENTS_PER_S = 100
MOST_LINK_BPS = 100_000_000_000
_SETTINGS = struct.Struct("=QIIIIII")


class Termination(IntEnum):
    """The scheme by which MCP gives a flow up."""

    BY_BACKLOG = 1
    BY_RATE = 2
    NEVER = 3


@dataclass(frozen=True, slots=True)
class McpSettings:
    """MCP's settings; one set for the whole kernel.

    Args:
        link_bps: C, the rate of the slowest link on the path.
        marking_packets: K, the queue length at which switches begin to mark.
        kappa: the part of the step to the balance that a flow makes each round trip.
        aim: the part of the deadline by which all data are to be acknowledged.
        termination: the scheme by which a flow is given up.
        multiple: scheme 1 gives a flow up when its backlog is above this multiple of C tau + K.
        crowd_packets: where flows with deadlines have a queue of their own, the length from which they yield; 0: they share
            it.

    Raises:
        ValueError: a setting is out of its range; names it.
    """

    link_bps: int = 1_000_000_000
    marking_packets: int = 20
    kappa: float = 0.25
    aim: float = 0.9375
    termination: Termination = Termination.NEVER
    multiple: float = 3.0
    crowd_packets: int = 0

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("link_bps", self.link_bps, 100_000, MOST_LINK_BPS),
            ("marking_packets", self.marking_packets, 1, 10_000),
            ("kappa", self.kappa, 1 / ONE, 0.5),
            ("aim", self.aim, 0.1, 1.0),
            ("multiple", self.multiple, 1 / ONE, 1000),
            ("crowd_packets", self.crowd_packets, 0, 10_000),
        ):
            if not least <= value <= most:
                raise ValueError(f"{name} is {value}; give {least:g} to {most:g}")
        if self.termination not in list(Termination):
            raise ValueError(f"termination is {self.termination}; give 1 (by backlog), 2 (by rate) or 3 (never)")

    @property
    def link_rate(self) -> int:
        """C in bytes/s."""
        return self.link_bps // 8

    @property
    def path(self) -> tuple[int, int, int]:
        """What differs from path to path: C in bytes/s, K and the crowd in packets."""
        return self.link_rate, self.marking_packets, self.crowd_packets

    def encode(self) -> bytes:
        """struct mcp_settings."""
        fractions = (round(value * ONE) for value in (self.kappa, self.aim))
        return _SETTINGS.pack(
            self.link_rate, self.marking_packets, *fractions, self.termination, round(self.multiple * ONE), self.crowd_packets
        )


@dataclass(frozen=True, slots=True)
class McpFlow:
    """The state of a flow: `rate` x in bytes/s, `behind` Z in bytes."""

    rate: int
    behind: int


@dataclass(frozen=True, slots=True)
class McpWindow:
    """Measurements of one round trip: gamma in bytes/s, bytes acknowledged in elapsed_us, segments delivered and marked; the
    part of the round trip time that packets waited in queues; and the flow's `time_of_chance`.
    """

    expected: int
    elapsed_us: int
    acked: int
    rtt_us: int
    delivered: int
    marked: int
    mss: int
    queue_us: int = 0
    chance_us: int = 0

    @property
    def rtt(self) -> int:
        return min(self.rtt_us, MOST_RTT_US)


def time_left(settings: McpSettings, deadline_us: int, elapsed_us: int, rtt_us: int) -> int:
    """The time in us until all data are to be acknowledged: part of the deadline, and at least two round trips before it."""
    aimed = deadline_us * round(settings.aim * ONE) >> 10
    spare = deadline_us - elapsed_us - SPARE_RTTS * min(rtt_us, MOST_RTT_US)
    return max(min(aimed - elapsed_us, spare), 0)


def expected_rate(remaining: int, left_us: int, rtt_us: int) -> int:
    """gamma in bytes/s: the remaining bytes over the remaining time, which is at least one round trip."""
    least = min(rtt_us or 1, MOST_RTT_US)
    return min(remaining * US_PER_S // max(left_us, least), MOST_EXPECTED) or 1


def price(settings: McpSettings, rate: int, window: McpWindow) -> int:
    """P in bytes."""
    found = settings.link_rate * window.rtt // US_PER_S + settings.marking_packets * window.mss
    if window.delivered:
        found += rate * window.rtt // US_PER_S * min(window.marked, window.delivered) // window.delivered
    return min(found, MOST_PRICE_BYTES)


def balance_backlog(settings: McpSettings, rate: int, price_bytes: int, expected: int) -> int:
    """Z* in bytes, 1 at least."""
    share = (rate << 20) // settings.link_rate
    return min((price_bytes * share >> 20) * rate // expected, MOST_BEHIND_BYTES) or 1


def floor_rate(window: McpWindow) -> int:
    """The least rate in bytes/s: one segment a round trip, at most gamma, and at least what the pacing clock can keep."""
    segment = window.mss * US_PER_S // min(window.rtt_us or 1, MOST_RTT_US)
    return max(min(segment, window.expected), window.mss * SLOWEST_SEGMENTS_PER_S)


def restart_rate(settings: McpSettings, rtt_us: int, mss: int) -> int:
    """The rate in bytes/s after a timeout: one segment a round trip."""
    return min(mss * US_PER_S // min(rtt_us or 1, MOST_RTT_US), settings.link_rate)


def _within(settings: McpSettings, window: McpWindow, rate: int) -> int:
    return min(max(rate, floor_rate(window)), settings.link_rate)


def start(settings: McpSettings, window: McpWindow) -> McpFlow:
    """A flow at its start; the window has gamma, the round trip time and the segment size."""
    rate = _within(settings, window, window.expected)
    return McpFlow(rate, balance_backlog(settings, rate, price(settings, rate, window), window.expected))


def step(settings: McpSettings, flow: McpFlow, window: McpWindow) -> McpFlow:
    """The flow a round trip later."""
    due = flow.behind + window.expected * min(window.elapsed_us, MOST_ELAPSED_US) // US_PER_S
    behind = min(max(due - window.acked, 0), MOST_BEHIND_BYTES)
    balance = balance_backlog(settings, flow.rate, price(settings, flow.rate, window), window.expected)
    gain = flow.rate * round(settings.kappa * ONE) >> 10
    if settings.crowd_packets and not window.chance_us:
        return McpFlow(min(window.mss * WAITING_SEGMENTS_PER_S, settings.link_rate), behind)
    crowd = crowding(settings, window)
    if crowd > ONE:
        rate = flow.rate - (flow.rate * yielding(window, crowd) >> 11)
        behind = min(behind, balance)
    elif behind >= balance:
        rate = flow.rate + min(gain * min((behind - balance << 10) // balance, MOST_RATIO) >> 10, flow.rate)
    else:
        rate = flow.rate - min(gain * ((balance - behind << 10) // balance) >> 10, flow.rate >> 1)
    return McpFlow(_within(settings, window, rate), behind)


def queueing_us(rtt_us: int, least_rtt_us: int, rate: int, mss: int) -> int:
    """The part of a round trip in us that was spent in queues: what it has more than the shortest one, less `held_us`.

    For so long the receiver may have held the acknowledgement back: until the flow's next segment came, 40 ms at most.
    """
    held_us = min(mss * US_PER_S // (rate or 1), MOST_HELD_US)
    return max(rtt_us - least_rtt_us - held_us, 0)


def crowding(settings: McpSettings, window: McpWindow) -> int:
    """How many times longer, in 1/ONE, than flows may make it the queue is that flows with deadlines have for themselves."""
    most = settings.crowd_packets * window.mss
    waiting = settings.link_rate * min(window.queue_us, window.rtt) // US_PER_S
    return min(waiting * ONE // most, MOST_RATIO) if most else 0


def yielding(window: McpWindow, crowd: int) -> int:
    """In 1/ONE, twice the part of its rate that a flow yields: the more, the later its deadline, and the longer the queue."""
    patience = window.chance_us * ONE // (window.chance_us + (max(window.rtt, 1) << PATIENCE_BITS))
    return min(max(patience, crowd >> LEAST_BITS), ONE)


def time_of_chance(settings: McpSettings, remaining: int, left_us: int) -> int:
    """The time in us until a flow's deadline; 0: the whole link would be too slow for it, it is hopeless."""
    return left_us if left_us > remaining * US_PER_S // settings.link_rate else 0


def segments(rate: int, rtt_us: int, mss: int) -> int:
    """The window in segments."""
    window = rate * min(rtt_us, MOST_RTT_US) // US_PER_S
    return (window + (window >> 1)) // (mss or 1) + SPARE_SEGMENTS


def in_flight(settings: McpSettings, flow: McpFlow, window: McpWindow) -> int:
    """`segments`; in a crowd what the rate needs while the queue is as long as it may be, and a segment.

    What the receiver holds back is no queue, so it may have one segment while the next is under way.
    """
    most, queue_us = settings.crowd_packets * window.mss * US_PER_S // settings.link_rate, min(window.queue_us, window.rtt)
    if not settings.crowd_packets or queue_us <= most:
        return segments(flow.rate, window.rtt_us, window.mss)
    return flow.rate * (window.rtt - queue_us + most) // US_PER_S // (window.mss or 1) + 1


def gives_up(settings: McpSettings, flow: McpFlow, window: McpWindow, remaining: int, left_us: int) -> bool:
    """Whether to give the flow up; `left_us` is the time to the deadline itself."""
    if settings.termination is Termination.BY_RATE:
        return remaining * US_PER_S > settings.link_rate * left_us
    if settings.termination is Termination.BY_BACKLOG:
        empty = price(settings, flow.rate, replace(window, marked=0))
        return flow.behind > empty * round(settings.multiple * ONE) >> 10
    return False
