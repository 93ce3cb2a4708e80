"""What measured values add up to. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_REPLY = re.compile(r"icmp_seq=(\d+) .*time=([\d.]+) ms")
_SUMMARY = re.compile(r"(\d+) packets transmitted, (\d+) received")


def jain(shares: Iterable[float]) -> float:
    """Jain's fairness index: 1 if all shares are equal, 1/n if one of n has everything; 1 of nothing.

    R. Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness, DEC-TR-301, 1984.
    """
    values = list(shares)
    squares = math.fsum(value * value for value in values)
    return math.fsum(values) ** 2 / (len(values) * squares) if squares else 1.0


def percentile(values: Iterable[float], percent: float) -> float | None:
    """The smallest value that at least `percent` % of the values don't exceed (nearest rank); None of no values."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean; None of no values."""
    return math.fsum(values) / len(values) if values else None


def rate_mbps(size_bytes: int, duration_ns: int) -> float:
    """Megabits (10^6) per second."""
    return size_bytes * 8e3 / duration_ns


@dataclass(frozen=True, slots=True)
class Pings:
    """What a ping prober saw: round-trip times in ms in the order of the requests, and how many requests went unanswered."""

    rtt_ms: tuple[float, ...] = ()
    sent: int = 0
    lost: int = 0

    def summary(self) -> dict[str, float | None]:
        """p50, p99 and max of the round-trip times, in ms; None for each if nothing came back."""
        return {
            "p50": percentile(self.rtt_ms, 50),
            "p99": percentile(self.rtt_ms, 99),
            "max": max(self.rtt_ms, default=None),
        }


def parse_ping(text: str) -> Pings:
    """Reads the output of iputils ping; a duplicate reply is not counted, a late one is a reply."""
    first: dict[int, float] = {}
    for line in text.splitlines():
        if "DUP!" not in line and (found := _REPLY.search(line)):
            first.setdefault(int(found[1]), float(found[2]))
    summary = _SUMMARY.search(text)
    sent = int(summary[1]) if summary else max(first, default=0)
    return Pings(tuple(first[number] for number in sorted(first)), sent, max(0, sent - len(first)))
