"""The reference for agents/bpf/mcp.h, which derives MCP's arithmetic and says what the symbols are: both compute the same."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agents.priorities.mcp_settings import ONE, McpSettings, Termination

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
    now = min(flow.rate, settings.link_rate)
    balance = balance_backlog(settings, now, price(settings, now, window), window.expected)
    gain = now * round(settings.kappa * ONE) >> 10
    if settings.crowd_packets and not window.chance_us:
        return McpFlow(min(window.mss * WAITING_SEGMENTS_PER_S, settings.link_rate), behind)
    crowd = crowding(settings, window)
    if crowd > ONE:
        rate = now - (now * yielding(window, crowd) >> 11)
        behind = min(behind, balance)
    elif behind >= balance:
        rate = now + min(gain * min((behind - balance << 10) // balance, MOST_RATIO) >> 10, now)
    else:
        rate = now - min(gain * ((balance - behind << 10) // balance) >> 10, now >> 1)
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
