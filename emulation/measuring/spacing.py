"""How exactly packets followed one another on a link, as Mininet-HiFi measures fidelity (section 3 of the paper). Pure.

Of packets that left back to back, the distance between two departures is compared with the ideal one, which is the size of the
first divided by the link's rate: the error is |distance - ideal| / ideal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

MILLIONTHS = 1_000_000
FINE_BITS = 4
"""As in emulation/fabric/bpf/links.h: errors below 16 millionths are counted each, larger ones in 16 buckets for each power of
two."""
PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}
THRESHOLDS = (*(step * 10**power for power in range(7) for step in (1, 2, 5)), 10 * MILLIONTHS)
"""At which errors the CCDF is given, in millionths: from a millionth to tenfold."""


def bucket_end(bucket: int) -> int:
    """The largest error that a bucket counts, in millionths."""
    if bucket < 1 << FINE_BITS:
        return bucket
    shift = (bucket >> FINE_BITS) - 1
    return ((bucket & (1 << FINE_BITS) - 1 | 1 << FINE_BITS) + 1 << shift) - 1


@dataclass(frozen=True, slots=True)
class LinkSpacing:
    """The packets of one directed link in one run; errors in millionths of the ideal distance.

    `buckets`: how many errors lie in each bucket (`bucket_end`). `worst_ns`: the largest error in ns, rounded down.
    """

    packets: int = 0
    back_to_back: int = 0
    worst: int = 0
    worst_ns: int = 0
    buckets: tuple[int, ...] = ()

    def error(self, percent: float) -> float | None:
        """The error that `percent` % of the packets do not exceed, as a fraction of the ideal distance; None if there are none.

        It is at most a sixteenth too large, since errors are counted in buckets.
        """
        left = math.ceil(round(percent * sum(self.buckets), 6) / 100)
        for bucket, count in enumerate(self.buckets):
            left -= count
            if count and left <= 0:
                return min(bucket_end(bucket), self.worst) / MILLIONTHS
        return None

    def beyond(self, error: float) -> float | None:
        """Of the packets that left back to back, the fraction with a larger error; None if there are none."""
        total = sum(self.buckets)
        limit = round(error * MILLIONTHS)
        larger = (count for bucket, count in enumerate(self.buckets) if min(bucket_end(bucket), self.worst) > limit)
        return sum(larger) / total if total else None

    def ccdf(self) -> list[tuple[float, float]]:
        """(error, fraction of packets with a larger one), without the points that say no more than their neighbours do."""
        found: list[tuple[float, float]] = []
        for threshold in THRESHOLDS:
            fraction = self.beyond(threshold / MILLIONTHS)
            if fraction is None or (found and found[-1][1] == 0.0):
                break
            if len(found) > 1 and found[-1][1] == found[-2][1] == fraction:
                found.pop()
            found.append((threshold / MILLIONTHS, fraction))
        return found

    def to_dict(self) -> dict[str, Any]:
        """For a result's record: errors as fractions of the ideal distance, the largest one also in ns."""
        return {
            "packets": self.packets,
            "back_to_back": self.back_to_back,
            "error": {name: self.error(percent) for name, percent in PERCENTILES.items()}
            | {"max": self.worst / MILLIONTHS if self.back_to_back else None},
            "max_error_ns": self.worst_ns if self.back_to_back else None,
            "ccdf": [[error, fraction] for error, fraction in self.ccdf()],
        }

    @classmethod
    def of_all(cls, links: Iterable[Self]) -> Self:
        """Several links together."""
        links = list(links)
        length = max((len(link.buckets) for link in links), default=0)
        padded = [link.buckets + (0,) * (length - len(link.buckets)) for link in links]
        return cls(
            packets=sum(link.packets for link in links),
            back_to_back=sum(link.back_to_back for link in links),
            worst=max((link.worst for link in links), default=0),
            worst_ns=max((link.worst_ns for link in links), default=0),
            buckets=tuple(map(sum, zip(*padded, strict=True))),
        )


def record(links: Mapping[str, LinkSpacing]) -> dict[str, Any]:
    """`fidelity` in a run's record: each link by name, and all together."""
    return {"all": LinkSpacing.of_all(links.values()).to_dict()} | {name: link.to_dict() for name, link in links.items()}


def sentence(runs: Sequence[Mapping[str, Any]]) -> str:
    """What to print of all links of some runs, from `record(...)["all"]` of each; empty if their links were not recorded."""
    if not runs:
        return ""
    worst = max((run["error"]["p99.9"] for run in runs if run["back_to_back"]), default=None)
    if worst is None:
        return "links: no packets left back to back"
    count = sum(run["back_to_back"] for run in runs)
    where = " in the worst run" if len(runs) > 1 else ""
    return f"links: 99.9 % of {count:,} packets that left back to back within {worst:.2%} of size / rate{where}"


def of_counts(packets: int, back_to_back: int, worst: int, worst_ns: int, buckets: Sequence[int]) -> LinkSpacing:
    """From the counters of the eBPF program, without the empty buckets at the end."""
    used = max((bucket + 1 for bucket, count in enumerate(buckets) if count), default=0)
    return LinkSpacing(packets, back_to_back, worst, worst_ns, tuple(buckets[:used]))
