"""The order of coflows of unknown size, by the bytes that all hosts together have sent for them. Pure.

Aalo's discretised attained service (Chowdhury and Stoica, SIGCOMM 2015): who has sent little goes first. Coflows that have sent
up to `factor` times as much as those of the class before are one class; in a class the one that was opened first goes first,
since coflows of like size that share would all be late. Where the first class ends, `controller.coflows.service_limits` finds
from the sizes of coflows that have completed.
"""

from __future__ import annotations

from collections.abc import Mapping

FIRST_NS = 80_000_000
"""The first class until enough sizes are known: as published, 10 MB, at 1 Gb/s; at another rate what takes the link as long."""
FACTOR = 10
"""As published."""


def order(
    sent_bytes: Mapping[int, float], opened: Mapping[int, float], first_bytes: float, factor: float = FACTOR
) -> list[int]:
    """The coflows, first to last: by class of the bytes sent, then by the time of opening.

    Raises:
        ValueError: limits that do not rise.
    """
    if first_bytes <= 0 or factor <= 1:
        raise ValueError(f"first_bytes is {first_bytes} and factor {factor}; write more than 0 and more than 1")
    return sorted(sent_bytes, key=lambda coflow: (class_of(sent_bytes[coflow], first_bytes, factor), opened[coflow], coflow))


def class_of(sent_bytes: float, first_bytes: float, factor: float = FACTOR) -> int:
    """The class of a coflow that has sent so much; 0 goes first."""
    limit, found = first_bytes, 0
    while sent_bytes >= limit:
        found, limit = found + 1, limit * factor
    return found
