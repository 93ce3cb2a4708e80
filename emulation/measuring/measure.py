"""Statistics of measured values: Jain's index, percentiles, rates, pings. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


def jain(shares: Iterable[float]) -> float:
    """Jain's fairness index: 1 if all shares are equal, 1/n if one of n has everything, 1 if there are none.

    R. Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness, DEC-TR-301, 1984.
    """
    values = list(shares)
    squares = math.fsum(value * value for value in values)
    return math.fsum(values) ** 2 / (len(values) * squares) if squares else 1.0


def percentile(values: Iterable[float], percent: float) -> float | None:
    """The smallest value that at least `percent` % of the values do not exceed (nearest rank); None if there are none."""
    ordered = sorted(values)
    if not ordered:
        return None
    rank = math.ceil(Fraction(str(percent)) * len(ordered) / 100)  # exact: in floats 99.9 % of 1,000 are more than 999
    return ordered[max(0, rank - 1)]


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean; None if there are no values."""
    return math.fsum(values) / len(values) if values else None


def rate_mbps(size_bytes: int, duration_ns: int) -> float:
    """Megabits (10^6) per second."""
    return size_bytes * 8e3 / duration_ns


@dataclass(frozen=True, slots=True)
class Pings:
    """Round-trip times in ms in the order of the requests, how many got no reply, and the numbers of those that did."""

    rtt_ms: tuple[float, ...] = ()
    sent: int = 0
    lost: int = 0
    numbers: tuple[int, ...] = ()

    @classmethod
    def of_probe(cls, found: Mapping[str, Any]) -> Pings:
        """From what `workloads.echo` printed."""
        replies = sorted(found["rtt_ns"])
        times, numbers = tuple(rtt / 1e6 for _, rtt in replies), tuple(number for number, _ in replies)
        return cls(times, found["sent"], found["sent"] - len(replies), numbers)

    def summary(self) -> dict[str, float | None]:
        """p50, p99 and max of the round-trip times, in ms; None for each if there was no reply."""
        return {
            "p50": percentile(self.rtt_ms, 50),
            "p99": percentile(self.rtt_ms, 99),
            "max": max(self.rtt_ms, default=None),
        }
